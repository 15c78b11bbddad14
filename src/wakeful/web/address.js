// What the address says: which view, which session, which search. A view can be kept, shared and gone back to.

/** A choice that includes every session. */
export const EVERYBODY = { q: "", is: new Set(), project: "", hands: "" };

const VIEWS = ["sessions", "decisions", "incidents", "agents", "events", "timeline", "report"];
// The two that show the list of sessions.
const LISTS = ["sessions", "timeline"];
const SINCE = ["24h", "7d", "30d"];
const PERIODS = ["12h", "24h", "7d"];

/** What an address asks for; whatever it does not know it leaves out. */
export function chosen(search) {
  const asked = new URLSearchParams(search);
  const view = VIEWS.includes(asked.get("view")) ? asked.get("view") : "sessions";
  return {
    view: asked.get("session") ? "session" : view,
    session: asked.get("session"),
    q: asked.get("q") ?? "",
    is: new Set((asked.get("is") ?? "").split(",").filter(Boolean)),
    project: asked.get("project") ?? "",
    hands: ["managed", "found"].includes(asked.get("hands")) ? asked.get("hands") : "",
    since: SINCE.includes(asked.get("since")) ? asked.get("since") : SINCE[0],
    past: asked.get("past") === "1",
    by: asked.get("by") === "project" ? "project" : "",
    period: PERIODS.includes(asked.get("period")) ? asked.get("period") : PERIODS[0],
    lists: !asked.get("session") && LISTS.includes(view),
  };
}

/** The address of a choice: only what differs from the plain page. */
export function addressOf(choice) {
  const asked = new URLSearchParams();
  if (choice.session) asked.set("session", choice.session);
  else if (choice.view && choice.view !== "sessions") asked.set("view", choice.view);
  if (choice.q) asked.set("q", choice.q);
  if (choice.is?.size) asked.set("is", [...choice.is].join(","));
  if (choice.project) asked.set("project", choice.project);
  if (choice.hands) asked.set("hands", choice.hands);
  if (choice.since && choice.since !== SINCE[0]) asked.set("since", choice.since);
  if (choice.past) asked.set("past", "1");
  if (choice.by) asked.set("by", choice.by);
  if (choice.period && choice.period !== PERIODS[0]) asked.set("period", choice.period);
  const text = asked.toString();
  return text ? `/?${text}` : "/";
}

export const sessionAddress = (id) => addressOf({ session: id });

/** Says where the page stands, and moves it. `moved(choice)` is called whenever it stands elsewhere. */
export class Address {
  #moved;
  choice;

  constructor(moved) {
    this.#moved = moved;
    this.choice = chosen(location.search);
    addEventListener("popstate", () => this.#take());
    document.addEventListener("click", (event) => this.#follow(event));
  }

  /** Whether the list leaves some sessions out. */
  get isNarrowed() {
    const { q, is, project, hands } = this.choice;
    return Boolean(q || is.size || project || hands);
  }

  /** A new place, which Back leaves again. */
  go(href) {
    if (href === location.pathname + location.search) return;
    history.pushState({ inward: true }, "", href);
    this.#take();
  }

  /** The same place, chosen otherwise. */
  adjust(change) {
    history.replaceState(history.state, "", addressOf({ ...this.choice, ...change }));
    this.#take();
  }

  /** Where one came from, if that was this page; else this place. */
  back(href) {
    if (history.state?.inward) history.back();
    else this.go(href);
  }

  #take() {
    const before = this.choice;
    this.choice = chosen(location.search);
    this.#moved(this.choice, before);
  }

  #follow(event) {
    const link = event.target.closest?.("a[data-inward]");
    if (!link || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.defaultPrevented) return;
    event.preventDefault();
    this.go(link.getAttribute("href"));
  }
}
