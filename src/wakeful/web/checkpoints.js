// What waits for a person's decision: what may have happened, each choice, what follows from it, and a second click.
// Everything in it may hold an agent's words and enters through textContent only.

import { sessionAddress } from "/address.js";
import { button, element, holding, inward, moment, setText, spoken, unmarked } from "/dom.js";
import { called, shortId } from "/rows.js";

const SHOWN_MAX = 50;
const LABELS = { continue: "Continue", done: "It has happened", rollback: "Roll back", abort: "Abort" };

/** Keeps the list. `post(path, order)` answers with {ok, body}; without it, only commands are shown. `get(id)` is a listed session. */
export class Checkpoints {
  #list;
  #more;
  #empty;
  #post;
  #get;
  #shown = new Map();

  constructor({ list, more, empty, post, get }) {
    this.#list = list;
    this.#more = more;
    this.#empty = empty;
    this.#post = post;
    this.#get = get;
  }

  /** One that is being decided on keeps its place: only what is new or gone is drawn. */
  replace(records) {
    const open = records.slice(0, SHOWN_MAX);
    const numbers = new Set(open.map((record) => record.number));
    for (const [number, made] of this.#shown) {
      if (numbers.has(number)) continue;
      made.remove();
      this.#shown.delete(number);
    }
    for (const record of open) {
      if (this.#shown.has(record.number)) continue;
      const made = this.#entry(record);
      this.#shown.set(record.number, made);
      this.#list.append(made);
    }
    this.name();
    const left = records.length - open.length;
    this.#more.textContent = left ? `${left} more: wakeful checkpoint list` : "";
    this.#empty.hidden = records.length > 0;
  }

  #entry(record) {
    const made = element("li", "card");
    made.dataset.checkpoint = record.number;
    const head = element("p", "checkpoint-head");
    head.append(
      element("b", "", `Checkpoint ${record.number}`),
      this.#subject(record),
      element("span", "badge", record.project || "no project"),
      element("span", "age", "since"),
      moment(record.opened_at),
    );
    const doubts = element("ul", "doubts");
    doubts.append(...record.may_have.map((line) => element("li", "", line)));
    const choices = element("div", "choices");
    made.append(head, element("p", "", "May have taken effect already:"), doubts, choices);
    this.#offer(record, choices);
    return made;
  }

  /** Call sessions as the list does, once it has arrived. */
  name() {
    for (const link of this.#list.querySelectorAll("[data-subject]")) {
      const session = this.#get(link.dataset.subject);
      setText(link, session ? called(session) : shortId(link.dataset.subject));
      link.nextElementSibling.hidden = link.textContent === link.nextElementSibling.textContent;
    }
  }

  #subject({ kind, subject }) {
    if (kind !== "session") return element("span", "", subject);
    const link = inward("", sessionAddress(subject));
    link.dataset.subject = subject;
    return link;
  }

  #offer(record, place) {
    const show = element("code", "", `wakeful checkpoint show ${record.number}`);
    if (!this.#post) return place.replaceChildren(...record.choices.map(spelled), show);
    const buttons = record.choices.map((choice) => {
      const made = button(labelOf(choice), () => this.#ask(record, choice, place));
      made.title = unmarked(choice.consequence);
      return made;
    });
    return place.replaceChildren(...buttons, show);
  }

  /** The second step: what follows, what is run, and the command that does the same. */
  #ask(record, choice, place) {
    const label = labelOf(choice);
    const [order, ...steps] = choice.commands;
    const yes = button(`Yes: ${label.toLowerCase()}`, () => this.#decide(record, choice, place));
    yes.classList.add("yes", "grave");
    const told = holding("p", "consequence", ...spoken(`${label}: ${choice.consequence}`));
    const runs = steps.map((step) => element("code", "step", step));
    place.replaceChildren(told, ...runs, yes, button("Back", () => this.#offer(record, place)), element("code", "", order));
    yes.focus();
  }

  async #decide(record, choice, place) {
    place.replaceChildren(element("p", "", "…"));
    const { path, order } = ordered(choice.name);
    const answer = await this.#post(`/api/checkpoints/${record.number}/${path}`, order).catch(() => null);
    const words = answer ? (answer.ok ? answer.body.words : answer.body.detail) : "Wakeful did not answer. The decision may have been stored: check before you try again.";
    const said = holding("p", "consequence", ...spoken(words));
    said.setAttribute("role", "status");
    // What was refused is offered again; what was decided goes with the next list.
    if (answer?.ok) place.replaceChildren(said);
    else place.replaceChildren(said, button("Back", () => this.#offer(record, place)));
  }
}

/** For a tab that decides nothing: what each choice leads to, and the command. */
function spelled(choice) {
  return holding("p", "spelled", element("b", "", labelOf(choice)), holding("span", "soft", ...spoken(choice.consequence)), element("code", "", choice.commands[0]));
}

const labelOf = ({ name }) => LABELS[name] ?? name;

function ordered(name) {
  const by = "web page";
  if (name === "done") return { path: "continue", order: { by, done: true } };
  return name === "rollback" ? { path: name, order: { by, dry_run: false } } : { path: name, order: { by } };
}
