// What is said above everything: the mode, a pause, eyes that see late, logs nobody can read. Only ever textContent.

import { confirmed } from "/asking.js";
import { button, byId, element, holding, moment, redraw, spoken } from "/dom.js";

const MODES = {
  observe: ["Observing", "acts on nothing"],
  mine: ["Mine", "heals only what it started or was given"],
  all: ["All", "heals every session"],
};

const ONLY_SHOWS = "This tab only shows, with the commands to type. `wakeful open` gives a link to one that takes orders.";
// The tabs count these.
const COUNTED = /`wakeful (incidents|checkpoint list)`$/;

export function drawStanding({ mode, daemon }) {
  const [name, meaning] = MODES[mode] ?? [mode, ""];
  redraw(byId("standing"), [mode, daemon.host], () => [
    element("span", "mode", `Mode ${name.toLowerCase()}`), element("span", "meaning", meaning), element("span", "host", daemon.host),
  ]);
}

/** `drifted`: how many sessions write what nobody can read any more. `post` is null in a tab that cannot give orders: that is said, too. */
export function drawNotices(overview, drifted, post) {
  const { paused, eyes, notes } = overview?.daemon ?? { paused: null, eyes: [], notes: [] };
  const slow = eyes.filter((eye) => eye.slow).map((eye) => `${eye.name} sees late: ${eye.slow}`);
  const blind = eyes.filter((eye) => eye.left_out).map((eye) => `${eye.name} does not read: ${eye.left_out}`);
  redraw(byId("notices"), [paused, slow, blind, notes, drifted, Boolean(post)], () => [
    ...(paused ? [pauseNotice(paused, post)] : []),
    ...(drifted ? [notice("drift", driftWords(drifted))] : []),
    ...slow.map((text) => notice("slow", text)),
    ...blind.map((text) => notice("slow", text)),
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
  `${count === 1 ? "1 session writes" : `${count} sessions write`} in a way Wakeful does not know, probably after an upgrade of the client: shown as unknown, never as well.`;

/** Who stopped Wakeful, in their own words. */
function pauseNotice({ by, since, reason }, post) {
  const made = notice("paused", element("b", "", "PAUSED"), ` by ${by} since `, moment(since), `${reason ? `: ${reason}` : ""}. Wakeful does nothing by itself. `);
  made.id = "paused";
  made.append(post ? button("Resume", () => confirmed(resuming(post)), "button small") : element("code", "", "wakeful resume"));
  return made;
}

const resuming = (post) => ({
  title: "Resume?",
  label: "Resume",
  argv: ["wakeful", "resume"],
  consequence: "Wakeful acts by itself again, from the next trouble on.",
  give: async () => {
    const answer = await post("/api/resume", {});
    return answer.ok ? { ok: true, body: { told: "Wakeful acts again." } } : answer;
  },
});
