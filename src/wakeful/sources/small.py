"""Folders of other programs: watched, or awaited where they are missing."""

import os
from typing import Final

from wakeful.sources.base import Folders

# A way of this many folders can come into being while it is being watched, one at each look.
_LOOKS_MAX: Final = 64


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
