"""Logging of the daemon: silences libraries that log secret addresses, and rate-limits warnings.

A bot's token and the ping's address are parts of addresses. Warnings go to standard error. Outside causes (a
failed request, an unreadable log) must not fill a disk, so equal warnings are counted once there are many.
Transitions of agents and cycles are never left out: there are only as many as agents and cycles make.
"""

import logging
import sys
import time
from collections.abc import Callable
from typing import Final

_SILENCED_LOGGERS: Final = ("httpx", "httpcore", "telegram", "urllib3", "requests")


def silence_libraries() -> None:
    """Let them write nothing. What failed is told by whoever called them, without addresses."""
    for name in _SILENCED_LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)


# A person reads the first few of the same; the rest is a number.
EQUAL_MESSAGES_MAX: Final = 20
WINDOW_SECONDS: Final = 60.0
# Messages have few templates; one that is made up each time is cut off here.
TEMPLATES_MAX: Final = 1000
# asyncio puts the address of each object into its messages, so that no two of them are equal.
LOGGER_MESSAGES_MAX: Final = 100
MESSAGE_CHARS_MAX: Final = 8000


class LogRateLimit(logging.Filter):
    """Lets so many messages of one template through in a minute; the next one says how many were left out."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._now = now
        self._counts: dict[tuple[str, str], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        return self._may_pass(record, str(record.msg)[:200], EQUAL_MESSAGES_MAX) and self._may_pass(
            record, "", LOGGER_MESSAGES_MAX
        )

    def _may_pass(self, record: logging.LogRecord, template: str, most: int) -> bool:
        """Whether fewer than `most` of this template passed in this minute; an empty one stands for all of its logger."""
        key, now = (record.name, template), self._now()
        began, count = self._counts.get(key, (now, 0))
        left_out = max(0, count - most)
        if now - began >= WINDOW_SECONDS:
            began, count = now, 0
        if count == 0 and left_out:
            like_it = "like it" if template else "of this part"
            record.msg = f"{record.msg} (and {left_out} more {like_it} in the minute before)"
        if len(self._counts) >= TEMPLATES_MAX and key not in self._counts:
            self._counts.clear()
        self._counts[key] = (began, count + 1)
        return count < most


class ShorteningFormatter(logging.Formatter):
    """A message that quotes what came from outside, or a long traceback, is cut in its middle."""

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        half = MESSAGE_CHARS_MAX // 2
        return text if len(text) <= MESSAGE_CHARS_MAX else f"{text[:half]}\n[…]\n{text[-half:]}"


def limit_log() -> None:
    """Write the warnings of Wakeful and its libraries to standard error, never without end; asked twice it is once."""
    log = logging.getLogger()
    if not log.handlers:
        written = logging.StreamHandler(sys.stderr)
        written.setLevel(logging.WARNING)
        written.setFormatter(ShorteningFormatter())
        written.addFilter(LogRateLimit())
        log.addHandler(written)


def log_to_stderr(log: logging.Logger) -> None:
    """From now on; asked twice it is once."""
    if log.handlers:
        return
    written = logging.StreamHandler(sys.stderr)
    written.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    log.addHandler(written)
    log.setLevel(logging.INFO)
    log.propagate = False
