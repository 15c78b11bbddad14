// What a session's record says in a person's words, as `wakeful ls` says it. Pure: no document, no network.

const FIRST = ["person", "login", "operator"];
const STATES = ["waiting", "prompting", "starting", "stopping", "idle", "detached", "stopped"];
// What a call is about, in the order in which it says most.
const TELLING = ["command", "cmd", "file_path", "path", "pattern", "query", "url", "description", "prompt", "question"];
// Records keep the beginning of a long input only, so it need not be whole JSON.
const TELLING_CUT = TELLING.map((key) => new RegExp(`"${key}"\\s*:\\s*\\[?"((?:[^"\\\\]|\\\\.)*)`));
// As `judging/state_words.py`: records and addresses keep the values.
const STATE_WORDS = {
  idle: "idle", prompting: "running", waiting: "waiting for you", starting: "starting", stopping: "stopping", stopped: "stopped", detached: "detached",
};
const HEALTH_WORDS = { healthy: "healthy", stale: "unknown", unknown: "unknown", degraded: "stuck", dead: "dead" };
/** The groups that sessions are counted in, in the order shown; no session is counted twice. */
export const STANDINGS = ["need you", ...STATES];

export const stateText = (state) => STATE_WORDS[state] ?? state;
/** In a narrow column: one word. */
export const stateColumnText = (state) => stateText(state).split(" ")[0];
export const healthText = (health) => HEALTH_WORDS[health] ?? health;
export const verdictText = ({ state, health }) => `${stateText(state)}, ${healthText(health)}`;

export const needsYou = (record) => FIRST.includes(record.attention);
export const standing = (record) => (needsYou(record) ? "need you" : record.state);

/** A record with all that sorting and searching ask of it again and again. */
export function rowOf(record) {
  const rank = needsYou(record) ? FIRST.indexOf(record.attention) : FIRST.length;
  return {
    record,
    id: record.id,
    order: rank * STATES.length + STATES.indexOf(record.state),
    // ISO 8601 in UTC sorts as text.
    activeAt: record.last_activity_at ?? "",
    standing: standing(record),
    text: null,
  };
}

/** Sessions that need a person first, then those at work, then the rest; the most recently active first among equals. */
export function order(one, other) {
  if (one.order !== other.order) return one.order - other.order;
  if (one.activeAt !== other.activeAt) return one.activeAt > other.activeAt ? -1 : 1;
  return one.id < other.id ? -1 : 1;
}

/** Every word of the search stands somewhere in what is shown. */
export function says(row, words) {
  if (!words.length) return true;
  row.text ??= searchable(row.record);
  return words.every((word) => row.text.includes(word));
}

function searchable(record) {
  return [record.id, called(record), record.name ?? "", record.project, record.state, record.health, verdictText(record), record.attention, record.provider,
    record.agent ?? "", ...record.findings.map((finding) => finding.code), doing(record)].join(" ").toLowerCase();
}

export function tone(record) {
  if (record.attention === "person" || record.attention === "login") return "needs-you";
  if (record.attention === "operator") return "trouble";
  if (record.attention === "time") return "later";
  if (record.state === "stopped") return "past";
  return record.state === "idle" || record.state === "detached" ? "calm" : "busy";
}

export function since(record) {
  return record.findings[0]?.since ?? record.expected_waits[0]?.since ?? record.last_activity_at;
}

/** What it does, waits for or suffers from. May hold an agent's words: only ever textContent. */
export function doing(record) {
  const finding = record.findings[0];
  const lifted = finding?.code === "usage_limited" ? record.expected_waits.find(({ kind }) => kind === "limit")?.until : null;
  if (lifted) return `usage limit, lifted at ${clock(lifted)}`;
  if (finding) return [finding.summary, ...finding.untrusted.slice(0, 1).map(callText)].join(" · ");
  const [wait, ...others] = record.expected_waits;
  if (wait) return waitText(wait) + (others.length ? ` (+${others.length} more)` : "");
  if (record.state === "idle") return record.asks ? `asks: ${record.asks.untrusted}` : "ready for a prompt";
  if (record.state === "detached") return "done; cannot receive a prompt";
  if (record.health === "unknown") return record.broken_at ? "ended, cause not logged" : "no process found";
  return record.state === "stopped" ? "ended normally" : "";
}

/** `14:03`; with the day where that is another one. */
function clock(stamp) {
  const at = new Date(stamp);
  const time = at.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
  return at.toDateString() === new Date().toDateString() ? time : `${at.toLocaleDateString([], { day: "numeric", month: "short" })} ${time}`;
}

function waitText(wait) {
  const about = callText(wait.untrusted);
  if (wait.kind === "model") return "thinking";
  const asks = wait.probable ? "probably asks for permission" : "asks you";
  if (wait.kind === "person") return about ? `${asks} · ${about}` : asks;
  return about || wait.evidence;
}

/** As long as commands need it to find the session; a name that is no random id stays whole. */
export function shortId(id) {
  const found = /^(\w+-)([0-9a-f]{8}-[0-9a-f]{4})-([0-9a-f])[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}$/.exec(id);
  // An id that begins with its time (UUID 7) is the same for a minute in its first eight characters.
  return found ? found[1] + found[2].slice(0, found[3] === "7" ? 13 : 8) : id;
}

/** What a person calls it: its short name, as every command takes it. */
export const called = (record) => record.short_name || record.name || record.project || shortId(record.id);

/** A command of Wakeful with the name of the session in place of its id. */
export const byName = (argv, record) => (argv[0] === "wakeful" && record.short_name ? argv.map((word) => (word === record.id ? record.short_name : word)) : argv);

/** `Bash {"command": "make test"}` is `Bash: make test`. */
export function callText(text) {
  const at = text.indexOf(" {");
  return at < 0 ? text : aboutCall(text.slice(0, at), text.slice(at + 1)) ?? text;
}

/** A tool and what it was given, in one line; null if the input tells nothing. */
export function aboutCall(tool, input) {
  const telling = tellingOf(input);
  return telling ? `${tool}: ${telling}` : null;
}

/** Only of what begins as JSON: an agent may quote another call in its words. */
function tellingOf(text) {
  if (!text.startsWith("{")) return "";
  try {
    const input = JSON.parse(text);
    const value = input[TELLING.find((key) => key in input)] ?? "";
    return Array.isArray(value) ? value.join(" ") : String(value);
  } catch {
    return TELLING_CUT.map((key) => key.exec(text)?.[1]).find(Boolean) ?? "";
  }
}

export function age(stamp, now) {
  return stamp ? span(Math.max(0, now - Date.parse(stamp))) : "–";
}

export function span(ms) {
  const seconds = Math.floor(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
  return `${Math.floor(seconds / 86400)} d`;
}

export const words = (code) => code.replaceAll("_", " ");
