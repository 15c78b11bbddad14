// What a session does: its newest texts and calls. Read once, then on from a cursor when the session changes.
// Everything in it was written by others and enters through textContent only.

import { button, element, exactMoment, holding, setText } from "/dom.js";
import { read } from "/link.js";
import { aboutCall, age } from "/rows.js";

const KEPT_MAX = 500;
const SHOWN = 60;
// A longer text is folded: the next one has to be in sight.
const LINES_MAX = 12;
const CHARS_MAX = 900;
const SPEAKERS = { person: "You", agent: "Agent", client: "Client", wakeful: "Wakeful" };
const ENDS = { ok: "done", error: "failed", refused: "refused", open: "running", waiting: "waiting for you", cut_off: "interrupted", unseen: "result unknown" };
const UNFINISHED = new Set(["open", "waiting"]);

/** The newest messages after the next part was read; the end of a call is added to its beginning. As `client/conversation.py`. */
export function joinMessages(known, part) {
  if (!part.continued) {
    // One that is known already stays the same: what was opened below it stays open.
    const same = new Map(known.map((message) => [JSON.stringify(message), message]));
    return part.messages.map((message) => same.get(JSON.stringify(message)) ?? message).slice(-KEPT_MAX);
  }
  const messages = [...known];
  const places = new Map(messages.map((message, place) => [message.call_id, place]).filter(([id]) => id));
  for (const message of part.messages) {
    const place = places.get(message.call_id);
    const begun = messages[place]?.call;
    if (!message.call || message.call.untrusted.tool || !begun) {
      messages.push(message);
      continue;
    }
    const { ended_at, end, untrusted: { result } } = message.call;
    messages[place] = { ...messages[place], call: { ...begun, ended_at, end, untrusted: { ...begun.untrusted, result } } };
  }
  return messages.slice(-KEPT_MAX);
}

/** Follows one session; `place` is the list, in a box that scrolls. */
export class Conversation {
  #place;
  #box;
  #id = null;
  // Another one for each session that is shown, and each time.
  #visit = 0;
  #record = null;
  #messages = [];
  #cursor = "";
  #isRead = false;
  #isWhole = false;
  #drawn = new Map();
  #reading = null;
  #again = false;
  #judged = "";

  constructor(place) {
    this.#place = place;
    this.#box = place.parentElement;
  }

