// What can be done about a session: what its record allows, and why not where it does not. Each asks before it acts.

import { choiceField, confirmed, textField } from "/asking.js";
import { button, command, element, holding, refusals, refused } from "/dom.js";
import { aboutCall, byName, called, verdictText } from "/rows.js";

const BY = "web page";
const LENGTHS = { "2h": ["2 hours", 7200], "30m": ["30 minutes", 1800], "8h": ["8 hours", 28800], "1d": ["one day", 86400] };
const EXPECTED = [
  ["ok", "It was fine"], ["dead", "It was dead"], ["silent", "It had gone silent"], ["loop", "It was looping"],
  ["error_cascade", "Its calls failed repeatedly"], ["runaway", "It used too many calls or tokens"],
];
// The reason as `judging/available_actions.py` words it; a person who checked may continue anyway.
export const OBSERVING = "the mode is observe: Wakeful acts on nothing";
const HELD = "an interrupted call may have had effects elsewhere: a person has to check first";
const FOUND = "not managed by Wakeful; adopt it first";

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

/** Every action of the page, with the reason where it is unavailable. An action that the record does not name is unavailable. */
function offers(record, mute, question) {
  const acts = new Map(record.actions.map((action) => [action.name, action]));
  const hosted = acts.get("restart");
  const adopting = acts.get("adopt");
  return [
    ...(question ? [reply(record, question, "allow", "Allow"), reply(record, question, "deny", "Deny")] : []),
    hosted ? restart(record, hosted) : revive(record, acts.get("revive"), adopting),
    acts.get("revive")?.reason === HELD ? looked(record) : null,
    stop(record, acts.get("stop"), adopting, hosted),
    hosted ? null : record.managed ? release(record, acts.get("release")) : adopt(record, adopting),
    mute ? unmute(record, mute) : silence(record),
    wrong(record),
  ].filter(Boolean).map((offer) => ({ body: () => ({}), tell: (answer) => answer, ...offer, argv: offer.argv && byName(offer.argv, record) }));
}

function reply(record, question, name, label) {
  const consequence = name === "allow" ? "The agent makes this call once." : "The agent gets a refusal and decides how to continue.";
  return {
    name, label, grave: name === "allow", title: `${label} it?`, reason: "",
    argv: [...ours("answer", record), name, "--question", question.id],
    path: `/api/sessions/${encodeURIComponent(record.id)}/answer`,
    quoted: aboutCall(question.tool, question.untrusted) ?? `${question.tool}: ${question.untrusted}`,
    consequence,
    body: () => ({ question_id: question.id, reply: name }),
  };
}

/** Why an action is unavailable. If the record does not name it, the session is not managed; `adopting` says whether that can change. */
function refusal(action, adopting) {
  if (action) return action.allowed ? "" : action.reason;
  return adopting?.allowed === false ? adopting.reason : FOUND;
}

function revive(record, action, adopting) {
  const yes = { label: "I checked: resume anyway", grave: true };
  return {
    name: "revive", label: "Resume", argv: action?.argv, reason: refusal(action, adopting),
    consequence: "The conversation continues in a new process, with a note about the interrupted call. Wakeful first checks that the old process is gone.",
    body: () => ({ by: BY }),
    // What was cut off may have happened elsewhere: a person's yes is a click of its own.
    instead: (problem, post) => (problem.code?.startsWith("held") ? { ...yes, give: () => post({ by: BY, approved: true }), instead: null } : null),
  };
}

/** A person's yes to what may have happened is a click of its own, and answers the checkpoint. */
function looked(record) {
  return {
    name: "looked", label: "I checked: resume", grave: true, argv: [...ours("resume", record), "--yes"], reason: "",
    path: `/api/sessions/${encodeURIComponent(record.id)}/revive`,
    consequence: "You checked whether the interrupted call took effect. The conversation continues, and the agent may repeat the call.",
    body: () => ({ by: BY, approved: true }),
  };
}

