"""Facts of the daemon's parts about sessions and about the daemon, for queries."""

import os
from collections.abc import Iterator, Sequence

from wakeful import __version__
from wakeful.agents.model import AgentsSummary
from wakeful.config.schema import Config
from wakeful.core.clock import iso
from wakeful.core.ids import SessionId
from wakeful.core.process import Process
from wakeful.daemon.daemon import Daemon
from wakeful.daemon.sockets import Listeners
from wakeful.healing.case import HealingCase
from wakeful.heartbeat.model import HeartbeatStatus
from wakeful.judging.events import Event
from wakeful.linux.files import ProblemFile
from wakeful.sources.log_source import LogExcerpt
from wakeful.storage.base import StateChange, Store, Transition
from wakeful.views.records import DaemonRecord
from wakeful.views.sessions import ProcessRecord, SessionFacts


class DaemonFacts(SessionFacts):
    def __init__(
        self, config: Config, gateway_problem: ProblemFile, listeners: Listeners, daemon: Daemon, store: Store
    ) -> None:
        self._config = config
        self._gateway_problem = gateway_problem
        self._listeners = listeners
        self._daemon = daemon
        self._store = store
        self._started_at = iso(daemon.clock.now().wall)

    def daemon_record(self) -> DaemonRecord:
        daemon = self._daemon
        return DaemonRecord(
            mode=self._config.daemon.mode,
            version=__version__,
            host=daemon.observer.host,
            pid=os.getpid(),
            started_at=self._started_at,
            listening=tuple(self._listeners.listening),
            eyes=daemon.observer.sources.records(),
            notes=(
                *self._listeners.notes,
                *daemon.config_watch.notes(),
                *self._problems(),
                *daemon.healing.notes,
                *daemon.failures.lines,
                *(each.status_line for each in daemon.child_processes),
                *daemon.mute_pause.mute_lines(daemon.clock.now().wall),
            ),
            paused=daemon.mute_pause.current_pause_record,
            config_files=daemon.config_watch.files,
            config_notes=daemon.config_watch.notes(),
        )

    def _problems(self) -> Iterator[str]:
        if self._daemon.transition_writer.problem:
            yield f"the store refuses writes: {self._daemon.transition_writer.problem}"
        if problem := self._gateway_problem.read():
            yield f"gateway: {problem}"
        gateway = self._config.gateway
        if gateway.approve_only_in_chat and not gateway.token:
            yield "no approval can be given: gateway.approve_only_in_chat is true, and there is no gateway.token"

    def agents(self) -> AgentsSummary:
        return self._daemon.hub.summary()

    async def transitions(
        self, session_id: SessionId | None = None, *, after: int = 0, limit: int = 1000
    ) -> list[Transition]:
        return await self._store.transitions(session_id, after=after, limit=limit)

    async def state_changes(self, since: float, limit: int) -> Sequence[StateChange]:
        return await self._store.state_changes(since, limit)

    def process_tree(self, agent: Process) -> Sequence[ProcessRecord]:
        return self._daemon.observer.process_tree(agent)

    def healing_case_of(self, session_id: SessionId) -> HealingCase | None:
        return self._daemon.healing.healer.case_of(session_id)

    def wake_of(self, session_id: SessionId) -> HeartbeatStatus | None:
        return self._daemon.heartbeat.wake_service.of_session(session_id)

    def warnings_of(self, session_id: SessionId) -> tuple[str, ...]:
        return self._daemon.heartbeat.timers.warnings(session_id)

    def read_last_events(self, session_id: SessionId, limit: int) -> Sequence[Event]:
        return self._daemon.observer.read_last_events(session_id, limit)

    def read_conversation(self, session_id: SessionId, after: str) -> LogExcerpt | None:
        return self._daemon.observer.read_conversation(session_id, after)

    def folder_exists(self, folder: str) -> bool:
        return os.path.isdir(folder)  # noqa: PTH112 - `Path.is_dir` raises where it may not look
