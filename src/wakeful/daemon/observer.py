"""Builds the log sources and the supervisor: enough to observe the machine once.

It writes nothing, listens to nothing and waits for nothing. The daemon extends it; `wakeful ls` without a
daemon is one pass of it (`scan_once`). A source that raises is marked as down and does not stop the others.
"""

import asyncio
import os
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar

from wakeful import __version__
from wakeful.alerts.failed_parts import FailedParts
from wakeful.alerts.mute_pause_model import PauseRecord
from wakeful.config.paths import StatePaths
from wakeful.config.schema import Config
from wakeful.core.clock import Clock
from wakeful.core.ids import SessionId
from wakeful.core.process import Process, ProcessState
from wakeful.hooks.spool import HookReportTimes, HookSpoolSource
from wakeful.integrations.claude_code.registry import ClaudeRegistrySource, EntryProcessResolver
from wakeful.integrations.claude_code.stream_source import ClaudeStreamSource
from wakeful.integrations.claude_code.transcript import claude_logs
from wakeful.integrations.codex.rollout_source import CodexLockSource, codex_logs
from wakeful.integrations.tmux.dialogs import DialogDetector
from wakeful.integrations.tmux.pane_source import PaneSession, TmuxPaneSource
from wakeful.judging.events import CallStarted, Event
from wakeful.judging.evidence import Orphan, SessionIdentity
from wakeful.judging.session_record import safe
from wakeful.judging.wake_eligibility import UNREACHABLE, Reachability
from wakeful.linux import proc
from wakeful.linux.client_processes import reason_to_spare
from wakeful.linux.clock import SystemClock
from wakeful.sessions.feed import Feed, SessionChange
from wakeful.sessions.registry import SessionRegistry
from wakeful.sessions.session import TrackedSession
from wakeful.sessions.supervisor import Supervisor
from wakeful.sources.base import FolderWatcher, ProcessWatch, Source
from wakeful.sources.event_log import event_logs
from wakeful.sources.log_source import LogFileSource
from wakeful.sources.tool_processes import orphans_of, unlogged_calls
from wakeful.sources.tool_use_log import tool_use_logs
from wakeful.storage.base import Bookmark, Transition
from wakeful.views.records import DaemonRecord, SourceRecord
from wakeful.views.sessions import ProcessRecord, SessionQueries

if TYPE_CHECKING:
    from wakeful.integrations.docker.source import ContainerSource

# A process's start time is rounded to ticks, and a call's is stamped before its process exists.
START_SLACK_SECONDS: Final = 2.0
# Half a megabyte: ten thousand at once, as after a start, would hold up the loop and swell the memory for good.
BOOKMARKS_AT_ONCE_MAX: Final = 500

# A pass over all processes is followed by a rest of so many times its length.
SCAN_PAUSE_FACTOR: Final = 10.0

P = ParamSpec("P")
T = TypeVar("T")


class PlainProcesses:
    """Looks at a process once; nobody is told of its end."""

    def watch(self, process: Process) -> ProcessState:
        return proc.state_of(process)


class SessionObserver:
    """Eyes and head without a loop: enough for one look, and what the daemon is built on."""

    def __init__(
        self,
        config: Config,
        paths: StatePaths,
        clock: Clock,
        processes: ProcessWatch,
        *,
        folders: FolderWatcher | None = None,
        bookmarks: Mapping[str, Bookmark] | None = None,
    ) -> None:
        self.clock = clock
        self.failures = FailedParts(clock)
        self.watch = processes.watch
        self._processes = processes
        self._folder_watch = folders
        self._claude_folders = claude_folders(config)
        self.policy = config.detect
        self.registry = SessionRegistry(self.policy.fold_after_seconds)
        self.supervisor = Supervisor(clock, self.registry, self.policy, self, boot_id=proc.boot_id())
        self.host = socket.gethostname()
        self.log_sources: list[LogFileSource | ContainerSource] = [
            LogFileSource(
                source,
                clock,
                self.supervisor,
                fold_after_seconds=self.policy.fold_after_seconds,
                folders=folders,
                bookmarks=bookmarks,
            )
            for source in (
                claude_logs(self._claude_folders, self.host),
                codex_logs(codex_folders(config), self.host),
                tool_use_logs(_resolve_folders(_tool_use_dirs(config)), self.host),
                event_logs(_resolve_folders((paths.events, *config.eyes.event_dirs)), self.host),
            )
        ]
        apart = tuple(map(str, _resolve_folders((paths.probe,))))
        # Logs first: who holds a conversation means more once it is known what it was doing.
        self.process_sources: list[Source] = [
            ClaudeRegistrySource(
                self._claude_folders,
                self.host,
                self.supervisor,
                processes,
                EntryProcessResolver(lambda: clock.now().wall).process_of,
                folders,
                apart,
            ),
            CodexLockSource(codex_folders(config), self.host, self.supervisor, processes, folders),
        ]
        self.tmux = TmuxPaneSource(
            self.pane_session,
            self.supervisor,
            processes,
            _resolve_folders((paths.tmux, *config.eyes.tmux_sockets)),
            dialogs=DialogDetector(
                self.supervisor,
                self.supervisor.session_of_process,
                {"claude": self._claude_folders, "codex": codex_folders(config)},
                self.host,
                apart,
            ),
        )
        self.streams = ClaudeStreamSource(Path(paths.run), self.host, clock, self.supervisor, folders)
        self.spool = HookSpoolSource(
            Path(paths.spool),
            self.host,
            clock,
            self.supervisor,
            folders,
            HookReportTimes(Path(paths.hook_marks), clock) if folders is not None else None,
            apart,
            knows=lambda session_id: (
                session_id in self.registry.sessions or session_id in self.registry.old_logs
            ),
            more=lambda: self.continue_reading(self.spool, self.spool.read_next),
        )
        self._families: tuple[float, dict[int, list[Process]]] = (-inf, {})

    def open_containers(self) -> "ContainerSource":
        """Eyes for what a hub will show them. Imported only then: an engine's library takes long, and may be missing."""
        from wakeful.integrations.docker.source import ContainerSource  # noqa: PLC0415

        opened = ContainerSource(
            self.host,
            self.clock,
            self.supervisor,
            self._processes,
            fold_after_seconds=self.policy.fold_after_seconds,
            folders=self._folder_watch,
            watched=self._claude_folders,
        )
        self.log_sources.append(opened)
        return opened

    @property
    def sources(self) -> list[Source]:
        return [*self.log_sources, *self.process_sources, self.streams, self.spool]

    async def scan(self) -> None:
        """One pass of every eye, and a verdict for everything they saw."""
        for source in self.sources:
            self.observe(source, source.scan)
        try:
            await self.tmux.scan()
        except Exception as error:  # noqa: BLE001 - the other sources are shown even so
            self.failures.on_failure(self.tmux.name, error)
        self.judge_all_pending()

    def observe(self, source: Source, act: Callable[P, T], *given: P.args, **named: P.kwargs) -> T | None:
        """What a source answers. One that raises is down; it blinds none of the others."""
        try:
            return act(*given, **named)
        except Exception as error:  # noqa: BLE001 - whatever it is, it must end nothing else
            self.retry_later(source, self.failures.on_failure(source.name, error))
            return None

    def retry_later(self, source: Source, seconds: float) -> None:
        """Nothing: a single look does not wait."""

    def continue_reading(self, source: Source, act: Callable[[], None]) -> None:
        """Nothing: a single look reads no more than it has to."""

    def judge_all_pending(self) -> None:
        """Judge everything that evidence has touched, now."""
        while self.supervisor.judge_pending():
            pass

    def refresh(self, session_id: SessionId) -> None:
        """Read whatever is new about a session and judge it, now."""
        self.catch_up(session_id)
        self.find_agent_process(session_id)
        self.judge_all_pending()

    def source_records(self) -> tuple[SourceRecord, ...]:
        down = {each.name: each.line for each in self.failures.down}
        told = [
            SourceRecord(source.name, down.get(source.name) or source.delay_reason, source.skipped_logs)
            for source in self.sources
        ]
        return (*told, SourceRecord(self.tmux.name, down.get(self.tmux.name) or self.tmux.delay_reason))

    def pane_session(self, session_id: SessionId) -> PaneSession | None:
        session = self.registry.sessions.get(session_id)
        process = session.presence.newest_process if session is not None else None
        if session is None or process is None:
            return None
        return PaneSession(session_id, process.process, process.sight, session.presence.pane)

    def request_judging(self) -> None:
        """Nothing: a single look settles at its end."""

    def set_timer(self, awake: float) -> None:
        """Nothing: a single look does not wait."""

    def on_judged(self, transitions: list[Transition], changes: list[SessionChange]) -> None:
        """Nothing: a single look leaves nothing behind."""

    def catch_up(self, session_id: SessionId) -> None:
        for eye in (*self.log_sources, self.streams):
            self.observe(eye, eye.catch_up, session_id)

    def read_last_events(self, session_id: SessionId, limit: int) -> list[Event]:
        """The newest events of the session's log, whichever eye follows it."""
        recalled = [self.observe(eye, eye.read_last_events, session_id, limit) for eye in self.log_sources]
        return [event for events in recalled for event in events or ()]

    def read_last_lines(self, session_id: SessionId) -> list[bytes]:
        """The newest lines of the session's log, whichever eye follows it."""
        recalled = [self.observe(eye, eye.read_last_lines, session_id) for eye in self.log_sources]
        return [line for lines in recalled for line in lines or ()]

    def take_bookmarks(self) -> list[Bookmark]:
        """How far logs were read that have not said so yet; BOOKMARKS_AT_ONCE_MAX of them if there may be more.

        What one eye fails to say costs another reading, not what the others say.
        """
        bookmarks: list[Bookmark] = []
        for eye in self.log_sources:
            room = BOOKMARKS_AT_ONCE_MAX - len(bookmarks)
            bookmarks += self.observe(eye, _some_bookmarks, eye, room) or ()
        return bookmarks

    def find_agent_process(self, session_id: SessionId) -> None:
        for source in self.process_sources:
            self.observe(source, source.catch_up, session_id)

    def process_tree(self, holder: Process) -> list[ProcessRecord]:
        """The processes below a holder: its tools, its helpers, and theirs."""
        families = proc.children_by_parent()
        parents = {each.pid: parent for parent, children in families.items() for each in children}
        return [
            ProcessRecord(each.pid, parents.get(each.pid, 0), safe(" ".join(proc.command(each.pid))))
            for each in proc.descendants(holder, families)
        ]

    def find_named_process(self, identity: SessionIdentity, pid: int, wall: float) -> None:
        process = proc.identify_or_none(pid)
        if process is not None and reason_to_spare(process) is not None:
            # No program that reports itself is the first process, Wakeful, or another user's.
            return
        seconds = self.clock.now().wall - wall
        if process is None or proc.age_seconds(process) + START_SLACK_SECONDS < seconds:
            # Gone, or a stranger that got the pid since: nobody knows any more when the writer was started.
            gone = Process(pid, 0, proc.boot_id())
            self.supervisor.on_process(identity, gone, ProcessState.DEAD, source="event log")
        else:
            self.supervisor.on_process(identity, process, self.watch(process), source="event log")

    def find_pane(self, session_id: SessionId) -> None:
        self.tmux.request_scan(session_id)

    def on_session_gone(self, session_id: SessionId) -> None:
        """Nothing: a single look remembers nobody."""

    def on_agent_exit(self, session_id: SessionId) -> None:
        self.read_last_calls(session_id)
        self.report_orphans(session_id, orphans_of(session_id))

    def read_last_calls(self, session_id: SessionId) -> None:
        """A client begins a call before its log has it: of one killed in between, only its stream knows."""
        session = self.registry.sessions[session_id]
        newest = session.activity.newest_call
        self._add_unlogged_calls(
            session, self.observe(self.streams, self.streams.calls_after, session_id, newest) or ()
        )

    def report_orphans(self, session_id: SessionId, orphans: tuple[Orphan, ...]) -> None:
        """Pass on which tools outlived their agent; one that is younger than its log is a call the log does not know."""
        session = self.registry.sessions.get(session_id)
        if (
            session is not None
            and session.subject.provider == "claude"
            and not session.presence.living_processes
        ):
            activity, now = session.activity, self.clock.now()
            inputs = [call.input for call in activity.calls.values()]
            self._add_unlogged_calls(
                session, unlogged_calls(orphans, inputs, (activity.last_at or now).wall, now.wall)
            )
        self.supervisor.on_orphans(session_id, orphans)

    def _add_unlogged_calls(self, session: TrackedSession, unlogged: Sequence[CallStarted]) -> None:
        if unlogged:
            self.supervisor.on_events(session.subject, unlogged, live=False)

    def has_live_tool(self, agent: Process, within_seconds: float) -> bool:
        return any(
            proc.age_seconds(each) <= within_seconds + START_SLACK_SECONDS
            for each in proc.descendants(agent, self._all_families())
        )

    def _all_families(self) -> dict[int, list[Process]]:
        """Every process, looked at again once a pass is ten times as old as it took: a tenth of the time at most."""
        began, (until, families) = time.monotonic(), self._families
        if began >= until:
            families = proc.children_by_parent()
            ended = time.monotonic()
            self._families = ended + (ended - began) * SCAN_PAUSE_FACTOR, families
        return families

    def reach(self, session_id: SessionId) -> Reachability:
        """Nowhere: a single look has no hands."""
        del session_id
        return UNREACHABLE

    def needs_approval(self, session_id: SessionId) -> bool:
        """Nobody goes on by a single look."""
        del session_id
        return False


