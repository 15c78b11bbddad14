"""A scripted Bot API server on loopback that speaks the real protocol, in a thread of its own.

Long polling with confirmation by offset, 409 for the older of two pollers, 401, 429, forms, JSON and uploads; people
who write, edit, forward, reply and press; and failures on order. The truth is in `rooms`: see bot_rooms.py.
"""

import asyncio
import json
import secrets
import threading
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from email.parser import BytesParser
from email.policy import HTTP
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import parse_qsl

from support.telegram_chats import BOT_ID, ChatMessage, ChatRoom, ChatRooms, Refusal

TOKEN: Final = f"{BOT_ID}:Scripted-Bot-Token-For-Tests-Only-000"
UPDATES_MAX: Final = 100
_TERMINATED: Final = (
    "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running"
)


def own_token() -> str:
    """A token for a gateway that really runs: a host has one gateway per token, and another test may run now."""
    return f"{BOT_ID}:{secrets.token_hex(16)}"


@dataclass(frozen=True)
class Fault:
    """How a call fails. `taken`: its effect happens anyway."""

    kind: str
    taken: bool = False
    refusal: Refusal | None = None
    result: Any = None


def flood(seconds: int) -> Fault:
    """429 with its waiting time."""
    words = f"Too Many Requests: retry after {seconds}"
    return refuse(429, words, retry_after=seconds)


def refuse(status: int, description: str, **parameters: int) -> Fault:
    """Any answer with a status."""
    return Fault("refuse", refusal=Refusal(status, description, **parameters))


def drop(*, taken: bool) -> Fault:
    """The connection is cut, before or after the call was carried out."""
    return Fault("drop", taken)


def hang(*, taken: bool) -> Fault:
    """The answer never comes."""
    return Fault("hang", taken)


def bad_gateway(*, taken: bool = False) -> Fault:
    """502 in HTML, as a front server says it."""
    return Fault("gateway", taken)


