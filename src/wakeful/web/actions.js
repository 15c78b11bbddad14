// What can be done about a session: what its record allows, and why not where it does not. Each asks before it acts.

import { choiceField, confirmed, textField } from "/asking.js";
import { button, command, element, holding, refusals, refused } from "/dom.js";
import { aboutCall, called } from "/rows.js";

const BY = "web page";
const LENGTHS = { "2h": ["2 hours", 7200], "30m": ["30 minutes", 1800], "8h": ["8 hours", 28800], "1d": ["one day", 86400] };
const EXPECTED = [
  ["ok", "It was fine"], ["dead", "It was dead"], ["silent", "It had gone silent"], ["loop", "It ran in circles"],
  ["error_cascade", "It failed again and again"], ["runaway", "It ran away"],
];
// As `judging/available_actions.py` says them; a person who looked may go on all the same.
export const OBSERVING = "the mode is observe: Wakeful acts on nothing";
const HELD = "a call was cut off that may have happened elsewhere: a person has to look first";
const FOUND = "Wakeful only found it; adopt it first";

/**
 * The row of buttons, and below it why some are refused; without `post`, which needs this tab's own login, the commands
 * instead. `question`: the permission it asks for, if that is one; the words in it are the agent's.
 */
export function drawActions(record, mute, question, post) {
  const offered = offers(record, mute, question);
  const withheld = refusals(offered.filter((each) => each.reason).map(({ label, reason }) => [label, reason]));
  if (!post) return [holding("div", "actions commands", ...offered.filter((each) => !each.reason).map(spelled)), ...withheld];
  return [holding("div", "actions", ...offered.map((each) => drawn(each, record, post))), ...withheld];
}

function drawn(offer, record, post) {
  const act = offer.reason ? () => {} : () => confirmed(order(offer, record, post));
  const made = button(offer.label, act, offer.grave ? "button grave" : "button");
  made.dataset.action = offer.name;
  return offer.reason ? refused(made, offer.label, offer.reason) : made;
}

function spelled(offer) {
  return holding("p", "", element("b", "", offer.label), command(offer.argv, offer.label.toLowerCase()));
}

function order(offer, record, post) {
  const path = offer.path ?? `/api/sessions/${encodeURIComponent(record.id)}/${offer.name}`;
  return {
    ...offer,
    title: offer.title ?? `${offer.label} ${called(record)}?`,
    label: offer.yes ?? offer.label,
    give: async (values) => offer.tell(await post(path, offer.body(values))),
    instead: (problem) => offer.instead?.(problem, (body) => post(path, body)),
  };
}

/** Every act of the page, with the reason where it is not to be had. What a record does not name is not to be had. */
function offers(record, mute, question) {
  const acts = new Map(record.actions.map((action) => [action.name, action]));
  const hosted = acts.get("restart");
  return [
    ...(question ? [reply(record, question, "allow", "Allow"), reply(record, question, "deny", "Deny")] : []),
    hosted ? restart(record, hosted) : revive(record, acts.get("revive")),
    acts.get("revive")?.reason === HELD ? looked(record) : null,
    stop(record, acts.get("stop"), hosted),
    hosted ? null : record.managed ? release(record, acts.get("release")) : adopt(record, acts.get("adopt")),
    mute ? unmute(record, mute) : silence(record),
    wrong(record),
  ].filter(Boolean).map((offer) => ({ body: () => ({}), tell: (answer) => answer, ...offer }));
}

function reply(record, question, name, label) {
  const consequence = name === "allow" ? "It does what it asks for, this once." : "It is told no, and decides how to go on.";
  return {
    name, label, grave: name === "allow", title: `${label} it?`, reason: "",
    argv: [...ours("answer", record), name, "--question", question.id],
    path: `/api/sessions/${encodeURIComponent(record.id)}/answer`,
    consequence: `${aboutCall(question.tool, question.untrusted) ?? `${question.tool}: ${question.untrusted}`}. ${consequence}`,
    body: () => ({ question_id: question.id, reply: name }),
  };
}

const refusal = (action) => (action?.allowed ? "" : (action?.reason ?? FOUND));

function revive(record, action) {
  const yes = { label: "I looked: revive it all the same", grave: true };
  return {
    name: "revive", label: "Revive", argv: action?.argv, reason: refusal(action),
    consequence: "Its conversation goes on: the old process is seen to be gone first, and the agent is told what was cut off.",
    body: () => ({ by: BY }),
    // What was cut off may have happened elsewhere: a person's yes is a click of its own.
    instead: (problem, post) => (problem.code?.startsWith("held") ? { ...yes, give: () => post({ by: BY, approved: true }), instead: null } : null),
  };
}

