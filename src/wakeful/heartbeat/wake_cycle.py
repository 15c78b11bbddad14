"""How many were woken in this cycle: what `max_wakes_per_cycle` is held against. A restart begins no new one."""

from collections.abc import Sequence

from wakeful.core.clock import Clock
from wakeful.core.moment import Instant


class WakeCycle:
    """Counts wakes from the first of them until the cycle is over."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self._seconds = seconds
        self._began_awake = clock.now().awake
        self._count = 0

    def take_up(self, given: Sequence[Instant]) -> None:
        """Go on with the wakes that an earlier daemon gave in the last so many seconds."""
        if given:
            self._began_awake, self._count = min(given).awake, len(given)

    @property
    def count(self) -> int:
        now = self._clock.now().awake
        if now - self._began_awake >= self._seconds:
            self._began_awake, self._count = now, 0
        return self._count

    def spend(self) -> None:
        self._count = self.count + 1

    def give_back(self) -> None:
        """Nothing was sent, so somebody else of this cycle may be woken."""
        self._count = max(0, self.count - 1)
