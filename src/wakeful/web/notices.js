// The notices above every view: mode, pause, slow log sources, unreadable logs. Only ever textContent.

import { confirmed } from "/asking.js";
import { button, byId, element, holding, moment, redraw, spoken } from "/dom.js";

// What each mode does, and its name.
const MODES = {
  observe: ["Acts on no session", "observe"],
  mine: ["Acts on managed sessions", "managed-only"],
  all: ["Acts on all sessions", "all"],
};

const ONLY_SHOWS = "Read-only tab. Run `wakeful open` for a tab that can perform actions.";
const ASKS = "This browser has no WebSocket to Wakeful, so the page is updated every 10 seconds only.";
// The tabs count these.
const COUNTED = /`wakeful (incidents|checkpoint list)`$/;

export function drawStanding({ mode, daemon }) {
  const [acts, name] = MODES[mode] ?? [mode, mode];
  redraw(byId("standing"), [mode, daemon.host], () => [
    element("span", "mode", acts), element("span", "meaning", `mode ${name}`), element("span", "host", daemon.host),
  ]);
}

/** `drifted`: how many sessions write a format that Wakeful cannot read. `post` is null in a read-only tab, which gets a notice. */
export function drawNotices(overview, drifted, post, isAsking) {
  const { paused, eyes, notes } = overview?.daemon ?? { paused: null, eyes: [], notes: [] };
  const slow = eyes.filter((eye) => eye.slow).map((eye) => `${eye.name} is slow: ${eye.slow}`);
  const blind = eyes.filter((eye) => eye.left_out).map((eye) => `${eye.name} skips: ${eye.left_out}`);
  redraw(byId("notices"), [paused, slow, blind, notes, drifted, Boolean(post), isAsking], () => [
    ...(paused ? [pauseNotice(paused, post)] : []),
    ...(drifted ? [notice("drift", driftWords(drifted))] : []),
    ...slow.map((text) => notice("slow", ...spoken(text))),
    ...blind.map((text) => notice("slow", ...spoken(text))),
    ...(isAsking ? [notice("slow", ASKS)] : []),
    ...(overview && !post ? [notice("plain", ...spoken(ONLY_SHOWS))] : []),
    ...notes.filter((text) => !COUNTED.test(text)).map((text) => notice("plain", ...spoken(text))),
  ]);
}

function notice(kind, ...content) {
  const made = holding("p", `notice notice-${kind}`, ...content);
  made.dataset.notice = kind;
  return made;
}

const driftWords = (count) =>
  `${count === 1 ? "1 session writes" : `${count} sessions write`} a log format that Wakeful does not know, probably after an upgrade of the client. Its state is shown as unknown.`;

/** Who paused Wakeful, and the reason they gave. */
function pauseNotice({ by, since, reason }, post) {
  const made = notice("paused", element("b", "", "PAUSED"), ` by ${by} since `, moment(since), `${reason ? `: ${reason}` : ""}. Wakeful takes no action by itself. `);
  made.id = "paused";
  made.append(post ? button("Unpause", () => confirmed(unpausing(post)), "button small") : element("code", "", "wakeful unpause"));
  return made;
}

const unpausing = (post) => ({
  title: "Unpause?",
  label: "Unpause",
  argv: ["wakeful", "unpause"],
  consequence: "Wakeful acts by itself again, starting with the next problem.",
  give: async () => {
    const answer = await post("/api/resume", {});
    return answer.ok ? { ok: true, body: { told: "Unpaused. Wakeful acts by itself again." } } : answer;
  },
});
