"""Pushes changes of sessions, agents and prompt timers to subscribers, in batches.

One message for each change would cost 75 % of a core at 100 clients. Several changes of one session inside a
batch are sent as one, from its first old state to its newest. A subscriber that does not read is dropped; the
feed never waits for it.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from wakeful.core.ids import SessionId
from wakeful.sessions.prompt_timeouts import SupervisionEvent
from wakeful.sessions.session import TrackedSession, TransitionKey

BATCH_SECONDS: Final = 0.05
# In an outage hundreds of sessions join an incident one after the other.
STATUS_SECONDS: Final = 0.25
# At 20 messages a second this is half a minute of not reading.
QUEUED_MESSAGES_MAX: Final = 600
# All subscribers share the bytes of a message, so this bounds the queue of one and of all. 20,000 sessions that change
# at once are 24 MB.
QUEUED_BYTES_MAX: Final = 32 * 1024 * 1024
# A message in transit is copied for each subscriber, so a large batch is sent in pieces.
MESSAGE_BYTES_MAX: Final = 32 * 1024
_encode: Final = msgspec.json.Encoder().encode


class SessionChange(Struct, frozen=True, gc=False):
    """One change in the push feed: the state of a session before and after, the reason, and its record."""

    session_id: SessionId
    old_state: str | None
    state: str
    old_health: str | None
    health: str
    reason: str
    at: str
    record: msgspec.Raw


def change_of(session: TrackedSession, before: TransitionKey | None, reason: str) -> SessionChange:
    record = session.record
    assert record is not None, "a change follows a judgement"
    old_state, old_health = before[:2] if before else (None, None)
    body = msgspec.Raw(session.body())
    return SessionChange(
        record.id, old_state, record.state, old_health, record.health, reason, record.updated_at, body
    )


class FeedSubscriber:
    """One subscriber's queue of encoded messages; an entry is a batch of messages."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[Sequence[bytes]] = asyncio.Queue(QUEUED_MESSAGES_MAX)
        self._bytes = 0
        self.is_dropped = False

    def offer(self, messages: Sequence[bytes]) -> None:
        """Queue messages, or drop the subscriber if too many wait already."""
        if self.is_dropped:
            return
        self._bytes += _size(messages)
        if self._bytes > QUEUED_BYTES_MAX or self._queue.full():
            self.drop()
        else:
            self._queue.put_nowait(messages)

    def drop(self) -> None:
        """Discard unread messages and end the subscription."""
        self.is_dropped = True
        while not self._queue.empty():
            self._queue.get_nowait()
        self._queue.put_nowait(())

    async def batches(self) -> AsyncIterator[bytes]:
        while messages := await self._queue.get():
            for message in messages:
                if self.is_dropped:
                    return
                yield message
            self._bytes -= _size(messages)


class Feed:
    """Collects changes for BATCH_SECONDS, then sends them to every subscriber."""

    def __init__(self) -> None:
        self._subscribers: set[FeedSubscriber] = set()
        self._changes: dict[SessionId, SessionChange] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._status_timer: asyncio.TimerHandle | None = None

    @property
    def has_subscribers(self) -> bool:
        return bool(self._subscribers)

    def publish(self, changes: Iterable[SessionChange]) -> None:
        """Send changes with the next batch."""
        if not self._subscribers:
            return
        for change in changes:
            first = self._changes.get(change.session_id, change)
            if (first.old_state, first.old_health) != (change.old_state, change.old_health):
                change = replace(change, old_state=first.old_state, old_health=first.old_health)  # noqa: PLW2901
            self._changes[change.session_id] = change
        if self._timer is None and self._changes:
            self._timer = asyncio.get_running_loop().call_later(BATCH_SECONDS, self._send)

    def publish_gone(self, session_id: SessionId) -> None:
        """Send at once that a session is no longer known."""
        self._changes.pop(session_id, None)
        self._offer_all(b'{"gone":' + _encode(session_id) + b"}")

    def publish_agent_change(self, agent_change: bytes) -> None:
        """Send the encoded change of an agent at once: agents change seldom."""
        self._offer_all(b'{"agent":' + agent_change + b"}")

    def publish_overview(self, overview: bytes) -> None:
        """Send the daemon's overview again, after a pause began or ended."""
        self._offer_all(b'{"hello":' + overview + b"}")

    def publish_status_soon(self, overview: Callable[[], bytes]) -> None:
        """Send the daemon's overview, once for many changes of what it counts."""
        if self._subscribers and self._status_timer is None:
            self._status_timer = asyncio.get_running_loop().call_later(
                STATUS_SECONDS, self._send_status, overview
            )

    def publish_supervision(self, event: SupervisionEvent) -> None:
        self._offer_all(b'{"supervision":' + _encode(event) + b"}")

    @contextmanager
    def subscribe(self) -> Iterator[FeedSubscriber]:
        subscriber = FeedSubscriber()
        self._subscribers.add(subscriber)
        try:
            yield subscriber
        finally:
            self._subscribers.discard(subscriber)

    def close(self) -> None:
        """End every subscription, so that the connections close."""
        for timer in (self._timer, self._status_timer):
            if timer is not None:
                timer.cancel()
        for subscriber in self._subscribers:
            subscriber.drop()

    def _send(self) -> None:
        self._timer = None
        if not self._changes:
            # Those that changed are gone.
            return
        pieces = tuple(_split_messages(self._changes.values()))
        self._changes.clear()
        self._offer_all(*pieces)

    def _send_status(self, overview: Callable[[], bytes]) -> None:
        self._status_timer = None
        self._offer_all(b'{"status":' + overview() + b"}")

    def _offer_all(self, *messages: bytes) -> None:
        for subscriber in self._subscribers:
            subscriber.offer(messages)


def _split_messages(changes: Iterable[SessionChange]) -> Iterator[bytes]:
    """Messages of a bounded size, unless one change alone is larger."""
    piece, size = list[bytes](), 0
    for change in map(_encode, changes):
        if piece and size + len(change) > MESSAGE_BYTES_MAX:
            yield _encode_batch(piece)
            piece, size = [], 0
        piece.append(change)
        size += len(change)
    yield _encode_batch(piece)


def _encode_batch(changes: Iterable[bytes]) -> bytes:
    return b'{"changes":[' + b",".join(changes) + b"]}"


def _size(messages: Iterable[bytes]) -> int:
    return sum(map(len, messages))
