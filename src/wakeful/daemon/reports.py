"""Builds the morning report, for the daemon and for one read-only pass where no daemon runs."""

import asyncio
import os
from pathlib import Path
from typing import Final

from wakeful.agents.hub import Hub
from wakeful.agents.model import AgentRuntime
from wakeful.alerts.mute_pause import MutePause
from wakeful.alerts.mute_pause_model import PauseRecord
from wakeful.config.paths import StatePaths
from wakeful.config.schema import Config
from wakeful.config.state_dir import read_stored_pause, store_path
from wakeful.core.ids import SessionId
from wakeful.daemon.observer import ObservedSessions, PlainProcesses, SessionObserver
from wakeful.integrations.git import GitFolders
from wakeful.judging.events import Event
from wakeful.linux.clock import SystemClock
from wakeful.reports.model import Report
from wakeful.reports.service import ReportService, ReportSources, ReportStore
from wakeful.sessions.session import TrackedSession
from wakeful.storage.base import FinishedTurns, Note, TransitionCount
from wakeful.storage.sqlite.database import read_finished_turns, read_notes, read_transition_counts

NO_DAEMON: Final = "no daemon: one look, and what the store remembers; nothing is watched"


class ReadOnlyStore:
    """Reads the store when no daemon has it open; never writes."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def transition_counts(self, since: float) -> list[TransitionCount]:
        return await asyncio.to_thread(read_transition_counts, self._path, since)

    async def finished_turns(self, since: float) -> list[FinishedTurns]:
        return await asyncio.to_thread(read_finished_turns, self._path, since)

    async def notes(self, kind: str) -> list[Note]:
        return await asyncio.to_thread(read_notes, self._path, kind)


def build_reports(observer: ObservedSessions, store: ReportStore, sources: ReportSources) -> ReportService:
    return ReportService(
        clock=observer.clock,
        registry=observer.registry,
        store=store,
        folders=GitFolders(),
        policy=observer.policy,
        sources=sources,
    )


class ObserverReportSources:
    """Reads logs through the observer; sessions of agents in containers have their folders there."""

    def __init__(
        self,
        observer: SessionObserver,
        mute_pause: MutePause | PauseRecord | None,
        hub: Hub | None = None,
    ) -> None:
        self._observer = observer
        self._mute_pause = mute_pause
        self._hub = hub

    def read_last_events(self, session_id: SessionId, limit: int) -> list[Event]:
        return self._observer.read_last_events(session_id, limit)

    def is_here(self, session: TrackedSession) -> bool:
        name = session.subject.agent
        inside = {
            each.id
            for each in (self._hub.records if self._hub is not None else ())
            if each.runtime is AgentRuntime.DOCKER
        }
        return not session.presence.ran_in_container and (name is None or name not in inside)

    def pause_record(self) -> PauseRecord | None:
        pause = self._mute_pause
        return pause.current_pause_record if isinstance(pause, MutePause) else pause


async def report_once(config: Config, since_wall: float) -> Report:
    """One read-only scan, with the records of an earlier daemon. Raises the store's errors."""
    paths = StatePaths.from_environ(os.environ)
    observer = SessionObserver(config, paths, SystemClock(), PlainProcesses())
    await observer.scan()
    path = store_path(config, paths)
    pause = read_stored_pause(path)
    reports = build_reports(observer, ReadOnlyStore(path), ObserverReportSources(observer, pause))
    return await reports.report_since(since_wall, notes=(NO_DAEMON,))
