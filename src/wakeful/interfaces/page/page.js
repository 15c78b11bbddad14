// Joins the link to the table. Never stale green: without a proven link everything is grey and says from when it is.

import { Agents } from "/agents.js";
import { Checkpoints } from "/checkpoints.js";
import { Link, logIn, orders } from "/link.js";
import { matches, needsYou, tally } from "/rows.js";
import { Table, element } from "/table.js";

// Twice the time between two proofs, and one that takes its time.
const UNPROVEN_MS_MAX = 25000;
const byId = (id) => document.getElementById(id);
const table = new Table(byId("rows"));
const agents = new Agents(byId("agents"), byId("agent-rows"));
const records = new Map();
const filter = byId("filter");
let checkpoints = null;
let older = 0;
let provenAt = null;
let drawing = 0;

function drawSoon() {
  drawing ||= requestAnimationFrame(draw);
}

function draw() {
  drawing = 0;
  const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
  const fitting = [...records.values()].filter((record) => matches(record, words));
  const left = table.show(fitting);
  drawTally();
  drawMore(left);
  drawEmpty(fitting.length, words.length);
  const needing = [...records.values()].filter(needsYou).length;
  document.title = needing ? `(${needing}) Wakeful` : "Wakeful";
}

function drawTally() {
  const chips = tally(records.values()).map(([word, count]) => {
    const chip = element("li", "", `${count} ${word === "need you" && count === 1 ? "needs you" : word}`);
    chip.dataset.word = word;
    return chip;
  });
  byId("tally").replaceChildren(...chips);
}

function drawMore(left) {
  const parts = [];
  if (left) parts.push(`${left} more sessions: filter to see them.`);
  if (older) parts.push(`${older} older ${older === 1 ? "session is" : "sessions are"} folded: wakeful ls --all`);
  byId("more").textContent = parts.join(" ");
  byId("more").hidden = !parts.length;
}

function drawEmpty(shown, filtered) {
  byId("empty").hidden = shown > 0;
  document.querySelector("table").hidden = shown === 0;
  byId("empty-title").textContent = filtered ? "Nothing fits this filter" : "No agent is at work here";
  byId("empty-text").textContent = filtered
    ? `${records.size} sessions do not contain these words. Escape clears the filter.`
    : "Start Claude Code or Codex in any terminal and it appears here by itself. `wakeful doctor` says what Wakeful looks at.";
}

/** Who stopped Wakeful, in their own words: only ever textContent. */
function drawPause(pause) {
  byId("paused").hidden = !pause;
  if (!pause) return;
  const when = new Date(pause.since).toLocaleString([], { dateStyle: "medium", timeStyle: "short" });
  const why = pause.reason ? `: ${pause.reason}` : "";
  byId("paused").textContent = `PAUSED by ${pause.by} since ${when}${why}. Wakeful does nothing by itself until \`wakeful resume\`.`;
}

function proven() {
  provenAt = new Date();
  setLink("live", "live");
  byId("banner").hidden = true;
}

/** Ages go on; and what was not proven for long (the tab was hidden, the host slept) is not shown as live. */
function tick() {
  if (document.hidden) return;
  table.tick(Date.now());
  agents.show();
  if (provenAt && Date.now() - provenAt > UNPROVEN_MS_MAX && byId("link").dataset.link === "live") setLink("doubt", "checking…");
}

function setLink(state, text) {
  byId("link").dataset.link = state;
  byId("link-text").textContent = text;
  document.body.classList.toggle("lost", state !== "live");
}

function show(section) {
  byId("door").hidden = section !== "door";
  byId("board").hidden = section !== "board";
}

const MODES = {
  observe: "observe: acts on nothing",
  mine: "mine: heals only what it started or was given",
  all: "all: heals every session",
};

const link = new Link({
  /** Returns whether the list must be fetched anew: sessions that went away are not announced. */
  hello(overview) {
    proven();
    show("board");
    drawPause(overview.daemon.paused);
    const mode = MODES[overview.mode] ?? overview.mode;
    const notes = overview.daemon.eyes.filter((eye) => eye.slow).map((eye) => `${eye.name}: ${eye.slow}`);
    byId("standing").textContent = [`Mode ${mode}`, overview.daemon.host, ...overview.daemon.notes, ...notes].join(" · ");
    const { total } = overview.sessions;
    return total.shown !== records.size || total.older !== older;
  },
  sessions(page) {
    records.clear();
    older = page.older;
    for (const record of page.sessions) records.set(record.id, record);
    drawSoon();
  },
  changes(changes) {
    proven();
    for (const change of changes) {
      const known = records.get(change.session_id);
      if (!known || known.updated_at <= change.record.updated_at) records.set(change.session_id, change.record);
    }
    drawSoon();
  },
  agents(records) {
    agents.replace(records);
  },
  agent(change) {
    proven();
    agents.change(change);
  },
  checkpoints(records) {
    checkpoints.replace(records);
  },
  lost() {
    const when = provenAt?.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
    setLink("lost", "connection lost");
    byId("banner").textContent = when
      ? `Connection lost. What you see is from ${when}. Trying again…`
      : "Wakeful does not answer. Trying again… `wakeful up` starts it.";
    byId("banner").hidden = false;
  },
  loggedOut() {
    setLink("lost", "logged out");
    byId("banner").hidden = true;
    drawPause(null);
    records.clear();
    agents.replace([]);
    checkpoints.replace([]);
    byId("door-text").textContent = refused ?? "This browser is not logged in.";
    show("door");
  },
});

filter.value = new URLSearchParams(location.search).get("q") ?? "";
filter.addEventListener("input", () => {
  const query = filter.value ? `?q=${encodeURIComponent(filter.value)}` : "";
  history.replaceState(null, "", location.pathname + query);
  drawSoon();
});
addEventListener("keydown", (event) => {
  if (event.key === "/" && document.activeElement !== filter) {
    event.preventDefault();
    filter.focus();
  } else if (event.key === "Escape" && filter.value) {
    filter.value = "";
    filter.dispatchEvent(new Event("input"));
  }
});
addEventListener("hashchange", () => location.reload());
setInterval(tick, 1000);
document.addEventListener("visibilitychange", tick);

const refused = await logIn().catch(() => null);
checkpoints = new Checkpoints({
  section: byId("checkpoints"),
  list: byId("checkpoint-rows"),
  more: byId("checkpoints-more"),
  post: orders(),
});
link.open();