/** A session that an agent of the hub hosts is resumed through its agent. */
function restart(record, action) {
  return {
    name: "restart", label: "Restart session", argv: action.argv, reason: refusal(action), path: ofAgent(record, "restart-session"),
    consequence: `Agent ${record.agent} starts a new session in place of the old one.`,
    tell: (answer) => told(answer, "The session is restarted."),
  };
}

function stop(record, action, adopting, hosted) {
  const grave = { label: "Stop during the turn", grave: true };
  return {
    name: "stop", label: "Stop", grave: true, argv: action?.argv, reason: refusal(action, adopting),
    consequence: hosted
      ? `Agent ${record.agent} stops: Wakeful ends its session and removes its container, if it has one.`
      : "Wakeful ends the agent process and the tools it left behind, gently at first. After your stop, Wakeful does not resume the session by itself.",
    ...(hosted && {
      path: ofAgent(record, "stop"),
      tell: (answer) => told(answer, `Agent ${record.agent} is stopped.`),
      instead: (problem, post) => (problem.code === "agent-busy" ? { ...grave, give: async () => told(await post({ yes: true }), "Stopped."), instead: null } : null),
    }),
  };
}

const ofAgent = (record, order) => `/api/agents/${encodeURIComponent(record.agent)}/${order}`;

function adopt(record, action) {
  // Records offer it where something is wrong, and refuse it where it cannot be; any other living session can be adopted.
  const possible = action?.allowed ?? record.session_alive;
  return {
    name: "adopt", label: "Adopt", argv: ours("adopt", record), reason: possible ? "" : (action?.reason ?? "its process was not found"),
    consequence: "Wakeful may then act on the session: resume it when it crashes, stop it when you ask. You can release it at any time.",
    tell: (answer) => told(answer, "The session is managed now."),
  };
}

function release(record, action) {
  return {
    name: "release", label: "Release", argv: ours("release", record), reason: action?.allowed ? "" : (action?.reason ?? "not possible now"),
    consequence: "Wakeful keeps watching the session and no longer acts on it. The agent keeps running.",
    tell: (answer) => told(answer, "The session is watched only now."),
  };
}

function silence(record) {
  return {
    name: "mute", label: "Mute", argv: muting(record, "2h"), reason: "",
    consequence: "Wakeful sends no alerts about it for this time. Watching and healing continue.",
    fields: [choiceField("length", "For", Object.entries(LENGTHS).map(([length, [words]]) => [length, words]))],
    spell: ({ length }) => muting(record, length),
    body: ({ length }) => ({ for_seconds: LENGTHS[length][1], by: BY }),
    tell: (answer) => told(answer, "Muted."),
  };
}

function unmute(record, mute) {
  return {
    name: "unmute", label: "Unmute", argv: ["wakeful", "unmute", record.id], reason: "", path: "/api/unmute",
    consequence: `Muted by ${mute.by}. Wakeful sends alerts about it again.`,
    body: () => ({ kind: "session", value: record.id }),
    tell: (answer) => told(answer, "Unmuted."),
  };
}

function wrong(record) {
  return {
    name: "wrong", label: "This was wrong", title: "What should Wakeful have reported?", yes: "Save", argv: ours("wrong", record), reason: "",
    consequence: `Wakeful reported ${verdictText(record)}. It saves the evidence on this machine, redacted, as a case to test the rules.`,
    fields: [choiceField("expect", "Correct verdict", EXPECTED), textField("note", "Why (optional)")],
    spell: ({ expect, note }) => [...ours("wrong", record), "--expect", expect, ...(note ? ["--note", note] : [])],
    body: ({ expect, note }) => ({ expect, note }),
    tell: (answer) => told(answer, `Saved in ${answer.body.path}. Thank you.`),
  };
}

const muting = (record, length) => byName(["wakeful", "mute", record.id, "--for", length], record);
const ours = (act, record) => byName(["wakeful", ...(act === "wrong" ? ["session"] : []), act, record.id], record);
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