  /** The calls that are known, and since when. */
  get calls() {
    return { calls: this.#messages.map(({ call }) => call).filter(Boolean), since: this.#messages[0]?.at ?? null };
  }

  forget(id) {
    this.#id = id;
    this.#visit += 1;
    this.#record = this.#reading = null;
    this.#messages = [];
    this.#cursor = this.#judged = "";
    this.#isRead = this.#isWhole = this.#again = false;
    this.#drawn.clear();
    this.#place.replaceChildren();
  }

  /** Read what is new. While a part is on its way, one more is read after it. */
  follow(record) {
    this.#record = record;
    this.#again = true;
    this.#reading ??= this.#readOn(this.#id, this.#visit);
    return this.#reading;
  }

  tick(now) {
    for (const [message, made] of this.#drawn) if (message.call) this.#sayEnd(message.call, made, now);
  }

  async #readOn(id, visit) {
    while (this.#again && visit === this.#visit) {
      this.#again = false;
      const { state, health, session_alive: alive, active_prompt: prompted } = this.#record;
      const judged = [state, health, alive, prompted].join();
      // How a call that has not returned stands is the daemon's judgement, and a new one after each change.
      const isStale = judged !== this.#judged && this.#messages.some(({ call }) => call && UNFINISHED.has(call.end));
      const after = isStale ? "" : this.#cursor;
      const part = await read(`/api/sessions/${encodeURIComponent(id)}/messages?limit=${KEPT_MAX}&after=${after}`);
      if (visit !== this.#visit) return;
      if (!part) break;
      this.#judged = judged;
      this.#messages = joinMessages(this.#messages, part);
      this.#cursor = part.cursor;
      this.#isRead = true;
      this.draw();
    }
    if (visit === this.#visit) this.#reading = null;
  }

  draw() {
    if (!this.#isRead) return;
    const isAtEnd = this.#box.scrollHeight - this.#box.scrollTop - this.#box.clientHeight < 40;
    const shown = this.#isWhole ? this.#messages : this.#messages.slice(-SHOWN);
    const lines = shown.map((message) => this.#lineOf(message));
    const older = this.#messages.length - shown.length;
    if (older) lines.unshift(this.#olderLine(older));
    if (!lines.length) lines.push(element("li", "soft", "Nothing was said yet, or the log cannot be read."));
    place(this.#place, lines);
    const kept = new Set(shown);
    for (const message of this.#drawn.keys()) if (!kept.has(message)) this.#drawn.delete(message);
    this.tick(Date.now());
    if (isAtEnd) this.#box.scrollTop = this.#box.scrollHeight;
  }

  #olderLine(count) {
    const showAll = () => {
      const before = this.#box.scrollHeight;
      this.#isWhole = true;
      this.draw();
      this.#box.scrollTop += this.#box.scrollHeight - before;
      this.#box.focus();
    };
    return holding("li", "soft", button(`Show ${count} older`, showAll, "button small"));
  }

  #lineOf(message) {
    const known = this.#drawn.get(message);
    if (known) return known.line;
    const made = message.call ? callLine(message.call) : textLine(message);
    // The end of a call: what was opened below it stays open.
    const before = [...this.#drawn].find(([each]) => message.call_id && each.call_id === message.call_id);
    if (before?.[1].line.querySelector("details[open]")) made.line.querySelector("details")?.setAttribute("open", "");
    this.#drawn.set(message, made);
    return made.line;
  }

  /** What is open where no agent was seen is neither running nor known to be interrupted. */
  #sayEnd(call, { line, end }, now) {
    const stands = call.end === "open" && !this.#record.session_alive ? "unseen" : call.end;
    const until = call.ended_at ? Date.parse(call.ended_at) : UNFINISHED.has(stands) ? now : null;
    const took = until === null ? "" : age(call.at, until);
    line.dataset.end = stands;
    setText(end, [ENDS[stands], took].filter(Boolean).join(", "));
  }
}

function callLine({ at: when, untrusted: { tool, input, result } }) {
  const end = element("span", "end");
  const about = element("code", "said", aboutCall(tool, input) ?? `${tool} ${input}`);
  return { line: holding("li", "call", exactMoment(when), result ? opening(about, result) : about, end), end };
}

/** A call that opens to its result: a line each, so that a screen has twice as many. */
function opening(about, result) {
  const summary = holding("summary", "", about);
  summary.title = "Show the result";
  return holding("details", "", summary, element("pre", "untrusted", result));
}

function textLine({ at: when, by, untrusted: { text } }) {
  const line = holding("li", "text", exactMoment(when), element("b", "speaker", SPEAKERS[by] ?? by), ...folded(text));
  line.dataset.by = by;
  return { line };
}

function folded(text) {
  const lines = text.split("\n");
  if (lines.length <= LINES_MAX && text.length <= CHARS_MAX) return [element("p", "words", text)];
  const head = lines.slice(0, LINES_MAX - 2).join("\n").slice(0, CHARS_MAX - 200);
  const rest = holding("details", "", element("summary", "", "show the rest"), element("p", "words", text.slice(head.length).replace(/^\n/, "")));
  return [element("p", "words", head), rest];
}

/** These children, in this order; one that is there already stays untouched. */
function place(parent, children) {
  const wanted = new Set(children);
  for (const child of [...parent.children]) if (!wanted.has(child)) child.remove();
  let next = parent.firstElementChild;
  for (const child of children) {
    if (child === next) next = next.nextElementSibling;
    else parent.insertBefore(child, next);
  }
}
