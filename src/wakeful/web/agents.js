// The agents of the hub: a card each, with what it is, why, and what can be ordered. Its words are only ever textContent.

import { OBSERVING } from "/actions.js";
import { sessionAddress } from "/address.js";
import { confirmed } from "/asking.js";
import { button, command, element, holding, inward, redraw, refusals, refused, setText, spoken } from "/dom.js";
import { age, called, shortId } from "/rows.js";

// Agents that need a person come first.
const ORDER = ["stale", "error", "unknown", "starting", "stopping", "running", "stopped"];
// As the hub's own table takes them; it has the last word.
const ORDERS = {
  stopped: ["start"],
  error: ["start", "stop"],
  starting: ["stop"],
  running: ["stop"],
  stale: ["restart-session", "teardown"],
  unknown: ["stop"],
  stopping: [],
};
const WORDS = {
  start: { label: "Start", consequence: "Wakeful starts the agent as declared and shows it as running when it is ready." },
  stop: { label: "Stop", grave: true, consequence: "Wakeful ends its session and removes its container, if it has one." },
  teardown: { label: "Tear down", grave: true, consequence: "Wakeful ends what still runs and removes its container, if it has one. You can resume the conversation later." },
  "restart-session": { label: "Restart session", consequence: "Wakeful starts a new session in place of the old one. A container stays." },
};
const COMMANDS = {
  start: (name) => ["wakeful", "agent", "start", name],
  stop: (name) => ["wakeful", "agent", "stop", name],
  teardown: (name) => ["wakeful", "attach", name, "--teardown"],
  "restart-session": (name) => ["wakeful", "agent", "restart-session", name],
};

/** Keeps the list of agents. `get(id)` is the record of a session that is listed. */
export class Agents {
  #list;
  #empty;
  #post;
  #get;
  #records = new Map();
  #mode = "";

  constructor({ list, empty, post, get }) {
    this.#list = list;
    this.#empty = empty;
    this.#post = post;
    this.#get = get;
  }

  replace(records) {
    this.#records = new Map(records.map((record) => [record.id, record]));
    this.#show();
  }

  /** The mode the daemon is in: observing, it takes no orders. */
  set mode(mode) {
    this.#mode = mode;
    this.#show();
  }

  change({ record }) {
    this.#records.set(record.id, record);
    this.#show();
  }

  /** Call sessions as the list does, once it has arrived. */
  name() {
    this.#show();
  }

  /** How many need a person. */
  get troubled() {
    return [...this.#records.values()].filter(({ state }) => ["stale", "error", "unknown"].includes(state)).length;
  }

  tick(now) {
    for (const each of this.#list.querySelectorAll("[data-since]")) setText(each, age(each.dataset.since, now));
  }

  #show() {
    const records = [...this.#records.values()].sort(
      (one, other) => ORDER.indexOf(one.state) - ORDER.indexOf(other.state) || (one.id < other.id ? -1 : 1),
    );
    this.#empty.hidden = records.length > 0;
    const refusal = this.#mode === "observe" ? OBSERVING : "";
    const nameOf = (id) => (this.#get(id) ? called(this.#get(id)) : shortId(id));
    const named = records.map((record) => [record, record.session_id && nameOf(record.session_id)]);
    redraw(this.#list, [named, refusal], () => named.map(([record, name]) => card(record, name, this.#post, refusal)));
  }
}

function card(record, session, post, refusal) {
  const badge = element("span", "agent-state", record.state);
  badge.dataset.state = record.state;
  const since = element("span", "age", age(record.since, Date.now()));
  since.dataset.since = record.since;
  const head = holding("p", "agent-head", element("b", "", record.name), badge, since, element("span", "badge", record.runtime));
  const made = holding("li", "card", head, holding("p", "agent-why", ...spoken(record.reason)), place(record, session), ...orders(record, post, refusal));
  made.dataset.agent = record.id;
  return made;
}

function place(record, session) {
  const alive = element("span", "soft", record.session_alive ? "session alive" : "no live session");
  const link = record.session_id ? inward(session, sessionAddress(record.session_id)) : null;
  return holding("p", "agent-place", alive, link);
}

function orders(record, post, refusal) {
  const names = ORDERS[record.state] ?? [];
  const attach = ["running", "stale"].includes(record.state) ? command(["wakeful", "attach", record.name], "attach") : null;
  const withheld = refusal ? refusals(names.map((name) => [WORDS[name].label, refusal])) : [];
  if (!post) {
    const spelled = refusal ? [] : names.map((name) => command(COMMANDS[name](record.name), name));
    return [holding("div", "actions commands", ...spelled, attach), ...withheld];
  }
  return [holding("div", "actions", ...names.map((name) => ordering(name, record, post, refusal)), attach), ...withheld];
}

function ordering(name, record, post, refusal) {
  const { label, grave } = WORDS[name];
  const made = button(label, refusal ? () => {} : () => confirmed(order(name, record, post)), grave ? "button grave" : "button");
  made.setAttribute("aria-label", `${label} ${record.name}`);
  made.dataset.order = name;
  return refusal ? refused(made, `${label} ${record.name}`, refusal) : made;
}

function order(name, record, post) {
  // Tearing down is stopping what has no session any more.
  const path = `/api/agents/${encodeURIComponent(record.name)}/${name === "teardown" ? "stop" : name}`;
  const give = async (body) => told(await post(path, body));
  return {
    ...WORDS[name],
    title: `${WORDS[name].label} ${record.name}?`,
    argv: COMMANDS[name](record.name),
    give: () => give({}),
    instead: (problem) => (problem.code === "agent-busy" ? { label: "Stop during the turn", grave: true, give: () => give({ yes: true }) } : null),
  };
}

const told = (answer) => (answer.ok ? { ok: true, body: { told: `The agent is ${answer.body.state}.` } } : answer);
