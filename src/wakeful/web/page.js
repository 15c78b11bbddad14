// Joins the link to the views. Never stale green: without a proven link everything is grey and says from when it is.

import { adoptAll } from "/actions.js";
import { Address, addressOf } from "/address.js";
import { Agents } from "/agents.js";
import { confirmed } from "/asking.js";
import { Checkpoints } from "/checkpoints.js";
import { byId, hourAndMinute, redraw, setText, spoken, unmarked } from "/dom.js";
import { drawEvents } from "/events.js";
import { drawIncidents } from "/incidents.js";
import { listen } from "/keys.js";
import { Lanes } from "/lanes.js";
import { Link, logIn, orders, read } from "/link.js";
import { drawNotices, drawStanding } from "/notices.js";
import { ReportView } from "/report.js";
import { Roster } from "/roster.js";
import { called, doing } from "/rows.js";
import { SessionList } from "/sessions.js";
import { SessionView } from "/session.js";

// Twice the time between two proofs, and one that takes its time.
const UNPROVEN_MS_MAX = 25000;
// What is not pushed is asked for again this long after a change.
const SETTLED_MS = 700;
const ANNOUNCED_MAX = 3;
const LOGIN_OVER = "Session expired: a week has passed, or this login was ended.";

const roster = new Roster();
let overview = null;
let provenAt = null;
let settling = 0;
let isOutdated = false;

const refused = await logIn().catch(() => null);
const post = orders();
const address = new Address(moved);
const lanes = new Lanes();
const list = new SessionList(roster, address, lanes);
const report = new ReportView();
const session = new SessionView(post && guarded(post));
const agents = new Agents({ list: byId("agent-rows"), empty: byId("agents-empty"), post, get: (id) => roster.get(id) });
const checkpoints = new Checkpoints({ list: byId("checkpoint-rows"), more: byId("checkpoints-more"), empty: byId("checkpoints-empty"), post, get: (id) => roster.get(id) });

/** An order changes what is shown: look again once it was given. */
function guarded(give) {
  return async (...order) => {
    const answer = await give(...order);
    settle(true);
    return answer;
  };
}

function moved(choice, before) {
  const elsewhere = choice.view !== before?.view || choice.session !== before?.session;
  if (before?.lists && elsewhere) list.leave();
  drawView(choice);
  if (!elsewhere) return;
  if (choice.lists) list.come();
  else scrollTo(0, 0);
  refresh();
  const heading = byId("session-title");
  if (choice.view === "session") heading.focus({ preventScroll: true });
}

