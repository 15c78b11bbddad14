// The report of a period, as `wakeful report` shows it, with links. Made again only on request: it reads git and logs.
// Text of agents in it enters through textContent only.

import { sessionAddress } from "/address.js";
import { byId, element, exactMoment, holding, inward, moment, redraw, setText, spoken } from "/dom.js";
import { ALIKE_MIN } from "/groups.js";
import { read } from "/link.js";
import { age, callText, shortId, verdictText } from "/rows.js";

// Git has six seconds, and each of sixty logs some 40 ms.
const READ_MS_MAX = 30000;
// As `reports/text.py`.
const PARTS = {
  waiting: ["◆", "waiting for you"], held: ["◆", "needs your decision"], died: ["✕", "died"], trouble: ["✕", "problem"],
  revived: ["↻", "resumed"], finished: ["✓", "finished"], working: ["●", "running"], quiet: ["○", "quiet"],
};

export class ReportView {
  #period = null;
  #reading = 0;

  constructor() {
    byId("report-again").addEventListener("click", () => this.#read());
  }

  show(period) {
    if (this.#period === period) return;
    this.#period = period;
    this.#read();
  }

  async #read() {
    const reading = (this.#reading += 1);
    setText(byId("report-when"), "Reading…");
    const report = await read(`/api/report?since=${this.#period}`, READ_MS_MAX);
    if (reading !== this.#reading) return;
    if (!report) {
      this.#period = null;
      return setText(byId("report-when"), "No report: Wakeful did not answer.");
    }
    byId("report-when").replaceChildren("As of ", exactMoment(report.until));
    redraw(byId("report-body"), report, () => drawn(report));
  }
}

function drawn(report) {
  const { sessions, totals, left_out: left, notes } = report;
  if (!sessions.length) return [holding("section", "note", element("h3", "", "No sessions were active"), holding("p", "", "since ", moment(report.since)))];
  const until = Date.parse(report.until);
  const groups = Object.entries(PARTS).map(([part, look]) => [look, sessions.filter((session) => session.part === part)]);
  return [
    holding("section", "card totals", element("p", "totals-line", sessionsText(report)), element("p", "soft", workText(totals)),
      ...notes.map((text) => holding("p", "soft", ...spoken(text)))),
    ...groups.filter(([, those]) => those.length).map(([look, those]) => section(look, those, until, left > 0)),
    ...(left ? [element("p", "soft", `and ${left.toLocaleString("en")} more, included in the totals above`)] : []),
  ];
}

/** `isCut`: more of them are not listed. */
function section([mark, name], sessions, until, isCut) {
  const sign = element("span", "part-mark", mark);
  sign.setAttribute("aria-hidden", "true");
  const made = holding("section", "part", holding("h3", "", sign, `${name} `, isCut ? null : element("span", "soft", String(sessions.length))), holding("ul", "card", ...lines(sessions, until, isCut)));
  made.dataset.part = sessions[0].part;
  return made;
}

/** Many with the same words are one line that opens. */
function lines(sessions, until, isCut) {
  const alike = Map.groupBy(sessions, ({ provider, words, id }) => (words ? `${provider} ${words}` : id));
  return [...alike.values()].flatMap((those) => {
    const found = those.map((session) => line(session, until));
    if (those.length < ALIKE_MIN) return found;
    const summary = holding("summary", "", element("b", "", `${isCut ? "at least " : ""}${those.length} sessions`), " ", ...spoken(those[0].words));
    return [holding("li", "", holding("details", "", summary, holding("ul", "", ...found)))];
  });
}

function line(session, until) {
  const { folder, project } = session;
  const name = session.short_name || session.name || project || shortId(session.id);
  const results = resultsText(session);
  return holding("li", "",
    holding("p", "report-head", inward(name, sessionAddress(session.id)), ...(project && project !== name ? [element("span", "soft", project)] : []), holding("span", "report-status", ...spoken(statusText(session, until)))),
    results ? element("p", "soft", results) : null,
    ...(folder?.newest_commits ?? []).map((commit) => holding("p", "commit", element("code", "", commit.id), " ", element("span", "", commit.untrusted))),
    session.held === null ? null : inward(`Decide: checkpoint ${session.held}`, "/?view=decisions", "decide"));
}

const needsText = (count) => `${count.toLocaleString("en")} ${count === 1 ? "needs" : "need"} you`;

function sessionsText({ totals, sessions }) {
  const shown = (count) => count.toLocaleString("en");
  const notes = totals.unchanged ? [`${shown(totals.unchanged)} without changes`] : [];
  // A session has one heading: one that finished a turn and runs again, waits or died is not under "finished".
  const elsewhere = sessions.filter(({ part, finished }) => finished && part !== "finished").length;
  if (elsewhere) notes.push(`${shown(elsewhere)} under other headings`);
  const about = notes.length ? ` (${notes.join(", ")})` : "";
  return [...(totals.needs_you ? [needsText(totals.needs_you)] : []), `${shown(totals.finished)} finished a turn${about}`, `${shown(totals.died)} died`, `${shown(totals.revived)} resumed`].join(", ");
}

function workText(totals) {
  const unpushed = totals.unpushed_commits ? `, ${counted(totals.unpushed_commits, "commit")} not pushed` : "";
  const money = totals.cost_usd === null ? "" : `, $${totals.cost_usd.toFixed(2)} at your prices`;
  return `${counted(totals.commits, "commit")}, ${counted(totals.changed_files, "changed file")}${unpushed} · ${shortCount(totals.input_tokens + totals.output_tokens)} tokens${money}`;
}

function statusText({ part, words, untrusted, since, state, health, finished }, until) {
  const about = untrusted ? callText(untrusted) : "";
  const ago = since ? age(since, until) : "";
  const joined = (...texts) => texts.filter(Boolean).join(" · ");
  if (part === "waiting") return joined(words || "asks you", about, ago && `for ${ago}`);
  if (["died", "trouble", "held", "revived"].includes(part)) return joined(words || verdictText({ state, health }), about, ago && `${ago} ago`);
  if (part === "working") return joined("running", about);
  if (!finished) return "no turn finished";
  return `${counted(finished, "turn")}${ago ? `, the last ${ago} ago` : ""}`;
}

function resultsText({ folder, unchanged, shared_with: shared, spent, cost_usd: cost }) {
  const parts = [...folderTexts(folder, unchanged)];
  if (shared) parts.push(`shared with ${counted(shared, "other session")}`);
  const tokens = spent ? spent.input_tokens + spent.output_tokens : 0;
  if (tokens) parts.push(`${spent.whole ? "" : "at least "}${shortCount(tokens)} tokens${cost === null ? "" : ` ($${cost.toFixed(2)})`}`);
  return parts.join(" · ");
}

function* folderTexts(folder, unchanged) {
  if (!folder) return;
  if (folder.problem) return yield folder.problem;
  if (unchanged) yield "finished without changes in its folder";
  else if (folder.commits || folder.touched_files) yield `${counted(folder.commits, "commit")}, ${counted(folder.changed_files, "changed file")}`;
  else if (folder.changed_files) yield `nothing new, ${counted(folder.changed_files, "changed file")} from before`;
  if (folder.unpushed_commits) yield `${counted(folder.unpushed_commits, "commit")} not pushed (${counted(folder.unpushed_files ?? 0, "file")})`;
}

const counted = (count, word) => `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;

function shortCount(tokens) {
  if (tokens < 10000) return tokens.toLocaleString("en");
  return tokens < 1e6 ? `${Math.round(tokens / 1000).toLocaleString("en")}k` : `${(tokens / 1e6).toFixed(1)}M`;
}
