// The box for prompts to a managed session. The record says whether a prompt may be sent now, and why not.

import { isDone, outcome } from "/asking.js";
import { byId, command, element, redraw, spoken, unmarked } from "/dom.js";
import { called } from "/rows.js";

const FOUND = "Prompts can be sent to managed sessions only. Adopt it first.";

export class PromptBox {
  #post;
  #id = null;
  #reason = "";
  #drafts = new Map();
  // A prompt that is sent again under its key arrives once.
  #sent = { text: null, key: "" };
  #isSending = false;

  constructor(post) {
    this.#post = post;
    byId("prompt").addEventListener("input", ({ target }) => this.#drafts.set(this.#id, target.value));
    byId("prompt").addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this.#send();
    });
    byId("prompt-send").addEventListener("click", () => this.#send());
  }

  /** Another session: what was typed for this one stays with it. */
  forget(id) {
    this.#id = id;
    byId("prompt").value = this.#drafts.get(id) ?? "";
    this.#say("");
  }

  show(record) {
    const offer = record.actions.find(({ name }) => name === "send");
    const mayType = Boolean(this.#post && offer);
    byId("prompt-box").hidden = !mayType;
    this.#reason = offer?.allowed === false ? offer.reason : "";
    const send = byId("prompt-send");
    send.setAttribute("aria-disabled", String(Boolean(this.#reason)));
    send.title = this.#reason ? unmarked(this.#reason) : "Send (Ctrl+Enter)";
    redraw(byId("prompt-why"), [record.id, mayType, record.managed, this.#reason], () => {
      if (mayType) return this.#reason ? [element("b", "", "Not now: "), ...spoken(this.#reason)] : [];
      return offer ? [element("b", "", "Send a prompt"), " ", command(["wakeful", "send", called(record), "your prompt"], "send a prompt")] : [FOUND];
    });
  }

  async #send() {
    const [box, id] = [byId("prompt"), this.#id];
    const text = box.value;
    if (this.#reason || this.#isSending || !text.trim()) return box.focus();
    if (this.#sent.text !== text) this.#sent = { text, key: crypto.randomUUID() };
    this.#isSending = true;
    this.#say("Sending…");
    const answer = await this.#post(`/api/sessions/${encodeURIComponent(id)}/send`, { prompt: text }, { "idempotency-key": this.#sent.key }).catch(() => null);
    this.#isSending = false;
    const isSent = isDone(answer);
    if (answer) this.#sent = { text: null, key: "" };
    if (isSent) this.#drafts.delete(id);
    if (id !== this.#id) return;
    if (isSent) box.value = "";
    this.#say(outcome(answer), isSent ? "done" : "refused");
    box.focus();
  }

  #say(words, result = "") {
    byId("prompt-said").replaceChildren(...spoken(words));
    byId("prompt-said").dataset.outcome = result;
  }
}
