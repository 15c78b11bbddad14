"""Access log: one line for each request, without query strings, tokens or secrets.

A request only leaves a note. A thread writes the notes once a second, a limited number of lines at a time, and
starts the file again before it grows large. Wakeful never reads it.
"""

import asyncio
import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Final, NamedTuple

from wakeful.core.clock import iso
from wakeful.core.redaction import redact
from wakeful.core.text import plain

FLUSH_SECONDS: Final = 1.0
# A line takes 40 us to make: 200 of them are below 1 % of a core. Refusals have another 200.
RECORDS_MAX: Final = 200
PATH_CHARS_MAX: Final = 200
FILE_BYTES_MAX: Final = 1 << 20
FILES_KEPT: Final = 2
_REFUSED_STATUS_MIN: Final = 400
_log: Final = logging.getLogger("wakeful.access")


class AccessRecord(NamedTuple):
    """One answered request. `at` is the loop's time."""

    at: float
    method: str
    path: str
    status: int
    listener: str
    seconds: float


class AccessLog:
    """Collects records in the loop's thread; without requests it schedules nothing."""

    def __init__(self) -> None:
        self._pending: list[AccessRecord] = []
        self._skipped = 0
        self._timer: asyncio.TimerHandle | None = None

    def add(self, record: AccessRecord) -> None:
        if not _log.isEnabledFor(logging.INFO):
            return
        if len(self._pending) >= (RECORDS_MAX if record.status < _REFUSED_STATUS_MIN else 2 * RECORDS_MAX):
            self._skipped += 1
            return
        self._pending.append(record)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(FLUSH_SECONDS, self._flush)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            _write(*self._take_pending())

    def _flush(self) -> None:
        asyncio.get_running_loop().run_in_executor(None, _write, *self._take_pending())

    def _take_pending(self) -> tuple[list[AccessRecord], int]:
        taken = self._pending, self._skipped
        self._pending, self._skipped, self._timer = [], 0, None
        return taken


def _write(records: list[AccessRecord], skipped: int) -> None:
    # The loop uses CLOCK_MONOTONIC; people read dates.
    offset = time.clock_gettime(time.CLOCK_REALTIME) - time.clock_gettime(time.CLOCK_MONOTONIC)
    for record in records:
        path = plain(redact(record.path), PATH_CHARS_MAX)
        stamp = iso(record.at + offset)
        _log.info(
            "%s %s %s %d %s %.1f ms",
            stamp,
            record.method,
            path,
            record.status,
            record.listener,
            record.seconds * 1000,
        )
    if skipped:
        _log.info("and %d more", skipped)


class _PrivateLogFile(RotatingFileHandler):
    """Readable by its owner only; a full disk costs the line, not the daemon."""

    def _open(self) -> TextIOWrapper:
        descriptor = os.open(self.baseFilename, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        return os.fdopen(descriptor, "a", encoding="utf-8", errors="backslashreplace")

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the name is logging's
        del record


@contextmanager
def access_file(path: Path) -> Iterator[None]:
    """Write the log `wakeful.access` to this file, with two older ones beside it, while the context is open."""
    file = _PrivateLogFile(path, maxBytes=FILE_BYTES_MAX, backupCount=FILES_KEPT, delay=True)
    _log.addHandler(file)
    _log.setLevel(logging.INFO)
    try:
        yield
    finally:
        _log.removeHandler(file)
        _log.setLevel(logging.NOTSET)
        file.close()
