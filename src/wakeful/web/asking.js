// The second click: what follows, the command that does the same, and what came of it. One dialog for all orders.

import { button, byId, command, element, holding, spoken } from "/dom.js";

/**
 * Ask before an order. `order`: {title, quoted, consequence, argv, label, fields, spell(values), give(values)}; `give` answers
 * {ok, body}, `spell` is the command with what the fields say, and `quoted` is text of an agent, kept apart from Wakeful's.
 * Returns once the dialog is closed.
 */
export function confirmed(order) {
  const dialog = byId("asking");
  const said = element("p", "said-back");
  said.setAttribute("role", "status");
  const buttons = element("div", "buttons");
  dialog.replaceChildren(...parts(order), said, buttons);
  offer(order, dialog, said, buttons);
  dialog.showModal();
  return new Promise((done) => dialog.addEventListener("close", done, { once: true }));
}

function parts({ title, quoted, consequence, argv, fields = [], spell = () => argv }) {
  const heading = element("h2", "", title);
  heading.id = "asking-title";
  return [heading, quoted ? element("pre", "untrusted", quoted) : null, holding("p", "", ...spoken(consequence)), ...fields, argv ? sameInTerminal(fields, spell) : null].filter(Boolean);
}

function sameInTerminal(fields, spell) {
  const spelled = () => command(spell(valuesIn(fields)), "do the same");
  const place = holding("p", "same", element("span", "", "In a terminal"), spelled());
  for (const field of fields) field.addEventListener("input", () => place.lastChild.replaceWith(spelled()));
  return place;
}

const valuesIn = (fields) => Object.fromEntries(fields.map((field) => field.querySelector("[name]")).map(({ name, value }) => [name, value]));

function offer(order, dialog, said, buttons) {
  const yes = button(order.label, () => carryOut(order, dialog, said, buttons), order.grave ? "button yes grave" : "button yes");
  buttons.replaceChildren(button("Back", () => dialog.close()), yes);
  queueMicrotask(() => (dialog.querySelector("select, textarea, input") ?? yes).focus());
}

async function carryOut(order, dialog, said, buttons) {
  for (const each of buttons.children) each.disabled = true;
  said.textContent = "Waiting for the result…";
  said.dataset.outcome = "";
  const answer = await order.give(valuesIn(order.fields ?? [])).catch(() => null);
  if (!dialog.open) return;
  said.replaceChildren(...spoken(outcome(answer)));
  said.dataset.outcome = isDone(answer) ? "done" : "refused";
  const again = answer && !answer.ok ? order.instead?.(answer.body) : null;
  if (again) return offer({ ...order, ...again }, dialog, said, buttons);
  const close = button("Close", () => dialog.close(), "button yes");
  buttons.replaceChildren(close);
  close.focus();
}

/** An action that was refused or not confirmed is not shown as done. */
export const isDone = (answer) => Boolean(answer?.ok) && (answer.body.outcome ?? "recovered") === "recovered";

// Values of the interface, as people read them; a confirmed result needs no word.
const OUTCOMES = { recovered: "", unverified: "unconfirmed", ineffective: "no effect", declined: "refused" };

/** The result of an action in words. */
export function outcome(answer) {
  if (!answer) return "Wakeful did not answer. The action may have run: check before you try again.";
  const { words, outcome: seen, detail, told } = answer.body;
  if (!answer.ok) return detail;
  return told ?? ([OUTCOMES[seen] ?? seen, words].filter(Boolean).join(": ") || "Done.");
}

/** The first option is what stands there before anybody chose. */
export function choiceField(name, label, options) {
  const select = element("select");
  select.name = name;
  for (const [value, text] of options) {
    const option = element("option", "", text);
    option.value = value;
    select.append(option);
  }
  return holding("label", "field", element("span", "", label), select);
}

export function textField(name, label) {
  const area = element("textarea");
  area.name = name;
  area.rows = 3;
  area.maxLength = 2000;
  return holding("label", "field", element("span", "", label), area);
}
