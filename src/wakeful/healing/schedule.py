"""Schedules checks of sessions by deadline: one task for each session, never two at once for the same one.

A check that hangs delays no other session. The callback decides what a check does. A check that raised is
tried again; after unexpected errors, at growing intervals.
"""

import asyncio
import heapq
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, TypeVar

from wakeful.core.clock import Clock
from wakeful.core.errors import WakefulError
from wakeful.core.ids import SessionId
from wakeful.core.waiting import wait_for_event_or_deadline

# After a refusal by the store or a tool, the treatment is tried again after this.
RETRY_SECONDS: Final = 30.0
# After a bug the interval doubles up to this.
RETRY_SECONDS_MAX: Final = 3600.0

log = logging.getLogger("wakeful.healing")

Treat = Callable[[SessionId], Awaitable[Any]]
T = TypeVar("T")


class TreatmentScheduler:
    """Deadlines, and one task for each session that is being treated."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._due: list[tuple[float, SessionId]] = []
        self._busy: dict[SessionId, asyncio.Future[Any]] = {}
        # Sessions that became due during their treatment: they are treated once more.
        self._due_while_busy: set[SessionId] = set()
        self._wakeup = asyncio.Event()
        # Treatments in a row that failed because of a bug.
        self._failures: dict[SessionId, int] = {}

    def schedule(self, session_id: SessionId, in_seconds: float = 0.0) -> None:
        heapq.heappush(self._due, (self._clock.now().awake + in_seconds, session_id))
        self._wakeup.set()

    def occupy(self, session_id: SessionId, treatment: asyncio.Future[Any]) -> None:
        """Register a treatment: no other one of this session starts until it is done."""
        self._busy[session_id] = treatment
        treatment.add_done_callback(lambda _done: self._on_done(session_id))

    async def run_alone(self, session_id: SessionId, treatment: Coroutine[Any, Any, T]) -> T:
        """Run this treatment once no other one runs. It is finished even if the caller is cancelled."""
        await self.wait_idle(session_id)
        task = asyncio.ensure_future(treatment)
        self.occupy(session_id, task)
        return await asyncio.shield(task)

    async def wait_idle(self, session_id: SessionId) -> None:
        """Wait until it is not being treated."""
        while (busy := self._busy.get(session_id)) is not None:
            await asyncio.wait({busy})

    async def run(self, treat: Treat) -> None:
        """Treat the sessions that are due, until cancelled. A treatment that raises is logged and tried again."""
        try:
            while True:
                self._wakeup.clear()
                self._treat_due(treat)
                await wait_for_event_or_deadline(
                    self._clock, self._wakeup, self._due[0][0] if self._due else None
                )
        finally:
            busy = list(self._busy.values())
            for task in busy:
                task.cancel()
            await asyncio.gather(*busy, return_exceptions=True)

    def _treat_due(self, treat: Treat) -> None:
        now = self._clock.now().awake
        due: dict[SessionId, None] = {}
        while self._due and self._due[0][0] <= now:
            due[heapq.heappop(self._due)[1]] = None
        for session_id in due:
            if session_id in self._busy:
                self._due_while_busy.add(session_id)
            else:
                self.occupy(session_id, asyncio.create_task(self._run_treatment(session_id, treat)))

    async def _run_treatment(self, session_id: SessionId, treat: Treat) -> None:
        try:
            await treat(session_id)
        except WakefulError as error:
            log.warning("%s could not be treated: %s", session_id, error)
            self.schedule(session_id, RETRY_SECONDS)
        except Exception:
            # One session that cannot be treated must not stop the others, nor fill the log.
            failures = self._failures.get(session_id, 0)
            if not failures:
                log.exception("%s could not be treated", session_id)
            self._failures[session_id] = failures + 1
            self.schedule(session_id, min(RETRY_SECONDS * 2.0 ** min(failures, 10), RETRY_SECONDS_MAX))
        else:
            self._failures.pop(session_id, None)

    def _on_done(self, session_id: SessionId) -> None:
        self._busy.pop(session_id, None)
        if session_id in self._due_while_busy:
            self._due_while_busy.discard(session_id)
            self.schedule(session_id)
