"""Builds the report from the registry, the store, the logs and git, for every interface.

It only reads; `WorkFolders` is the interface to changes in a working folder. Parts that take too long are
left out, and the report says so.
"""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from wakeful.alerts.mute_pause_model import PauseRecord
from wakeful.checkpoints import service as checkpoints
from wakeful.checkpoints.model import Checkpoint
from wakeful.core.clock import Clock
from wakeful.core.decoding import json_decoder
from wakeful.core.ids import SessionId
from wakeful.incidents import service as incidents
from wakeful.incidents.model import Incident
from wakeful.judging.events import Event, TokensSpent as SpentEvent
from wakeful.judging.thresholds import Policy
from wakeful.reports.model import (
    GitChanges,
    Report,
    ReportHistory,
    ReportInput,
    TokenUsage,
    belongs_in_report,
    make_report,
)
from wakeful.sessions.registry import SessionRegistry
from wakeful.sessions.session import TrackedSession, turn_ended_at
from wakeful.storage.base import FinishedTurns, Note, TransitionCount
from wakeful.storage.note_decoding import decode_note_values


class WorkFolders(Protocol):
    async def inspect(self, folder: str, since_wall: float) -> GitChanges:
        """The changes since then. Never raises: a failure is the answer's `problem`."""


# An HTTP caller waits ten seconds.
FOLDERS_SECONDS_MAX: Final = 6.0
FOLDERS_MAX: Final = 60
FOLDERS_AT_ONCE: Final = 4
# Each log is read back 4 MB at most, some 40 ms.
LOGS_MAX: Final = 60
EVENTS_MAX: Final = 1_000_000
NOT_INSPECTED: Final = "not checked: no time left"
_decode_incident: Final = json_decoder(Incident)
_decode_checkpoint: Final = json_decoder(Checkpoint)


class ReportStore(Protocol):
    async def transition_counts(self, since: float) -> list[TransitionCount]: ...

    async def finished_turns(self, since: float) -> list[FinishedTurns]: ...

    async def notes(self, kind: str) -> list[Note]: ...


class ReportSources(Protocol):
    def read_last_events(self, session_id: SessionId, limit: int) -> list[Event]:
        """The newest events of a session's log."""

    def is_here(self, session: TrackedSession) -> bool:
        """Whether its folder is on this host, and not in a container."""

    def pause_record(self) -> PauseRecord | None:
        """The current pause."""


class ReportService:
    def __init__(
        self,
        *,
        clock: Clock,
        registry: SessionRegistry,
        store: ReportStore,
        folders: WorkFolders,
        policy: Policy,
        sources: ReportSources,
    ) -> None:
        self._clock = clock
        self._registry = registry
        self._store = store
        self._folders = folders
        self._policy = policy
        self._sources = sources

    def set_policy(self, policy: Policy) -> None:
        """The configuration has changed."""
        self._policy = policy

    async def report_since(
        self, since_wall: float, *, with_folders: bool = True, notes: Sequence[str] = ()
    ) -> Report:
        """Without folders neither git nor a log is read: a status bar asks for it every few seconds."""
        history = await self._history(since_wall)
        listed = {each.subject.id for each in self._registry.list_unfolded(self._clock.now())}
        involved = [
            each
            for each in self._registry.sessions.values()
            if each.record is not None
            and belongs_in_report(each.record, history, listed=each.subject.id in listed)
        ]
        spent = await self._token_usage(involved, since_wall) if with_folders else {}
        accounts = [self._report_input(each, spent) for each in involved]
        wanted = (each.folder for each in accounts if each.folder is not None)
        folders = await self._inspect_folders(wanted, since_wall) if with_folders else {}
        return make_report(
            accounts,
            history,
            folders,
            self._policy,
            self._clock.now().wall,
            paused=self._sources.pause_record(),
            notes=notes,
        )

    async def _history(self, since_wall: float) -> ReportHistory:
        by_session: dict[SessionId, list[TransitionCount]] = {}
        for each in await self._store.transition_counts(since_wall):
            by_session.setdefault(each.session_id, []).append(each)
        found = decode_note_values(await self._store.notes(incidents.KIND), _decode_incident)
        finished = {each.session_id: each for each in await self._store.finished_turns(since_wall)}
        return ReportHistory(since_wall, by_session, found, await self._open_checkpoints(), finished)

    async def _open_checkpoints(self) -> dict[str, int]:
        """The open checkpoints by session."""
        decided = {note.key for note in await self._store.notes(checkpoints.DECISION_KIND)}
        notes = [note for note in await self._store.notes(checkpoints.KIND) if note.key not in decided]
        found = decode_note_values(notes, _decode_checkpoint)
        return {each.subject: each.number for each in found if each.is_open}

    def _report_input(self, session: TrackedSession, spent: dict[SessionId, TokenUsage]) -> ReportInput:
        assert session.record is not None, "judged before it is shown"
        activity = session.activity
        here = self._sources.is_here(session)
        return ReportInput(
            record=session.record,
            turn_ended_at=turn_ended_at(session),
            folder=(activity.cwd or session.presence.cwd) if here else None,
            spent=spent.get(session.subject.id),
        )

    async def _token_usage(
        self, involved: Sequence[TrackedSession], since_wall: float
    ) -> dict[SessionId, TokenUsage]:
        """The usage of the most recent sessions since then, read from their logs in a thread."""
        newest = sorted(involved, key=lambda each: -each.last_seen_wall)[:LOGS_MAX]
        found: dict[SessionId, TokenUsage] = {}
        for session in newest:
            events = await asyncio.to_thread(self._sources.read_last_events, session.subject.id, EVENTS_MAX)
            first = session.activity.first_at
            found[session.subject.id] = token_usage_since(events, since_wall, first.wall if first else None)
        return found

    async def _inspect_folders(self, wanted: Iterable[str], since_wall: float) -> dict[str, GitChanges]:
        folders = list(dict.fromkeys(wanted))
        line = asyncio.Semaphore(FOLDERS_AT_ONCE)
        found: dict[str, GitChanges] = {}

        async def look(folder: str) -> None:
            async with line:
                found[folder] = await self._folders.inspect(folder, since_wall)

        tasks = [asyncio.create_task(look(each)) for each in folders[:FOLDERS_MAX]]
        if tasks:
            await asyncio.wait(tasks, timeout=FOLDERS_SECONDS_MAX)
        for task in tasks:
            task.cancel()
        for ended in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(ended, Exception):
                raise ended
        return {each: found.get(each) or GitChanges(each, problem=NOT_INSPECTED) for each in folders}


def token_usage_since(events: Sequence[Event], since_wall: float, began_wall: float | None) -> TokenUsage:
    """Tokens of the events since then. Not whole if the oldest event that was read is younger than that time."""
    counted = [each for each in events if isinstance(each, SpentEvent) and each.at >= since_wall]
    first = next((each.at for each in events if each.at), None)
    # Times are kept to the millisecond.
    from_the_start = first is not None and began_wall is not None and first <= began_wall + 0.001
    return TokenUsage(
        input_tokens=sum(each.input_tokens for each in counted),
        output_tokens=sum(each.output_tokens for each in counted),
        whole=first is None or first < since_wall or from_the_start,
    )
