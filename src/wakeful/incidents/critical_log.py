"""The file of critical events: append, read, archive by day, and delete old lines.

Archiving moves lines to the gzip of their day, and no line is lost or doubled at a kill. The remaining lines
are written to a new file; then a note records the size of each gzip; then the gzips grow; the rename of the
new file completes it. The next process finds the note with the new file and truncates the gzips, or the note
alone and removes it. All this is under the log's lock. Calls block: an event loop runs them in a thread.
Readers also get lines of other programs, and skip lines that are no event.
"""

import fcntl
import gzip
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import BytesIO
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from wakeful.core.decoding import json_decoder
from wakeful.core.fault_points import fault_point
from wakeful.incidents.critical_event import CriticalEvent, line_of, stamp, wall_of_stamp
from wakeful.incidents.line_log import (
    append,
    lock_file,
    read_lines,
    sync_folder,
    translate_errors,
    write_whole,
)

_FLAGS: Final = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class _Timestamped(Struct):
    timestamp: str


class _ArchiveNote(Struct, frozen=True):
    """The size in bytes of each gzip by name; 0 if it did not exist."""

    sizes: dict[str, int]


_decode_timestamped: Final = json_decoder(_Timestamped)
_decode_note: Final = json_decoder(_ArchiveNote)


def archive(path: Path, before_wall: float) -> int:
    """Move the lines from before that time to the gzips of their days; returns how many. Raises OSError."""
    return _remove_lines(path, before_wall, kept_in_gzip=True)


def forget(path: Path, before_wall: float) -> int:
    """Drop the lines from before that time; returns how many. Raises OSError."""
    return _remove_lines(path, before_wall, kept_in_gzip=False)


def recover_archive(path: Path) -> None:
    """Undo or finish the archiving that a killed process began. Call it under the log's lock."""
    new_log, note = _new_path(path), _note_path(path)
    if note.exists() and new_log.exists():
        for name, size in _decode_note(note.read_bytes()).sizes.items():
            _truncate(path.with_name(name), size)
        sync_folder(path.parent)
        fault_point("critical.archive.cut")
    # The note is deleted first: only a note beside a new log means that archiving was interrupted.
    note.unlink(missing_ok=True)
    for each in (new_log, _draft_path(path)):
        each.unlink(missing_ok=True)


def _remove_lines(path: Path, before_wall: float, *, kept_in_gzip: bool) -> int:
    if not os.path.lexists(path):
        return 0
    with lock_file(path) as file:
        recover_archive(path)
        days, rest, count = _split_by_day(_read_all(file), before_wall)
        if count > 0:
            with _new_log(path, rest):
                if kept_in_gzip:
                    _append_to_gzips(path, days)
                _new_path(path).replace(path)
                fault_point("critical.archive.replaced")
                sync_folder(path.parent)
        return count


@contextmanager
def _new_log(path: Path, content: bytes) -> Iterator[None]:
    """Write the remaining lines to a new file. A success leaves only the note, a failure leaves nothing."""
    file = os.open(_new_path(path), _FLAGS | os.O_EXCL, 0o600)
    try:
        # After the rename, a process that opens the log waits for this lock.
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        write_whole(file, content)
        os.fsync(file)
        fault_point("critical.archive.rest")
        yield
    finally:
        recover_archive(path)
        os.close(file)


def _append_to_gzips(path: Path, days: Mapping[str, bytes]) -> None:
    """Record the size of each gzip, then append to each."""
    gzips = {path.with_name(f"{path.stem}-{day}{path.suffix}.gz"): lines for day, lines in days.items()}
    sizes = {each.name: each.lstat().st_size if each.exists() else 0 for each in gzips}
    _append_bytes(_draft_path(path), msgspec.json.encode(_ArchiveNote(sizes)))
    _draft_path(path).replace(_note_path(path))
    sync_folder(path.parent)
    fault_point("critical.archive.noted")
    for each, lines in gzips.items():
        _append_bytes(each, gzip.compress(lines, mtime=0))
        fault_point("critical.archive.grown")


def _split_by_day(content: bytes, before_wall: float) -> tuple[dict[str, bytes], bytes, int]:
    """Old lines by day, the remaining lines, and the number of old lines.

    A line without a time has the time of the line before it.
    """
    days: dict[str, list[bytes]] = {}
    rest: list[bytes] = []
    wall = next((each for line in BytesIO(content) if (each := _line_time(line)) is not None), before_wall)
    for line in BytesIO(content):
        found = _line_time(line)
        wall = wall if found is None else found
        # An unterminated line is not a line yet.
        is_old = wall < before_wall and line.endswith(b"\n")
        (days.setdefault(stamp(wall)[:10], []) if is_old else rest).append(line)
    count = sum(1 for lines in days.values() for line in lines if line.strip())
    return {day: b"".join(lines) for day, lines in days.items()}, b"".join(rest), count


def _line_time(line: bytes) -> float | None:
    try:
        return wall_of_stamp(_decode_timestamped(line).timestamp)
    except msgspec.DecodeError:
        return None


def _read_all(file: int) -> bytes:
    with os.fdopen(os.dup(file), "rb") as content:
        content.seek(0)
        return content.read()


def _append_bytes(path: Path, content: bytes) -> None:
    file = os.open(path, _FLAGS, 0o600)
    try:
        write_whole(file, content)
        os.fsync(file)
    finally:
        os.close(file)


def _truncate(path: Path, size: int) -> None:
    if size == 0:
        path.unlink(missing_ok=True)
    else:
        file = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            os.ftruncate(file, size)
            os.fsync(file)
        finally:
            os.close(file)


def _new_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.new")


def _note_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.archiving")


def _draft_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.archiving.new")


# Events that were not archived stay for this long.
RETENTION_SECONDS: Final = 30 * 86_400.0
_decode: Final = json_decoder(dict[str, Any])


class CriticalLog:
    """One log. Every method raises LogFull, LogBusy or LogUnusable, and then nothing has changed."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, event: CriticalEvent) -> None:
        """Append one line durably."""
        line = line_of(event)
        with translate_errors(self.path), lock_file(self.path) as file:
            recover_archive(self.path)
            is_new = os.fstat(file).st_size == 0
            append(file, line)
            if is_new:
                sync_folder(self.path.parent)

    def recent(self, since_wall: float) -> list[dict[str, Any]]:
        """Every event since that time, oldest first."""
        with translate_errors(self.path):
            events = [decode_event(line) for line in read_lines(self.path)]
        timed = [(wall, event) for event in events if (wall := wall_time_of(event)) is not None]
        # Events of one second stay in the order in which they were written.
        return [event for wall, event in sorted(timed, key=itemgetter(0)) if wall >= since_wall]

    def archive(self, before_wall: float) -> int:
        """Move older lines to the gzip of their day, beside the log; returns how many."""
        with translate_errors(self.path):
            return archive(self.path, before_wall)

    def forget(self, before_wall: float) -> int:
        """Drop older lines that were never archived; returns how many."""
        with translate_errors(self.path):
            return forget(self.path, before_wall)


def decode_event(line: bytes) -> dict[str, Any]:
    """The event in a line; empty if there is none."""
    try:
        return _decode(line)
    except msgspec.DecodeError:
        return {}


def wall_time_of(event: dict[str, Any]) -> float | None:
    """The time of the event; None if it has none."""
    timestamp = event.get("timestamp")
    return wall_of_stamp(timestamp) if isinstance(timestamp, str) else None
