// What a session's record says in a person's words, as `wakeful ls` says it. Pure: no document, no network, no clock.

const FIRST = ["person", "login", "operator"];
const STATES = ["waiting", "prompting", "starting", "stopping", "idle", "detached", "stopped"];
// What a call is about, in the order in which it says most.
const TELLING = ["command", "cmd", "file_path", "path", "pattern", "query", "url", "description", "prompt"];
// Records keep the beginning of a long input only, so it need not be whole JSON.
const TELLING_CUT = new RegExp(`"(?:${TELLING.join("|")})"\\s*:\\s*\\[?"((?:[^"\\\\]|\\\\.)*)`);

export const needsYou = (record) => FIRST.includes(record.attention);

export function tone(record) {
  if (record.attention === "person" || record.attention === "login") return "needs-you";
  if (record.attention === "operator") return "trouble";
  if (record.attention === "time") return "later";
  if (record.state === "stopped") return "past";
  return record.state === "idle" || record.state === "detached" ? "calm" : "busy";
}

/** Who needs a person first, then who works, then the rest; the most recently active first among equals. */
export function order(one, other) {
  return rank(one) - rank(other)
    || STATES.indexOf(one.state) - STATES.indexOf(other.state)
    || wall(other.last_activity_at) - wall(one.last_activity_at)
    || (one.id < other.id ? -1 : 1);
}

const rank = (record) => (needsYou(record) ? FIRST.indexOf(record.attention) : FIRST.length);
const wall = (stamp) => (stamp ? Date.parse(stamp) : 0);

export function since(record) {
  return record.findings[0]?.since ?? record.expected_waits[0]?.since ?? record.last_activity_at;
}

/** What it does, waits for or suffers from. May hold an agent's words: only ever textContent. */
export function doing(record) {
  const finding = record.findings[0];
  if (finding) return [finding.summary, ...finding.untrusted.slice(0, 1).map(callText)].join(" · ");
  const [wait, ...others] = record.expected_waits;
  if (wait) return waitText(wait) + (others.length ? ` (+${others.length} more)` : "");
  if (record.state === "idle") return "ready for a prompt";
  if (record.health === "unknown") return "no process seen";
  return record.state === "stopped" ? "ended after its turn" : "";
}

function waitText(wait) {
  const about = callText(wait.untrusted);
  if (wait.kind === "model") return "thinking";
  if (wait.kind === "person") return about ? `asks you · ${about}` : "asks you";
  return about || wait.evidence;
}

/** As long as commands need it to find the session; a name that is no random id stays whole. */
export function shortId(id) {
  const found = /^(\w+-)([0-9a-f]{8}-[0-9a-f]{4})-([0-9a-f])[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}$/.exec(id);
  // An id that begins with its time (UUID 7) is the same for a minute in its first eight characters.
  return found ? found[1] + found[2].slice(0, found[3] === "7" ? 13 : 8) : id;
}

/** `Bash {"command": "make test"}` is `Bash: make test`. */
export function callText(text) {
  const at = text.indexOf(" {");
  if (at < 0) return text;
  const telling = tellingOf(text.slice(at + 1));
  return telling ? `${text.slice(0, at)}: ${telling}` : text;
}

function tellingOf(text) {
  try {
    const input = JSON.parse(text);
    const value = input[TELLING.find((key) => key in input)] ?? "";
    return Array.isArray(value) ? value.join(" ") : String(value);
  } catch {
    return TELLING_CUT.exec(text)?.[1] ?? "";
  }
}

export function age(stamp, now) {
  if (!stamp) return "–";
  const seconds = Math.max(0, Math.floor((now - Date.parse(stamp)) / 1000));
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
  return `${Math.floor(seconds / 86400)} d`;
}

/** Every word of the filter stands somewhere in what is shown. */
export function matches(record, words) {
  if (!words.length) return true;
  const text = [record.id, record.project, record.state, record.health, record.attention, record.provider,
    record.agent ?? "", doing(record)].join(" ").toLowerCase();
  return words.every((word) => text.includes(word));
}

/** `3 need you`, `2 prompting`, …; nobody counted twice. */
export function tally(records) {
  const counts = new Map();
  for (const record of records) {
    const word = needsYou(record) ? "need you" : record.state;
    counts.set(word, (counts.get(word) ?? 0) + 1);
  }
  return ["need you", ...STATES].filter((word) => counts.has(word)).map((word) => [word, counts.get(word)]);
}
