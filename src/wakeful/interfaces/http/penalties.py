"""Guessing costs growing time, paid by whoever guesses: nobody with a right credential ever waits here."""

import asyncio
from typing import Final

from wakeful.interfaces.http.refusals import TooManyFailures

FIRST_SECONDS: Final = 0.1
SECONDS_MAX: Final = 5.0
# After a minute without a failure the next one is a first one again.
FORGIVEN_AFTER_SECONDS: Final = 60.0
CALLERS_MAX: Final = 256
# Waiting costs a connection of the 512 there are; guessers must not take them all.
WAITING_MAX: Final = 32


class Penalties:
    """How often each caller failed lately: bounded, the one who failed longest ago forgotten first."""

    def __init__(self) -> None:
        self._failures: dict[str, tuple[int, float]] = {}
        self._waiting = 0

    def next_seconds(self, caller: str, now: float) -> float:
        """Count one more failure of this caller and say what it costs: twice the last one, up to the cap."""
        count, last_at = self._failures.pop(caller, (0, now))
        if now - last_at > FORGIVEN_AFTER_SECONDS:
            count = 0
        self._failures[caller] = (count + 1, now)
        if len(self._failures) > CALLERS_MAX:
            del self._failures[next(iter(self._failures))]
        # The exponent is bounded too: a million failures must not become a number of a million bits.
        return min(SECONDS_MAX, FIRST_SECONDS * 2.0 ** min(count, 16))

    async def pay(self, caller: str) -> None:
        """Wait for as long as this failure costs. Raises TooManyFailures at once if too many wait already."""
        seconds = self.next_seconds(caller, asyncio.get_running_loop().time())
        if self._waiting >= WAITING_MAX:
            raise TooManyFailures
        self._waiting += 1
        try:
            await asyncio.sleep(seconds)
        finally:
            self._waiting -= 1
