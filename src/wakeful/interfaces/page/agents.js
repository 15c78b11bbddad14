// The agents of the hub: a line each, with what it is and why. Everything in it enters through textContent only.

import { age } from "/rows.js";
import { element } from "/table.js";

// Who needs somebody comes first.
const ORDER = ["stale", "error", "unknown", "starting", "stopping", "running", "stopped"];

/** Keeps the list of agents; `show` draws it whole, for there are few. */
export class Agents {
  #list;
  #section;
  #records = new Map();

  constructor(section, list) {
    this.#section = section;
    this.#list = list;
  }

  replace(records) {
    this.#records = new Map(records.map((record) => [record.id, record]));
    this.show();
  }

  change({ record }) {
    this.#records.set(record.id, record);
    this.show();
  }

  show() {
    const records = [...this.#records.values()].sort(
      (one, other) => ORDER.indexOf(one.state) - ORDER.indexOf(other.state) || (one.id < other.id ? -1 : 1),
    );
    this.#section.hidden = !records.length;
    this.#list.replaceChildren(...records.map(line));
  }
}

function line(record) {
  const made = element("li");
  made.dataset.agent = record.id;
  const badge = element("span", "agent-state", record.state);
  badge.dataset.state = record.state;
  const since = element("span", "age", age(record.since, Date.now()));
  const why = record.state === "running" ? (record.session_id ?? "") : record.reason;
  made.append(badge, element("b", "", record.name), since, element("span", "agent-why", why));
  if (record.state === "stale") made.append(element("code", "", `wakeful attach ${record.name}`));
  return made;
}
