"""Small files and folders that somebody else owns: read without being led astray, awaited where they are missing."""

import os
import stat
from pathlib import Path
from typing import Final

from wakeful.ports.eyes import Folders

# A way of this many folders can come into being while it is being watched, one at each look.
_LOOKS_MAX: Final = 64


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


def watch_or_await(folders: Folders, folder: str) -> bool:
    """Watch a folder, or the nearest one above it that exists, to be told when it appears.

    False: a limit of the kernel is reached, and it must be swept. One that is closed to us has nothing to sweep.
    """
    nearest = _nearest(folder)
    for _ in range(_LOOKS_MAX):
        watched = folders.add(nearest)
        # What appeared or vanished before the watch was set is told by nobody: look once more behind it.
        before, nearest = nearest, _nearest(folder)
        if nearest == before:
            return watched or not os.access(nearest, os.R_OK)
    return False


def _nearest(folder: str) -> str:
    while not os.path.isdir(folder) and folder != "/":  # noqa: PTH112 - strings are what the kernel reports
        folder = os.path.dirname(folder)  # noqa: PTH120
    return folder


def entries(folder: Path) -> list[Path]:
    """What lies in a folder, by name; nothing if it is missing, no folder or closed to us."""
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []
