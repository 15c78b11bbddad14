// Incidents: one card for each episode, however many sessions are in it. Its words are only ever textContent.

import { sessionAddress } from "/address.js";
import { element, holding, inward, moment, redraw, spoken } from "/dom.js";
import { age, shortId, words } from "/rows.js";

const MEMBERS_SHOWN = 50;
const CAUSES = { auth: "login", session: "one session", tmux_server: "tmux server" };

/** `get(id)` is the record of a session that is listed. */
export function drawIncidents({ list, empty }, incidents, past, get) {
  empty.hidden = incidents.length > 0;
  redraw(list, [incidents, past], () => incidents.map((incident) => card(incident, get)));
}

function card(incident, get) {
  const open = !incident.resolved_at;
  const state = element("span", "incident-state", open ? "open" : "resolved");
  state.dataset.open = String(open);
  const head = holding("p", "incident-head", state, element("span", "badge", CAUSES[incident.cause] ?? words(incident.cause)),
    holding("span", "age", "since ", moment(incident.opened_at), ...(open ? [] : [`, for ${age(incident.opened_at, Date.parse(incident.resolved_at))}`])));
  const made = holding("li", "card", head, holding("h3", "", ...spoken(incident.words)), said(incident), until(incident), members(incident, get), issue(incident));
  made.dataset.incident = incident.id;
  made.dataset.open = String(open);
  return made;
}

const NO_ACTION = "no action: ";
const said = ({ did }) => {
  if (!did) return null;
  const isNone = did.startsWith(NO_ACTION);
  return holding("p", "did", element("b", "", isNone ? "No action:" : "Action:"), " ", ...spoken(isNone ? did.slice(NO_ACTION.length) : did));
};
const until = ({ until: end }) => (end ? holding("p", "soft", "The cause ends by itself at ", moment(end), ".") : null);

function members({ members: all }, get) {
  if (!all.length) return null;
  const nameOf = ({ id, name }) => get(id)?.short_name || name || shortId(id);
  if (all.length === 1) return inward(nameOf(all[0]), sessionAddress(all[0].id), "member");
  const lines = all.slice(0, MEMBERS_SHOWN).map((member) =>
    holding("li", "", inward(nameOf(member), sessionAddress(member.id)), holding("span", "soft", ...spoken(member.words))));
  const left = all.length - lines.length;
  if (left) lines.push(element("li", "soft", `and ${left} more: wakeful incidents`));
  const made = holding("details", "", element("summary", "", `${all.length} sessions`), holding("ul", "members", ...lines));
  made.open = all.length <= 5;
  return made;
}

/** Only an address of the web becomes a link. */
function issue({ issue_url: url }) {
  if (!url) return null;
  if (!/^https?:\/\//.test(url)) return element("p", "soft", url);
  const link = element("a", "", url);
  link.href = url;
  link.rel = "noreferrer noopener";
  link.target = "_blank";
  return holding("p", "", link);
}
