// The timeline of a session: a band of spans, with incidents and acts below it, and the same in words.

import { at, element, holding, hourAndMinute, unmarked } from "/dom.js";
import { span } from "/rows.js";
import { KINDS, spansOf, ticks, totals } from "/spans.js";

const SVG = "http://www.w3.org/2000/svg";
const BAND = { top: 4, height: 34 };
const MARKS_TOP = 46;
const AXIS_TOP = 74;
const HEIGHT = 92;
const RANGES = { "1 h": 3600e3, "6 h": 6 * 3600e3, "24 h": 24 * 3600e3, "7 d": 7 * 24 * 3600e3 };
// A span of no width would be a lie as well.
const WIDTH_MIN = 1.5;

export class Timeline {
  #place;
  #range = null;
  #past = null;
  #width = 0;

  constructor(place) {
    this.#place = place;
    new ResizeObserver(() => place.clientWidth !== this.#width && this.draw()).observe(place);
  }

  /** `past`: {transitions, calls, incidents, acts}. */
  show(past) {
    this.#past = past;
    this.draw();
  }

  forget() {
    this.#past = this.#range = null;
    this.#place.replaceChildren();
  }

  draw() {
    const width = (this.#width = this.#place.clientWidth);
    if (!this.#past || !width) return;
    const now = Date.now();
    const spans = spansOf(this.#past.transitions, this.#past.calls, now);
    const oldest = spans[0]?.from ?? now;
    const range = this.#range ?? fittingRange(now - oldest);
    const from = Math.max(now - RANGES[range], oldest - RANGES[range] / 50);
    this.#place.replaceChildren(
      this.#ranges(range), drawn({ ...this.#past, spans, from, to: now, width }), legend(totals(spans, from), leftOut(this.#past.transitions)),
    );
  }

  #ranges(chosen) {
    const group = element("div", "ranges");
    group.setAttribute("role", "group");
    group.setAttribute("aria-label", "How far back");
    for (const name of Object.keys(RANGES)) {
      const made = element("button", "range", name);
      made.type = "button";
      made.setAttribute("aria-pressed", String(name === chosen));
      made.addEventListener("click", () => {
        this.#range = name;
        this.draw();
        this.#place.querySelector('[aria-pressed="true"]').focus();
      });
      group.append(made);
    }
    return group;
  }
}

const fittingRange = (ms) => Object.keys(RANGES).find((name) => RANGES[name] >= ms) ?? "7 d";

function drawn({ spans, incidents, acts, from, to, width }) {
  const x = (ms) => Math.round(((Math.max(ms, from) - from) / (to - from)) * width * 10) / 10;
  const picture = shape("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, width, height: HEIGHT, role: "img", class: "picture" });
  picture.setAttribute("aria-label", inWords(spans, from, to));
  picture.append(shape("rect", { class: "ground", x: 0, y: BAND.top, width, height: BAND.height, rx: 4 }));
  for (const each of spans) if (each.to > from) picture.append(band(each, x));
  for (const each of incidents) picture.append(bracket(each, x, to));
  for (const each of acts) if (Date.parse(each.at) >= from) picture.append(diamond(each, x));
  for (const tick of ticks(from, to)) {
    picture.append(shape("line", { class: "tick-line", x1: x(tick), x2: x(tick), y1: BAND.top, y2: AXIS_TOP }), axis(tick, x(tick), to - from, width, AXIS_TOP + 12));
  }
  return picture;
}

function band({ kind, from, to }, x) {
  const made = shape("rect", {
    class: `span span-${kind}`, x: x(from), y: BAND.top, width: Math.max(WIDTH_MIN, x(to) - x(from)), height: BAND.height,
  });
  if (kind === "silent" || kind === "unknown") made.setAttribute("fill", `url(#hatch-${kind})`);
  made.append(told(`${KINDS[kind]}, ${span(to - from)}: ${at(from)} to ${at(to)}`));
  return made;
}

function bracket({ opened_at: opened, resolved_at: resolved, words }, x, to) {
  const [left, right] = [x(Date.parse(opened)), x(resolved ? Date.parse(resolved) : to)];
  const made = shape("path", { class: resolved ? "incident" : "incident open", d: `M${left} ${MARKS_TOP - 3}v6h${Math.max(3, right - left)}v${resolved ? -6 : 0}` });
  made.append(told(`incident: ${unmarked(words)}`));
  return made;
}

function diamond({ at: when, words }, x) {
  const made = shape("path", { class: "act", d: `M${x(Date.parse(when))} ${MARKS_TOP + 9}l5 5l-5 5l-5 -5z` });
  made.append(told(`${at(when)} ${words}`));
  return made;
}

/** A time below a line, within the picture. */
export function axis(tick, x, length, width, y) {
  const label = shape("text", { class: "tick", x, y, "text-anchor": x < 24 ? "start" : x > width - 24 ? "end" : "middle" });
  const when = new Date(tick);
  label.textContent = length > 36 * 3600e3 ? when.toLocaleDateString([], { day: "numeric", month: "short" }) : hourAndMinute(when);
  return label;
}

/** Changes that were not stored, because the session changed too often. An earlier daemon says nothing of them. */
const leftOut = (transitions) => transitions.reduce((sum, each) => sum + (each.left_out ?? 0), 0);

function legend(sums, missing) {
  const items = sums.map(([kind, ms]) => {
    const key = element("span", `key key-${kind}`);
    key.setAttribute("aria-hidden", "true");
    return holding("li", "", key, element("span", "", KINDS[kind]), element("span", "age", span(ms)));
  });
  if (missing) items.push(element("li", "", `${missing.toLocaleString("en")} changes not stored`));
  return holding("ul", "legend", ...items);
}

function inWords(spans, from, to) {
  const sums = totals(spans, from).map(([kind, ms]) => `${KINDS[kind]} ${span(ms)}`);
  return `Timeline from ${at(from)} to ${at(to)}: ${sums.join(", ") || "no data"}.`;
}

function told(text) {
  const made = shape("title");
  made.textContent = text;
  return made;
}

export function shape(kind, attributes = {}) {
  const made = document.createElementNS(SVG, kind);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}
