"""The log of critical events on the disk: append, read back, archive, forget. Blocking: a loop calls it in a thread.

What an event says is decided in `domain/critical`. Readers get lines as they stand there, also those that other
programs wrote; what is no event is passed over.
"""

import os
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

import msgspec

from wakeful.core.decoding import json_decoder
from wakeful.incidents import archive
from wakeful.incidents.critical_event import CriticalEvent, line_of, wall_of_stamp
from wakeful.incidents.whole_lines import append, explained, locked, read_lines, sync_folder

# Events that were not archived stay for this long.
RETENTION_SECONDS: Final = 30 * 86_400.0
_decode: Final = json_decoder(dict[str, Any])


class CriticalLog:
    """One log. Every method raises LogFull, LogBusy or LogUnusable, and then nothing was changed."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, event: CriticalEvent) -> None:
        """Add one line; it is on the disk when this returns."""
        line = line_of(event)
        with explained(self.path), locked(self.path) as file:
            archive.settle(self.path)
            is_new = os.fstat(file).st_size == 0
            append(file, line)
            if is_new:
                sync_folder(self.path.parent)

    def recent(self, since_wall: float) -> list[dict[str, Any]]:
        """Every event since that time, oldest first."""
        with explained(self.path):
            events = [decoded(line) for line in read_lines(self.path)]
        timed = [(wall, event) for event in events if (wall := wall_of(event)) is not None]
        # Events of one second stay in the order in which they were written.
        return [event for wall, event in sorted(timed, key=itemgetter(0)) if wall >= since_wall]

    def archive(self, before_wall: float) -> int:
        """Move what is older to the gzip of its day, beside the log; how many lines."""
        with explained(self.path):
            return archive.archive(self.path, before_wall)

    def forget(self, before_wall: float) -> int:
        """Drop what is older and was never archived; how many lines."""
        with explained(self.path):
            return archive.forget(self.path, before_wall)


def decoded(line: bytes) -> dict[str, Any]:
    """The event in a line; empty if there is none."""
    try:
        return _decode(line)
    except msgspec.DecodeError:
        return {}


def wall_of(event: dict[str, Any]) -> float | None:
    """When it happened; None if it does not say so."""
    timestamp = event.get("timestamp")
    return wall_of_stamp(timestamp) if isinstance(timestamp, str) else None
