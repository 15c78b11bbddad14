// One session: the verdict in words, what can be done, when it did what, the ladder, the evidence, its last calls.

import { drawActions, OBSERVING } from "/actions.js";
import { button, byId, clear, command, element, holding, inward, moment, redraw, setText, spoken } from "/dom.js";
import { drawLadder } from "/ladder.js";
import { read } from "/link.js";
import { aboutCall, age, called, callText, doing, shortId, since, tone, words } from "/rows.js";
import { Timeline } from "/timeline.js";

const CALLS_READ = 300;
const CALLS_SHOWN = 12;
const PAST_SHOWN = 14;
// A page of transitions has a thousand; who has more is drawn from the newest of these.
const PAGES_MAX = 20;
const ENDS = { ok: "done", error: "failed", refused: "refused", open: "running", waiting: "waiting for you", cut_off: "interrupted", unseen: "result unknown" };

export class SessionView {
  #timeline = new Timeline(byId("timeline"));
  #post;
  #id = null;
  #record = null;
  #mute = null;
  #question = null;
  #isWhole = false;
  #reading = 0;

  constructor(post) {
    this.#post = post;
  }

  /** Show this session; what was shown of another is gone at once. */
  show(id, record) {
    if (this.#id !== id) this.#forget(id);
    this.#take(record);
    return this.refresh();
  }

  /** A newer record of it. */
  change(record) {
    if (record && record.id === this.#id) this.#take(record);
  }

  tick(now) {
    if (this.#record) setText(byId("session-age"), age(since(this.#record), now));
  }

  /** Everything about it that is not in its record. */
  async refresh() {
    const reading = (this.#reading += 1);
    const one = `/api/sessions/${encodeURIComponent(this.#id)}`;
    const [record, why, transitions, calls, incidents, critical, mutes] = await Promise.all([
      read(one), read(`${one}/why`), everyTransition(one), read(`${one}/calls?limit=${CALLS_READ}`),
      read("/api/incidents?all=true"), read("/api/events?since=7d"), read("/api/mutes"),
    ]);
    if (reading !== this.#reading) return;
    byId("session-missing").hidden = Boolean(record);
    byId("session-body").hidden = !record;
    if (!record) return;
    this.#question = await onlyQuestion(one, record);
    if (reading !== this.#reading) return;
    this.#mute = mutes?.mutes.find((mute) => mute.kind === "session" && mute.value === record.id) ?? null;
    this.#take(record);
    if (why) this.#explain(why);
    this.#drawPast(record, transitions, calls ?? { calls: [], since: null }, incidents?.incidents ?? [], critical?.events ?? []);
  }

  #forget(id) {
    this.#id = id;
    this.#record = this.#mute = this.#question = null;
    this.#isWhole = false;
    this.#timeline.forget();
    setText(byId("session-title"), shortId(id));
    for (const place of ["session-sentence", "session-ladder", "session-reasons", "session-calls", "session-past", "session-step"]) {
      clear(byId(place));
    }
    byId("session-body").hidden = false;
    byId("session-missing").hidden = true;
  }

  #take(record) {
    if (!record || (this.#record && this.#record.updated_at > record.updated_at)) return;
    this.#record = record;
    const view = byId("session");
    view.dataset.tone = tone(record);
    view.dataset.health = record.health;
    setText(byId("session-title"), called(record));
    byId("session-standing").replaceChildren(...standing(record));
    if (!byId("session-sentence").firstChild) setText(byId("session-sentence"), doing(record));
    redraw(byId("session-facts"), record, () => facts(record));
    this.#drawActions();
  }

  #drawActions() {
    const { managed, session_alive: alive, actions } = this.#record;
    const place = byId("session-actions");
    const question = this.#record.state === "waiting" ? this.#question : null;
    redraw(place, [this.#id, managed, alive, actions, this.#mute, question], () => [
      ...drawActions(this.#record, this.#mute, question, this.#post),
      ...(this.#mute ? [holding("p", "soft", `Muted by ${this.#mute.by} until `, moment(this.#mute.until))] : []),
    ]);
  }

  #explain(why) {
    redraw(byId("session-sentence"), why.sentence, () => spoken(why.sentence));
    redraw(byId("session-ladder"), why.ladder, () => [drawLadder(why.ladder)]);
    redraw(byId("session-reasons"), [why.fired, why.held_back, why.evidence, why.next_change_at], () => reasons(why));
    redraw(byId("session-step"), why.command, () => [
      holding("p", "", element("b", "", "Next step"), " ", ...spoken(why.command_text)),
      ...(why.command[1] === "checkpoint" ? [inward("Decide here", "/?view=decisions", "button small")] : []),
      command(why.command, "take the next step"),
    ]);
  }

  #drawCalls(record, all) {
    const place = byId("session-calls");
    const newest = (this.#isWhole ? all : all.slice(-CALLS_SHOWN)).toReversed();
    const showAll = () => {
      this.#isWhole = true;
      this.#drawCalls(record, all);
      place.children[CALLS_SHOWN]?.scrollIntoView({ block: "nearest" });
    };
    redraw(place, [newest, record.session_alive], () => callLines(newest, all.length - newest.length, record, showAll));
  }

  #drawPast(record, transitions, calls, incidents, critical) {
    const mine = incidents.filter((each) => each.members.some((member) => member.id === record.id));
    const acts = critical.filter((event) => event.session_id === record.id && event.action_taken !== "none")
      .map((event) => ({ at: event.timestamp, words: words(event.action_taken) }));
    this.#timeline.show({ transitions, calls, incidents: mine, acts });
    const lines = pastLines(record.id, transitions, mine, acts).slice(0, PAST_SHOWN);
    redraw(byId("session-past"), lines, () => lines.map(pastLine));
    this.#drawCalls(record, calls.calls);
  }
}

function callLines(newest, older, record, showAll) {
  if (!newest.length) return [element("li", "soft", "The log has no calls.")];
  const lines = newest.map((call) => callLine(call, record));
  return older ? [...lines, holding("li", "soft", button(`Show ${older} older`, showAll, "button small"))] : lines;
}

function standing(record) {
  const health = holding("span", "health-mark", element("span", "", record.health));
  const running = element("span", "age", age(since(record), Date.now()));
  running.id = "session-age";
  return [
    element("b", "state", record.state), health, running,
    element("span", "badge", hands(record)),
  ];
}

function hands({ managed, actions }) {
  if (!managed) return "watched only";
  return actions.some(({ reason }) => reason === OBSERVING) ? "managed, but the mode is observe" : "managed";
}

function facts(record) {
  const told = [
    ["Session", record.id], ["Provider", record.provider], ["Agent", record.agent], ["Host", record.host], ["Folder", record.cwd],
    ["Process", record.pid && String(record.pid)], ["Attempt", String(record.attempt)], ["Log source", record.source],
    ["Wake", record.eligible_for_wake ? "possible" : `not possible: ${words(record.ineligibility_reason ?? "unknown")}`],
  ];
  const times = [["Started", record.started_at], ["Last activity", record.last_activity_at], ["Last seen alive", record.last_presence_at]];
  return [
    ...told.filter(([, value]) => value).map(([name, value]) => fact(name, element("span", "", value))),
    ...times.filter(([, value]) => value).map(([name, value]) => fact(name, moment(value))),
  ];
}

const fact = (name, value) => holding("div", "", element("dt", "", name), holding("dd", "", value));

/** The rules that speak, those that are held back, and every reading behind them. */
function reasons(why) {
  const parts = [];
  for (const rule of why.fired) parts.push(ruleCard("fired", rule.code, rule.summary, rule.rule, rule.evidence, rule.untrusted));
  for (const rule of why.held_back) {
    const held = `suppressed by ${rule.by}: ${rule.evidence}`;
    parts.push(ruleCard("held", rule.code, held, rule.rule, [], [rule.untrusted].filter(Boolean)));
  }
  const readings = holding("ul", "readings", ...why.evidence.map(reading));
  const changes = why.next_change_at ? ["Without new activity, this can next change at ", moment(why.next_change_at), "."] : ["Valid until new activity."];
  parts.push(element("h4", "", "Evidence"), readings, holding("p", "soft", ...changes, ` Rules ${why.rule_version}.`));
  return parts;
}

function ruleCard(kind, code, summary, rule, evidence, untrusted) {
  const card = holding("article", `rule rule-${kind}`, element("h4", "", words(code)), element("p", "", summary), element("p", "soft", rule));
  if (evidence.length) card.append(element("p", "", evidence.join(" · ")));
  if (untrusted.length) card.append(element("pre", "untrusted", untrusted.map(callText).join("\n")));
  return card;
}

function reading({ at, source, text, untrusted }) {
  const line = holding("li", "", at ? moment(at) : element("span", "soft timeless", "–"), element("b", "", source), element("span", "", text));
  if (untrusted) line.append(element("code", "said", callText(untrusted)));
  return line;
}

/** What is open where no agent was seen is neither running nor known to be cut off. */
function callLine(call, { session_alive: alive }) {
  const { tool, input, result } = call.untrusted;
  const end = call.end === "open" && !alive ? "unseen" : call.end;
  const took = call.ended_at ? age(call.at, Date.parse(call.ended_at)) : "";
  const about = element("code", "said", aboutCall(tool, input) ?? `${tool} ${input}`);
  const line = holding("li", "", moment(call.at), about, element("span", "end", [ENDS[end], took].filter(Boolean).join(", ")));
  line.dataset.end = end;
  if (result) {
    const more = holding("details", "", element("summary", "", "result"), element("pre", "untrusted", result));
    line.append(more);
  }
  return line;
}

function pastLine({ at, text, kind }) {
  const line = holding("li", "", moment(at), element("span", "", text));
  line.dataset.kind = kind;
  return line;
}

function pastLines(id, transitions, incidents, acts) {
  const lines = transitions.map((each) => ({ at: each.at, text: changeText(each), kind: each.health }));
  for (const incident of incidents) {
    const fate = incident.members.find((member) => member.id === id).words;
    lines.push({ at: incident.opened_at, text: `Incident: ${incident.words}`, kind: "incident" });
    if (incident.resolved_at) lines.push({ at: incident.resolved_at, text: `Incident resolved: ${fate}`, kind: "incident" });
  }
  for (const act of acts) lines.push({ at: act.at, text: `Wakeful: ${act.words}`, kind: "act" });
  return lines.sort((one, other) => (one.at < other.at ? 1 : -1));
}

function changeText({ state, health, reason, old_state: before }) {
  const why = reason === state ? "" : ` (${words(reason)})`;
  return `${before && before !== state ? `${before} → ${state}` : state}, ${health}${why}`;
}

/** The permission a managed session asks for. Of several, each is answered by its command. */
async function onlyQuestion(one, { managed, state }) {
  if (!managed || state !== "waiting") return null;
  const asked = (await read(`${one}/questions`))?.questions ?? [];
  return asked.length === 1 ? asked[0] : null;
}

async function everyTransition(one) {
  const found = [];
  let after = 0;
  for (let page = 0; page < PAGES_MAX; page += 1) {
    const body = await read(`${one}/events?after=${after}`);
    found.push(...(body?.events ?? []));
    if (!body?.next_cursor) break;
    after = body.next_cursor;
  }
  return found;
}
