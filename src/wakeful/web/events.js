// Critical events, the newest first, as the log has them. Their words are only ever textContent.

import { sessionAddress } from "/address.js";
import { element, exactMoment, holding, inward, moment, redraw, spoken } from "/dom.js";
import { called, shortId, words } from "/rows.js";

const SHOWN_MAX = 300;
// An event has few; a program may write more.
const DETAILS_MAX = 12;
const DETAIL_CHARS_MAX = 400;
// A recovery names what it ended.
const TITLES = { session_recovered: "recovered from" };

/** `get(id)` is the record of a session that is listed. */
export function drawEvents({ rows, empty, more, table }, list, since, get) {
  const events = list.events.slice(-SHOWN_MAX).reverse();
  empty.hidden = events.length > 0;
  table.hidden = !events.length;
  const left = list.events.length - events.length + list.left_out;
  more.textContent = left ? `${left} older: wakeful events --since ${since}` : "";
  const named = events.map((event) => [event, nameOf(event, get)]);
  redraw(rows, named, () => named.map(line));
}

function nameOf({ session_id: id, project_key: project }, get) {
  const record = id ? get(id) : null;
  return record ? called(record) : project || shortId(id);
}

function line([event, name]) {
  const what = holding("td", "what", element("span", "event-name", TITLES[event.event] ?? `${words(event.event)}:`), " ", holding("span", "", ...spoken(words(event.reason))), details(event));
  what.dataset.event = event.event;
  const did = event.action_taken === "none" ? "" : words(event.action_taken);
  const who = event.session_id ? inward(name, sessionAddress(event.session_id)) : element("span", "soft", name || "–");
  return holding("tr", "", holding("td", "age", moment(event.timestamp)), holding("td", "session", who), what, element("td", "did", did));
}

function details(event) {
  const facts = [
    ["Time", exactMoment(event.timestamp)], ["Session", event.session_id], ["Project", event.project_key], ["Issue", event.github_issue],
    ...Object.entries(event.details ?? {}).slice(0, DETAILS_MAX).map(([name, value]) => [words(name), typeof value === "string" ? value : JSON.stringify(value)]),
  ];
  const list = facts.filter(([, value]) => value).map(([name, value]) =>
    holding("div", "", element("dt", "", name), holding("dd", "", typeof value === "string" ? value.slice(0, DETAIL_CHARS_MAX) : value)));
  return holding("details", "", element("summary", "", "details"), holding("dl", "", ...list));
}
