"""Append-only line file for several processes: locking, whole appends, reading, and following new lines.

The lock is on the file itself, so no other file is needed; the process that gets it checks that the file is
still the one at the path. A torn write is removed. `follow` uses kernel notifications instead of polling. The
log may be missing at first, replaced by a shorter one after archiving, or moved away: each line is returned
once. The content of lines is not interpreted here.
"""

import asyncio
import errno
import fcntl
import os
import stat
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from wakeful.core.errors import WorldError
from wakeful.core.fault_points import fault_point
from wakeful.sources.base import FileChanges
from wakeful.sources.folder_watch import FolderWatch, watch_or_await
from wakeful.sources.log_file import LineSplitter

# A write with its sync takes milliseconds, an archive of a month less than a second; a longer lock means a stuck
# process.
LOCK_SECONDS_MAX: Final = 10.0
_LOCK_AGAIN_SECONDS: Final = 0.002
_READ_BYTES: Final = 256 * 1024
_SAFE: Final = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class LogFull(WorldError):
    """No space left for {path}. Nothing was written; free some space and try again."""

    code = "log-full"
    http_status = 507
    retryable = True


class LogUnusable(WorldError):
    """{path} cannot be used: {reason}. Nothing was written."""

    code = "log-unusable"
    retryable = True


class LogBusy(WorldError):
    """{path} stayed locked by another process for {seconds:g} s. Nothing was written; try again."""

    code = "log-busy"
    retryable = True


@contextmanager
def translate_errors(path: Path) -> Iterator[None]:
    """Translate errors of the system about a file into errors of Wakeful."""
    try:
        yield
    except OSError as problem:
        # A file size limit has the same effect on one process as a full disk on all.
        if problem.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}:
            raise LogFull(path=path) from problem
        link = problem.errno == errno.ELOOP
        reason = "it is a symbolic link, which could lead anywhere" if link else problem.strerror
        raise LogUnusable(path=path, reason=reason) from problem


@contextmanager
def lock_file(path: Path) -> Iterator[int]:
    """Open and lock the file at this path; creates it if it is missing. Raises OSError and LogBusy."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    deadline = time.monotonic() + LOCK_SECONDS_MAX
    while True:
        file = _open_regular(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        try:
            _lock(file, path, deadline)
            if _is_at(path, file):
                yield file
                return
        finally:
            os.close(file)


def append(file: int, lines: bytes) -> None:
    """Append whole lines to a locked file durably; a failure leaves the file unchanged."""
    size = os.fstat(file).st_size
    # A killed process may have left a torn line: end it first, so that the next line stays whole.
    torn = size > 0 and os.pread(file, 1, size - 1) != b"\n"
    write_whole(file, (b"\n" if torn else b"") + lines)
    os.fsync(file)


def write_whole(file: int, content: bytes) -> None:
    """Usually one write. If a full disk takes only a part, that part is removed again."""
    size = os.fstat(file).st_size
    left = content
    try:
        while left:
            fault_point("critical.write")
            left = left[os.write(file, left) :]
    except OSError:
        # If a process without the lock appended meanwhile, the part stays, and the next writer ends the torn line.
        if os.fstat(file).st_size == size + len(content) - len(left):
            os.ftruncate(file, size)
        raise


def read_lines(path: Path) -> Iterator[bytes]:
    """Every terminated line, without its line end; none if the file is missing. Raises OSError."""
    file = open_for_reading(path)
    if file is None:
        return
    lines = LineSplitter()
    try:
        while chunk := os.read(file, _READ_BYTES):
            yield from (line for line in lines.feed(chunk) if isinstance(line, bytes))
    finally:
        os.close(file)


def open_for_reading(path: Path) -> int | None:
    """The regular file at this path; None while there is none. Raises OSError."""
    try:
        return _open_regular(path, os.O_RDONLY)
    except (FileNotFoundError, NotADirectoryError):
        return None


def sync_folder(folder: Path) -> None:
    """A file name survives a power cut only after a sync of its folder."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _open_regular(path: Path, flags: int) -> int:
    file = os.open(path, flags | _SAFE, 0o600)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return file


