"""Named fault points at which a test may kill, fail or stall the real program.

Product code calls `reach("store.commit")` where a crash would matter; without a plan that costs one check of
a global. A plan comes from `install` or from the environment variable WAKEFUL_FAULTS (faults separated by
commas), so a test can end a real process at the n-th reach of a point. It never comes from a configuration.
"""

import errno
import os
import signal
import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, Self

from msgspec import Struct

from wakeful.core.errors import OperatorError

VARIABLE: Final = "WAKEFUL_FAULTS"
_ERRNO: Final[Mapping[str, int]] = {name: number for number, name in errno.errorcode.items()}


class BadFault(OperatorError):
    """Invalid fault {shown!r}: use name:n:action with the action kill, stall, raise:ENOSPC or raise:EIO."""

    code = "bad-fault"


class InjectedFault(Struct, frozen=True):
    """The action at the `nth` reach of `point`: `kill`, `stall`, or `raise:` and the name of an errno."""

    point: str
    nth: int
    action: str

    def __post_init__(self) -> None:
        kind, _, detail = self.action.partition(":")
        known = detail in _ERRNO if kind == "raise" else self.action in {"kill", "stall"}
        if not known or not self.point or self.nth < 1:
            raise BadFault(shown=f"{self.point}:{self.nth}:{self.action}")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `name:n:action` or raise BadFault."""
        point, _, rest = text.partition(":")
        nth, _, action = rest.partition(":")
        if not (nth.isascii() and nth.isdigit()):
            raise BadFault(shown=text)
        return cls(point, int(nth), action)


class FaultInjector:
    """Counts the points reached, from any thread, and carries out the faults that are due."""

    def __init__(self, faults: Iterable[InjectedFault] = ()) -> None:
        self._due = {(fault.point, fault.nth): fault.action for fault in faults}
        self._reach_counts: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._released = threading.Event()

    def on_reach(self, point: str) -> None:
        """Count this reach; end the process, raise OSError or stall when a fault is due at it."""
        with self._lock:
            self._reach_counts[point] += 1
            action = self._due.get((point, self._reach_counts[point]))
        if action is not None:
            self._carry_out(action)

    def release(self) -> None:
        """End all present and later stalls."""
        self._released.set()

    def _carry_out(self, action: str) -> None:
        if action == "kill":
            signal.raise_signal(signal.SIGKILL)
        if action == "stall":
            self._released.wait()
            return
        number = _ERRNO[action.removeprefix("raise:")]
        raise OSError(number, os.strerror(number))


class _EnvironmentFaultInjector(FaultInjector):
    """Placeholder that parses the variable once, when the first point is reached."""

    def on_reach(self, point: str) -> None:
        install(FaultInjector(InjectedFault.parse(each) for each in os.environ[VARIABLE].split(",")))
        fault_point(point)


_injector: FaultInjector | None = _EnvironmentFaultInjector() if os.environ.get(VARIABLE) else None


def install(plan: FaultInjector | None) -> FaultInjector | None:
    """Make `plan` the plan of this process (None: no faults) and return the previous one."""
    global _injector
    before, _injector = _injector, plan
    return before


def fault_point(point: str) -> None:
    """Mark a point where a fault would matter. Does nothing without a plan."""
    if _injector is not None:
        _injector.on_reach(point)
