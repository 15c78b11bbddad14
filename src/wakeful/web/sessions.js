// The list of sessions: search, choices, counts, the table, and what helps where there is nothing to list.

import { EVERYBODY } from "/address.js";
import { at, byId, element, redraw, setText, spoken } from "/dom.js";
import { grouped } from "/groups.js";
import { drawAxis, drawLegend } from "/lanes.js";
import { stateText } from "/rows.js";
import { Table } from "/table.js";

// Many sessions that flap are sorted a few times a second, not at every message.
const MANY = 2000;
const MANY_DRAWN_MS = 250;
const HINT_CLOSED = "hint-closed";

export class SessionList {
  table;
  /** Whether the list has arrived: before that nothing is empty. */
  ready = false;
  canAdopt = false;
  adopting = null;
  #roster;
  #address;
  #drawing = 0;
  #scroll = 0;
  #lanes;
  // Groups that are not open or closed as they are at first.
  #toggled = new Set();

  constructor(roster, address, lanes) {
    this.#roster = roster;
    this.#address = address;
    this.#lanes = lanes;
    this.table = new Table(byId("table"), lanes, (id) => this.#toggleGroup(id));
    byId("lanes-legend").prepend(drawLegend());
    addEventListener("resize", () => this.#openLanes());
    byId("by-project").addEventListener("change", ({ target }) => address.adjust({ by: target.checked ? "project" : "" }));
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
    if (!choice.lists || !this.ready) return;
    const isTimeline = choice.view === "timeline";
    byId("table").classList.toggle("lanes", isTimeline);
    byId("sessions").setAttribute("aria-label", isTimeline ? "Timeline" : "Sessions");
    this.#openLanes();
    const { rows, tally } = this.#roster.fitting(choice);
    this.#drawChoice(choice, tally);
    this.#drawEmpty(rows.length, choice);
    this.#drawHint();
    byId("axis").hidden = byId("lanes-legend").hidden = !isTimeline || !rows.length;
    this.#drawAxis(Date.now());
    this.table.show(grouped(rows, choice.by === "project", this.#toggled));
    const { older } = this.#roster;
    byId("more").hidden = !older;
    sayIn("more", `${older} older ${older === 1 ? "session is" : "sessions are"} not shown: \`wakeful ls --all\``);
  }

  tick(now) {
    this.table.tick(now);
    this.#drawAxis(now);
  }

  /** The lanes are read once they are shown. */
  async #openLanes() {
    if (!byId("table").querySelector("th:nth-child(5)").checkVisibility() && this.#address.choice.view !== "timeline") return;
    if (this.#lanes.isOpen) return;
    await this.#lanes.open();
    this.drawSoon();
  }

  #drawAxis(now) {
    const place = byId("axis-hours");
    if (!place.clientWidth) return;
    const { isComplete, since } = this.#lanes;
    byId("lanes-since").hidden = isComplete;
    if (!isComplete) setText(byId("lanes-since"), `So much happened that only changes since ${at(since)} are shown.`);
    redraw(place, [Math.floor(now / 60000), place.clientWidth], () => [drawAxis(now, place.clientWidth)]);
  }

  #toggleGroup(id) {
    if (!this.#toggled.delete(id)) this.#toggled.add(id);
    this.draw();
  }

  /** The person leaves this view, and returns to the same row later. */
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
    byId("by-project").checked = choice.by === "project";
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
      setText(chip, `${count.toLocaleString("en")} ${word === "need you" && count === 1 ? "needs you" : stateText(word)}`);
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
    sayIn("hint-text", `${found.toLocaleString("en")} watched only, 0 managed: Wakeful sends alerts but does not act. ${this.canAdopt ? "Adopt?" : "To change that: `wakeful adopt NAME`."}`);
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
