// Every session the page knows, those that need a person first. Pure except for its own memory.

import { order, rowOf, says, STANDINGS } from "/rows.js";

const PREPARED_AT_ONCE = 100;

export class Roster {
  #rows = new Map();
  #sorted = null;
  #census = null;
  older = 0;

  get size() {
    return this.#rows.size;
  }

  get(id) {
    return this.#rows.get(id)?.record ?? null;
  }

  replace(records, older) {
    this.#rows = new Map(records.map((record) => [record.id, rowOf(record)]));
    this.#sorted = this.#census = null;
    this.older = older;
    this.#prepare();
  }

  /** Take newer records; returns those that newly need a person. */
  change(changes) {
    const calling = [];
    for (const { session_id: id, record } of changes) {
      const known = this.#rows.get(id);
      if (known && known.record.updated_at > record.updated_at) continue;
      const row = rowOf(record);
      if (row.standing === "need you" && known?.standing !== "need you") calling.push(record);
      this.#rows.set(id, row);
      this.#sorted = this.#census = null;
    }
    return calling;
  }

  /** The rows a choice leaves, and how many stand where among those that all of it but the standing leaves. */
  fitting(choice) {
    const words = choice.q.toLowerCase().split(/\s+/).filter(Boolean);
    const near = this.#all().filter((row) => fits(row, choice) && says(row, words));
    const counts = new Map(STANDINGS.map((standing) => [standing, 0]));
    for (const row of near) counts.set(row.standing, counts.get(row.standing) + 1);
    return {
      rows: choice.is.size ? near.filter((row) => choice.is.has(row.standing)) : near,
      tally: [...counts].filter(([standing, count]) => count || choice.is.has(standing)),
    };
  }

  /** The sessions, counted once until one of them changes: {needing, managed, drifted, found, projects}. */
  census() {
    this.#census ??= counted(this.#rows.values());
    return this.#census;
  }

  /** Living sessions that Wakeful only found. */
  found() {
    return this.#all().map((row) => row.record).filter(isFound);
  }

  #all() {
    this.#sorted ??= [...this.#rows.values()].sort(order);
    return this.#sorted;
  }

  /** The index for searches is built while the page is idle, a slice at a time. */
  #prepare() {
    const rows = [...this.#rows.values()];
    // Safari has no requestIdleCallback.
    const slice = () => {
      for (const row of rows.splice(-PREPARED_AT_ONCE)) says(row, [""]);
      if (rows.length) setTimeout(slice);
    };
    setTimeout(slice);
  }
}

const isFound = (record) => !record.managed && record.session_alive && record.actions.find((action) => action.name === "adopt")?.allowed !== false;

function counted(rows) {
  const projects = new Set();
  const census = { needing: 0, managed: 0, drifted: 0, found: 0 };
  for (const { record, standing } of rows) {
    census.needing += standing === "need you";
    census.managed += record.managed;
    census.found += isFound(record);
    census.drifted += record.findings.some((finding) => finding.code === "reader_drift");
    if (record.project) projects.add(record.project);
  }
  return { ...census, projects: [...projects].sort() };
}

function fits(row, { project, hands }) {
  return (!project || row.record.project === project) && (!hands || row.record.managed === (hands === "managed"));
}
