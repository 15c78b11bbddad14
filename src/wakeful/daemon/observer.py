"""Builds the sources, the supervisor and the registry, and scans the machine with them.

An `ObserverHost` runs them and uses the results: the daemon, or `SingleScan` for one pass without a daemon
(`wakeful ls`, `scan_once`), which writes nothing and waits for nothing. A source that raises is marked as down
and does not stop the others.
"""

import asyncio
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from wakeful import __version__
from wakeful.alerts.mute_pause_model import PauseRecord
from wakeful.config.paths import StatePaths
from wakeful.config.schema import Config
from wakeful.core.clock import Clock
from wakeful.core.ids import SessionId
from wakeful.core.process import Process, ProcessState
from wakeful.daemon.source_set import ObserverHost, SingleScan, SourceSet
from wakeful.hooks.spool import HookReportTimes, HookSpoolSource
from wakeful.integrations.claude_code.registry import ClaudeRegistrySource, EntryProcessResolver
from wakeful.integrations.claude_code.stream_source import ClaudeStreamSource
from wakeful.integrations.claude_code.transcript import claude_logs
from wakeful.integrations.codex.rollout_source import CodexLockSource, codex_logs
from wakeful.integrations.tmux.dialogs import DialogDetector
from wakeful.integrations.tmux.pane_source import TmuxPaneSource
from wakeful.judging.events import Event
from wakeful.judging.session_record import safe
from wakeful.judging.thresholds import Policy
from wakeful.linux import proc
from wakeful.linux.clock import SystemClock
from wakeful.linux.machine import this_machine
from wakeful.sessions.feed import Feed
from wakeful.sessions.registry import KnownSessions, SessionRegistry
from wakeful.sessions.tracking import track_sessions
from wakeful.sources.base import FolderWatcher, ProcessWatch
from wakeful.sources.event_log import event_logs
from wakeful.sources.log_source import LogExcerpt, LogFileSource
from wakeful.sources.tool_use_log import tool_use_logs
from wakeful.storage.base import Bookmark
from wakeful.views.records import DaemonRecord
from wakeful.views.sessions import ProcessRecord, SessionFacts, SessionQueries

if TYPE_CHECKING:
    from wakeful.integrations.docker.source import ContainerSource


class ObservedSessions(Protocol):
    """The sessions of an observer, for the parts that are built on them."""

    @property
    def clock(self) -> Clock: ...

    @property
    def policy(self) -> Policy: ...

    @property
    def registry(self) -> SessionRegistry: ...

    def read_last_events(self, session_id: SessionId, limit: int) -> list[Event]: ...


class PlainProcesses:
    """Checks a process once, without a report of its end."""

    def watch(self, process: Process) -> ProcessState:
        return proc.state_of(process)


