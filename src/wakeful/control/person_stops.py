"""Processes that a person ordered to be stopped; stored before they end, so that their end raises no alert.

Stops are stored by process, not by session: a conversation that goes on does so in another process, and
problems of that one are reported. A restart of the daemon between order and end changes nothing.
"""

from collections.abc import Collection
from typing import Final, Protocol
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
# As long as resolved incidents.
RETENTION_SECONDS: Final = 30 * 86_400.0
# A stop takes up to 15 s, signal by signal. A process that runs after this time was not stopped.
STOP_SECONDS_MAX: Final = 60.0


class PersonStop(Struct, frozen=True):
    """One order: the processes to end, and the known sessions that they ran."""

    at: float
    processes: tuple[Process, ...]
    sessions: tuple[SessionId, ...] = ()


class StopMarker(Protocol):
    """Marks processes that a person ordered to be stopped. The supervisor is one."""

    def mark_stopped_by_person(
        self, processes: Collection[Process], sessions: Collection[SessionId] = ()
    ) -> Collection[SessionId]:
        """Returns the sessions that they run."""

    def unmark_stopped_by_person(self, processes: Collection[Process]) -> None:
        """Withdraw the marks: the processes were not stopped."""


_decode: Final = json_decoder(PersonStop)


class PersonStops:
    def __init__(self, store: Store, clock: Clock, marker: StopMarker) -> None:
        self._store = store
        self._clock = clock
        self._marker = marker

    async def load(self) -> None:
        """Load the orders from before a restart, and delete old ones."""
        oldest = self._clock.now().wall - RETENTION_SECONDS
        for note, stop in decode_notes(await self._store.notes(KIND), _decode):
            if stop.at < oldest:
                await self._store.drop_note(KIND, note.key)
            else:
                self._marker.mark_stopped_by_person(stop.processes, stop.sessions)

    async def record_order(
        self, processes: Collection[Process], sessions: Collection[SessionId] = ()
    ) -> None:
        """Store a person's order before anything is stopped. `sessions` are known to have ended."""
        if processes or sessions:
            marked = self._marker.mark_stopped_by_person(processes, sessions)
            stop = PersonStop(self._clock.now().wall, tuple(processes), (*sessions, *marked))
            await self._store.save_note(Note(KIND, uuid4().hex, msgspec.json.encode(stop)))

    async def withdraw(self, processes: Collection[Process]) -> None:
        """These were not stopped: a later end of them raises alerts again."""
        self._marker.unmark_stopped_by_person(processes)
        for note, stop in decode_notes(await self._store.notes(KIND), _decode):
            if set(stop.processes) & set(processes):
                await self._store.drop_note(KIND, note.key)
