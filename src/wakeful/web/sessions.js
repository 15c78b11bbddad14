// The list of sessions: search, choices, counts, the table, and what helps where there is nothing to list.

import { EVERYBODY } from "/address.js";
import { byId, element, redraw, setText, spoken } from "/dom.js";
import { Table } from "/table.js";

// Many sessions that flap are sorted a few times a second, not at every message.
const MANY = 2000;
const MANY_DRAWN_MS = 250;
const HINT_CLOSED = "hint-closed";

export class SessionList {
  table = new Table(byId("table"));
  /** Whether the list has arrived: before that nothing is empty. */
  ready = false;
  canAdopt = false;
  adopting = null;
  #roster;
  #address;
  #drawing = 0;
  #scroll = 0;

  constructor(roster, address) {
    this.#roster = roster;
    this.#address = address;
    byId("filter").addEventListener("input", ({ target }) => address.adjust({ q: target.value }));
    byId("project").addEventListener("change", ({ target }) => address.adjust({ project: target.value }));
    byId("hands").addEventListener("change", ({ target }) => address.adjust({ hands: target.value }));
    byId("tally").addEventListener("click", ({ target }) => this.#toggle(target.closest("button")?.dataset.word));
    byId("empty-all").addEventListener("click", () => address.adjust(EVERYBODY));
    byId("hint-adopt").addEventListener("click", () => this.adopting?.(roster.found()));
    byId("hint-close").addEventListener("click", () => this.#closeHint());
  }

  drawSoon() {
    if (this.#drawing) return;
    const draw = () => { this.#drawing = 0; this.draw(); };
    this.#drawing = this.#roster.size > MANY ? setTimeout(draw, MANY_DRAWN_MS) : requestAnimationFrame(draw);
  }

  draw() {
    const { choice } = this.#address;
    if (choice.view !== "sessions" || !this.ready) return;
    const { rows, tally } = this.#roster.fitting(choice);
    this.#drawChoice(choice, tally);
    this.#drawEmpty(rows.length, choice);
    this.#drawHint();
    this.table.show(rows);
    const { older } = this.#roster;
    byId("more").hidden = !older;
    setText(byId("more"), `${older} older ${older === 1 ? "session is" : "sessions are"} not shown: wakeful ls --all`);
  }

  tick(now) {
    this.table.tick(now);
  }

  /** Somebody goes elsewhere, and will want to come back to the same row. */
  leave() {
    this.#scroll = scrollY;
  }

  come() {
    scrollTo(0, this.#scroll);
    this.draw();
    this.table.refocus();
  }

  #toggle(word) {
    if (!word) return;
    const is = new Set(this.#address.choice.is);
    if (!is.delete(word)) is.add(word);
    this.#address.adjust({ is });
  }

  #drawChoice(choice, tally) {
    const filter = byId("filter");
    if (filter.value !== choice.q) filter.value = choice.q;
    byId("hands").value = choice.hands;
    this.#drawTally(choice, tally);
    const projects = [...this.#roster.census().projects];
    if (choice.project && !projects.includes(choice.project)) projects.push(choice.project);
    redraw(byId("project"), projects, () => [option("", "All projects"), ...projects.map((name) => option(name, name))]);
    byId("project").value = choice.project;
  }

  /** Chips keep their place in the document: a click must not lose the focus. */
  #drawTally(choice, tally) {
    const place = byId("tally");
    redraw(place, tally.map(([word]) => word), () => tally.map(([word]) => {
      const chip = element("button", "chip");
      chip.type = "button";
      chip.dataset.word = word;
      return chip;
    }));
    tally.forEach(([word, count], at) => {
      const chip = place.children[at];
      setText(chip, `${count.toLocaleString("en")} ${word === "need you" && count === 1 ? "needs you" : word}`);
      chip.setAttribute("aria-pressed", String(choice.is.has(word)));
    });
  }

  #drawEmpty(shown, { q, is, project, hands }) {
    const narrowed = q || is.size || project || hands;
    byId("empty").hidden = shown > 0;
    byId("table").hidden = shown === 0;
    byId("empty-all").hidden = !narrowed;
    setText(byId("empty-title"), narrowed ? "No session matches" : "No agent sessions");
    sayIn("empty-text", narrowed
      ? `None of the ${this.#roster.size.toLocaleString("en")} sessions matches these filters.`
      : "Start Claude Code or Codex in any terminal; the session appears here. `wakeful demo` shows six scripted agents for a minute. `wakeful doctor` lists the logs that Wakeful reads.");
  }

  #drawHint() {
    const { found, managed } = this.#roster.census();
    const helps = found > 0 && managed === 0 && localStorage.getItem(HINT_CLOSED) === null;
    byId("hint").hidden = !helps;
    sayIn("hint-text", `${found} watched only, 0 managed: Wakeful sends alerts but does not act. ${this.canAdopt ? "Adopt?" : "To change that: `wakeful adopt NAME`."}`);
    byId("hint-adopt").hidden = !this.canAdopt;
  }

  #closeHint() {
    localStorage.setItem(HINT_CLOSED, "1");
    this.draw();
  }
}

function sayIn(id, words) {
  redraw(byId(id), words, () => spoken(words));
}

function option(value, text) {
  const made = element("option", "", text);
  made.value = value;
  return made;
}
