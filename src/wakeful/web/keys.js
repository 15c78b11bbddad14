// The keyboard: one table of keys. A key that belongs to a field, a dialog or the browser is left to it.

import { EVERYBODY } from "/address.js";
import { byId } from "/dom.js";

const VIEWS = ["/", "/?view=decisions", "/?view=incidents", "/?view=agents", "/?view=events", "/?view=timeline", "/?view=report"];

/** `page`: {address, table, filter, isNeeding}. */
export function listen(page) {
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    const inField = event.target.matches?.("input, textarea, select");
    const act = inField ? FIELD[event.key] : ANYWHERE[event.key] ?? place(event.key);
    if (act && act(page, event) !== false) event.preventDefault();
  });
}

const ANYWHERE = {
  "/": (page) => {
    if (!page.address.choice.lists) page.address.go("/");
    page.filter.focus();
    page.filter.select();
  },
  "?": () => byId("keys").showModal(),
  j: inList((page) => page.table.step(1)),
  k: inList((page) => page.table.step(-1)),
  n: inList((page) => page.table.seek(page.isNeeding)),
  Escape: (page) => leave(page),
};

const FIELD = {
  Escape: (page, { target }) => {
    if (target === page.filter && target.value) return page.address.adjust({ q: "" });
    return target.blur();
  },
  Enter: (page, { target }) => (target === page.filter ? page.table.step(1) : false),
};

function place(key) {
  const href = VIEWS[Number(key) - 1];
  return href ? (page) => page.address.go(href) : null;
}

/** Elsewhere the key is not ours. */
function inList(act) {
  return (page) => (page.address.choice.lists ? act(page) : false);
}

function leave(page) {
  const { choice } = page.address;
  if (choice.view === "session") return page.address.back("/");
  if (choice.view === "sessions" || (choice.lists && page.address.isNarrowed)) return page.address.adjust(EVERYBODY);
  return page.address.go("/");
}
