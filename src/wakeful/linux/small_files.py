"""Small files and folders of other programs, read without following a link."""

import os
import stat
from pathlib import Path


def read_small(path: Path, bytes_max: int) -> bytes | None:
    """The content of a regular file; None if it is gone, unreadable, larger, a link or no file at all."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):  # a path from outside may hold a NUL
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
    """What lies in a folder, by name; nothing if it is missing, no folder or closed to us."""
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []
