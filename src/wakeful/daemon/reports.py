"""Builds the morning report, for the daemon and for one read-only pass where no daemon runs."""

import asyncio
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from wakeful.agents.model import AgentRecord, AgentRuntime
from wakeful.alerts.mute_pause_model import PauseRecord
from wakeful.config.paths import Places
from wakeful.config.schema import Config
from wakeful.config.state_dir import store_path, stored_pause
from wakeful.daemon.observer import Lookout, PlainProcesses
from wakeful.integrations.git import GitFolders
from wakeful.linux.clock import SystemClock
from wakeful.reports.model import Report
from wakeful.reports.service import Memory, Reports
from wakeful.sessions.session import Watched
from wakeful.storage.base import Moves, Note
from wakeful.storage.sqlite.database import read_moves, read_notes

NO_DAEMON: Final = "no daemon: one look, and what the store remembers; nothing is watched"


class StoreAtRest:
    """The store's memory where nobody has it open: read, never written."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def moves(self, since: float) -> list[Moves]:
        return await asyncio.to_thread(read_moves, self._path, since)

    async def notes(self, kind: str) -> list[Note]:
        return await asyncio.to_thread(read_notes, self._path, kind)


def build_reports(
    lookout: Lookout,
    memory: Memory,
    *,
    paused: Callable[[], PauseRecord | None] = lambda: None,
    agents: Callable[[], Iterable[AgentRecord]] = tuple,
) -> Reports:
    """`agents` are those of the hub: what is inside a container has its folders there."""

    def is_here(watched: Watched) -> bool:
        name = watched.subject.agent
        inside = {each.id for each in agents() if each.runtime is AgentRuntime.DOCKER}
        return not watched.presence.is_elsewhere and (name is None or name not in inside)

    return Reports(
        clock=lookout.clock,
        roster=lookout.roster,
        memory=memory,
        folders=GitFolders(),
        recall=lookout.recall_events,
        policy=lookout.policy,
        is_here=is_here,
        paused=paused,
    )


async def report_once(config: Config, since_wall: float) -> Report:
    """One read-only look at everything, and what an earlier daemon wrote down. Raises the store's errors."""
    places = Places.of(os.environ)
    lookout = Lookout(config, places, SystemClock(), PlainProcesses())
    await lookout.look()
    path = store_path(config, places)
    pause = stored_pause(path)
    reports = build_reports(lookout, StoreAtRest(path), paused=lambda: pause)
    return await reports.since(since_wall, notes=(NO_DAEMON,))
