"""Reads files safely below a folder and from other programs, and shares a status line between processes.

No symlink is followed below the folder, and only regular files count. The open file is checked, not its name,
so it cannot be replaced in between. `ProblemFile` holds one line of a process for the others; it counts only
while its writer lives.
"""

import logging
import os
import stat
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from wakeful.core.decoding import decode_json
from wakeful.core.errors import OperatorError
from wakeful.core.process import Process, ProcessState
from wakeful.linux import proc

_STEP: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
# Opening a pipe would block until its other end is opened.
_LAST: Final = _STEP | os.O_NONBLOCK | os.O_NOCTTY


def owner_only(path: str, flags: int) -> int:
    """For `open(path, "wb", opener=owner_only)`: only the owner can read the file, whatever the umask."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


class NotInside(OperatorError):
    """This file cannot be sent: {reason}."""

    code = "not-inside"


def read_inside(folder: Path, wanted: Path, *, bytes_max: int) -> bytes:
    """The file's content; a relative name counts from the folder. Raises NotInside, which names no path."""
    names = _names(folder, wanted)
    try:
        descriptor = open_below(os.path.realpath(folder), names)
    except (OSError, ValueError):
        raise NotInside(reason="there is no such file, or a link is on the way") from None
    try:
        _check(os.fstat(descriptor), bytes_max)
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            content = file.read(bytes_max + 1)
    finally:
        os.close(descriptor)
    if not 0 < len(content) <= bytes_max:
        raise NotInside(reason="it changed while it was read")
    return content


def _names(folder: Path, wanted: Path) -> tuple[str, ...]:
    for root in (folder, Path(os.path.realpath(folder))):
        if wanted.is_absolute() and wanted.is_relative_to(root):
            wanted = wanted.relative_to(root)
    if wanted.is_absolute() or ".." in wanted.parts or not wanted.parts:
        raise NotInside(reason="it is not inside the folder that is open to this chat")
    return wanted.parts


def open_below(root: str, names: tuple[str, ...]) -> int:
    """Open the last name, each step relative to the folder before it. Raises OSError at a symlink."""
    at = os.open(root, _STEP | os.O_DIRECTORY)
    try:
        for name in names[:-1]:
            at, before = os.open(name, _STEP | os.O_DIRECTORY, dir_fd=at), at
            os.close(before)
        return os.open(names[-1], _LAST, dir_fd=at)
    finally:
        os.close(at)


def _check(found: os.stat_result, bytes_max: int) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise NotInside(reason="it is not a regular file")
    if found.st_size > bytes_max:
        raise NotInside(reason=f"it is larger than {bytes_max // 1024**2} MB")
    if found.st_size == 0:
        raise NotInside(reason="it is empty")


def read_small(path: Path, bytes_max: int) -> bytes | None:
    """The content of a regular file; None if it is missing, unreadable, larger, a symlink or no file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):  # a path from outside may contain a NUL
        return None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        content = os.read(descriptor, bytes_max + 1)
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return content if len(content) <= bytes_max else None


def entries(folder: Path) -> list[Path]:
    """The entries of a folder, sorted; empty if it is missing, no folder or unreadable."""
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


FILE_BYTES_MAX: Final = 64 * 1024

log = logging.getLogger("wakeful")


class _StoredProblem(Struct, frozen=True):
    writer: Process
    words: str


class ProblemFile:
    """One file. Its content counts only while its writer lives."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def write(self, words: str) -> None:
        """Set the line; an empty one removes it. A failed write is only logged."""
        writer = proc.identify_or_none(os.getpid())
        try:
            if not words or writer is None:
                self._path.unlink(missing_ok=True)
                return
            new = self._path.with_name(f"{self._path.name}.new")
            with open(new, "wb", opener=owner_only) as file:
                file.write(msgspec.json.encode(_StoredProblem(writer, words)))
            new.replace(self._path)
        except OSError as problem:
            log.warning("%s cannot be written: %s", self._path.name, problem.strerror)

    def read(self) -> str:
        """The current line; empty without one, or if its writer has ended."""
        content = read_small(self._path, FILE_BYTES_MAX)
        try:
            stored = decode_json(content or b"", _StoredProblem)
        except msgspec.DecodeError:
            return ""
        return "" if proc.state_of(stored.writer) is ProcessState.DEAD else stored.words
