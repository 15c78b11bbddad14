"""The set of all sources, and the interface to the code that runs them.

The supervisor asks the set about logs, processes and panes. A source that raises is marked as down and tried
again; it does not stop the others.
"""

import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from math import inf
from typing import TYPE_CHECKING, Final, ParamSpec, Protocol, TypeVar

from wakeful.alerts.failed_parts import FailedParts
from wakeful.core.clock import Clock
from wakeful.core.ids import SessionId
from wakeful.core.process import Process, ProcessState
from wakeful.core.redaction import redact
from wakeful.core.text import plain
from wakeful.hooks.spool import HookSpoolSource
from wakeful.integrations.claude_code.stream_source import ClaudeStreamSource
from wakeful.integrations.tmux.pane_source import PaneSession, TmuxPaneSource
from wakeful.judging.events import CallStarted, Event
from wakeful.judging.evidence import Orphan, SessionIdentity
from wakeful.judging.wake_eligibility import UNREACHABLE, Reachability
from wakeful.linux import proc
from wakeful.linux.client_processes import reason_to_spare
from wakeful.sessions.feed import SessionChange
from wakeful.sessions.registry import KnownSessions
from wakeful.sessions.session import TrackedSession
from wakeful.sessions.supervisor import Supervisor
from wakeful.sessions.supervisor_host import SupervisorHost
from wakeful.sources.base import ProcessWatch, Source
from wakeful.sources.log_source import LogExcerpt, LogFileSource
from wakeful.sources.tool_processes import orphans_of, unlogged_calls
from wakeful.storage.base import Bookmark, Transition
from wakeful.views.records import SourceRecord

if TYPE_CHECKING:
    from wakeful.integrations.docker.source import ContainerSource

# A process's start time is rounded to ticks, and a call's is stamped before its process exists.
START_SLACK_SECONDS: Final = 2.0
# Half a megabyte: ten thousand at once, as after a start, would block the loop and raise memory use permanently.
BOOKMARKS_AT_ONCE_MAX: Final = 500

# A pass over all processes is followed by a rest of so many times its length.
SCAN_PAUSE_FACTOR: Final = 10.0

P = ParamSpec("P")
T = TypeVar("T")


class SourceScheduler(Protocol):
    """When sources are tried again, read on, and searched for orphans."""

    @property
    def failures(self) -> FailedParts:
        """The sources that are down, because they raised."""

    def retry_later(self, name: str, seconds: float, retry: Callable[[], object]) -> None:
        """Call `retry` after so many seconds, once for each name. If that does not fail, the source works again."""

    def continue_later(self, act: Callable[[], object]) -> None:
        """A source has more to read than one turn of the loop takes: go on in the next one."""

    def search_orphans(self, session_id: SessionId, report: "ReportOrphans") -> None:
        """Find the tools that outlived this agent, now or later, and report them."""


ReportOrphans = Callable[[SessionId, tuple[Orphan, ...]], None]


class ObserverHost(SupervisorHost, SourceScheduler, Protocol):
    """The code that runs an observer: the daemon, or a single scan."""


class SingleScan:
    """Runs one scan: it waits for nothing, stores nothing, and reaches no session."""

    def __init__(self, clock: Clock) -> None:
        self.failures = FailedParts(clock)

    def request_judging(self, supervisor: Supervisor) -> None:
        """Nothing: the scan judges everything at its end."""

    def set_timer(self, supervisor: Supervisor, awake: float) -> None: ...

    def on_session_process(self, session_id: SessionId) -> None: ...

    def on_session_gone(self, session_id: SessionId) -> None: ...

    def on_judged(self, transitions: list[Transition], changes: list[SessionChange]) -> None: ...

    def retry_later(self, name: str, seconds: float, retry: Callable[[], object]) -> None: ...

    def continue_later(self, act: Callable[[], object]) -> None: ...

    def reach(self, session_id: SessionId) -> Reachability:
        del session_id
        return UNREACHABLE

    def needs_approval(self, session_id: SessionId) -> bool:
        del session_id
        return False

    def search_orphans(self, session_id: SessionId, report: ReportOrphans) -> None:
        report(session_id, orphans_of(session_id))


