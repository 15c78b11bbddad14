"""When the last issue of a project was created, kept across restarts: one an hour, however many processes ask.

A claim comes before the creation, so that a crash in between costs an hour of quiet and never a second issue.
"""

import asyncio
from pathlib import Path
from typing import Final, Protocol

import msgspec
from msgspec import Struct

from wakeful.core.decoding import json_decoder
from wakeful.incidents.whole_lines import append, explained, locked, read_lines
from wakeful.linux.clock import SystemClock
from wakeful.storage.store import Note, Store

WINDOW_SECONDS: Final = 3600.0
KIND: Final = "issue"


class Ledger(Protocol):
    """Who may create an issue, and which one was created last. Raises WorldError where nothing can be kept."""

    async def claim(self, project: str) -> bool:
        """Whether an issue may be created now; the next one in an hour."""

    async def give_back(self, project: str) -> None:
        """Nothing was created: the claim is undone."""

    async def filed(self, project: str, url: str) -> None:
        """It was created, and is there."""

    async def newest(self, project: str) -> str | None:
        """The issue that was created last, if it is known where it is."""


class StoreLedger:
    """A ledger in the store: notes of one kind, by project."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def claim(self, project: str) -> bool:
        claim = Note(KIND, project, b"")
        return await self._store.spend(_budget(project), claim, times_max=1, window_seconds=WINDOW_SECONDS)

    async def give_back(self, project: str) -> None:
        await self._store.give_back(_budget(project), Note(KIND, project, b""))

    async def filed(self, project: str, url: str) -> None:
        await self._store.keep_note(Note(KIND, project, url.encode()))

    async def newest(self, project: str) -> str | None:
        note = await self._store.note(KIND, project)
        return note.body.decode("utf-8", "replace") if note is not None and note.body else None


class _Entry(Struct, frozen=True):
    """The newest word about a project. `at_wall` is None when its claim was given back."""

    project: str
    at_wall: float | None
    url: str | None = None


_decode: Final = json_decoder(_Entry)


class FileLedger:
    """A ledger in a file of its own, for programs without a store."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._clock = SystemClock()

    async def claim(self, project: str) -> bool:
        return await asyncio.to_thread(self._claim, project)

    async def give_back(self, project: str) -> None:
        await asyncio.to_thread(self._add, _Entry(project, None))

    async def filed(self, project: str, url: str) -> None:
        await asyncio.to_thread(self._add, _Entry(project, self._clock.now().wall, url))

    async def newest(self, project: str) -> str | None:
        entry = await asyncio.to_thread(self._newest, project)
        return entry.url if entry is not None else None

    def _claim(self, project: str) -> bool:
        now_wall = self._clock.now().wall
        with explained(self._path), locked(self._path) as file:
            last = self._newest(project)
            # A time ahead of now was written before the clock was set back.
            if (
                last is not None
                and last.at_wall is not None
                and abs(now_wall - last.at_wall) < WINDOW_SECONDS
            ):
                return False
            append(file, msgspec.json.encode(_Entry(project, now_wall)) + b"\n")
        return True

    def _add(self, entry: _Entry) -> None:
        with explained(self._path), locked(self._path) as file:
            append(file, msgspec.json.encode(entry) + b"\n")

    def _newest(self, project: str) -> _Entry | None:
        newest = None
        with explained(self._path):
            for line in read_lines(self._path):
                entry = _decoded(line)
                newest = entry if entry is not None and entry.project == project else newest
        return newest


def _decoded(line: bytes) -> _Entry | None:
    try:
        return _decode(line)
    except msgspec.DecodeError:
        # Torn by a crash: its issue is found on GitHub, by its marker.
        return None


def _budget(project: str) -> str:
    return f"{KIND}:{project}"
