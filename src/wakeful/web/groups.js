// Rows put together: by project if asked for, else many with one cause. Pure.

import { called } from "/rows.js";

// Fewer fit on a screen, and each row says more than their number.
export const ALIKE_MIN = 10;
const NAMED_MAX = 3;

/**
 * The rows with a head before each group, and without the rows of closed ones. `toggled`: the ids of groups that are not as
 * they are at first: projects open, causes closed. Projects with one session each get no heads, which would double the list.
 */
export function grouped(rows, byProject, toggled) {
  const keyOf = byProject ? ({ record }) => record.project || "" : causeOf;
  const groups = Map.groupBy(rows, keyOf);
  if (byProject && groups.size === rows.length) return rows;
  const found = [];
  for (const row of rows) {
    const key = keyOf(row);
    const members = groups.get(key);
    if (key === null || (!byProject && members.length < ALIKE_MIN)) {
      found.push(row);
    } else if (row === members[0]) {
      const head = headOf(key, members, byProject, toggled);
      found.push(head, ...(head.group.isOpen ? members : []));
    }
  }
  return found;
}

/** Sessions with the same words about what is wrong, of the same provider. */
function causeOf({ record }) {
  const [finding] = record.findings;
  return finding ? `${record.provider} ${finding.code} ${finding.summary}` : null;
}

function headOf(key, members, byProject, toggled) {
  const id = `group:${byProject ? "project" : "cause"}:${key}`;
  const isOpen = toggled.has(id) !== byProject;
  const needing = members.filter(({ standing }) => standing === "need you").length;
  const first = members[0].record;
  const words = byProject ? key || "no project" : first.findings[0].summary;
  const names = members.slice(0, NAMED_MAX).map(({ record }) => called(record));
  const left = members.length - names.length;
  const some = `${names.join(", ")}${left > 0 ? ` and ${left.toLocaleString("en")} more` : ""}`;
  return {
    id,
    // An open one is skipped on the way to its first row that needs a person.
    standing: needing && !isOpen ? "need you" : "",
    group: { words, count: members.length, needing, isOpen, byProject, about: byProject ? "" : `${first.provider} · ${some}`, row: members[0] },
  };
}
