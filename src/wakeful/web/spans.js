// What a session did when: its transitions as spans of time, filled in with its calls. Pure: no document, no clock.

const SILENT = new Set(["silent", "tool_wedged", "never_started"]);
const OVER = new Set(["ok", "error", "refused"]);
/** Every kind of span, in the order of the legend, with its name. */
export const KINDS = {
  working: "running",
  model: "waiting for the model",
  tool: "running a tool",
  person: "waiting for you",
  idle: "idle",
  problem: "stuck",
  silent: "silent",
  dead: "dead",
  unknown: "unknown",
  stopped: "stopped",
};

/** Spans that follow each other from the first transition to `now`; where calls are known, work is told apart. */
export function spansOf(transitions, { calls, since }, now) {
  const spans = [];
  transitions.forEach((transition, at) => {
    const from = Date.parse(transition.at);
    const to = at + 1 < transitions.length ? Date.parse(transitions[at + 1].at) : now;
    if (to > from) spans.push({ kind: kindOf(transition), from, to });
  });
  const known = since ? Date.parse(since) : Infinity;
  const runs = runsOf(calls, now);
  const cuts = calls.filter((call) => !endOf(call, now)).map((call) => Date.parse(call.at));
  return joined(spans.flatMap((span) => (span.kind === "working" ? detailed(span, runs, cuts, known) : [span])));
}

/** What it did in a state; `views/timeline.py` has the same rules. */
export function kindOf({ state, health, reason }) {
  if (health === "dead") return "dead";
  if (SILENT.has(reason)) return "silent";
  if (state === "waiting") return "person";
  if (health === "degraded") return "problem";
  if (health === "unknown") return "unknown";
  if (state === "stopped") return "stopped";
  return state === "idle" || state === "detached" ? "idle" : "working";
}

/** The end of an interrupted call is unknown: it is not drawn as if it had run. */
function endOf(call, now) {
  if (OVER.has(call.end) && call.ended_at) return Date.parse(call.ended_at);
  return call.end === "open" || call.end === "waiting" ? now : 0;
}

/** When tools ran. They run side by side: one run for all that overlap. */
function runsOf(calls, now) {
  const runs = calls.map((call) => ({ from: Date.parse(call.at), to: endOf(call, now) })).filter((run) => run.to > run.from);
  const found = [];
  for (const run of runs.sort((one, other) => one.from - other.from)) {
    const last = found.at(-1);
    if (last && run.from <= last.to) last.to = Math.max(last.to, run.to);
    else found.push(run);
  }
  return found;
}

/**
 * Between calls a turn waits for its model. Before the part of the log that was read it just works, and so it does after a
 * call that was cut off began.
 */
function detailed(span, runs, cuts, known) {
  const pieces = [];
  let at = span.from;
  const fill = (kind, to) => {
    if (to > at) pieces.push({ kind, from: at, to });
    at = Math.max(at, to);
  };
  fill("working", Math.min(known, span.to));
  for (const run of runs) {
    if (run.to <= at || run.from >= span.to) continue;
    fill("model", Math.min(run.from, span.to));
    fill("tool", Math.min(run.to, span.to));
  }
  fill("model", Math.min(span.to, ...cuts.filter((cut) => cut >= span.from)));
  fill("working", span.to);
  return pieces;
}

function joined(spans) {
  const found = [];
  for (const span of spans) {
    const last = found.at(-1);
    if (last?.kind === span.kind && last.to === span.from) last.to = span.to;
    else found.push({ ...span });
  }
  return found;
}

/** How long it was what, the longest first. */
export function totals(spans, from) {
  const sums = new Map();
  for (const span of spans) {
    const ms = span.to - Math.max(span.from, from);
    if (ms > 0) sums.set(span.kind, (sums.get(span.kind) ?? 0) + ms);
  }
  return Object.keys(KINDS).filter((kind) => sums.has(kind)).map((kind) => [kind, sums.get(kind)]);
}

/** Whole minutes and hours for an axis, eight at most. */
export function ticks(from, to) {
  const minute = 60000;
  const steps = [1, 5, 10, 30, 60, 180, 360, 720, 1440, 2880, 10080].map((minutes) => minutes * minute);
  const step = steps.find((each) => (to - from) / each <= 8) ?? steps.at(-1) * Math.ceil((to - from) / steps.at(-1) / 8);
  const offset = new Date(from).getTimezoneOffset() * minute;
  const first = Math.ceil((from - offset) / step) * step + offset;
  return Array.from({ length: Math.max(0, Math.floor((to - first) / step) + 1) }, (_, at) => first + at * step);
}
