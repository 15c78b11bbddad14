"""VirtualClock: a clock that only a test advances; the host can be suspended and its wall clock set.

It translates timestamps with the same Timeline as the real clock and never uses real time.
"""

import asyncio
import heapq
from collections.abc import Sized
from itertools import count
from typing import Final

from wakeful.core.clock import ClockReading, Instant, Sleep, Timeline

START_WALL: Final = 1_800_000_000.0
START_AWAKE: Final = 10_000.0
# A task that is still ready after so many turns of the loop never waits.
TURNS_MAX: Final = 100_000


class VirtualClock:
    """Implements core.clock.Clock. Time passes only when the test advances it."""

    def __init__(self, start_wall: float = START_WALL) -> None:
        self._awake = START_AWAKE
        self._wall = start_wall
        self._slept_seconds = 0.0
        self._timeline = Timeline(self._reading())
        # By deadline, then by arrival, so that equal deadlines wake in the order of the calls.
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._arrivals = count()

    @property
    def jumps(self) -> int:
        """How often the host slept or its clock was set, as of the last reading."""
        return self._timeline.jumps

    @property
    def last_sleep(self) -> Sleep | None:
        """The host's last sleep, as of the last reading."""
        return self._timeline.last_sleep

    def now(self) -> Instant:
        return self._timeline.observe(self._reading())

    def instant(self, wall: float) -> Instant:
        if wall > self._timeline.newest.wall:
            self.now()
        return self._timeline.instant(wall)

    def advance(self, seconds: float) -> None:
        """Let time pass with the host awake, all at once: every sleeper that is due wakes at the end."""
        self._move_to(self._awake + seconds)

    def suspend(self, seconds: float) -> None:
        """Let the host sleep: the wall clock goes on, but no deadline comes nearer."""
        self._wall += seconds
        self._slept_seconds += seconds

    def set_wall(self, wall: float) -> None:
        """Set the wall clock, as a person or a time server does."""
        self._wall = wall

    async def sleep(self, seconds: float) -> None:
        await self.sleep_until(self._awake + seconds)

    async def sleep_until(self, awake: float) -> None:
        if awake <= self._awake:
            await asyncio.sleep(0)
            return
        woken = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (awake, next(self._arrivals), woken))
        await woken

    async def run_for(self, seconds: float) -> None:
        """Let time pass from deadline to deadline; in between every task runs to its next wait."""
        end = self._awake + seconds
        await settle()
        while (deadline := self._next_deadline()) is not None and deadline <= end:
            self._move_to(deadline)
            await settle()
        self._move_to(end)
        await settle()

    def _reading(self) -> ClockReading:
        return ClockReading(self._wall, self._awake, self._awake + self._slept_seconds)

    def _move_to(self, awake: float) -> None:
        assert awake >= self._awake, "time does not go back; set_wall turns the wall clock back"
        self._wall += awake - self._awake
        self._awake = awake
        while (deadline := self._next_deadline()) is not None and deadline <= awake:
            heapq.heappop(self._sleepers)[2].set_result(None)

    def _next_deadline(self) -> float | None:
        """The first deadline with a sleeper that was not cancelled."""
        while self._sleepers and self._sleepers[0][2].done():
            heapq.heappop(self._sleepers)
        return self._sleepers[0][0] if self._sleepers else None


async def settle() -> None:
    """Let every task of this loop run until it waits. It does not wait for threads and other processes."""
    # asyncio has no public way to see whether a task is ready to run; counting turns would be a guess.
    ready: Sized = vars(asyncio.get_running_loop())["_ready"]
    for _ in range(TURNS_MAX):
        await asyncio.sleep(0)
        if not ready:
            return
    raise AssertionError(f"a task is still busy after {TURNS_MAX} turns of the loop")
