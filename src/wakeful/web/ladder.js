// The ladder of liveness as a column: green down to the deepest rung that is known to hold, a cross at the break.

import { element, holding } from "/dom.js";
import { words } from "/rows.js";

const RUNGS = { runtime: "tmux server", agent_process: "agent process", pane_process: "pane process" };
const MARKS = { alive: "", broken: "✕", unknown: "?", not_applicable: "" };
const HOLDS = { alive: "alive", broken: "gone too", unknown: "unknown", not_applicable: "not used" };

export function drawLadder(rungs) {
  const list = element("ol", "ladder");
  list.setAttribute("aria-label", "Liveness levels, from the host to the session's progress");
  const deepest = rungs.findLastIndex((each) => each.hold === "alive");
  const first = rungs.findIndex((each) => each.hold === "broken");
  const green = first < 0 ? deepest : Math.min(first, deepest);
  list.append(...rungs.map((each, at) => rung(each, at < green, at === first ? "broken here" : HOLDS[each.hold])));
  return list;
}

/** `linked`: the line to the next rung is green, because something below it is known to hold, and nothing above is broken. */
function rung({ rung: name, hold }, linked, says) {
  const made = holding("li", "", mark(hold), element("span", "rung", RUNGS[name] ?? words(name)), element("span", "hold", says));
  made.dataset.hold = hold;
  made.dataset.rung = name;
  if (linked) made.classList.add("linked");
  return made;
}

function mark(hold) {
  const made = element("span", "rung-mark", MARKS[hold]);
  made.setAttribute("aria-hidden", "true");
  return made;
}
