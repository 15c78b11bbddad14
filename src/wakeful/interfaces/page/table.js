// The table of sessions. Everything a record says enters through textContent.

import { age, callText, doing, order, shortId, since, tone } from "/rows.js";

// More rows than anybody reads; the filter finds the rest.
const ROWS_SHOWN_MAX = 500;

export class Table {
  #body;
  #rows = new Map();
  #opened = new Set();

  constructor(body) {
    this.#body = body;
  }

  /** Show these records, moving and changing only the rows that differ. Returns how many were left out. */
  show(records) {
    const wanted = [...records].sort(order);
    const shown = wanted.slice(0, ROWS_SHOWN_MAX);
    const keep = new Set(shown.map((record) => record.id));
    for (const [id, row] of this.#rows) {
      if (!keep.has(id)) this.#remove(id, row);
    }
    let at = this.#body.firstElementChild;
    for (const record of shown) {
      const row = this.#rowOf(record);
      if (row.main === at) at = row.detail.nextElementSibling;
      else this.#body.insertBefore(row.main, at).after(row.detail);
    }
    return wanted.length - shown.length;
  }

  tick(now) {
    for (const row of this.#rows.values()) setText(row.age, age(since(row.record), now));
  }

  #remove(id, row) {
    row.main.remove();
    row.detail.remove();
    this.#rows.delete(id);
  }

  #rowOf(record) {
    const row = this.#rows.get(record.id) ?? this.#newRow(record.id);
    if (row.record !== record) this.#fill(row, record);
    return row;
  }

  #newRow(id) {
    const row = {
      main: element("tr"), detail: element("tr", "detail"), record: null,
      state: element("span", "state"), health: element("span", "health"), age: element("td", "age"),
      project: element("td", "project"), doing: element("button", "doing"), session: element("td", "session"),
      facts: element("td"),
    };
    row.doing.type = "button";
    row.doing.addEventListener("click", () => this.#toggle(id, row));
    const badges = element("td", "badges");
    badges.append(row.state, row.health);
    const doingCell = element("td", "what");
    doingCell.append(row.doing);
    row.main.append(badges, row.age, row.project, doingCell, row.session);
    row.facts.colSpan = 5;
    row.detail.append(row.facts);
    this.#rows.set(id, row);
    this.#open(id, row);
    return row;
  }

  #toggle(id, row) {
    if (!this.#opened.delete(id)) this.#opened.add(id);
    this.#open(id, row);
  }

  #open(id, row) {
    const open = this.#opened.has(id);
    row.detail.hidden = !open;
    row.doing.setAttribute("aria-expanded", String(open));
  }

  #fill(row, record) {
    row.record = record;
    row.main.dataset.tone = tone(record);
    row.main.dataset.id = record.id;
    setText(row.state, record.state);
    setText(row.health, record.health);
    row.health.dataset.health = record.health;
    setText(row.project, record.project || "–");
    setText(row.doing, doing(record) || "–");
    setText(row.session, shortId(record.id));
    row.session.title = record.id;
    setText(row.age, age(since(record), Date.now()));
    row.facts.replaceChildren(...facts(record));
  }
}

/** Why it stands where it stands, and the exact commands that can be run about it. */
function facts(record) {
  const parts = [];
  for (const finding of record.findings) {
    parts.push(fact(finding.code.replaceAll("_", " "), [finding.summary, ...finding.evidence]));
    if (finding.untrusted.length) parts.push(quoted(finding.untrusted));
  }
  for (const wait of record.expected_waits) {
    parts.push(fact(`waits for ${wait.kind}`, [wait.evidence]));
    if (wait.untrusted) parts.push(quoted([wait.untrusted]));
  }
  parts.push(fact("session", [record.id]));
  parts.push(fact("alive to", [record.alive_to.replaceAll("_", " ")]));
  if (record.broken_at) parts.push(fact("broken at", [record.broken_at.replaceAll("_", " ")]));
  if (record.cwd) parts.push(fact("folder", [record.cwd]));
  parts.push(fact("mode", [record.managed ? "managed: Wakeful may act" : "found: Wakeful only tells"]));
  for (const action of record.actions.filter((each) => each.allowed)) parts.push(command(action));
  return parts;
}

function fact(name, texts) {
  const line = element("p", "fact");
  line.append(element("b", "", name), element("span", "", texts.filter(Boolean).join(" · ")));
  return line;
}

function quoted(texts) {
  return element("pre", "untrusted", texts.map(callText).join("\n"));
}

function command(action) {
  const line = element("p", "fact");
  const text = action.argv.map((part) => (/^[\w@%+=:,./-]+$/.test(part) ? part : `'${part.replaceAll("'", "'\\''")}'`)).join(" ");
  const copy = element("button", "copy", "copy");
  copy.type = "button";
  copy.setAttribute("aria-label", `Copy the command to ${action.name}`);
  copy.addEventListener("click", async () => {
    await navigator.clipboard.writeText(text);
    copy.textContent = "copied";
  });
  line.append(element("b", "", action.name), element("code", "", text), copy);
  return line;
}

export function element(kind, className = "", text = "") {
  const made = document.createElement(kind);
  if (className) made.className = className;
  if (text) made.textContent = text;
  return made;
}

function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}