def _lock(file: int, path: Path, deadline: float) -> None:
    # Polls, because flock has no timeout: a stuck holder must not block this process.
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as problem:
            if time.monotonic() >= deadline:
                raise LogBusy(path=path, seconds=LOCK_SECONDS_MAX) from problem
            time.sleep(_LOCK_AGAIN_SECONDS)
        else:
            return


def _is_at(path: Path, file: int) -> bool:
    """Whether the path still names this file: another process may have replaced it during the wait."""
    try:
        return os.path.samestat(os.fstat(file), os.lstat(path))
    except FileNotFoundError:
        return False


# The interval if no kernel watch is available.
POLL_SECONDS: Final = 2.0


async def follow(path: Path) -> AsyncIterator[bytes]:
    """Every line of the log, existing lines first, then new ones, until cancelled. Raises LogUnusable."""
    # The kernel reports absolute paths, and a folder may have several paths.
    path = path.parent.absolute() / path.name
    following = LineFollower(path)
    async with FolderWatch() as folders:
        try:
            while True:
                is_watched = watch_or_await(folders, str(path.parent))
                with translate_errors(path):
                    lines = following.read_new()
                for line in lines:
                    yield line
                await _wait_for_change(folders, path, is_watched=is_watched)
        finally:
            following.close()


async def _wait_for_change(folders: FolderWatch, path: Path, *, is_watched: bool) -> None:
    """Wait for a change that may concern this path."""
    with suppress(TimeoutError):
        async with asyncio.timeout(None if is_watched else POLL_SECONDS):
            async for changes in folders:
                if _concerns(changes, str(path)):
                    return


def _concerns(changes: FileChanges, path: str) -> bool:
    # A folder that appeared or vanished may be the log's folder or one above it.
    return changes.rescan or bool(changes.folders or changes.gone) or path in changes.changed


class LineFollower:
    """Reads a log across files that replace each other, and returns each line once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None
        self._offset = 0
        self._lines = LineSplitter()
        # The lines of this file, to recognise those that a new file repeats.
        self._lines_seen: Counter[bytes] = Counter()

    def read_new(self) -> list[bytes]:
        """The whole lines that were not returned before. Raises OSError."""
        # The old file first: writers replace it only after they finished.
        found = self._read(Counter())
        if self._is_replaced():
            known = self._lines_seen
            self._switch_to(open_for_reading(self._path))
            found += self._read(known)
        return found

    def close(self) -> None:
        self._switch_to(None)

    def _read(self, known: Counter[bytes]) -> list[bytes]:
        if self._file is None:
            return []
        if os.fstat(self._file).st_size < self._offset:
            # The file was emptied: its content is new.
            self._switch_to(self._file)
        new = []
        while chunk := os.pread(self._file, _READ_BYTES, self._offset):
            self._offset += len(chunk)
            new += [line for line in self._lines.feed(chunk) if isinstance(line, bytes)]
        self._lines_seen.update(new)
        return [line for line in new if not _consume(known, line)]

    def _is_replaced(self) -> bool:
        try:
            at_path = os.lstat(self._path)
        except (FileNotFoundError, NotADirectoryError):
            # Moved or deleted: the open file is read until a new one appears.
            return False
        return self._file is None or not os.path.samestat(at_path, os.fstat(self._file))

    def _switch_to(self, file: int | None) -> None:
        if self._file is not None and self._file != file:
            os.close(self._file)
        self._file = file
        self._offset = 0
        self._lines = LineSplitter()
        self._lines_seen = Counter()


def _consume(known: Counter[bytes], line: bytes) -> bool:
    if known[line] == 0:
        return False
    known[line] -= 1
    return True
