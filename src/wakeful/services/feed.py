"""Pushes transitions to whoever listens, batched: a message per change would cost 75 % of a core at 100 clients.

A listener that does not read is dropped, never waited for.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import contextmanager
from typing import Final

BATCH_SECONDS: Final = 0.05
# At 20 batches a second this is half a minute of not reading.
QUEUED_BATCHES_MAX: Final = 600


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
    """Collects encoded changes for BATCH_SECONDS, then hands one message to every listener."""

    def __init__(self) -> None:
        self._listeners: set[Listener] = set()
        self._changes: dict[str, bytes] = {}
        self._timer: asyncio.TimerHandle | None = None

    def publish(self, changes: Iterable[tuple[str, bytes]]) -> None:
        """Announce changes by key; of several with one key inside a batch the newest is sent."""
        if not self._listeners:
            return
        self._changes.update(changes)
        if self._timer is None and self._changes:
            self._timer = asyncio.get_running_loop().call_later(BATCH_SECONDS, self._send)

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
        batch = b'{"changes":[' + b",".join(self._changes.values()) + b"]}"
        self._changes.clear()
        for listener in self._listeners:
            listener.offer(batch)