def _some_bookmarks(eye: "LogFileSource | ContainerSource", room: int) -> list[Bookmark]:
    return list(islice(eye.take_bookmarks(), room))


def _tool_use_dirs(config: Config) -> tuple[str, ...]:
    """The logs of a queue's sessions are logs like others."""
    queued = (config.redis.logs,) if config.redis.logs else ()
    return (*config.eyes.tool_use_dirs, *queued)


def claude_folders(config: Config) -> tuple[Path, ...]:
    """Claude Code's own folder and those configured, each resolved once: below them no link is followed."""
    own = os.environ.get("CLAUDE_CONFIG_DIR") or "~/.claude"
    return _resolve_folders((own, *config.eyes.claude_dirs))


def codex_folders(config: Config) -> tuple[Path, ...]:
    """Codex's own home and those configured."""
    own = os.environ.get("CODEX_HOME") or "~/.codex"
    return _resolve_folders((own, *config.eyes.codex_dirs))


def _resolve_folders(folders: tuple[str, ...]) -> tuple[Path, ...]:
    # Unlike Path.resolve, realpath takes a link to itself for a name, and nothing is found there.
    return tuple(dict.fromkeys(Path(os.path.realpath(Path(folder).expanduser())) for folder in folders))


def scan_once(config: Config, paused: PauseRecord | None = None) -> SessionQueries:
    """One read-only look at everything. Nothing is watched afterwards and no file is left behind.

    `paused` is what the store says of it.
    """
    observer = SessionObserver(config, StatePaths.from_environ(os.environ), SystemClock(), PlainProcesses())
    asyncio.run(observer.scan())
    standing = DaemonRecord(
        mode=config.daemon.mode,
        version=__version__,
        host=observer.host,
        pid=None,
        started_at=None,
        listening=(),
        eyes=observer.source_records(),
        notes=("no daemon: this is one look, nothing is watched", *observer.failures.lines),
        paused=paused,
    )
    return SessionQueries(
        observer.clock,
        observer.registry,
        Feed(),
        _no_history,
        observer.policy,
        lambda: standing,
        observer.process_tree,
    )


async def _no_history(
    session_id: SessionId | None = None,  # noqa: ARG001 - one look has no past, whoever asks for whatever
    *,
    after: int = 0,  # noqa: ARG001
    limit: int = 1000,  # noqa: ARG001
) -> list[Transition]:
    return []
