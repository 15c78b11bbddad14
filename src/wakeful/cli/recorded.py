"""Recorded logs: which files a path means, and the lines of one, packed or not. Read-only, bounded, no clock.

A recording ends where its file ends: a last line without a newline is a line too. Nothing here knows formats.
"""

import gzip
import os
import stat
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from wakeful.core.errors import WorldError
from wakeful.sources.lines import Lines, Oversized

# The fastest of 64 KB to 1 MB: with more, lines and records leave the cache of a core before they are used.
CHUNK_BYTES: Final = 256 * 1024
SUFFIXES: Final = (".jsonl", ".jsonl.gz")


class RecordingUnreadable(WorldError):
    """{path}: {problem}"""

    code = "recording-unreadable"


def recorded_files(path: Path) -> list[Path]:
    """The file itself, or every recording below a folder, in order. Below it no link is followed."""
    if not path.is_dir():
        return [path]
    found = [
        Path(folder, name) for folder, _, names in os.walk(path) for name in names if name.endswith(SUFFIXES)
    ]
    return sorted(each for each in found if stat.S_ISREG(each.lstat().st_mode))


def recorded_lines(
    path: Path, on_bytes: Callable[[int], None], chunk_bytes: int = CHUNK_BYTES
) -> Iterator[list[bytes | Oversized]]:
    """The lines of a file as they stand, some at a time; `on_bytes` hears how much of the file each time took.

    Raises RecordingUnreadable, also in the middle: what was given before counts.
    """
    lines, at = Lines(), 0
    try:
        with path.open("rb", buffering=0) as file:
            # read1: what came before a cut is given before the cut is complained about.
            read = gzip.GzipFile(fileobj=file).read1 if path.suffix == ".gz" else file.read
            while chunk := read(chunk_bytes):
                yield lines.cut(chunk)
                at, before = file.tell(), at
                on_bytes(at - before)
    except (OSError, EOFError, zlib.error) as problem:
        said = getattr(problem, "strerror", None) or str(problem)
        raise RecordingUnreadable(path=path, problem=said) from problem
    yield lines.cut(b"\n")