function drawView(choice) {
  const place = choice.lists ? "sessions" : choice.view;
  for (const view of document.querySelectorAll(".view")) view.hidden = view.id !== place;
  for (const link of document.querySelectorAll("#views a")) {
    const here = link.dataset.view === choice.view || (choice.view === "session" && link.dataset.view === "sessions");
    if (here) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  if (choice.lists) list.draw();
  if (choice.view === "report") report.show(choice.period);
  byId("past").checked = choice.past;
  byId("since").value = choice.since;
  byId("report-since").value = choice.period;
}

/** What the view shows and the daemon does not push. */
async function refresh() {
  const { view, session: id, past, since } = address.choice;
  if (view === "session") await session.show(id, roster.get(id));
  if (view === "incidents") {
    const found = await read(`/api/incidents${past ? "?all=true" : ""}`);
    if (found) drawIncidents({ list: byId("incident-rows"), empty: byId("incidents-empty") }, found.incidents, past, (id) => roster.get(id));
  }
  if (view === "events") {
    const found = await read(`/api/events?since=${encodeURIComponent(since)}`);
    if (found) drawEvents({ rows: byId("event-rows"), empty: byId("events-empty"), more: byId("events-more"), table: byId("event-table") }, found, since, (id) => roster.get(id));
  }
}

/** What the tabs count. */
async function count() {
  const [decisions, incidents, hub] = await Promise.all([read("/api/checkpoints"), read("/api/incidents"), read("/api/agents")]);
  if (decisions) checkpoints.replace(decisions.checkpoints);
  if (hub) agents.replace(hub.agents);
  badge("decisions", decisions?.checkpoints.length ?? 0);
  badge("incidents", incidents?.incidents.length ?? 0);
  badge("agents", agents.troubled);
  byId("agents-empty").hidden = Boolean(hub?.agents.length);
  byId("checkpoints-empty").hidden = Boolean(decisions?.checkpoints.length);
}

function badge(view, number) {
  const shown = document.querySelector(`#views [data-view="${view}"] .count`);
  setText(shown, String(number));
  shown.hidden = !number;
}

/** Soon after the first of some changes, and not once for each. `isShown`: what the view shows may have changed. */
function settle(isShown) {
  isOutdated ||= isShown;
  settling ||= setTimeout(() => {
    settling = 0;
    count();
    if (isOutdated) refresh();
    isOutdated = false;
  }, SETTLED_MS);
}

function drawAround() {
  const { drifted, needing } = roster.census();
  drawNotices(overview, drifted, post, link.isAsking);
  document.title = `${byId("link").dataset.link === "lost" ? "✕ " : ""}${needing ? `(${needing}) ` : ""}Wakeful`;
}

function announce(records) {
  if (!records.length) return;
  const named = records.slice(0, ANNOUNCED_MAX).map((record) => unmarked(`${called(record)}: ${doing(record)}`));
  const left = records.length - named.length;
  setText(byId("announcer"), [...named, ...(left ? [left === 1 ? "1 more needs you" : `${left} more need you`] : [])].join(". "));
}

function proven() {
  provenAt = new Date();
  if (byId("link").dataset.link === "lost" && !byId("banner").hidden) setText(byId("announcer"), "Connected again.");
  setLink("live", link.isAsking ? "every 10 s" : "live");
  byId("banner").hidden = true;
}

/** Ages go on; and what was not proven for long (the tab was hidden, the host slept) is not shown as live. */
function tick() {
  if (document.hidden) return;
  const now = Date.now();
  list.tick(now);
  session.tick(now);
  agents.tick(now);
  if (provenAt && now - provenAt > UNPROVEN_MS_MAX && byId("link").dataset.link === "live") setLink("doubt", "checking…");
}

function setLink(state, text) {
  byId("link").dataset.link = state;
  setText(byId("link-text"), text);
  document.body.classList.toggle("lost", state !== "live");
}

function show(inside) {
  byId("door").hidden = inside;
  byId("views").hidden = !inside;
  if (inside) drawView(address.choice);
  else for (const view of document.querySelectorAll(".view")) view.hidden = true;
}

const link = new Link({
  /** Returns whether the list must be fetched again: sessions that went away are not announced. */
  hello(told) {
    const first = overview === null;
    overview = told;
    proven();
    if (first) show(true);
    drawStanding(told);
    agents.mode = told.mode;
    drawAround();
    count();
    // The others call sessions as the list does.
    if (list.ready || address.choice.view === "session") refresh();
    const { total } = told.sessions;
    return total.shown !== roster.size || total.older !== roster.older;
  },
  sessions(records, older) {
    roster.replace(records, older);
    if (!list.ready && address.choice.view !== "session") refresh();
    list.ready = true;
    checkpoints.name();
    agents.name();
    if (link.isAsking) {
      lanes.forget();
      session.change(roster.get(address.choice.session));
      settle(true);
    }
    list.draw();
    drawAround();
  },
  changes(changes) {
    proven();
    announce(roster.change(changes));
    lanes.change(changes);
    session.change(roster.get(address.choice.session));
    list.drawSoon();
    drawAround();
    const { view, session: id } = address.choice;
    settle(view !== "session" || changes.some((change) => change.session_id === id));
  },
  agent(change) {
    proven();
    agents.change(change);
    badge("agents", agents.troubled);
  },
  lost() {
    lanes.forget();
    setLink("lost", "connection lost");
    const words = provenAt
      ? `Connection lost. Last update ${hourAndMinute(provenAt)}; this page may be out of date. Reconnecting…`
      : "Wakeful does not answer. Reconnecting… Start it with `wakeful up`.";
    redraw(byId("banner"), words, () => spoken(words));
    byId("banner").hidden = false;
    drawAround();
  },
  loggedOut() {
    setLink("lost", "logged out");
    byId("banner").hidden = true;
    setText(byId("door-text"), overview ? LOGIN_OVER : (refused ?? "This browser is not logged in."));
    overview = null;
    roster.replace([], 0);
    agents.replace([]);
    checkpoints.replace([]);
    drawAround();
    show(false);
  },
});

list.adopting = (found) => confirmed({
  title: found.length === 1 ? "Adopt 1 session?" : `Adopt ${found.length} sessions?`,
  label: "Adopt",
  argv: found.length === 1 ? ["wakeful", "adopt", found[0].id] : null,
  consequence: `Wakeful may then act on them, such as resume them when they crash: ${found.map(called).slice(0, 12).join(", ")}`,
  give: () => adoptAll(found, guarded(post)),
});
list.canAdopt = post !== null;
byId("help").addEventListener("click", () => byId("keys").showModal());
byId("keys-close").addEventListener("click", () => byId("keys").close());
byId("past").addEventListener("change", ({ target }) => { address.adjust({ past: target.checked }); refresh(); });
byId("since").addEventListener("change", ({ target }) => { address.adjust({ since: target.value }); refresh(); });
byId("report-since").addEventListener("change", ({ target }) => address.adjust({ period: target.value }));
byId("session-back").addEventListener("click", (event) => { event.preventDefault(); address.back(addressOf({})); });
listen({ address, table: list.table, filter: byId("filter"), isNeeding: (row) => row.standing === "need you" });
addEventListener("hashchange", () => new URLSearchParams(location.hash.slice(1)).has("code") && location.reload());
setInterval(tick, 1000);
document.addEventListener("visibilitychange", tick);
link.open();
