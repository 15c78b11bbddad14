// Every session the page knows, sorted by who needs somebody first. Pure but for its own memory.

import { order, rowOf, says, STANDINGS } from "/rows.js";

export class Roster {
  #rows = new Map();
  #sorted = null;
  older = 0;

  get size() {
    return this.#rows.size;
  }

  get(id) {
    return this.#rows.get(id)?.record ?? null;
  }

  replace(records, older) {
    this.#rows = new Map(records.map((record) => [record.id, rowOf(record)]));
    this.#sorted = null;
    this.older = older;
  }

  /** Take newer records; returns those that need somebody since this moment. */
  change(changes) {
    const calling = [];
    for (const { session_id: id, record } of changes) {
      const known = this.#rows.get(id);
      if (known && known.record.updated_at > record.updated_at) continue;
      const row = rowOf(record);
      if (row.standing === "need you" && known?.standing !== "need you") calling.push(record);
      this.#rows.set(id, row);
      this.#sorted = null;
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

  needing() {
    return this.#count((record, row) => row.standing === "need you");
  }

  managed() {
    return this.#count((record) => record.managed);
  }

  /** Living sessions that Wakeful only found. */
  found() {
    return this.#all().map((row) => row.record).filter((record) => !record.managed && record.session_alive);
  }

  drifted() {
    return this.#count((record) => record.findings.some((finding) => finding.code === "reader_drift"));
  }

  projects() {
    return [...new Set(this.#all().map((row) => row.record.project).filter(Boolean))].sort();
  }

  #all() {
    this.#sorted ??= [...this.#rows.values()].sort(order);
    return this.#sorted;
  }

  #count(matches) {
    let count = 0;
    for (const row of this.#rows.values()) count += matches(row.record, row);
    return count;
  }
}

function fits(row, { project, hands }) {
  return (!project || row.record.project === project) && (!hands || row.record.managed === (hands === "managed"));
}
