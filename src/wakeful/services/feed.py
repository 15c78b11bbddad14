"""Pushes changes to whoever listens, batched: a message per change would cost 75 % of a core at 100 clients.

Of several changes of one session inside a batch one is sent, from what it first was to what it is now. A listener
that does not read is dropped, never waited for.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import contextmanager
from typing import Final

import msgspec
from msgspec import Struct

from wakeful.domain.agents import AgentRecord, AgentState
from wakeful.domain.ids import SessionId
from wakeful.domain.timers import SupervisionEvent

BATCH_SECONDS: Final = 0.05
# At 20 batches a second this is half a minute of not reading.
QUEUED_BATCHES_MAX: Final = 600
_encode: Final = msgspec.json.Encoder().encode


class Change(Struct, frozen=True, gc=False):
    """One message of the push feed: what a session was, what it is, why, and its record."""

    session_id: SessionId
    old_state: str | None
    state: str
    old_health: str | None
    health: str
    reason: str
    at: str
    record: msgspec.Raw


class AgentChange(Struct, frozen=True):
    """The feed's other message: what an agent of the hub was, what it is, why, since when, and its record."""

    id: str
    old_state: AgentState | None
    state: AgentState
    reason: str
    at: str
    record: AgentRecord


class Listener:
    """One subscriber's queue of encoded batches."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[bytes | None] = asyncio.Queue(QUEUED_BATCHES_MAX)
        self.dropped = False

    def offer(self, batch: bytes) -> None:
        """Queue a batch, or give the listener up if its queue is full."""
        if self.dropped:
            return
        try:
            self._queue.put_nowait(batch)
        except asyncio.QueueFull:
            self.end()

    def end(self) -> None:
        """Let the listener finish after what it has not read yet is thrown away."""
        self.dropped = True
        while not self._queue.empty():
            self._queue.get_nowait()
        self._queue.put_nowait(None)

    async def batches(self) -> AsyncIterator[bytes]:
        while (batch := await self._queue.get()) is not None:
            yield batch


class Feed:
    """Collects changes for BATCH_SECONDS, then hands one message to every listener."""

    def __init__(self) -> None:
        self._listeners: set[Listener] = set()
        self._changes: dict[SessionId, Change] = {}
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_heard(self) -> bool:
        return bool(self._listeners)

    def publish(self, changes: Iterable[Change]) -> None:
        """Announce changes; of several of one session the newest is sent, with what it was before the first."""
        if not self._listeners:
            return
        for change in changes:
            first = self._changes.get(change.session_id)
            self._changes[change.session_id] = change if first is None else _since(first, change)
        if self._timer is None and self._changes:
            self._timer = asyncio.get_running_loop().call_later(BATCH_SECONDS, self._send)

    def announce(self, change: AgentChange) -> None:
        """Tell of an agent at once: they change seldom, and a death is worth a message of its own."""
        message = b'{"agent":' + _encode(change) + b"}"
        for listener in self._listeners:
            listener.offer(message)

    def greet(self, overview: bytes) -> None:
        """Say hello again, with what the daemon now says of itself: it was paused, or goes on."""
        for listener in self._listeners:
            listener.offer(b'{"hello":' + overview + b"}")

    def supervise(self, event: SupervisionEvent) -> None:
        """Tell of a running prompt's timers."""
        message = b'{"supervision":' + _encode(event) + b"}"
        for listener in self._listeners:
            listener.offer(message)

    @contextmanager
    def listening(self) -> Iterator[Listener]:
        listener = Listener()
        self._listeners.add(listener)
        try:
            yield listener
        finally:
            self._listeners.discard(listener)

    def close(self) -> None:
        """End every listener, so that connections close by themselves."""
        if self._timer is not None:
            self._timer.cancel()
        for listener in self._listeners:
            listener.end()

    def _send(self) -> None:
        self._timer = None
        batch = b'{"changes":' + _encode(list(self._changes.values())) + b"}"
        self._changes.clear()
        for listener in self._listeners:
            listener.offer(batch)


def _since(first: Change, newest: Change) -> Change:
    """One change for both: whoever compares old and new misses nothing that lasted."""
    if (first.old_state, first.old_health) == (newest.old_state, newest.old_health):
        return newest
    return msgspec.structs.replace(newest, old_state=first.old_state, old_health=first.old_health)