class SourceSet:
    """All sources of evidence: answers the supervisor's questions about logs, processes and panes.

    It starts empty: sources report to the supervisor, so they are added after the supervisor was built on this set.
    """

    def __init__(
        self, clock: Clock, known: KnownSessions, processes: ProcessWatch, scheduler: SourceScheduler
    ) -> None:
        self._clock = clock
        self._known = known
        self._processes = processes
        self._scheduler = scheduler
        self.logs: list[LogFileSource | ContainerSource] = []
        self.processes: list[Source] = []
        self.streams: list[ClaudeStreamSource] = []
        self.spools: list[HookSpoolSource] = []
        self.panes: list[TmuxPaneSource] = []
        self._families: tuple[float, dict[int, list[Process]]] = (-inf, {})

    def all(self) -> list[Source]:
        """Every source but the panes, logs first: a process means more once its conversation is known."""
        return [*self.logs, *self.processes, *self.streams, *self.spools]

    def observe(self, source: Source, act: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
        """The result of a source's method. A source that raises is marked as down, and the result is None."""
        try:
            return act(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - one source must not stop the others
            self.on_failure(source, error)
            return None

    def on_failure(self, source: Source, error: Exception) -> None:
        """Mark a source that raised as down, and scan it again later."""
        seconds = self._scheduler.failures.on_failure(source.name, error)
        self._scheduler.retry_later(source.name, seconds, partial(self.observe, source, source.scan))

    def continue_reading(self, source: Source, act: Callable[[], None]) -> None:
        """Read on in the next turn of the loop: a source has more than one turn takes."""
        self._scheduler.continue_later(partial(self.observe, source, act))

    def is_known(self, session_id: SessionId) -> bool:
        return session_id in self._known.sessions or session_id in self._known.old_logs

    def pane_session(self, session_id: SessionId) -> PaneSession | None:
        session = self._known.sessions.get(session_id)
        process = session.presence.newest_process if session is not None else None
        if session is None or process is None:
            return None
        return PaneSession(session_id, process.process, process.sight, session.presence.pane)

    def catch_up(self, session_id: SessionId) -> None:
        for source in (*self.logs, *self.streams):
            self.observe(source, source.catch_up, session_id)

    def watch(self, process: Process) -> ProcessState:
        return self._processes.watch(process)

    def find_agent_process(self, session_id: SessionId) -> None:
        for source in self.processes:
            self.observe(source, source.catch_up, session_id)

    def find_named_process(
        self, supervisor: Supervisor, identity: SessionIdentity, pid: int, wall: float
    ) -> None:
        process = proc.identify_or_none(pid)
        if process is not None and reason_to_spare(process) is not None:
            # A program that reports itself is never the first process, Wakeful, or another user's.
            return
        seconds = self._clock.now().wall - wall
        if process is None or proc.age_seconds(process) + START_SLACK_SECONDS < seconds:
            # The writer has ended, or another process has its pid by now. Its start time is unknown.
            writer = proc.process_of(pid, 0)
            supervisor.on_process(identity, writer, ProcessState.DEAD, source="event log")
        else:
            supervisor.on_process(identity, process, self.watch(process), source="event log")

    def find_pane(self, session_id: SessionId) -> None:
        for source in self.panes:
            source.request_scan(session_id)

    def mark_unsaved(self, session_id: SessionId) -> None:
        for source in self.logs:
            self.observe(source, source.mark_unsaved, session_id)

    def on_agent_exit(self, supervisor: Supervisor, session_id: SessionId) -> None:
        # A client starts a call, or ends a turn, before it logs that: if it is killed in between, only its stream shows it.
        session = self._known.sessions[session_id]
        newest, last_at = session.activity.newest_call, session.activity.last_at
        for source in self.streams:
            ended = self.observe(source, source.turn_end, session_id, last_at.wall if last_at else 0.0)
            if ended is not None:
                supervisor.on_events(session.subject, [ended], live=False)
                self.mark_unsaved(session_id)
                return
            unlogged = self.observe(source, source.calls_after, session_id, newest) or ()
            _add_unlogged_calls(supervisor, session, unlogged)
        self._scheduler.search_orphans(session_id, partial(self._report_orphans, supervisor))

    def _report_orphans(
        self, supervisor: Supervisor, session_id: SessionId, orphans: tuple[Orphan, ...]
    ) -> None:
        """Report the tools that outlived their agent. A tool that is younger than the log is an unlogged call."""
        session = self._known.sessions.get(session_id)
        if (
            session is not None
            and session.subject.provider == "claude"
            and not session.presence.living_processes
        ):
            activity, now = session.activity, self._clock.now()
            inputs = [call.input for call in activity.calls.values()]
            unlogged = unlogged_calls(orphans, inputs, (activity.last_at or now).wall, now.wall)
            _add_unlogged_calls(supervisor, session, unlogged)
        supervisor.on_orphans(session_id, orphans)

    def has_live_tool(self, agent: Process, within_seconds: float) -> bool:
        return any(
            proc.age_seconds(each) <= within_seconds + START_SLACK_SECONDS
            for each in proc.descendants(agent, self._all_families())
        )

    def _all_families(self) -> dict[int, list[Process]]:
        """Every process by its parent; reading takes a tenth of the time at most."""
        began, (until, families) = time.monotonic(), self._families
        if began >= until:
            families = proc.children_by_parent()
            ended = time.monotonic()
            self._families = ended + (ended - began) * SCAN_PAUSE_FACTOR, families
        return families

    def read_last_events(self, session_id: SessionId, limit: int) -> list[Event]:
        """The newest events of the session's log, from the source that follows it."""
        found = [self.observe(each, each.read_last_events, session_id, limit) for each in self.logs]
        return [event for events in found for event in events or ()]

    def read_conversation(self, session_id: SessionId, after: str) -> LogExcerpt | None:
        """An excerpt of the session's log, from the source that follows it."""
        found = (self.observe(each, each.read_conversation, session_id, after) for each in self.logs)
        return next((excerpt for excerpt in found if excerpt is not None), None)

    def read_last_lines(self, session_id: SessionId) -> list[bytes]:
        """The newest lines of the session's log, from the source that follows it."""
        found = [self.observe(each, each.read_last_lines, session_id) for each in self.logs]
        return [line for lines in found for line in lines or ()]

    def take_bookmarks(self) -> list[Bookmark]:
        """Unsaved positions in logs; BOOKMARKS_AT_ONCE_MAX of them if there may be more.

        If one source fails, its logs are read once more; the bookmarks of the others are kept.
        """
        bookmarks: list[Bookmark] = []
        for source in self.logs:
            room = BOOKMARKS_AT_ONCE_MAX - len(bookmarks)
            bookmarks += self.observe(source, lambda: list(islice(source.take_bookmarks(), room))) or ()  # noqa: B023
        return bookmarks

    def records(self) -> tuple[SourceRecord, ...]:
        """Every source, with the reason if it is down or slow."""
        down = {each.name: each.line for each in self._scheduler.failures.down}
        found = [
            SourceRecord(
                each.name,
                down.get(each.name) or _plain_reason(each.delay_reason),
                _plain_reason(each.skipped_logs),
            )
            for each in self.all()
        ]
        panes = [
            SourceRecord(each.name, down.get(each.name) or _plain_reason(each.delay_reason))
            for each in self.panes
        ]
        return (*found, *panes)


def _plain_reason(reason: str | None) -> str | None:
    """Without secrets and unprintable characters: these texts name files, and any program names its files as it likes."""
    return plain(redact(reason)) if reason is not None else None


def _add_unlogged_calls(
    supervisor: Supervisor, session: TrackedSession, unlogged: Sequence[CallStarted]
) -> None:
    if unlogged:
        supervisor.on_events(session.subject, unlogged, live=False)
