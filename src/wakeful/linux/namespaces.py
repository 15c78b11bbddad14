"""Processes of containers under the numbers they have there: what one writes down means a stranger here, or nobody.

One pass over /proc knows everybody who was started before it, so that another one is made only for somebody younger.
"""

import os
import time

from wakeful.core.process import Process
from wakeful.linux import proc

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
# A start is rounded down to a tick, and a process is listed a moment after it was started.
_SLACK_TICKS = 2


class InnerProcesses:
    """Whoever lives in another namespace than ours, by number and start in there."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], Process] = {}
        self._seen_until = 0

    def find(self, pid: int, started: int) -> Process | None:
        """The process with this number in a namespace of its own; it may have ended since. Starts share one clock."""
        if started + _SLACK_TICKS >= self._seen_until:
            self._seen_until = int(time.clock_gettime(time.CLOCK_BOOTTIME) * _TICKS_PER_SECOND)
            self._known = _everybody_inside()
        return self._known.get((pid, started))


def _everybody_inside() -> dict[tuple[int, int], Process]:
    living = (each for row in proc.families().values() for each in row)
    numbered = ((each, inner_pid(each.pid)) for each in living)
    return {(pid, each.started): each for each, pid in numbered if pid is not None and pid != each.pid}


def inner_pid(pid: int) -> int | None:
    """The number a process has in its own namespace; None when it is gone or not ours to read."""
    for line in proc.status(pid).splitlines():
        if line.startswith(b"NSpid:"):
            return int(line.split()[-1])
    return None
