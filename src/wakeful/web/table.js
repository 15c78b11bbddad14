// The table of sessions: only the rows in sight are in the document, so ten thousand cost what forty cost.
// A row is a session, or the head of a group (`groups.js`).

import { sessionAddress } from "/address.js";
import { element, holding, inward, redraw, setText, spoken, unmarked } from "/dom.js";
import { drawLane } from "/lanes.js";
import { age, called, doing, healthText, since, stateColumnText, tone, verdictText } from "/rows.js";

// Rows above and below the window, so that scrolling finds them drawn.
const OVERSCAN = 12;
// A pixel of the narrowest lane is ten minutes.
const LANE_DRAWN_MS = 60000;

export class Table {
  #table;
  #body;
  #above = spacer();
  #below = spacer();
  #wanted = [];
  // Where each row begins, below the first; one more for the end.
  #offsets = [0];
  #drawn = new Map();
  #selected = null;
  #scrolling = 0;
  #lanes;
  #toggle;

  /** `toggle(id)` opens or closes a group. */
  constructor(table, lanes, toggle) {
    this.#table = table;
    this.#lanes = lanes;
    this.#toggle = toggle;
    this.#body = table.tBodies[0];
    this.#body.append(this.#above, this.#below);
    const soon = () => (this.#scrolling ||= requestAnimationFrame(() => this.#scrolled()));
    addEventListener("scroll", soon, { passive: true });
    addEventListener("resize", () => { this.#measure(); soon(); }, { passive: true });
  }

  /** Show these rows, in this order. */
  show(rows) {
    this.#wanted = rows;
    this.#measure();
    this.#table.setAttribute("aria-rowcount", String(rows.length + 1));
    this.#draw();
  }

  tick(now) {
    for (const row of this.#drawn.values()) {
      if (!row.record) continue;
      setText(row.age, age(since(row.record), now));
      this.#drawLane(row, now);
    }
  }

  get selected() {
    return this.#selected;
  }

  /** Go some rows down, or up; the row comes into sight and has the focus. */
  step(by) {
    const now = this.#wanted.findIndex((row) => row.id === this.#selected);
    this.#select(now < 0 ? 0 : Math.min(this.#wanted.length - 1, Math.max(0, now + by)));
  }

  /** The next one below, or else the first, that fits. */
  seek(fits) {
    const now = this.#wanted.findIndex((row) => row.id === this.#selected);
    const after = this.#wanted.findIndex((row, at) => at > now && fits(row));
    const found = after < 0 ? this.#wanted.findIndex(fits) : after;
    if (found >= 0) this.#select(found);
  }

  /** The focus returns to the row one came from. */
  refocus() {
    this.#drawn.get(this.#selected)?.link.focus({ preventScroll: true });
  }

  #select(at) {
    if (!this.#wanted[at]) return;
    this.#selected = this.#wanted[at].id;
    const height = this.#offsets[at + 1] - this.#offsets[at];
    const head = this.#table.tHead.offsetHeight;
    const top = this.#body.getBoundingClientRect().top + this.#offsets[at];
    if (top < head + height) scrollBy(0, top - innerHeight / 3);
    else if (top + height > innerHeight - height) scrollBy(0, top - (innerHeight * 2) / 3);
    this.#draw();
    this.refocus();
  }

  #scrolled() {
    this.#scrolling = 0;
    if (this.#table.offsetParent) this.#draw();
  }

  #draw() {
    const top = this.#body.getBoundingClientRect().top;
    const first = clamp(this.#placeAt(-top) - OVERSCAN, this.#wanted.length);
    const last = clamp(this.#placeAt(innerHeight - top) + 1 + OVERSCAN, this.#wanted.length);
    this.#above.firstChild.style.height = `${this.#offsets[first]}px`;
    this.#below.firstChild.style.height = `${this.#offsets.at(-1) - this.#offsets[last]}px`;
    const shown = this.#wanted.slice(first, last);
    // A row that is moved in the document loses the focus.
    const isRead = this.#body.contains(document.activeElement);
    this.#leave(new Set(shown.map((row) => row.id)));
    let place = this.#above.nextElementSibling;
    shown.forEach((row, at) => {
      const drawn = this.#rowOf(row, first + at);
      if (drawn.main === place) place = place.nextElementSibling;
      else this.#body.insertBefore(drawn.main, place);
    });
    if (isRead && !this.#body.contains(document.activeElement)) this.refocus();
  }

  #leave(keep) {
    for (const [id, row] of this.#drawn) {
      if (keep.has(id)) continue;
      row.main.remove();
      this.#drawn.delete(id);
    }
  }

  #measure() {
    const style = getComputedStyle(this.#table);
    const [height, headHeight] = ["--row-height", "--head-height"].map((name) => parseFloat(style.getPropertyValue(name)));
    this.#offsets = [0];
    for (const row of this.#wanted) this.#offsets.push(this.#offsets.at(-1) + (row.group ? headHeight : height));
  }

  /** The row at this many pixels below the first. */
  #placeAt(pixels) {
    let [low, high] = [0, this.#offsets.length - 1];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.#offsets[middle] <= pixels) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  #rowOf({ id, record, group }, at) {
    const row = this.#drawn.get(id) ?? (group ? this.#newHead(id) : this.#newRow(id));
    if (group) redraw(row.link, group, () => headWords(row, group));
    else {
      if (row.record !== record) fill(row, record);
      this.#drawLane(row, Date.now());
    }
    // The head is the first.
    row.main.setAttribute("aria-rowindex", String(at + 2));
    row.main.classList.toggle("selected", id === this.#selected);
    return row;
  }

  #newHead(id) {
    const row = { main: element("tr", "group"), record: null, link: element("button", "group-line") };
    row.link.type = "button";
    row.main.append(holding("td", "", row.link));
    row.main.dataset.group = id;
    row.link.addEventListener("click", () => this.#toggle(id));
    row.link.addEventListener("focus", () => this.#mark(id));
    this.#drawn.set(id, row);
    return row;
  }

  /** Drawn if the column is shown, and again when the session did something else or a minute has passed. */
  #drawLane(row, now) {
    const width = row.lane.clientWidth;
    if (!width || !this.#lanes.isRead) return;
    const version = this.#lanes.versionOf(row.record.id);
    const minute = Math.floor(now / LANE_DRAWN_MS);
    if (row.laneOf === version && row.laneAt === minute && row.laneWidth === width) return;
    Object.assign(row, { laneOf: version, laneAt: minute, laneWidth: width });
    row.lane.replaceChildren(drawLane(this.#lanes.spansOf(row.record, now), now, width));
  }

  #newRow(id) {
    const row = {
      main: element("tr"), record: null, laneOf: undefined, laneAt: 0, laneWidth: 0, mark: element("span", "mark"), state: element("span", "state"),
      health: element("span", "health"), age: element("td", "age"), project: element("td", "project"),
      doing: element("span", "doing"), link: inward("", sessionAddress(id), "name"), managed: element("span", "managed"),
      folder: element("span", ""), lane: element("div", "lane-place"),
    };
    row.mark.setAttribute("aria-hidden", "true");
    const badges = element("td", "badges");
    badges.append(row.mark, row.state, row.health);
    const what = element("td", "what");
    what.append(row.doing);
    row.project.append(holding("div", "", row.folder, row.managed));
    row.main.append(holding("td", "session", row.link), badges, what, row.age, holding("td", "last", row.lane), row.project);
    row.main.dataset.id = id;
    row.main.addEventListener("click", (event) => this.#clicked(event, row));
    row.link.addEventListener("focus", () => this.#mark(id));
    this.#drawn.set(id, row);
    return row;
  }

  /** The whole row is a link, except while text in it is being selected. */
  #clicked(event, row) {
    if (!event.target.closest("a") && !String(getSelection())) row.link.click();
  }

  #mark(id) {
    this.#drawn.get(this.#selected)?.main.classList.remove("selected");
    this.#selected = id;
    this.#drawn.get(id)?.main.classList.add("selected");
  }
}

function fill(row, record) {
  row.record = record;
  row.main.dataset.tone = tone(record);
  row.main.dataset.health = record.health;
  setText(row.state, stateColumnText(record.state));
  setText(row.health, healthText(record.health));
  const name = called(record);
  setText(row.link, name);
  row.link.title = record.id;
  setText(row.folder, record.project || "–");
  setText(row.managed, record.managed ? "managed" : "");
  row.project.title = record.cwd ?? "";
  const what = doing(record) || "–";
  redraw(row.doing, what, () => spoken(what));
  row.doing.title = unmarked(what);
  row.link.setAttribute("aria-label", `${name}: ${verdictText(record)}. ${unmarked(what)}`);
  setText(row.age, age(since(record), Date.now()));
}

function headWords(row, { words, count, needing, isOpen, byProject, about, row: { record } }) {
  row.main.dataset.tone = needing ? tone(record) : "";
  row.link.setAttribute("aria-expanded", String(isOpen));
  const needs = needing ? `${needing.toLocaleString("en")} ${needing === 1 ? "needs" : "need"} you` : "";
  const number = `${count.toLocaleString("en")} ${count === 1 ? "session" : "sessions"}`;
  const fold = element("span", "fold", isOpen ? "▾" : "▸");
  fold.setAttribute("aria-hidden", "true");
  const title = byProject
    ? [element("b", "group-words", words), element("span", "group-about", number)]
    : [element("b", "", number), holding("span", "group-words", ...spoken(words))];
  return [fold, ...title, element("span", "group-needs", needs), element("span", "group-names", about)].filter((each) => each.textContent);
}

function spacer() {
  const row = element("tr", "spacer");
  row.setAttribute("aria-hidden", "true");
  // One cell: a cell over all columns would keep one that a narrow screen leaves out.
  row.append(element("td"));
  return row;
}

const clamp = (at, count) => Math.min(count, Math.max(0, at));
