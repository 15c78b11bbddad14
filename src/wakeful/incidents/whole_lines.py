"""A file of lines that several processes write: one lock, one append each, and nothing torn stays in the way.

The lock is on the file itself, so that nothing else lies beside it; whoever got it looks whether the file is still
the one at the path. What a line says is not known here.
"""

import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from wakeful.core.errors import WorldError
from wakeful.core.fault_points import reach
from wakeful.sources.lines import Lines

# A write and its sync take milliseconds, an archive of a month less than a second; who holds it longer is stuck.
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
def explained(path: Path) -> Iterator[None]:
    """What the system says about a file, as an error of ours."""
    try:
        yield
    except OSError as problem:
        # A file size limit is to one process what a full disk is to all.
        if problem.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}:
            raise LogFull(path=path) from problem
        link = problem.errno == errno.ELOOP
        reason = "it is a symbolic link, which could lead anywhere" if link else problem.strerror
        raise LogUnusable(path=path, reason=reason) from problem


@contextmanager
def locked(path: Path) -> Iterator[int]:
    """The file at this path, made if it is missing and held by nobody else. Raises OSError and LogBusy."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    deadline = time.monotonic() + LOCK_SECONDS_MAX
    while True:
        file = _opened(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        try:
            _lock(file, path, deadline)
            if _lies_at(path, file):
                yield file
                return
        finally:
            os.close(file)


def append(file: int, lines: bytes) -> None:
    """Add whole lines to a locked file and see them on the disk; after a failure it is as it was before."""
    size = os.fstat(file).st_size
    # Somebody who was killed left a torn line: it is ended first, so that it takes no other one along.
    torn = size > 0 and os.pread(file, 1, size - 1) != b"\n"
    write_whole(file, (b"\n" if torn else b"") + lines)
    os.fsync(file)


def write_whole(file: int, content: bytes) -> None:
    """One write, as a rule. On a full disk only a part is taken, and then that part is taken back."""
    size = os.fstat(file).st_size
    left = content
    try:
        while left:
            reach("critical.write")
            left = left[os.write(file, left) :]
    except OSError:
        # Not if somebody without our lock wrote behind it: the next writer ends the torn line then.
        if os.fstat(file).st_size == size + len(content) - len(left):
            os.ftruncate(file, size)
        raise


def read_lines(path: Path) -> Iterator[bytes]:
    """Every terminated line, without its end; none of a file that is missing. Raises OSError."""
    try:
        file = _opened(path, os.O_RDONLY)
    except (FileNotFoundError, NotADirectoryError):
        return
    lines = Lines()
    try:
        while chunk := os.read(file, _READ_BYTES):
            yield from (line for line in lines.feed(chunk) if isinstance(line, bytes))
    finally:
        os.close(file)


def open_for_reading(path: Path) -> int | None:
    """The regular file at this path; None while there is none. Raises OSError."""
    try:
        return _opened(path, os.O_RDONLY)
    except (FileNotFoundError, NotADirectoryError):
        return None


def sync_folder(folder: Path) -> None:
    """A name survives a power cut only once its folder was written."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _opened(path: Path, flags: int) -> int:
    file = os.open(path, flags | _SAFE, 0o600)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return file


def _lock(file: int, path: Path, deadline: float) -> None:
    # Asked again and again, because waiting for a lock has no deadline: one that is stuck must not stop us, too.
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as problem:
            if time.monotonic() >= deadline:
                raise LogBusy(path=path, seconds=LOCK_SECONDS_MAX) from problem
            time.sleep(_LOCK_AGAIN_SECONDS)
        else:
            return


def _lies_at(path: Path, file: int) -> bool:
    """Whether nobody put another file in its place while we waited."""
    try:
        return os.path.samestat(os.fstat(file), os.lstat(path))
    except FileNotFoundError:
        return False
