// Critical events, the newest first, as the log has them. Their words are only ever textContent.

import { sessionAddress } from "/address.js";
import { element, holding, inward, moment, redraw } from "/dom.js";
import { shortId, words } from "/rows.js";

const SHOWN_MAX = 300;

export function drawEvents({ rows, empty, more, table }, list, since) {
  const events = list.events.slice(-SHOWN_MAX).reverse();
  empty.hidden = events.length > 0;
  table.hidden = !events.length;
  const left = list.events.length - events.length + list.left_out;
  more.textContent = left ? `${left} older: wakeful events --since ${since}` : "";
  redraw(rows, events, () => events.map(line));
}

function line(event) {
  const what = holding("td", "event-what", element("span", "event-name", words(event.event)));
  what.dataset.event = event.event;
  const did = event.action_taken === "none" ? "" : words(event.action_taken);
  return holding("tr", "", holding("td", "age", moment(event.timestamp)), what, element("td", "project", event.project_key),
    element("td", "what", words(event.reason)), element("td", "did", did), holding("td", "session", who(event)));
}

const who = ({ session_id: id }) => (id ? inward(shortId(id), sessionAddress(id)) : element("span", "soft", "–"));
