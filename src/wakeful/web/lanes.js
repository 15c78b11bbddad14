// What every session did in the last day: one request for all of them, and then what the WebSocket tells.

import { at, element, holding } from "/dom.js";
import { read } from "/link.js";
import { span } from "/rows.js";
import { kindOf, KINDS, ticks, totals } from "/spans.js";
import { axis, shape } from "/timeline.js";

const HOURS = 24;
export const DAY_MS = HOURS * 3600e3;
const READ_MS_MAX = 15000;
const LANE_HEIGHT = 14;
const AXIS_HEIGHT = 20;
const LABEL_PX = 60;
// However short it was, it is drawn.
const GRAVE = new Set(["dead", "silent", "person"]);
// Without the calls of each session, nothing tells these apart.
const KINDS_DRAWN = Object.keys(KINDS).filter((kind) => kind !== "model" && kind !== "tool");

export class Lanes {
  #lanes = new Map();
  #since = null;
  #reading = null;
  /** Whether all of the day could be read. */
  isComplete = true;

  /** From when on all is known. */
  get since() {
    return this.#since;
  }

  get isOpen() {
    return this.#reading !== null;
  }

  get isRead() {
    return this.#since !== null;
  }

  /** Read all of it, once. */
  open() {
    this.#reading ??= this.#read();
    return this.#reading;
  }

  /** What was told is not all any more. */
  forget() {
    this.#reading = null;
  }

  async #read() {
    const timeline = await read(`/api/timeline?hours=${HOURS}`, READ_MS_MAX);
    if (!timeline) return this.forget();
    this.#since = Date.parse(timeline.since);
    this.isComplete = timeline.complete;
    this.#lanes = new Map(timeline.lanes.map(({ id, spans }) => [id, spans.map(({ seconds, kind }) => ({ from: this.#since + seconds * 1000, kind }))]));
  }

  change(changes) {
    if (!this.isRead) return;
    for (const { session_id: id, old_state: state, old_health: health, at: when, ...now } of changes) {
      const lane = this.#lanes.get(id) ?? (state ? [{ from: this.#since, kind: kindOf({ state, health, reason: "" }) }] : []);
      const kind = kindOf(now);
      if (lane.at(-1)?.kind !== kind) this.#lanes.set(id, [...lane, { from: Date.parse(when), kind }]);
    }
  }

  /** A value that changes when the lane of a session does. */
  versionOf(id) {
    return this.#lanes.get(id) ?? this.#since;
  }

  /** The last day of one session as spans. */
  spansOf(record, now) {
    if (!this.isRead) return [];
    const { state, health, findings } = record;
    const lane = this.#lanes.get(record.id) ?? [{ from: this.#since, kind: kindOf({ state, health, reason: findings[0]?.code ?? "" }) }];
    return lane.map(({ from, kind }, place) => ({ kind, from: Math.max(from, now - DAY_MS), to: lane[place + 1]?.from ?? now })).filter(({ from, to }) => to > from);
  }
}

/** A picture of spans, and the same in words. */
export function drawLane(spans, now, width) {
  const from = now - DAY_MS;
  const x = (ms) => ((Math.max(ms, from) - from) / DAY_MS) * width;
  const picture = shape("svg", { viewBox: `0 0 ${width} ${LANE_HEIGHT}`, width, height: LANE_HEIGHT, role: "img", class: "lane" });
  picture.setAttribute("aria-label", `Last ${HOURS} h: ${totals(spans, from).map(([kind, ms]) => `${KINDS[kind]} ${span(ms)}`).join(", ") || "no data"}`);
  picture.append(shape("rect", { class: "ground", width, height: LANE_HEIGHT, rx: 2 }));
  let [drawnTo, graveAt] = [0, -1];
  for (const each of spans) {
    const [left, right] = [x(each.from), x(each.to)];
    const isNews = GRAVE.has(each.kind) && Math.floor(left) !== graveAt;
    if (right <= drawnTo && !isNews) continue;
    if (isNews) graveAt = Math.floor(left);
    const wide = Math.max(isNews ? 2 : 1, right - left);
    drawnTo = Math.max(drawnTo, left + wide);
    picture.append(band(each, Math.min(left, width - wide), wide, LANE_HEIGHT));
  }
  return picture;
}

function band({ kind, from, to }, x, width, height) {
  const made = shape("rect", { class: `span span-${kind}`, x: x.toFixed(1), width: width.toFixed(1), height });
  if (kind === "silent" || kind === "unknown") made.setAttribute("fill", `url(#hatch-${kind})`);
  const title = shape("title");
  title.textContent = `${KINDS[kind]}, ${span(to - from)}: ${at(from)} to ${at(to)}`;
  made.append(title);
  return made;
}

/** The hours above the lanes. */
export function drawAxis(now, width) {
  const from = now - DAY_MS;
  const picture = shape("svg", { viewBox: `0 0 ${width} ${AXIS_HEIGHT}`, width, height: AXIS_HEIGHT, "aria-hidden": "true" });
  const all = ticks(from, now);
  const every = Math.ceil((LABEL_PX * all.length) / width);
  for (const tick of all.filter((_, place) => place % every === 0)) picture.append(axis(tick, ((tick - from) / DAY_MS) * width, DAY_MS, width, AXIS_HEIGHT - 5));
  return picture;
}

export function drawLegend() {
  return holding("ul", "legend", ...KINDS_DRAWN.map((kind) => {
    const key = element("span", `key key-${kind}`);
    key.setAttribute("aria-hidden", "true");
    return holding("li", "", key, element("span", "", KINDS[kind]));
  }));
}