/** A person's yes to what may have happened is a click of its own, and answers the checkpoint. */
function looked(record) {
  return {
    name: "looked", label: "I looked: revive", grave: true, argv: [...ours("revive", record), "--yes"], reason: "",
    path: `/api/sessions/${encodeURIComponent(record.id)}/revive`,
    consequence: "You saw whether what was cut off has happened. Its conversation goes on, and its agent may do it again.",
    body: () => ({ by: BY, approved: true }),
  };
}

/** Whom an agent of the hub hosts comes back by its agent. */
function restart(record, action) {
  return {
    name: "restart", label: "Restart session", argv: action.argv, reason: refusal(action), path: ofAgent(record, "restart-session"),
    consequence: `Agent ${record.agent} begins a new session where the old one ended.`,
    tell: (answer) => told(answer, "It runs again."),
  };
}

function stop(record, action, hosted) {
  const grave = { label: "Yes, in the middle of its turn", grave: true };
  return {
    name: "stop", label: "Stop", grave: true, argv: action?.argv, reason: refusal(action),
    consequence: hosted
      ? `Agent ${record.agent} is stopped: its session is ended, and its container, if it has one, is removed.`
      : "Its agent is ended, gently first, with the tools it left behind. A person's stop is final: nothing revives it.",
    ...(hosted && {
      path: ofAgent(record, "stop"),
      tell: (answer) => told(answer, `Agent ${record.agent} is stopped.`),
      instead: (problem, post) => (problem.code === "agent-busy" ? { ...grave, give: async () => told(await post({ yes: true }), "Stopped."), instead: null } : null),
    }),
  };
}

const ofAgent = (record, order) => `/api/agents/${encodeURIComponent(record.agent)}/${order}`;

function adopt(record, action) {
  // Records offer it where something is wrong; whoever lives can be handed over at any time.
  const possible = action?.allowed || record.session_alive;
  return {
    name: "adopt", label: "Adopt", argv: ours("adopt", record), reason: possible ? "" : "its process was not seen",
    consequence: "Wakeful may then act on it: bring it back when it dies, stop it when you say so. You can take it back at any time.",
    tell: (answer) => told(answer, "It is managed now."),
  };
}

function release(record, action) {
  return {
    name: "release", label: "Release", argv: ours("release", record), reason: action?.allowed ? "" : (action?.reason ?? "not now"),
    consequence: "Wakeful goes on watching it and touches it no more. Its agent goes on.",
    tell: (answer) => told(answer, "It is only watched now."),
  };
}

function silence(record) {
  return {
    name: "mute", label: "Mute", argv: muting(record, "2h"), reason: "",
    consequence: "Nothing is told about it for a while. Watching and healing go on.",
    fields: [choiceField("length", "For", Object.entries(LENGTHS).map(([length, [words]]) => [length, words]))],
    spell: ({ length }) => muting(record, length),
    body: ({ length }) => ({ for_seconds: LENGTHS[length][1], by: BY }),
    tell: (answer) => told(answer, "Muted."),
  };
}

function unmute(record, mute) {
  return {
    name: "unmute", label: "Unmute", argv: ["wakeful", "unmute", record.id], reason: "", path: "/api/unmute",
    consequence: `It was muted by ${mute.by}. From now on it is told about again.`,
    body: () => ({ kind: "session", value: record.id }),
    tell: (answer) => told(answer, "It is told about again."),
  };
}

function wrong(record) {
  return {
    name: "wrong", label: "This was wrong", title: "What should Wakeful have said?", yes: "Keep it", argv: ours("wrong", record), reason: "",
    consequence: `Wakeful said ${record.state}, ${record.health}. What it saw is kept on this machine, redacted, as a case to test the rules with.`,
    fields: [choiceField("expect", "It should have said", EXPECTED), textField("note", "Why (optional)")],
    spell: ({ expect, note }) => [...ours("wrong", record), "--expect", expect, ...(note ? ["--note", note] : [])],
    body: ({ expect, note }) => ({ expect, note }),
    tell: (answer) => told(answer, `Kept in ${answer.body.path}. Thank you.`),
  };
}

const muting = (record, length) => ["wakeful", "mute", record.id, "--for", length];
const ours = (act, record) => ["wakeful", "session", act, record.id];
const told = (answer, words) => (answer.ok ? { ok: true, body: { told: words } } : answer);

/** Hand several over, one after another; what was refused is named. */
export async function adoptAll(records, post) {
  const refused = [];
  for (const record of records) {
    const answer = await post(`/api/sessions/${encodeURIComponent(record.id)}/adopt`, {}).catch(() => null);
    if (!answer?.ok) refused.push(`${called(record)}: ${answer?.body.detail ?? "no answer"}`);
  }
  const words = `${records.length - refused.length} of ${records.length} are managed now.`;
  return { ok: !refused.length, body: { told: words, detail: [words, ...refused].join(" ") } };
}
