"""Files inside a folder, for names that somebody else chose: no link is followed below it, and only regular files count.

What is checked is the open file and not its name, so that nothing can be put in its place in between.
"""

import os
import stat
from pathlib import Path
from typing import Final

from wakeful.core.errors import OperatorError

_STEP: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
# A pipe would have to be opened from its other end, too.
_LAST: Final = _STEP | os.O_NONBLOCK | os.O_NOCTTY


class NotInside(OperatorError):
    """That file is not given away: {reason}."""

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
    """The last one, opened; each step from the folder before it. Raises OSError where a link is on the way."""
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
