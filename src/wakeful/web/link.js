// The way to the daemon: the one-time login, the WebSocket, and the certainty that it is still alive.

const ANSWER_MS_MAX = 5000;
// Ten thousand records are 12 MB.
const LIST_MS_MAX = 20000;
// A daemon that hangs keeps its sockets open: only an answer shows that it lives.
const PROOF_MS = 10000;
const RETRY_MS_MIN = 500;
const RETRY_MS_MAX = 10000;
// A WebSocket that closed so often before its first message is kept away by something between.
const UNHEARD_MAX = 2;
// A list has ten thousand at most; more pages than this are not read.
const PAGES_MAX = 10;

/** Spend the code in the address, if there is one, and take it out of the address at once. */
export async function logIn() {
  const code = new URLSearchParams(location.hash.slice(1)).get("code");
  if (code === null) return null;
  history.replaceState(null, "", location.pathname + location.search);
  const answer = await fetch("/api/login", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ code }),
  });
  const body = await answer.json();
  if (answer.ok) {
    sessionStorage.setItem("csrf", body.csrf);
    return null;
  }
  return body.detail;
}

/** A way to give orders, for a tab that was logged in by its link; null for one that only has the cookie. */
export function orders() {
  const csrf = sessionStorage.getItem("csrf");
  return csrf === null ? null : async (path, order, headers = {}) => {
    const answer = await fetch(path, {
      method: "POST",
      headers: { ...headers, "content-type": "application/json", "x-wakeful-csrf": csrf },
      body: JSON.stringify(order),
    });
    return { ok: answer.ok, body: await answer.json() };
  };
}

/** The body of an answer; null if there is none, or it says no. */
export async function read(path, msMax = ANSWER_MS_MAX) {
  const answer = await ask(path, msMax).catch(() => null);
  if (answer?.ok) return answer.json().catch(() => null);
  leaveUnread(answer);
  return null;
}

/** A body that is not read holds its connection until it times out. */
function leaveUnread(answer) {
  answer?.body?.cancel();
}

/**
 * Keeps a WebSocket open and says what comes through it. Calls: hello, sessions, changes, agent, lost, loggedOut.
 * Without a WebSocket it asks for everything with each proof, and `isAsking` is true.
 */
export class Link {
  #tell;
  #socket = null;
  #waiting = null;
  #retryMs = RETRY_MS_MIN;
  #retry = 0;
  #proof = 0;
  #unheard = 0;
  #isHeard = false;
  isAsking = false;

  constructor(tell) {
    this.#tell = tell;
    addEventListener("online", () => this.open());
    document.addEventListener("visibilitychange", () => this.#prove());
  }

  async open() {
    clearTimeout(this.#retry);
    if (this.#socket) return;
    try {
      // Asked first, because a WebSocket that is refused does not say why.
      const answer = await ask("/api/status");
      leaveUnread(answer);
      if (answer.status === 401) this.#tell.loggedOut();
      else this.#connect();
    } catch {
      this.#lose(null);
    }
  }

  #connect() {
    if (!("WebSocket" in window) || this.#unheard >= UNHEARD_MAX) return this.#ask();
    const socket = new WebSocket(`ws://${location.host}/api/ws`);
    this.#socket = socket;
    this.#waiting = [];
    socket.onmessage = (event) => this.#hear(JSON.parse(event.data));
    socket.onclose = () => {
      if (socket === this.#socket && !this.#isHeard) this.#unheard += 1;
      this.#lose(socket);
    };
    this.#isHeard = false;
  }

  /** As if connected: each proof fetches the list. */
  #ask() {
    this.isAsking = true;
    this.#socket = { close() {} };
    this.#waiting = null;
    return this.#prove();
  }

  #hear(message) {
    if (message.hello) {
      this.#retryMs = RETRY_MS_MIN;
      this.#unheard = 0;
      this.#isHeard = true;
      this.#tell.hello(message.hello);
      this.#fetchAll();
      this.#proof = setTimeout(() => this.#prove(), PROOF_MS);
    } else if (message.status) {
      this.#tell.hello(message.status);
    } else if (message.agent) {
      this.#tell.agent(message.agent);
    } else if (message.supervision || message.gone) {
      // Timers of running prompts: a session's warnings come with its reasons. A session that is gone leaves with the
      // next list.
      return;
    } else if (this.#waiting) {
      this.#waiting.push(message.changes);
    } else {
      this.#tell.changes(message.changes);
    }
  }

  /** The whole list, and after it what changed while it was on its way. */
  async #fetchAll() {
    const socket = this.#socket;
    try {
      const [records, older] = await everySession();
      if (socket !== this.#socket) return;
      this.#tell.sessions(records, older);
      for (const changes of this.#waiting) this.#tell.changes(changes);
      this.#waiting = null;
    } catch {
      this.#lose(socket);
    }
  }

  async #prove() {
    clearTimeout(this.#proof);
    const socket = this.#socket;
    if (!socket || document.hidden) return;
    try {
      const answer = await ask("/api/status");
      if (!answer.ok) throw new Error("refused");
      const overview = await answer.json();
      if (socket !== this.#socket) return;
      const isOther = this.#tell.hello(overview);
      if (isOther || this.isAsking) await this.#refetch();
      this.#proof = setTimeout(() => this.#prove(), PROOF_MS);
    } catch {
      this.#lose(socket);
    }
  }

  #refetch() {
    this.#waiting ??= [];
    return this.#fetchAll();
  }

  #lose(socket) {
    if (socket !== this.#socket) return;
    clearTimeout(this.#proof);
    this.#socket = null;
    socket?.close();
    this.#tell.lost();
    this.#retry = setTimeout(() => this.open(), this.#retryMs);
    this.#retryMs = Math.min(RETRY_MS_MAX, this.#retryMs * 2);
  }
}

function ask(path, msMax = ANSWER_MS_MAX) {
  return fetch(path, { signal: AbortSignal.timeout(msMax), cache: "no-store" });
}

async function everySession() {
  const records = [];
  let older = 0;
  let cursor = "";
  for (let page = 0; page < PAGES_MAX; page += 1) {
    const body = await (await ask(`/api/sessions?include_health=true${cursor}`, LIST_MS_MAX)).json();
    for (const record of body.sessions) records.push(record);
    older = body.older;
    if (!body.next_cursor) break;
    cursor = `&cursor=${encodeURIComponent(body.next_cursor)}`;
  }
  return [records, older];
}
