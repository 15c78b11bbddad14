"""Logging of the daemon: silences libraries that log secret addresses, and rate-limits warnings.

Bot tokens and the ping's secret are parts of addresses. Warnings go to standard error. Outside causes (a failed
request, an unreadable log) must not fill a disk, so many equal warnings are only counted. Transitions of agents
and cycles are never dropped: their number is limited by the agents and cycles.
"""

import logging
import sys
import time
from collections.abc import Callable
from typing import Final

from wakeful.core.text import without_hidden

_SILENCED_LOGGERS: Final = ("httpx", "httpcore", "telegram", "urllib3", "requests")


def silence_libraries() -> None:
    """Let them log nothing: their callers report failures without addresses."""
    for name in _SILENCED_LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)


# A person reads the first few equal messages; the rest are only counted.
EQUAL_MESSAGES_MAX: Final = 20
WINDOW_SECONDS: Final = 60.0
# Messages have few templates; this bounds templates that differ each time.
TEMPLATES_MAX: Final = 1000
# asyncio puts object addresses into its messages, so no two of them are equal.
LOGGER_MESSAGES_MAX: Final = 100
MESSAGE_CHARS_MAX: Final = 8000


class LogRateLimit(logging.Filter):
    """Limits messages of one template per minute; the next one says how many were left out."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._now = now
        self._counts: dict[tuple[str, str], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        return self._may_pass(record, str(record.msg)[:200], EQUAL_MESSAGES_MAX) and self._may_pass(
            record, "", LOGGER_MESSAGES_MAX
        )

    def _may_pass(self, record: logging.LogRecord, template: str, most: int) -> bool:
        """Whether fewer than `most` of this template passed in this minute; an empty one means the whole logger."""
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
    """Cuts the middle out of long messages, and removes terminal commands: a message may quote text from outside."""

    def format(self, record: logging.LogRecord) -> str:
        text = without_hidden(super().format(record), " ")
        half = MESSAGE_CHARS_MAX // 2
        return text if len(text) <= MESSAGE_CHARS_MAX else f"{text[:half]}\n[…]\n{text[-half:]}"


def limit_log() -> None:
    """Write warnings of Wakeful and its libraries to standard error, rate-limited. Repeated calls have no effect."""
    log = logging.getLogger()
    if not log.handlers:
        handler = logging.StreamHandler(sys.stderr)
        handler.setLevel(logging.WARNING)
        handler.setFormatter(ShorteningFormatter())
        handler.addFilter(LogRateLimit())
        log.addHandler(handler)


def log_to_stderr(log: logging.Logger) -> None:
    """Write this logger's messages with their time to standard error. Repeated calls have no effect."""
    if log.handlers:
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(ShorteningFormatter("%(asctime)s %(message)s"))
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False
