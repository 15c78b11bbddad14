"""The daemon's own log on standard error: its warnings, and of some parts every move with its time.

What others can cause (a request that fails, a log that cannot be read) must not fill a disk: equal warnings are counted
once there are many of them. Moves are never left out: there are as many as agents and cycles make.
"""

import logging
import sys
import time
from collections.abc import Callable
from typing import Final

# A person reads the first few of the same; the rest is a number.
EQUAL_MESSAGES_MAX: Final = 20
WINDOW_SECONDS: Final = 60.0
# Messages have few templates; one that is made up each time is cut off here.
TEMPLATES_MAX: Final = 1000


class RateLimit(logging.Filter):
    """Lets so many messages of one template through in a minute; the next one says how many were left out."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._now = now
        self._seen: dict[tuple[str, str], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        key, now = (record.name, str(record.msg)[:200]), self._now()
        began, count = self._seen.get(key, (now, 0))
        left_out = max(0, count - EQUAL_MESSAGES_MAX)
        if now - began >= WINDOW_SECONDS:
            began, count = now, 0
        if count == 0 and left_out:
            record.msg = f"{record.msg} (and {left_out} more like it in the minute before)"
        if len(self._seen) >= TEMPLATES_MAX and key not in self._seen:
            self._seen.clear()
        self._seen[key] = (began, count + 1)
        return count < EQUAL_MESSAGES_MAX


def limit_log() -> None:
    """Write what the daemon logs to standard error, equal messages not without end; asked twice it is once."""
    log = logging.getLogger("wakeful")
    if not log.handlers:
        written = logging.StreamHandler(sys.stderr)
        written.setLevel(logging.WARNING)
        written.addFilter(RateLimit())
        log.addHandler(written)


def show_moves(log: logging.Logger) -> None:
    """From now on; asked twice it is once."""
    if log.handlers:
        return
    written = logging.StreamHandler(sys.stderr)
    written.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    log.addHandler(written)
    log.setLevel(logging.INFO)
    log.propagate = False