class BotApi:
    """One bot's server. A context manager; every method may be called from any thread."""

    def __init__(self, token: str = TOKEN) -> None:
        self.token = token
        self.rooms = ChatRooms()
        self.polls = 0
        self.conflicts = 0
        # Telegram's own pace: less than so long after a message or an edit in the same chat is a flood.
        self.pace_seconds = 0.0
        self._updates: list[dict[str, Any]] = []
        # As good as unique: sessions are named after them, and another test on this machine must not have the same.
        self._next_update = 1_000_000 + secrets.randbelow(900_000_000)
        self._faults: dict[str, list[Fault]] = {}
        self._spoken: dict[int, float] = {}
        self._changed = threading.Condition(threading.RLock())
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="bot-api", daemon=True)
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self._poller: asyncio.Future[None] | None = None
        self._newest_poll: object = None
        self._port = 0

    def __enter__(self) -> Self:
        self._thread.start()
        self.up()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.down()
        self._run(self._end_tasks())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    # People.

    def says(
        self,
        text: str,
        *,
        user: int = 1,
        chat: int | None = None,
        thread: int | None = None,
        reply_to: ChatMessage | None = None,
        **more: Any,
    ) -> int:
        """A person writes, in their own chat with the bot unless another is named; returns the update's number.

        `more` are further fields of the message: photo, caption, forward_origin, migrate_to_chat_id …
        """
        message = self._message(user, chat if chat is not None else user, thread)
        message |= {"text": text} if text else {}
        if reply_to is not None:
            message["reply_to_message"] = self.rooms.shape(reply_to)
        return self.gives({"message": message | more})

    def edits(self, text: str, message_id: int, *, user: int = 1, chat: int | None = None) -> int:
        """A person edits a message."""
        message = self._message(user, chat if chat is not None else user, None, message_id)
        return self.gives({"edited_message": message | {"text": text, "edit_date": message["date"] + 60}})

    def presses(self, said: ChatMessage, choice: str, *, user: int = 1) -> str:
        """A person presses a button under the bot's message, or pretends to; returns the press's id."""
        with self._changed:
            press_id = str(4_000_000 + self._next_update)
            self.rooms.presses[press_id] = ""
        query = {"id": press_id, "from": _person(user), "message": self.rooms.shape(said), "data": choice}
        self.gives({"callback_query": query | {"chat_instance": "1"}})
        return press_id

    def gives(self, update: dict[str, Any]) -> int:
        """Any update at all; it gets the next number unless it brings one."""
        with self._changed:
            number = int(update.get("update_id", self._next_update))
            self._next_update = number + 1
            self._updates.append({"update_id": number} | update)
        self._loop.call_soon_threadsafe(self._wake)
        return number

    def gives_raw(self, update: bytes) -> int:
        """Bytes in place of an update, `%d` in them for its number; the number."""
        with self._changed:
            number = self._next_update
            self._next_update = number + 1
            raw = update.replace(b"%d", b"%d" % number)
            self._updates.append({"update_id": number, "raw": raw})
        self._loop.call_soon_threadsafe(self._wake)
        return number

    def deletes(self, said: ChatMessage) -> None:
        """A person deletes the bot's message."""
        with self._changed:
            said.is_deleted = True

    # The truth.

    def room(self, chat: int) -> ChatRoom:
        return self.rooms.room(chat)

    def seen(self, chat: int = 1, thread: int | None = None) -> list[str]:
        """The bot's messages that a person sees there now."""
        with self._changed:
            return self.rooms.seen(chat, thread)

    def calls(self, method: str) -> list[dict[str, Any]]:
        """What this method was called with, in order."""
        with self._changed:
            return [given for name, given in self.rooms.called if name.lower() == method.lower()]

    @property
    def unconfirmed(self) -> int:
        """Updates that are not confirmed yet."""
        with self._changed:
            return len(self._updates)

    def wait(self, holds: Callable[[], bool], seconds: float = 30.0) -> None:
        """Return once the condition is true; checked after every call. Blocks: from a loop, call it in a thread."""
        with self._changed:
            assert self._changed.wait_for(holds, seconds), (
                f"never came about; calls: {self.rooms.called[-10:]}"
            )

    # What goes wrong.

    def fail(self, method: str, *faults: Fault) -> None:
        """Let the next calls of the method fail like this, one after the other."""
        with self._changed:
            self._faults.setdefault(method.lower(), []).extend(faults)

    def answers_instead(self, method: str, result: Any) -> None:
        """Let the next call of the method have this result."""
        self.fail(method, Fault("instead", result=result))

    def down(self) -> None:
        """Refuse connections, and cut every open one."""
        self._run(self._close())

    def up(self) -> None:
        """Listen again at the same address."""
        self._run(self._listen())

    # The protocol.

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._port, limit=2**20)
        self._port = self._server.sockets[0].getsockname()[1]

    async def _close(self) -> None:
        if self._server is not None:
            self._server.close()
        for writer in self._open:
            writer.transport.abort()

    async def _end_tasks(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            # Cancelled at our end: whoever reports it would be the server's own bookkeeping.
            with suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
                while (said := await self._exchange(reader)) is not None:
                    writer.write(said)
                    await writer.drain()
        finally:
            writer.transport.abort()
            self._open.discard(writer)

    async def _exchange(self, reader: asyncio.StreamReader) -> bytes | None:
        """One request and its answer; None: close the connection."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        fields = dict(line.lower().split(": ", 1) for line in head.splitlines()[1:] if ": " in line)
        body = await reader.readexactly(int(fields.get("content-length", 0)))
        token, _, method = head.split(" ", 2)[1].removeprefix("/bot").partition("/")
        if token != self.token:
            return _http(401, Refusal(401, "Unauthorized").body())
        given = _given(_header(head, "content-type"), body)
        try:
            return await self._answered(method, given)
        finally:
            with self._changed:
                self._changed.notify_all()

    async def _answered(self, method: str, given: dict[str, Any]) -> bytes | None:
        with self._changed:
            faults = self._faults.get(method.lower())
            fault = faults.pop(0) if faults else None
        try:
            if fault is not None and fault.refusal is not None:
                raise fault.refusal
            result: Any = await self._result(method, given) if fault is None or fault.taken else None
            if fault is None and method.lower() == "getupdates":
                return _http(200, b'{"ok": true, "result": [%b]}' % b",".join(map(_update, result)))
        except Refusal as refusal:
            return _http(refusal.status, refusal.body())
        if fault is None or fault.kind == "instead":
            return _http(200, {"ok": True, "result": fault.result if fault else result})
        if fault.kind == "hang":
            await asyncio.Event().wait()
        return _http(502, "<html>Bad Gateway</html>") if fault.kind == "gateway" else None

    async def _result(self, method: str, given: dict[str, Any]) -> Any:
        if method.lower() == "getupdates":
            return await self._poll(given)
        with self._changed:
            self._mind_the_pace(method, given)
            return self.rooms.answer(method, given)

    def _mind_the_pace(self, method: str, given: dict[str, Any]) -> None:
        if method not in {"sendMessage", "editMessageText"} or not self.pace_seconds:
            return
        now, chat = time.monotonic(), int(given["chat_id"])
        if now - self._spoken.get(chat, 0.0) < self.pace_seconds:
            raise Refusal(429, "Too Many Requests: retry after 1", retry_after=1)
        self._spoken[chat] = now

    async def _poll(self, given: dict[str, Any]) -> list[dict[str, Any]]:
        """Of two pollers the older one is refused."""
        self._newest_poll = mine = object()
        self._wake()
        self._confirm(int(given.get("offset", 0)))
        deadline = self._loop.time() + float(given.get("timeout", 0))
        while not (batch := self._batch(given)) and (left := deadline - self._loop.time()) > 0:
            self._poller = poller = self._loop.create_future()
            await asyncio.wait({poller}, timeout=left)
            if self._newest_poll is not mine:
                self.conflicts += 1
                raise Refusal(409, _TERMINATED)
        return batch

    def _wake(self) -> None:
        if self._poller is not None and not self._poller.done():
            self._poller.set_result(None)

    def _confirm(self, offset: int) -> None:
        with self._changed:
            self.polls += 1
            self._changed.notify_all()
            self._updates = [each for each in self._updates if each["update_id"] >= offset]

    def _batch(self, given: dict[str, Any]) -> list[dict[str, Any]]:
        with self._changed:
            return self._updates[: min(int(given.get("limit", UPDATES_MAX)), UPDATES_MAX)]

    def _message(
        self, user: int, chat: int, thread: int | None, message_id: int | None = None
    ) -> dict[str, Any]:
        with self._changed:
            room = self.rooms.room(chat)
            said = ChatMessage(message_id or room.ids(), chat, user, thread, [""])
            shape = self.rooms.shape(said)
            del shape["text"]
        return shape | {"from": _person(user)}

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(10)


def _person(user: int) -> dict[str, Any]:
    return {"id": user, "is_bot": False, "first_name": f"Person{user}", "username": f"person{user}"}


def _http(status: int, body: Any) -> bytes:
    if isinstance(body, bytes):
        encoded = body
    else:
        encoded = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    return f"HTTP/1.1 {status} Said\r\ncontent-length: {len(encoded)}\r\n\r\n".encode() + encoded


def _update(update: dict[str, Any]) -> bytes:
    raw = update.get("raw")
    return raw if isinstance(raw, bytes) else json.dumps(update).encode()


def _header(head: str, name: str) -> str:
    lines = [line for line in head.splitlines() if line.lower().startswith(f"{name}:")]
    return lines[0].partition(":")[2].strip() if lines else ""


def _given(kind: str, body: bytes) -> dict[str, Any]:
    """The parameters, however they were sent; what is JSON inside a form is read as such."""
    if kind.startswith("multipart/"):
        return _uploaded(kind, body)
    if kind.startswith("application/json"):
        given: dict[str, Any] = json.loads(body)
        return given
    pairs = parse_qsl(body.decode(), keep_blank_values=True)
    return {name: _nested(name, value) for name, value in pairs}


def _uploaded(kind: str, body: bytes) -> dict[str, Any]:
    message = BytesParser(policy=HTTP).parsebytes(f"content-type: {kind}\r\n\r\n".encode() + body)
    given: dict[str, Any] = {}
    for part in message.iter_parts():
        content = part.get_payload(decode=True)
        assert isinstance(content, bytes)
        name, filename = str(part.get_param("name", header="content-disposition")), part.get_filename()
        given[name] = (filename, content) if filename else _nested(name, content.decode())
    return given


def _nested(name: str, value: str) -> Any:
    return json.loads(value) if name not in {"text", "caption"} and value[:1] in {"{", "["} else value
