"""The file that cases are added to: whole lines, on the disk before anybody is told that they are kept.

It holds what agents did, redacted, and is for its owner alone.
"""

import os
from pathlib import Path
from typing import Final

from wakeful.core.errors import WorldError

_FLAGS: Final = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class CaseNotKept(WorldError):
    """The case could not be written to {path}: {reason}."""

    code = "case-not-kept"
    retryable = True


def append_case(path: Path, line: bytes) -> None:
    """Add one line and see it on the disk. Raises CaseNotKept."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = os.open(path, _FLAGS, 0o600)
        try:
            _append(file, line)
        finally:
            os.close(file)
        _sync_folder(path.parent)
    except OSError as error:
        raise CaseNotKept(path=path, reason=error.strerror) from error


def _append(file: int, line: bytes) -> None:
    size = os.fstat(file).st_size
    # A crash can leave a line torn: it is ended first, so that it takes no other one along.
    torn = size > 0 and os.pread(file, 1, size - 1) != b"\n"
    left = (b"\n" if torn else b"") + line + b"\n"
    while left:
        left = left[os.write(file, left) :]
    os.fsync(file)


def _sync_folder(folder: Path) -> None:
    """A new file survives a power cut only with its name."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
