"""Shows the planned change of a file as the lines of `diff -u`."""

import os
from collections.abc import Iterator
from difflib import unified_diff
from pathlib import Path


def file_difference(path: Path, before: str | None, after: str | None, *, context: int = 3) -> Iterator[str]:
    """The lines between two contents of a file; None means no file."""
    old, new = (os.devnull if side is None else str(path) for side in (before, after))
    yield from unified_diff(
        (before or "").splitlines(), (after or "").splitlines(), old, new, lineterm="", n=context
    )


def settings_difference(path: Path, before: bytes | None, after: bytes | None) -> Iterator[str]:
    """The same for the bytes of a settings file."""
    yield from file_difference(path, *(None if each is None else each.decode() for each in (before, after)))
