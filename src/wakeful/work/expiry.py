"""Ends the attempts whose lease has ended, by deadline. Nothing is polled each second; what is to be revived is told to
whoever revives.

After our own start, and after the host slept or its clock was set, owners get one lease's time to be heard again:
that nobody could hear them was not their doing.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

from wakeful.core.clock import Clock
from wakeful.core.errors import WorldError
from wakeful.core.leases import LEASE_SECONDS, Run
from wakeful.core.moment import JUMP_SECONDS_MIN
from wakeful.core.waiting import told_or_due
from wakeful.storage.store import Store

# Other processes claim on the same file without telling us; no lease of theirs is noticed later than this.
LOOK_SECONDS_MAX: Final = LEASE_SECONDS
# Between two looks: a crowd of owners that heartbeat in turn moves the next end all the time.
LOOK_SECONDS_MIN: Final = 1.0
GRACE_SECONDS: Final = LEASE_SECONDS

log = logging.getLogger("wakeful.expiry")


class RunExpiry:
    """One task that sleeps until the next lease could end. `expired` is told what has ended."""

    def __init__(
        self, store: Store, clock: Clock, expired: Callable[[Sequence[Run]], None] = lambda _runs: None
    ) -> None:
        self._store = store
        self._clock = clock
        self._expired = expired
        self._sooner = asyncio.Event()
        self._wall_minus_awake: float | None = None

    def look_sooner(self) -> None:
        """A lease was claimed or given back: the next end may be nearer than was known."""
        self._sooner.set()

    async def run(self) -> None:
        """Expire until cancelled. A store that refuses is asked again later."""
        while True:
            if self._is_unsure():
                await self._clock.sleep_until(self._clock.now().awake + GRACE_SECONDS)
            try:
                seconds = await self._expire_if_due()
            except WorldError as error:
                log.warning("leases could not be looked at: %s", error)
                seconds = LOOK_SECONDS_MAX
            await told_or_due(self._clock, self._sooner, self._clock.now().awake + seconds)
            self._sooner.clear()

    def _is_unsure(self) -> bool:
        """Whether heartbeats may have gone unheard: we have just started, the host slept, the clock was set."""
        now = self._clock.now()
        before, self._wall_minus_awake = self._wall_minus_awake, now.wall - now.awake
        return before is None or abs(self._wall_minus_awake - before) >= JUMP_SECONDS_MIN

    async def _expire_if_due(self) -> float:
        """How many seconds nothing will have to be done."""
        until = await self._store.next_expiry()
        if until is not None and until <= self._clock.now().wall:
            self._tell(await self._store.expire_runs())
            until = await self._store.next_expiry()
        if until is None:
            return LOOK_SECONDS_MAX
        return min(max(until - self._clock.now().wall, LOOK_SECONDS_MIN), LOOK_SECONDS_MAX)

    def _tell(self, runs: Sequence[Run]) -> None:
        for run in runs:
            said = "attempt %d of %s expired: its owner was not heard of; the work is %s"
            log.warning(said, run.attempt, run.work.id, run.work.state)
        if runs:
            self._expired(runs)
