"""How fast sessions are brought back: one at a time after a burst, and not at all while most of them fail.

Fifty agents that start at once kill the host they come back to.
"""

import asyncio
from collections import deque
from typing import Final

from wakeful.core.clock import Clock

# The brake: more than a fifth given up within ten minutes.
BRAKE_SECONDS: Final = 600.0
BRAKE_SHARE: Final = 0.2
# Below this many a share means nothing.
BRAKE_ENDS_MIN: Final = 5


class Pace:
    """A bucket of tokens, refilled by time, with a brake."""

    def __init__(self, clock: Clock, every_seconds: float, burst: int) -> None:
        self._clock = clock
        self._every_seconds = every_seconds
        self._burst = burst
        self._in_line = asyncio.Lock()
        # When the bucket would be full again, if nobody took anything more.
        self._full_at = 0.0
        self._ends: deque[tuple[float, bool]] = deque()

    async def turn(self) -> None:
        """Return when it is this one's turn; first come, first served."""
        async with self._in_line:
            now = self._clock.now().awake
            full_at = max(self._full_at, now) + self._every_seconds
            free_at = full_at - self._burst * self._every_seconds
            if free_at > now:
                await self._clock.sleep_until(free_at)
            self._full_at = full_at

    def ended(self, *, gave_up: bool) -> None:
        """One was brought back; or one that was before is given up."""
        self._ends.append((self._clock.now().awake, gave_up))

    @property
    def braked_seconds(self) -> float:
        """For how long nothing more should be revived; 0 while most come back."""
        now = self._clock.now().awake
        while self._ends and now - self._ends[0][0] > BRAKE_SECONDS:
            self._ends.popleft()
        failed = [at for at, gave_up in self._ends if gave_up]
        revived = len(self._ends) - len(failed)
        if len(self._ends) < BRAKE_ENDS_MIN or len(failed) <= BRAKE_SHARE * revived:
            return 0.0
        return failed[0] + BRAKE_SECONDS - now
