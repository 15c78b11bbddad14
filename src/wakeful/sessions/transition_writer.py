"""Writes transitions to the store, in order and in batches, and retries when the store refuses.

Unwritten transitions wait in memory, up to WAITING_MAX; beyond that the oldest are dropped and counted. Of a
session that flaps only some are written (`transition_limit.py`). Memory and the logs hold the true state, so a
full disk delays no judging.
"""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from wakeful.core.errors import WorldError
from wakeful.sessions.transition_limit import TransitionLimit
from wakeful.storage.base import Store, Transition

BATCH_MAX: Final = 1000
WAITING_MAX: Final = 100_000
RETRY_SECONDS: Final = (0.5, 1.0, 2.0, 5.0, 15.0)
# Transitions that wait for the limit are checked this often, while there are any.
LIMITED_SECONDS: Final = 1.0

log = logging.getLogger("wakeful")


class TransitionWriter:
    """One task that writes the transitions given to `enqueue`."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._limit = TransitionLimit()
        self._waiting: list[Transition] = []
        self._has_work = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self.problem: str | None = None
        self.dropped_count = 0

    def enqueue(self, transitions: Sequence[Transition]) -> None:
        """Queue the transitions that the limit admits; beyond WAITING_MAX the oldest are dropped."""
        had_waiting = self._limit.has_waiting
        self._queue(self._limit.admit(transitions, _now()))
        if self._limit.has_waiting and not had_waiting:
            # The writer must check the limit from now on.
            self._has_work.set()

    def _queue(self, transitions: Sequence[Transition]) -> None:
        self._waiting.extend(transitions)
        excess = len(self._waiting) - WAITING_MAX
        if excess > 0:
            del self._waiting[:excess]
            self.dropped_count += excess
        if self._waiting:
            self._idle.clear()
            self._has_work.set()

    async def run(self) -> None:
        """Write until cancelled."""
        failures = 0
        while True:
            await self._wait_for_work()
            if await self._write_batch():
                failures = 0
                continue
            await asyncio.sleep(RETRY_SECONDS[min(failures, len(RETRY_SECONDS) - 1)])
            failures += 1

    async def _wait_for_work(self) -> None:
        """Return when there is something to write: queued transitions, or those that the limit releases by now."""
        while True:
            self._queue(self._limit.release(_now()))
            if self._waiting:
                return
            self._has_work.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(LIMITED_SECONDS if self._limit.has_waiting else None):
                    await self._has_work.wait()

    async def drain(self, deadline_seconds: float) -> None:
        """Wait until everything is written, or the deadline has passed."""
        self._queue(self._limit.release_all())
        try:
            async with asyncio.timeout(deadline_seconds):
                await self._idle.wait()
        except TimeoutError:
            log.warning("%d transitions were not stored before Wakeful ended", len(self._waiting))

    async def _write_batch(self) -> bool:
        # Taken out first: `enqueue` may drop the oldest waiting ones while this batch is being written.
        batch, self._waiting = self._waiting[:BATCH_MAX], self._waiting[BATCH_MAX:]
        try:
            await self._store.record(batch)
        except WorldError as error:
            if self.problem is None:
                log.error("transitions wait in memory: %s", error)  # noqa: TRY400 - logged once, without a traceback
            self.problem = str(error)
            self._waiting[:0] = batch
            return False
        self.problem = None
        if not self._waiting:
            self._has_work.clear()
            self._idle.set()
        return True


def _now() -> float:
    return asyncio.get_running_loop().time()
