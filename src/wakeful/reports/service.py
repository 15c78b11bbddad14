"""Builds the report from the registry, the store, the logs and git, for every interface.

It only reads; `WorkFolders` is the interface to changes in a working folder. Parts that take too long are
left out, and the report says so.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Protocol

from wakeful.alerts.mute_pause_model import PauseRecord
from wakeful.checkpoints import service as checkpoints
from wakeful.checkpoints.model import Checkpoint
from wakeful.core.clock import Clock
from wakeful.core.decoding import json_decoder
from wakeful.core.ids import SessionId
from wakeful.incidents import service as incidents
from wakeful.incidents.model import Incident
from wakeful.judging.events import Event, Spent as SpentEvent
from wakeful.judging.thresholds import Policy
from wakeful.reports.model import Account, Folder, Past, Report, Spent, is_part_of, make_report
from wakeful.sessions.registry import Roster
from wakeful.sessions.session import Watched
from wakeful.storage.base import Moves, Note
from wakeful.storage.readable import values


class WorkFolders(Protocol):
    async def look(self, folder: str, since_wall: float) -> Folder:
        """What was done in it since then. Never raises: what could not be seen is the answer's `problem`."""


# A door's caller waits ten seconds.
FOLDERS_SECONDS_MAX: Final = 6.0
FOLDERS_MAX: Final = 60
FOLDERS_AT_ONCE: Final = 4
# Each log is read back 4 MB at most, some 40 ms.
LOGS_MAX: Final = 60
EVENTS_MAX: Final = 1_000_000
NOT_ASKED: Final = "not looked at: there was no time left"
_decode_incident: Final = json_decoder(Incident)
_decode_checkpoint: Final = json_decoder(Checkpoint)


class Memory(Protocol):
    """What is remembered; the store is one."""

    async def moves(self, since: float) -> list[Moves]: ...

    async def notes(self, kind: str) -> list[Note]: ...


class Reports:
    """Makes reports. Holds nothing."""

    def __init__(
        self,
        *,
        clock: Clock,
        roster: Roster,
        memory: Memory,
        folders: WorkFolders,
        recall: Callable[[SessionId, int], list[Event]],
        policy: Policy,
        is_here: Callable[[Watched], bool] = lambda _watched: True,
        paused: Callable[[], PauseRecord | None] = lambda: None,
    ) -> None:
        self._clock = clock
        self._roster = roster
        self._memory = memory
        self._folders = folders
        self._recall = recall
        self._policy = policy
        # Whether its folder is one of this host, and not of a container.
        self._is_here = is_here
        self._paused = paused

    async def since(
        self, since_wall: float, *, with_folders: bool = True, notes: Sequence[str] = ()
    ) -> Report:
        """Without folders neither git nor a log is read: what a status bar asks for every few seconds."""
        past = await self._past(since_wall)
        listed = {each.subject.id for each in self._roster.shown(self._clock.now())}
        involved = [
            each
            for each in self._roster.watched.values()
            if each.record is not None and is_part_of(each.record, past, listed=each.subject.id in listed)
        ]
        spent = await self._spent(involved, since_wall) if with_folders else {}
        accounts = [self._account(each, spent) for each in involved]
        wanted = (each.folder for each in accounts if each.folder is not None)
        folders = await self._looked(wanted, since_wall) if with_folders else {}
        return make_report(
            accounts,
            past,
            folders,
            self._policy,
            self._clock.now().wall,
            paused=self._paused(),
            notes=notes,
        )

    async def _past(self, since_wall: float) -> Past:
        by_session: dict[SessionId, list[Moves]] = {}
        for each in await self._memory.moves(since_wall):
            by_session.setdefault(each.session_id, []).append(each)
        found = values(await self._memory.notes(incidents.KIND), _decode_incident)
        return Past(since_wall, by_session, found, await self._held())

    async def _held(self) -> dict[str, int]:
        """Who waits for a person's decision, and in which checkpoint."""
        decided = {note.key for note in await self._memory.notes(checkpoints.DECISION)}
        notes = [note for note in await self._memory.notes(checkpoints.KIND) if note.key not in decided]
        found = values(notes, _decode_checkpoint)
        return {each.subject: each.number for each in found if each.is_open}

    def _account(self, watched: Watched, spent: dict[SessionId, Spent]) -> Account:
        assert watched.record is not None, "judged before it is shown"
        activity = watched.activity
        here = self._is_here(watched)
        return Account(
            record=watched.record,
            ended_well=activity.ended_well,
            folder=(activity.cwd or watched.presence.cwd) if here else None,
            spent=spent.get(watched.subject.id),
        )

    async def _spent(self, involved: Sequence[Watched], since_wall: float) -> dict[SessionId, Spent]:
        """What each has used since then, by its log; the most recent ones, in a thread of its own."""
        newest = sorted(involved, key=lambda each: -each.seen_wall)[:LOGS_MAX]
        found: dict[SessionId, Spent] = {}
        for watched in newest:
            events = await asyncio.to_thread(self._recall, watched.subject.id, EVENTS_MAX)
            first = watched.activity.first_at
            found[watched.subject.id] = spent_since(events, since_wall, first.wall if first else None)
        return found

    async def _looked(self, wanted: Iterable[str], since_wall: float) -> dict[str, Folder]:
        folders = list(dict.fromkeys(wanted))
        line = asyncio.Semaphore(FOLDERS_AT_ONCE)
        found: dict[str, Folder] = {}

        async def look(folder: str) -> None:
            async with line:
                found[folder] = await self._folders.look(folder, since_wall)

        tasks = [asyncio.create_task(look(each)) for each in folders[:FOLDERS_MAX]]
        if tasks:
            await asyncio.wait(tasks, timeout=FOLDERS_SECONDS_MAX)
        for task in tasks:
            task.cancel()
        for ended in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(ended, Exception):
                raise ended
        return {each: found.get(each) or Folder(each, problem=NOT_ASKED) for each in folders}


def spent_since(events: Sequence[Event], since_wall: float, began_wall: float | None) -> Spent:
    """Tokens of the events since then. Not whole where the oldest event that was read is younger than that moment."""
    counted = [each for each in events if isinstance(each, SpentEvent) and each.at >= since_wall]
    first = next((each.at for each in events if each.at), None)
    # Times are kept to the millisecond.
    from_the_start = first is not None and began_wall is not None and first <= began_wall + 0.001
    return Spent(
        input_tokens=sum(each.input_tokens for each in counted),
        output_tokens=sum(each.output_tokens for each in counted),
        whole=first is None or first < since_wall or from_the_start,
    )