class SessionObserver:
    """The sources, the supervisor and the registry of one host. `runner` runs them; without one it is a single scan."""

    def __init__(
        self,
        config: Config,
        paths: StatePaths,
        clock: Clock,
        processes: ProcessWatch,
        *,
        runner: ObserverHost | None = None,
        folders: FolderWatcher | None = None,
        bookmarks: Mapping[str, Bookmark] | None = None,
    ) -> None:
        self.clock = clock
        self.processes = processes
        self.policy = config.detect
        self.host = this_machine().host
        self._folder_watch = folders
        self._claude_folders = claude_folders(config)
        runner = SingleScan(clock) if runner is None else runner
        self.failures = runner.failures
        known = KnownSessions()
        self.sources = SourceSet(clock, known, processes, runner)
        tracking = track_sessions(
            clock, self.policy, runner, self.sources, known=known, boot_id=this_machine().boot_id
        )
        self.supervisor, self.reachability = tracking.supervisor, tracking.reachability
        self.registry = tracking.registry
        apart = tuple(map(str, _resolve_folders((paths.probe,))))
        self._add_log_sources(config, paths, bookmarks)
        self._add_process_sources(config, apart)
        self.tmux = self._add_panes(config, paths, apart)
        self._add_streams_and_spool(paths, apart)

    def _add_log_sources(
        self, config: Config, paths: StatePaths, bookmarks: Mapping[str, Bookmark] | None
    ) -> None:
        # The logs of a queue's sessions are logs like others.
        tool_use_dirs = (*config.eyes.tool_use_dirs, *((config.redis.logs,) if config.redis.logs else ()))
        readers = (
            claude_logs(self._claude_folders, self.host),
            codex_logs(codex_folders(config), self.host),
            tool_use_logs(_resolve_folders(tool_use_dirs), self.host),
            event_logs(_resolve_folders((paths.events, *config.eyes.event_dirs)), self.host),
        )
        for reader in readers:
            source = LogFileSource(
                reader,
                self.clock,
                self.supervisor,
                fold_after_seconds=self.policy.fold_after_seconds,
                folders=self._folder_watch,
                bookmarks=bookmarks,
            )
            self.sources.logs.append(source)

    def _add_process_sources(self, config: Config, apart: tuple[str, ...]) -> None:
        supervisor, processes, folders = self.supervisor, self.processes, self._folder_watch
        clock = self.clock
        process_of = EntryProcessResolver(lambda: clock.now().wall).process_of
        self.sources.processes += (
            ClaudeRegistrySource(
                self._claude_folders, self.host, supervisor, processes, process_of, folders, apart
            ),
            CodexLockSource(codex_folders(config), self.host, supervisor, processes, folders),
        )

    def _add_panes(self, config: Config, paths: StatePaths, apart: tuple[str, ...]) -> TmuxPaneSource:
        tmux = TmuxPaneSource(
            self.sources.pane_session,
            self.supervisor,
            self.processes,
            _resolve_folders((paths.tmux, *config.eyes.tmux_sockets)),
            dialogs=DialogDetector(
                self.supervisor,
                self.supervisor.session_of_process,
                {"claude": self._claude_folders, "codex": codex_folders(config)},
                self.host,
                apart,
            ),
        )
        self.sources.panes.append(tmux)
        return tmux

    def _add_streams_and_spool(self, paths: StatePaths, apart: tuple[str, ...]) -> None:
        folders = self._folder_watch
        self.sources.streams.append(
            ClaudeStreamSource(Path(paths.run), self.host, self.clock, self.supervisor, folders)
        )
        fired = HookReportTimes(Path(paths.hook_marks), self.clock) if folders is not None else None
        self.sources.spools.append(
            HookSpoolSource(
                Path(paths.spool),
                self.host,
                self.clock,
                self.supervisor,
                folders,
                fired,
                apart,
                context=self.sources,
            )
        )

    def open_containers(self) -> "ContainerSource":
        """A source for the containers of a hub. Imported only here: an engine's library loads slowly and may be missing."""
        from wakeful.integrations.docker.source import ContainerSource  # noqa: PLC0415

        opened = ContainerSource(
            self.host,
            self.clock,
            self.supervisor,
            self.processes,
            fold_after_seconds=self.policy.fold_after_seconds,
            folders=self._folder_watch,
            watched=self._claude_folders,
        )
        self.sources.logs.append(opened)
        return opened

    async def scan(self) -> None:
        """Scan every source once, and judge all sessions that were found."""
        await self.scan_sources()
        self.judge_all_pending()

    async def scan_sources(self) -> None:
        for source in self.sources.all():
            self.sources.observe(source, source.scan)
        try:
            await self.tmux.scan()
        except Exception as error:  # noqa: BLE001 - the other sources are shown even so
            self.failures.on_failure(self.tmux.name, error)

    def judge_all_pending(self) -> None:
        while self.supervisor.judge_pending():
            pass

    def refresh(self, session_id: SessionId) -> None:
        """Read everything new about a session and judge it, now."""
        self.catch_up(session_id)
        self.judge_all_pending()

    def catch_up(self, session_id: SessionId) -> None:
        """Read everything new about a session, and find its process."""
        self.sources.catch_up(session_id)
        self.sources.find_agent_process(session_id)

    def read_last_events(self, session_id: SessionId, limit: int) -> list[Event]:
        return self.sources.read_last_events(session_id, limit)

    def read_conversation(self, session_id: SessionId, after: str) -> LogExcerpt | None:
        return self.sources.read_conversation(session_id, after)

    def process_tree(self, agent: Process) -> list[ProcessRecord]:
        """All processes below an agent: its tools and helpers, and their children."""
        families = proc.children_by_parent()
        parents = {each.pid: parent for parent, children in families.items() for each in children}
        return [
            ProcessRecord(each.pid, parents.get(each.pid, 0), safe(" ".join(proc.command(each.pid))))
            for each in proc.descendants(agent, families)
        ]


def claude_folders(config: Config) -> tuple[Path, ...]:
    """Claude Code's own folder and those configured, each resolved once: below them no link is followed."""
    own = os.environ.get("CLAUDE_CONFIG_DIR") or "~/.claude"
    return _resolve_folders((own, *config.eyes.claude_dirs))


def codex_folders(config: Config) -> tuple[Path, ...]:
    own = os.environ.get("CODEX_HOME") or "~/.codex"
    return _resolve_folders((own, *config.eyes.codex_dirs))


def _resolve_folders(folders: tuple[str, ...]) -> tuple[Path, ...]:
    # Path.resolve raises for a link to itself; realpath returns a name at which nothing is found.
    return tuple(dict.fromkeys(Path(os.path.realpath(Path(folder).expanduser())) for folder in folders))


def scan_once(config: Config, paused: PauseRecord | None = None) -> SessionQueries:
    """Scan everything once, read-only. Nothing is watched or written. `paused` is the stored pause."""
    observer = SessionObserver(config, StatePaths.from_environ(os.environ), SystemClock(), PlainProcesses())
    asyncio.run(observer.scan())
    daemon = DaemonRecord(
        mode=config.daemon.mode,
        version=__version__,
        host=observer.host,
        pid=None,
        started_at=None,
        listening=(),
        eyes=observer.sources.records(),
        notes=("no daemon: this is one look, nothing is watched", *observer.failures.lines),
        paused=paused,
    )
    return SessionQueries(
        observer.clock, observer.registry, Feed(), observer.policy, ScanFacts(daemon, observer)
    )


class ScanFacts(SessionFacts):
    def __init__(self, daemon: DaemonRecord, observer: SessionObserver) -> None:
        self._daemon = daemon
        self._observer = observer

    def daemon_record(self) -> DaemonRecord:
        return self._daemon

    def process_tree(self, agent: Process) -> Sequence[ProcessRecord]:
        return self._observer.process_tree(agent)

    def read_conversation(self, session_id: SessionId, after: str) -> LogExcerpt | None:
        return self._observer.read_conversation(session_id, after)
