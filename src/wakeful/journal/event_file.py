"""`events.ndjson`, the append-only event log of a journal, and the check of journaled files by hash.

The log is read from a cursor on. A journaled file that changed is a suspect: it is moved whole to
`.tmp/corrupt/`, within its file system and under a free name. Nothing is truncated or deleted.
"""

import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from wakeful.core.errors import OperatorError
from wakeful.incidents.line_log import append, lock_file, open_for_reading, sync_folder, translate_errors
from wakeful.journal.model import Trace, read_trace, trace_line
from wakeful.journal.recovery_rules import Suspect

# Bytes that a crash can leave around a line.
_BLANK: Final = b"\0 \t\r\n"
# Longer lines exist; an event that is not found within this is read again from the start.
_LINE_BYTES_MAX: Final = 64 * 1024
_READ_BYTES: Final = 1 << 20
# Recorded in place of the hash of a file that a person accepted: it is no longer compared.
ACCEPTED: Final = ""
_MISSING: Final = "it is gone"


class LocatedTrace(NamedTuple):
    """An event and the offset after its line."""

    trace: Trace
    end: int


class EventLogSlice(NamedTuple):
    """Events after a cursor, the end of the log, and notes about unreadable parts."""

    entries: tuple[LocatedTrace, ...]
    end: int
    notes: tuple[str, ...]

    @property
    def traces(self) -> tuple[Trace, ...]:
        return tuple(each.trace for each in self.entries)


class EventLog:
    """One log. Every method raises LogFull, LogBusy or LogUnusable, and then nothing was changed."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, trace: Trace) -> int:
        """Append one line durably; returns the offset after it."""
        with translate_errors(self.path), lock_file(self.path) as file:
            is_new = os.fstat(file).st_size == 0
            append(file, trace_line(trace))
            if is_new:
                sync_folder(self.path.parent)
            return os.fstat(file).st_size

    def size(self) -> int:
        """The size in bytes; 0 if there is no log."""
        with self._open() as file:
            return os.fstat(file).st_size if file is not None else 0

    def has_trace_at(self, trace_id: str, end: int) -> bool:
        """Whether the line that ends at this offset is the event with this id; false after the log was replaced."""
        if end <= 0:
            return False
        with self._open() as file:
            if file is None:
                return False
            before = os.pread(file, min(end, _LINE_BYTES_MAX), max(0, end - _LINE_BYTES_MAX))
        trace = read_trace(before.rstrip(_BLANK).rpartition(b"\n")[2])
        return len(before) == min(end, _LINE_BYTES_MAX) and trace is not None and trace.id == trace_id

    def read(self, cursor: int) -> EventLogSlice:
        """Every event after the cursor; all events if the cursor lies beyond the end."""
        with self._open() as file:
            if file is None:
                return EventLogSlice((), 0, ("events.ndjson is missing",) if cursor else ())
            return _read(file, cursor)

    @contextmanager
    def _open(self) -> Iterator[int | None]:
        with translate_errors(self.path):
            file = open_for_reading(self.path)
            try:
                yield file
            finally:
                if file is not None:
                    os.close(file)


def _read(file: int, cursor: int) -> EventLogSlice:
    size = os.fstat(file).st_size
    notes = []
    if not 0 <= cursor <= size:
        notes.append(
            f"events_cursor {cursor} is not within events.ndjson ({size} bytes): read from its start"
        )
        cursor = 0
    entries, unreadable, torn = _parse_lines(file, cursor)
    if unreadable:
        notes.append(f"{unreadable} line{'' if unreadable == 1 else 's'} of events.ndjson could not be read")
    if torn:
        notes.append(f"the last line of events.ndjson is torn ({torn} bytes)")
    return EventLogSlice(tuple(entries), size, tuple(notes))


def _parse_lines(file: int, cursor: int) -> tuple[list[LocatedTrace], int, int]:
    """The events, the number of unreadable lines, and the length of a torn last line."""
    entries, unreadable, torn, end = [], 0, 0, cursor
    with open(file, "rb", closefd=False) as stream:
        stream.seek(cursor)
        for line in stream:
            end += len(line)
            text = line.strip(_BLANK)
            trace = read_trace(text)
            if not line.endswith(b"\n"):
                torn = len(text)
            elif trace is not None:
                entries.append(LocatedTrace(trace, end))
            elif text:
                unreadable += 1
    return entries, unreadable, torn


class OutsideRoot(OperatorError):
    """{path} is outside the journal's folder {root}, or is one of the journal's own files."""

    code = "outside-root"


def resolve_inside(root: Path, path: str | os.PathLike[str]) -> Path:
    """The path below the root, with all links but the last resolved. Raises OutsideRoot."""
    given = root / path
    real_root = Path(os.path.realpath(root))
    found = Path(os.path.realpath(given.parent)) / given.name
    own = {".copilot", ".tmp", "gaia.db", "events.ndjson", ""}
    parts = found.relative_to(real_root).parts if found.is_relative_to(real_root) else ("",)
    if given.name in {"", ".", ".."} or not parts or parts[0] in own:
        raise OutsideRoot(path=path, root=root)
    return found


def fingerprint(path: Path) -> str:
    """The SHA-256 of a regular file. Raises OSError."""
    digest = hashlib.sha256()
    file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(file, "rb") as stream:  # noqa: PTH123 - pathlib cannot refuse links
        while part := stream.read(_READ_BYTES):
            digest.update(part)
    return digest.hexdigest()


def find_suspects(
    root: Path, corrupt: Path, known: Mapping[str, tuple[str, str]], stamp: str
) -> tuple[Suspect, ...]:
    """The journaled files (path to step and hash) that changed or are missing. Changed files are moved away."""
    found = []
    for name, (step, expected) in known.items():
        reason = _mismatch(root, name, expected)
        if reason is not None:
            moved_to = quarantine(root / name, corrupt, stamp) if reason != _MISSING else None
            found.append(Suspect(name, step, reason, str(moved_to.relative_to(root)) if moved_to else None))
    return tuple(found)


def quarantine(path: Path, corrupt: Path, stamp: str) -> Path:
    """Move a suspect to the folder for suspects; returns its new path. Raises LogFull or LogUnusable."""
    with translate_errors(path):
        corrupt.mkdir(mode=0o700, parents=True, exist_ok=True)
        number = 1
        target = corrupt / f"{path.name}-{stamp}"
        while target.exists() or target.is_symlink():
            number += 1
            target = corrupt / f"{path.name}-{stamp}-{number}"
        path.rename(target)
        sync_folder(corrupt)
        sync_folder(path.parent)
    return target


def _mismatch(root: Path, name: str, expected: str) -> str | None:
    if expected == ACCEPTED:
        return None
    try:
        found = fingerprint(resolve_inside(root, name))
    except FileNotFoundError:
        return _MISSING
    except OSError as problem:
        return f"it cannot be read: {problem.strerror}"
    return None if found == expected else "its content is not what the step left"
