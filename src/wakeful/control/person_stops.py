"""Processes that a person ordered to be stopped; stored before they end, so that their end raises no alert.

Stops are stored by process, not by session: a conversation that goes on does so in another process, and
problems of that one are reported. A restart of the daemon between order and end changes nothing.
"""

from collections.abc import Callable, Collection
from typing import Final
from uuid import uuid4

import msgspec
from msgspec import Struct

from wakeful.core.clock import Clock
from wakeful.core.decoding import json_decoder
from wakeful.core.ids import SessionId
from wakeful.core.process import Process
from wakeful.storage.base import Note, Store
from wakeful.storage.note_decoding import decode_notes

KIND: Final = "person_stop"
# As long as resolved incidents are: nobody looks at what ended before.
RETENTION_SECONDS: Final = 30 * 86_400.0


class PersonStop(Struct, frozen=True):
    """One order: whom it ends, and the sessions they ran, as far as that was known."""

    at: float
    processes: tuple[Process, ...]
    sessions: tuple[SessionId, ...] = ()


OnStopOrdered = Callable[[Collection[Process], Collection[SessionId]], Collection[SessionId]]
OnStopWithdrawn = Callable[[Collection[Process]], None]
_decode: Final = json_decoder(PersonStop)


class PersonStops:
    """`ended` is told of what ends because a person wants it, and answers with the sessions that concerns.

    `spared` is told of what a person ordered to be ended and that was not.
    """

    def __init__(
        self, store: Store, clock: Clock, ended: OnStopOrdered, spared: OnStopWithdrawn = lambda _: None
    ) -> None:
        self._store = store
        self._clock = clock
        self._on_ordered = ended
        self._on_withdrawn = spared

    async def load(self) -> None:
        """Know again what was ordered before a restart, and forget what was long ago."""
        oldest = self._clock.now().wall - RETENTION_SECONDS
        for note, stop in decode_notes(await self._store.notes(KIND), _decode):
            if stop.at < oldest:
                await self._store.drop_note(KIND, note.key)
            else:
                self._on_ordered(stop.processes, stop.sessions)

    async def record_order(
        self, processes: Collection[Process], sessions: Collection[SessionId] = ()
    ) -> None:
        """A person wants these ended: call it before anything is done to them. `sessions` are known to have ended."""
        if processes or sessions:
            found = self._on_ordered(processes, sessions)
            stop = PersonStop(self._clock.now().wall, tuple(processes), (*sessions, *found))
            await self._store.save_note(Note(KIND, uuid4().hex, msgspec.json.encode(stop)))

    async def withdraw(self, processes: Collection[Process]) -> None:
        """These were not ended after all: what ends them from now on is news."""
        self._on_withdrawn(processes)
        for note, stop in decode_notes(await self._store.notes(KIND), _decode):
            if set(stop.processes) & set(processes):
                await self._store.drop_note(KIND, note.key)
