"""FaultPlan: makes the real program fail at a named point, and records which points were reached.

It works on this process only; a child gets its faults through the environment variable WAKEFUL_FAULTS.
"""

import threading
from types import TracebackType
from typing import Final, Self

from wakeful.core import fault_points as faults

# Longer than any test needs to reach a point, and short enough to wait for.
REACH_SECONDS_MAX: Final = 10.0


class FaultPlan(faults.FaultInjector):
    """Faults as (point, nth, action), in force inside `with`; `points` lists every reach in order.

    An action is `kill`, `stall` (until `release()`), or `raise:ENOSPC`, `raise:EIO` and so on.
    """

    def __init__(self, *due: tuple[str, int, str]) -> None:
        super().__init__(faults.InjectedFault(*each) for each in due)
        self.points: list[str] = []
        self._reached_condition = threading.Condition()
        self._before: faults.FaultInjector | None = None

    def on_reach(self, point: str) -> None:
        with self._reached_condition:
            self.points.append(point)
            self._reached_condition.notify_all()
        super().on_reach(point)

    def wait_for(self, point: str) -> None:
        """Block until another thread has reached `point`; TimeoutError after ten seconds."""
        with self._reached_condition:
            if not self._reached_condition.wait_for(lambda: point in self.points, REACH_SECONDS_MAX):
                raise TimeoutError(point)

    def __enter__(self) -> Self:
        self._before = faults.install(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A stall that goes on would outlive the test and block its thread for ever.
        self.release()
        faults.install(self._before)
