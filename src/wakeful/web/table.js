// The table of sessions: only the rows in sight are in the document, so ten thousand cost what forty cost.

import { sessionAddress } from "/address.js";
import { element, inward, redraw, setText, spoken, unmarked } from "/dom.js";
import { age, called, doing, since, tone } from "/rows.js";

// Rows above and below the window, so that scrolling finds them drawn.
const OVERSCAN = 12;

export class Table {
  #table;
  #body;
  #above = spacer();
  #below = spacer();
  #wanted = [];
  #drawn = new Map();
  #selected = null;
  #scrolling = 0;

  constructor(table) {
    this.#table = table;
    this.#body = table.tBodies[0];
    this.#body.append(this.#above, this.#below);
    const soon = () => (this.#scrolling ||= requestAnimationFrame(() => this.#scrolled()));
    addEventListener("scroll", soon, { passive: true });
    addEventListener("resize", soon, { passive: true });
  }

  /** Show these rows, in this order. */
  show(rows) {
    this.#wanted = rows;
    this.#table.setAttribute("aria-rowcount", String(rows.length + 1));
    this.#draw();
  }

  tick(now) {
    for (const row of this.#drawn.values()) setText(row.age, age(since(row.record), now));
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
    this.#drawn.get(this.#selected)?.doing.focus({ preventScroll: true });
  }

  #select(at) {
    if (!this.#wanted[at]) return;
    this.#selected = this.#wanted[at].id;
    const height = this.#rowHeight();
    const head = this.#table.tHead.offsetHeight;
    const top = this.#body.getBoundingClientRect().top + at * height;
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
    const height = this.#rowHeight();
    const top = this.#body.getBoundingClientRect().top;
    const first = clamp(Math.floor(-top / height) - OVERSCAN, this.#wanted.length);
    const last = clamp(Math.ceil((innerHeight - top) / height) + OVERSCAN, this.#wanted.length);
    this.#above.firstChild.style.height = `${first * height}px`;
    this.#below.firstChild.style.height = `${(this.#wanted.length - last) * height}px`;
    const shown = this.#wanted.slice(first, last);
    // A row that is moved in the document loses the focus.
    const isRead = this.#body.contains(document.activeElement);
    this.#leave(new Set(shown.map((row) => row.id)));
    let place = this.#above.nextElementSibling;
    shown.forEach((row, at) => {
      const drawn = this.#rowOf(row.record, first + at);
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

  #rowHeight() {
    return parseFloat(getComputedStyle(this.#table).getPropertyValue("--row-height"));
  }

  #rowOf(record, at) {
    const row = this.#drawn.get(record.id) ?? this.#newRow(record.id);
    if (row.record !== record) fill(row, record);
    // The head is the first.
    row.main.setAttribute("aria-rowindex", String(at + 2));
    row.main.classList.toggle("selected", record.id === this.#selected);
    return row;
  }

  #newRow(id) {
    const row = {
      main: element("tr"), record: null, mark: element("span", "mark"), state: element("span", "state"),
      health: element("span", "health"), age: element("td", "age"), project: element("td", "project"),
      doing: inward("", sessionAddress(id), "doing"), session: element("td", "session"), managed: element("span", "managed"),
      folder: element("span", ""),
    };
    row.mark.setAttribute("aria-hidden", "true");
    const badges = element("td", "badges");
    badges.append(row.mark, row.state, row.health);
    const what = element("td", "what");
    what.append(row.doing);
    row.project.append(row.folder, row.managed);
    row.main.append(row.session, badges, what, row.age, row.project);
    row.main.dataset.id = id;
    row.main.addEventListener("click", (event) => this.#clicked(event, row));
    row.doing.addEventListener("focus", () => this.#mark(id));
    this.#drawn.set(id, row);
    return row;
  }

  /** All of the row is its link; whoever marks text in it does not want to go. */
  #clicked(event, row) {
    if (!event.target.closest("a") && !String(getSelection())) row.doing.click();
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
  setText(row.state, record.state);
  setText(row.health, record.health);
  const name = called(record);
  setText(row.session, name);
  row.session.title = record.id;
  setText(row.folder, record.project || "–");
  setText(row.managed, record.managed ? "managed" : "");
  row.project.title = record.cwd ?? "";
  const what = doing(record) || "–";
  redraw(row.doing, what, () => spoken(what));
  row.doing.title = unmarked(what);
  row.doing.setAttribute("aria-label", `${name}: ${record.state}, ${record.health}. ${unmarked(what)}`);
  setText(row.age, age(since(record), Date.now()));
}

function spacer() {
  const row = element("tr", "spacer");
  row.setAttribute("aria-hidden", "true");
  // One cell: a cell over all columns would keep one that a narrow screen leaves out.
  row.append(element("td"));
  return row;
}

const clamp = (at, count) => Math.min(count, Math.max(0, at));
