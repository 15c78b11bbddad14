"""System clock: implements `Clock` with the three clocks of the host, read together."""

import asyncio
import time
from typing import Final

from wakeful.core.clock import ClockReading, Instant, Sleep, Timeline

# Three calls take a microsecond. If they take longer, this process was stopped between them and they do not match.
READING_SECONDS_MAX: Final = 0.01
READING_ATTEMPTS_MAX: Final = 5


class SystemClock:
    def __init__(self) -> None:
        self._timeline = Timeline(_read())

    @property
    def jumps(self) -> int:
        """How often the host slept or its clock was set since this clock was made."""
        return self._timeline.jumps

    @property
    def last_sleep(self) -> Sleep | None:
        return self._timeline.last_sleep

    def now(self) -> Instant:
        return self._timeline.observe(_read())

    def instant(self, wall: float) -> Instant:
        # A record newer than the last reading would count as written at that reading: read again first.
        if wall > self._timeline.newest.wall:
            self.now()
        return self._timeline.instant(wall)

    async def sleep(self, seconds: float) -> None:
        await self.sleep_until(self.now().awake + seconds)

    async def sleep_until(self, awake: float) -> None:
        # A caller with a series of past deadlines must still let other tasks run.
        await asyncio.sleep(0)
        # The loop's timers use the same clock and may fire a tick early.
        while (seconds_left := awake - self.now().awake) > 0:  # noqa: ASYNC110 - it waits for time itself
            await asyncio.sleep(seconds_left)


def _read(attempts_left: int = READING_ATTEMPTS_MAX) -> ClockReading:
    began = time.clock_gettime(time.CLOCK_MONOTONIC)
    reading = ClockReading(
        wall=time.clock_gettime(time.CLOCK_REALTIME),
        monotonic=began,
        boottime=time.clock_gettime(time.CLOCK_BOOTTIME),
    )
    took_seconds = time.clock_gettime(time.CLOCK_MONOTONIC) - began
    if took_seconds > READING_SECONDS_MAX and attempts_left > 0:
        return _read(attempts_left - 1)
    return reading
