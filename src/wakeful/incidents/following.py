"""New lines of the log as they are written, told by the kernel. Nothing is asked again and again.

The log may be missing yet, replaced by a shorter one when lines were archived, or moved away by others: every line is
given once, and none twice.
"""

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from wakeful.incidents.whole_lines import explained, open_for_reading
from wakeful.sources.base import Changes
from wakeful.sources.folders import FolderWatch
from wakeful.sources.lines import Lines
from wakeful.sources.small import watch_or_await

_READ_BYTES: Final = 256 * 1024
# Only where the kernel has no watch left for us.
UNTOLD_SECONDS: Final = 2.0


async def follow(path: Path) -> AsyncIterator[bytes]:
    """Every line of the log, first those that are there, then new ones, until cancelled. Raises LogUnusable."""
    # The kernel tells absolute paths, and a folder may be entered by more than one way.
    path = path.parent.absolute() / path.name
    following = Following(path)
    async with FolderWatch() as folders:
        try:
            while True:
                told = watch_or_await(folders, str(path.parent))
                with explained(path):
                    lines = following.more()
                for line in lines:
                    yield line
                await _stirred(folders, path, told=told)
        finally:
            following.close()


async def _stirred(folders: FolderWatch, path: Path, *, told: bool) -> None:
    """Until something happened that may concern this path."""
    with suppress(TimeoutError):
        async with asyncio.timeout(None if told else UNTOLD_SECONDS):
            async for changes in folders:
                if _concerns(changes, str(path)):
                    return


def _concerns(changes: Changes, path: str) -> bool:
    # A folder that came or went may be the log's, or one above it.
    return changes.rescan or bool(changes.folders or changes.gone) or path in changes.changed


class Following:
    """The place in a log up to which it was read, across the files that take each other's place."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None
        self._offset = 0
        self._lines = Lines()
        # What this file holds, so that those of its lines that come back in a new one are known.
        self._seen: Counter[bytes] = Counter()

    def more(self) -> list[bytes]:
        """The whole lines nobody was given yet. Raises OSError."""
        # The old file first: whoever replaced it had waited until everybody was done writing to it.
        found = self._read(Counter())
        if self._is_replaced():
            known = self._seen
            self._take_up(open_for_reading(self._path))
            found += self._read(known)
        return found

    def close(self) -> None:
        self._take_up(None)

    def _read(self, known: Counter[bytes]) -> list[bytes]:
        if self._file is None:
            return []
        if os.fstat(self._file).st_size < self._offset:
            # Emptied by somebody: what is in it now is new.
            self._take_up(self._file)
        new = []
        while chunk := os.pread(self._file, _READ_BYTES, self._offset):
            self._offset += len(chunk)
            new += [line for line in self._lines.feed(chunk) if isinstance(line, bytes)]
        self._seen.update(new)
        return [line for line in new if not _took(known, line)]

    def _is_replaced(self) -> bool:
        try:
            at_path = os.lstat(self._path)
        except (FileNotFoundError, NotADirectoryError):
            # Moved or deleted: the file we have is still being read until another one comes.
            return False
        return self._file is None or not os.path.samestat(at_path, os.fstat(self._file))

    def _take_up(self, file: int | None) -> None:
        if self._file is not None and self._file != file:
            os.close(self._file)
        self._file = file
        self._offset = 0
        self._lines = Lines()
        self._seen = Counter()


def _took(known: Counter[bytes], line: bytes) -> bool:
    if known[line] == 0:
        return False
    known[line] -= 1
    return True
