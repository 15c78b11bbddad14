// One session: the verdict in words, what can be done, what it does, when it did what, the evidence, the ladder.

import { drawActions, OBSERVING } from "/actions.js";
import { Conversation } from "/conversation.js";
import { byId, clear, command, element, exactMoment, holding, inward, moment, redraw, setText, spoken } from "/dom.js";
import { drawLadder } from "/ladder.js";
import { read } from "/link.js";
import { PromptBox } from "/prompt.js";
import { age, byName, called, callText, doing, healthText, shortId, since, stateText, tone, verdictText, words } from "/rows.js";
import { Timeline } from "/timeline.js";

const PAST_SHOWN = 14;
// A page of transitions has a thousand; a session with more is drawn from the newest thousand.
const PAGES_MAX = 20;

export class SessionView {
  #timeline = new Timeline(byId("timeline"));
  #conversation = new Conversation(byId("session-log"));
  #prompt;
  #post;
  #id = null;
  #record = null;
  #mute = null;
  #question = null;
  #transitions = [];
  #reading = 0;

  constructor(post) {
    this.#post = post;
    this.#prompt = new PromptBox(post);
  }

  /** Show this session; what was shown of another is gone at once. */
  show(id, record) {
    if (this.#id !== id) this.#forget(id);
    this.#take(record);
    return this.refresh();
  }

  /** A newer record of it. */
  change(record) {
    if (!record || record.id !== this.#id) return;
    this.#take(record);
    // A hidden tab continues to read when it is shown.
    if (!document.hidden) this.#conversation.follow(record);
  }

  tick(now) {
    if (!this.#record) return;
    setText(byId("session-age"), age(since(this.#record), now));
    this.#conversation.tick(now);
  }

  /** Everything about it that is not in its record. */
  async refresh() {
    const reading = (this.#reading += 1);
    const one = `/api/sessions/${encodeURIComponent(this.#id)}`;
    const [record, why, transitions, incidents, critical, mutes] = await Promise.all([
      read(one), read(`${one}/why`), newTransitions(one, this.#transitions.at(-1)?.seq ?? 0),
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
    this.#transitions.push(...transitions.filter(({ seq }) => seq > (this.#transitions.at(-1)?.seq ?? 0)));
    await this.#conversation.follow(record);
    if (reading !== this.#reading) return;
    this.#drawPast(record, incidents?.incidents ?? [], critical?.events ?? []);
  }

  #forget(id) {
    this.#id = id;
    this.#record = this.#mute = this.#question = null;
    this.#transitions = [];
    this.#timeline.forget();
    this.#conversation.forget(id);
    this.#prompt.forget(id);
    setText(byId("session-title"), shortId(id));
    for (const place of ["session-sentence", "session-ladder", "session-reasons", "session-past", "session-step"]) {
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
    if (!byId("session-sentence").firstChild) byId("session-sentence").replaceChildren(...spoken(doing(record)));
    redraw(byId("session-facts"), record, () => facts(record));
    this.#prompt.show(record);
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
    const step = byName(why.command, this.#record);
    redraw(byId("session-step"), step, () => [
      holding("p", "", element("b", "", "Next step"), command(step, "take the next step"), holding("span", "soft", ...spoken(why.command_text))),
      ...(step[1] === "checkpoint" ? [inward("Decide here", "/?view=decisions", "button small")] : []),
    ]);
  }

  #drawPast(record, incidents, critical) {
    const transitions = this.#transitions;
    const mine = incidents.filter((each) => each.members.some((member) => member.id === record.id));
    const acts = critical.filter((event) => event.session_id === record.id && event.action_taken !== "none")
      .map((event) => ({ at: event.timestamp, words: words(event.action_taken) }));
    this.#timeline.show({ transitions, calls: this.#conversation.calls, incidents: mine, acts });
    const lines = pastLines(record.id, transitions, mine, acts).slice(0, PAST_SHOWN);
    redraw(byId("session-past"), lines, () => lines.map(pastLine));
  }
}

function standing(record) {
  const health = holding("span", "health-mark", element("span", "", healthText(record.health)));
  const running = element("span", "age", age(since(record), Date.now()));
  running.id = "session-age";
  return [
    element("b", "state", stateText(record.state)), health, running,
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
    ...times.filter(([, value]) => value).map(([name, value]) => fact(name, exactMoment(value))),
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
  const changes = why.next_change_at ? ["Without new activity, this can next change at ", exactMoment(why.next_change_at), "."] : ["Valid until new activity."];
  parts.push(element("h4", "", "Evidence"), readings, holding("p", "soft", ...changes, ` Rules ${why.rule_version}.`));
  return parts;
}

function ruleCard(kind, code, summary, rule, evidence, untrusted) {
  const card = holding("article", `rule rule-${kind}`, element("h4", "", words(code)), holding("p", "", ...spoken(summary)), holding("p", "soft", ...spoken(rule)));
  if (evidence.length) card.append(holding("p", "", ...spoken(evidence.join(" · "))));
  if (untrusted.length) card.append(element("pre", "untrusted", untrusted.map(callText).join("\n")));
  return card;
}

function reading({ at, source, text, untrusted }) {
  const line = holding("li", "", at ? exactMoment(at) : element("span", "soft timeless", "–"), element("b", "", source), holding("span", "", ...spoken(text)));
  if (untrusted) line.append(element("code", "said", callText(untrusted)));
  return line;
}

function pastLine({ at, text, kind }) {
  const line = holding("li", "", exactMoment(at), holding("span", "", ...spoken(text)));
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
  const from = before && before !== state ? `${stateText(before)} → ` : "";
  return `${from}${verdictText({ state, health })}${why}`;
}

/** The permission a managed session asks for. Of several, each is answered by its command. */
async function onlyQuestion(one, { managed, state }) {
  if (!managed || state !== "waiting") return null;
  const asked = (await read(`${one}/questions`))?.questions ?? [];
  return asked.length === 1 ? asked[0] : null;
}

/** Those after a number, oldest first. */
async function newTransitions(one, after) {
  const found = [];
  for (let page = 0; page < PAGES_MAX; page += 1) {
    const body = await read(`${one}/events?after=${after}`);
    found.push(...(body?.events ?? []));
    if (!body?.next_cursor) break;
    after = body.next_cursor;
  }
  return found;
}
