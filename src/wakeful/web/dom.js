// Small parts of the document. Whatever anybody wrote enters here, and only through textContent.

const PLAIN_WORD = /^[\w@%+=:,./-]+$/;

export const byId = (id) => document.getElementById(id);

export function element(kind, className = "", text = "") {
  const made = document.createElement(kind);
  if (className) made.className = className;
  if (text) made.textContent = text;
  return made;
}

/** The same with children instead of text. */
export function holding(kind, className, ...children) {
  const made = element(kind, className);
  made.append(...children.filter((child) => child !== null));
  return made;
}

export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function button(label, act, className = "button") {
  const made = element("button", className, label);
  made.type = "button";
  made.addEventListener("click", act);
  return made;
}

/** A button that is unavailable, with the reason. Not `disabled`: keyboard and screen reader must reach the reason. */
export function refused(made, label, reason) {
  made.setAttribute("aria-disabled", "true");
  made.setAttribute("aria-label", `${label}: unavailable, ${unmarked(reason)}`);
  made.title = unmarked(reason);
  return made;
}

/** The unavailable actions, each reason once: [[label, reason]]. */
export function refusals(pairs) {
  const labels = Map.groupBy(pairs, ([, reason]) => reason);
  return [...labels].map(([reason, those]) => holding(
    "p", "refusal", element("b", "", `${those.map(([label]) => label).join(", ")} unavailable`), " ", ...spoken(reason),
  ));
}

/** A link within the page: the router takes it, a middle click opens a tab. */
export function inward(label, href, className = "") {
  const made = element("a", className, label);
  made.href = href;
  made.dataset.inward = "";
  return made;
}

/** Text that may quote other text in backquotes, which becomes code. */
export function spoken(text) {
  const pieces = text.split("`");
  // Without its partner the last backquote is only a character.
  if (pieces.length % 2 === 0) pieces.push(`${pieces.splice(-2).join("`")}`);
  return pieces.map((piece, at) => (at % 2 ? element("code", "said", piece) : document.createTextNode(piece)));
}

/** A command as a person would type it, with a button that copies it. */
export function command(argv, name) {
  const text = commandLine(argv);
  const copy = button("Copy", async () => {
    await navigator.clipboard.writeText(text);
    copy.textContent = "Copied";
  }, "copy");
  copy.setAttribute("aria-label", `Copy the command to ${name}`);
  return holding("span", "command", element("code", "", text), copy);
}

/** As `command_line` of resuming.py: what a shell is to run is typed as it is. */
function commandLine(argv) {
  const inShell = argv.length === 3 && argv[0] === "sh" && argv[1] === "-c";
  return inShell ? argv[2] : argv.map(quoted).join(" ");
}

function quoted(part) {
  return PLAIN_WORD.test(part) ? part : `'${part.replaceAll("'", "'\\''")}'`;
}

/** The words without the marks of `spoken`, where there is no room for code: a title, a label, an announcement. */
export const unmarked = (text) => text.replaceAll("`", "");

export const moment = (stamp) => timed(stamp, at(stamp));

/** With seconds, for details. */
export const exactMoment = (stamp) => timed(stamp, at(stamp, new Date(), hourMinuteAndSecond));

function timed(stamp, text) {
  const made = element("time", "", text);
  made.dateTime = stamp;
  made.title = new Date(stamp).toLocaleString([], { dateStyle: "full", timeStyle: "medium" });
  return made;
}

/** `14:03` of today, `15 Jan 14:03` of any other day. */
export function at(stamp, now = new Date(), clockOf = hourAndMinute) {
  const when = new Date(stamp);
  const clock = clockOf(when);
  if (when.toDateString() === now.toDateString()) return clock;
  return `${when.toLocaleDateString([], { day: "numeric", month: "short" })} ${clock}`;
}

export const hourAndMinute = (when) => when.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });

const hourMinuteAndSecond = (when) => when.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });

const drawnFrom = new WeakMap();

/**
 * Draw a place from a value, unless it shows that value: a clock closes nothing that a person opened. The focus stays with
 * what has the same name afterwards.
 */
export function redraw(place, value, make) {
  const key = JSON.stringify(value);
  if (drawnFrom.get(place) === key) return;
  drawnFrom.set(place, key);
  const focused = place.contains(document.activeElement) ? named(document.activeElement) : null;
  place.replaceChildren(...make());
  if (focused === null) return;
  [...place.querySelectorAll("a, button, summary")].find((each) => named(each) === focused)?.focus({ preventScroll: true });
}

const named = (each) => each.dataset.action ?? each.getAttribute("aria-label") ?? each.textContent;

export function clear(place) {
  drawnFrom.delete(place);
  place.replaceChildren();
}
