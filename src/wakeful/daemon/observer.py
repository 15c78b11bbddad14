"""Builds the log sources and the supervisor: enough to observe the machine once.

It writes nothing, listens to nothing and waits for nothing. The daemon extends it; `wakeful ls` without a
daemon is one pass of it (`look_once`). A source that raises is marked as down and does not stop the others.
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
from wakeful.alerts.failed_parts import Failures
from wakeful.alerts.mute_pause_model import PauseRecord
from wakeful.config.paths import Places
from wakeful.config.schema import Config
from wakeful.core.clock import Clock
from wakeful.core.ids import SessionId
from wakeful.core.process import Process, Sight
from wakeful.hooks.spool import Fired, SpoolEye
from wakeful.integrations.claude_code.registry import EntryHolder, RegistryEye
from wakeful.integrations.claude_code.stream_source import StreamEye
from wakeful.integrations.claude_code.transcript import claude_logs
from wakeful.integrations.codex.rollout_source import WriterLockEye, codex_logs
from wakeful.integrations.tmux.dialogs import Dialogs
from wakeful.integrations.tmux.pane_source import Tenant, TmuxEye
from wakeful.judging.events import CallStarted, Event
from wakeful.judging.evidence import Orphan, Subject
from wakeful.judging.session_record import safe
from wakeful.judging.wake_eligibility import OUT_OF_REACH, Reach
from wakeful.linux import proc
from wakeful.linux.client_processes import reason_to_spare
from wakeful.linux.clock import SystemClock
from wakeful.sessions.feed import Change, Feed
from wakeful.sessions.registry import Roster
from wakeful.sessions.session import Watched
from wakeful.sessions.supervisor import Supervisor
from wakeful.sources.base import Eye, Folders, Processes
from wakeful.sources.event_log import event_logs
from wakeful.sources.log_source import LogEye
from wakeful.sources.tool_processes import orphans_of, unlogged_calls
from wakeful.sources.tool_use_log import tool_use_logs
from wakeful.storage.base import Bookmark, Transition
from wakeful.views.sessions import Desk, EyeRecord, ProcessRecord, Standing

if TYPE_CHECKING:
    from wakeful.integrations.docker.source import ContainerEyes

# A process's start time is rounded to ticks, and a call's is stamped before its process exists.
START_SLACK_SECONDS: Final = 2.0
# Half a megabyte: ten thousand at once, as after a start, would hold up the loop and swell the memory for good.
BOOKMARKS_AT_ONCE_MAX: Final = 500

# A pass over all processes is followed by a rest of so many times its length.
PASS_REST: Final = 10.0

P = ParamSpec("P")
T = TypeVar("T")


class PlainProcesses:
    """Looks at a process once; nobody is told of its end."""

    def watch(self, process: Process) -> Sight:
        return proc.sight(process)


class Lookout:
    """Eyes and head without a loop: enough for one look, and what the daemon is built on."""

    def __init__(
        self,
        config: Config,
        places: Places,
        clock: Clock,
        processes: Processes,
        *,
        folders: Folders | None = None,
        bookmarks: Mapping[str, Bookmark] | None = None,
    ) -> None:
        self.clock = clock
        self.failures = Failures(clock)
        self.watch = processes.watch
        self._processes = processes
        self._told_by = folders
        self._claude_folders = claude_folders(config)
        self.policy = config.detect
        self.roster = Roster(self.policy.fold_after_seconds)
        self.supervisor = Supervisor(clock, self.roster, self.policy, self, boot_id=proc.boot_id())
        self.host = socket.gethostname()
        self.logs: list[LogEye | ContainerEyes] = [
            LogEye(
                source,
                clock,
                self.supervisor,
                fold_after_seconds=self.policy.fold_after_seconds,
                folders=folders,
                bookmarks=bookmarks,
            )
            for source in (
                claude_logs(self._claude_folders, self.host),
                codex_logs(codex_homes(config), self.host),
                tool_use_logs(_resolved(_tool_use_dirs(config)), self.host),
                event_logs(_resolved((places.events, *config.eyes.event_dirs)), self.host),
            )
        ]
        apart = tuple(map(str, _resolved((places.probe,))))
        # Logs first: who holds a conversation means more once it is known what it was doing.
        self.holders: list[Eye] = [
            RegistryEye(
                self._claude_folders,
                self.host,
                self.supervisor,
                processes,
                EntryHolder(lambda: clock.now().wall).process_of,
                folders,
                apart,
            ),
            WriterLockEye(codex_homes(config), self.host, self.supervisor, processes, folders),
        ]
        self.tmux = TmuxEye(
            self.tenant,
            self.supervisor,
            processes,
            _resolved((places.tmux, *config.eyes.tmux_sockets)),
            dialogs=Dialogs(
                self.supervisor,
                self.supervisor.subject_held_by,
                {"claude": self._claude_folders, "codex": codex_homes(config)},
                self.host,
                apart,
            ),
        )
        self.streams = StreamEye(Path(places.run), self.host, clock, self.supervisor, folders)
        self.spool = SpoolEye(
            Path(places.spool),
            self.host,
            clock,
            self.supervisor,
            folders,
            Fired(Path(places.fired), clock) if folders is not None else None,
            apart,
            knows=lambda session_id: session_id in self.roster.watched or session_id in self.roster.old,
            more=lambda: self.go_on(self.spool, self.spool.read_on),
        )
        self._families: tuple[float, dict[int, list[Process]]] = (-inf, {})

    def open_containers(self) -> "ContainerEyes":
        """Eyes for what a hub will show them. Imported only then: an engine's library takes long, and may be missing."""
        from wakeful.integrations.docker.source import ContainerEyes  # noqa: PLC0415

        opened = ContainerEyes(
            self.host,
            self.clock,
            self.supervisor,
            self._processes,
            fold_after_seconds=self.policy.fold_after_seconds,
            folders=self._told_by,
            watched=self._claude_folders,
        )
        self.logs.append(opened)
        return opened

    @property
    def eyes(self) -> list[Eye]:
        return [*self.logs, *self.holders, self.streams, self.spool]

    async def look(self) -> None:
        """One pass of every eye, and a verdict for everything they saw."""
        for eye in self.eyes:
            self.observe(eye, eye.look)
        try:
            await self.tmux.look()
        except Exception as error:  # noqa: BLE001 - the other sources are shown even so
            self.failures.failed(self.tmux.name, error)
        self.settle()

    def observe(self, source: Eye, act: Callable[P, T], *given: P.args, **named: P.kwargs) -> T | None:
        """What a source answers. One that raises is down; it blinds none of the others."""
        try:
            return act(*given, **named)
        except Exception as error:  # noqa: BLE001 - whatever it is, it must end nothing else
            self.look_later(source, self.failures.failed(source.name, error))
            return None

    def look_later(self, source: Eye, seconds: float) -> None:
        """Nothing: a single look does not wait."""

    def go_on(self, source: Eye, act: Callable[[], None]) -> None:
        """Nothing: a single look reads no more than it has to."""

    def settle(self) -> None:
        """Judge everything that evidence has touched, now."""
        while self.supervisor.settle():
            pass

    def look_again(self, session_id: SessionId) -> None:
        """Read whatever is new about a session and judge it, now."""
        self.catch_up(session_id)
        self.seek_holder(session_id)
        self.settle()

    def eye_records(self) -> tuple[EyeRecord, ...]:
        down = {each.name: each.line for each in self.failures.down}
        told = [EyeRecord(eye.name, down.get(eye.name) or eye.slow, eye.left_out) for eye in self.eyes]
        return (*told, EyeRecord(self.tmux.name, down.get(self.tmux.name) or self.tmux.slow))

    def tenant(self, session_id: SessionId) -> Tenant | None:
        watched = self.roster.watched.get(session_id)
        holder = watched.presence.newest if watched is not None else None
        if watched is None or holder is None:
            return None
        return Tenant(session_id, holder.process, holder.sight, watched.presence.pane)

    def wake(self) -> None:
        """Nothing: a single look settles at its end."""

    def alarm(self, awake: float) -> None:
        """Nothing: a single look does not wait."""

    def changed(self, transitions: list[Transition], changes: list[Change]) -> None:
        """Nothing: a single look leaves nothing behind."""

    def catch_up(self, session_id: SessionId) -> None:
        for eye in (*self.logs, self.streams):
            self.observe(eye, eye.catch_up, session_id)

    def recall_events(self, session_id: SessionId, limit: int) -> list[Event]:
        """The newest events of the session's log, whichever eye follows it."""
        recalled = [self.observe(eye, eye.recall_events, session_id, limit) for eye in self.logs]
        return [event for events in recalled for event in events or ()]

    def recall_lines(self, session_id: SessionId) -> list[bytes]:
        """The newest lines of the session's log, whichever eye follows it."""
        recalled = [self.observe(eye, eye.recall_lines, session_id) for eye in self.logs]
        return [line for lines in recalled for line in lines or ()]

    def take_bookmarks(self) -> list[Bookmark]:
        """How far logs were read that have not said so yet; BOOKMARKS_AT_ONCE_MAX of them if there may be more.

        What one eye fails to say costs another reading, not what the others say.
        """
        bookmarks: list[Bookmark] = []
        for eye in self.logs:
            room = BOOKMARKS_AT_ONCE_MAX - len(bookmarks)
            bookmarks += self.observe(eye, _some_bookmarks, eye, room) or ()
        return bookmarks

    def seek_holder(self, session_id: SessionId) -> None:
        for eye in self.holders:
            self.observe(eye, eye.catch_up, session_id)

    def tree(self, holder: Process) -> list[ProcessRecord]:
        """The processes below a holder: its tools, its helpers, and theirs."""
        families = proc.families()
        parents = {each.pid: parent for parent, children in families.items() for each in children}
        return [
            ProcessRecord(each.pid, parents.get(each.pid, 0), safe(" ".join(proc.command(each.pid))))
            for each in proc.descendants(holder, families)
        ]

    def seek_named(self, subject: Subject, pid: int, wall: float) -> None:
        process = proc.identify_if_seen(pid)
        if process is not None and reason_to_spare(process) is not None:
            # No program that reports itself is the first process, Wakeful, or another user's.
            return
        seconds = self.clock.now().wall - wall
        if process is None or proc.age_seconds(process) + START_SLACK_SECONDS < seconds:
            # Gone, or a stranger that got the pid since: nobody knows any more when the writer was started.
            gone = Process(pid, 0, proc.boot_id())
            self.supervisor.held(subject, gone, Sight.DEAD, source="event log")
        else:
            self.supervisor.held(subject, process, self.watch(process), source="event log")

    def seek_pane(self, session_id: SessionId) -> None:
        self.tmux.hurry(session_id)

    def vanished(self, session_id: SessionId) -> None:
        """Nothing: a single look remembers nobody."""

    def died(self, session_id: SessionId) -> None:
        self.hear_last_calls(session_id)
        self.left_behind(session_id, orphans_of(session_id))

    def hear_last_calls(self, session_id: SessionId) -> None:
        """A client begins a call before its log has it: of one killed in between, only its stream knows."""
        watched = self.roster.watched[session_id]
        newest = watched.activity.newest_call
        self._hear(watched, self.observe(self.streams, self.streams.calls_after, session_id, newest) or ())

    def left_behind(self, session_id: SessionId, orphans: tuple[Orphan, ...]) -> None:
        """Pass on which tools outlived their agent; one that is younger than its log is a call the log does not know."""
        watched = self.roster.watched.get(session_id)
        if watched is not None and watched.subject.provider == "claude" and not watched.presence.living:
            activity, now = watched.activity, self.clock.now()
            inputs = [call.input for call in activity.calls.values()]
            self._hear(watched, unlogged_calls(orphans, inputs, (activity.last_at or now).wall, now.wall))
        self.supervisor.left_behind(session_id, orphans)

    def _hear(self, watched: Watched, unlogged: Sequence[CallStarted]) -> None:
        if unlogged:
            self.supervisor.heard(watched.subject, unlogged, live=False)

    def tool_alive(self, agent: Process, within_seconds: float) -> bool:
        return any(
            proc.age_seconds(each) <= within_seconds + START_SLACK_SECONDS
            for each in proc.descendants(agent, self._all_families())
        )

    def _all_families(self) -> dict[int, list[Process]]:
        """Every process, looked at again once a pass is ten times as old as it took: a tenth of the time at most."""
        began, (until, families) = time.monotonic(), self._families
        if began >= until:
            families = proc.families()
            ended = time.monotonic()
            self._families = ended + (ended - began) * PASS_REST, families
        return families

    def reach(self, session_id: SessionId) -> Reach:
        """Nowhere: a single look has no hands."""
        del session_id
        return OUT_OF_REACH

    def is_held(self, session_id: SessionId) -> bool:
        """Nobody goes on by a single look."""
        del session_id
        return False


def _some_bookmarks(eye: "LogEye | ContainerEyes", room: int) -> list[Bookmark]:
    return list(islice(eye.take_bookmarks(), room))


def _tool_use_dirs(config: Config) -> tuple[str, ...]:
    """The logs of a queue's sessions are logs like others."""
    queued = (config.redis.logs,) if config.redis.logs else ()
    return (*config.eyes.tool_use_dirs, *queued)


def claude_folders(config: Config) -> tuple[Path, ...]:
    """Claude Code's own folder and those configured, each resolved once: below them no link is followed."""
    own = os.environ.get("CLAUDE_CONFIG_DIR") or "~/.claude"
    return _resolved((own, *config.eyes.claude_dirs))


def codex_homes(config: Config) -> tuple[Path, ...]:
    """Codex's own home and those configured."""
    own = os.environ.get("CODEX_HOME") or "~/.codex"
    return _resolved((own, *config.eyes.codex_dirs))


def _resolved(folders: tuple[str, ...]) -> tuple[Path, ...]:
    # Unlike Path.resolve, realpath takes a link to itself for a name, and nothing is found there.
    return tuple(dict.fromkeys(Path(os.path.realpath(Path(folder).expanduser())) for folder in folders))


def look_once(config: Config, paused: PauseRecord | None = None) -> Desk:
    """One read-only look at everything. Nothing is watched afterwards and no file is left behind.

    `paused` is what the store says of it.
    """
    lookout = Lookout(config, Places.of(os.environ), SystemClock(), PlainProcesses())
    asyncio.run(lookout.look())
    standing = Standing(
        mode=config.daemon.mode,
        version=__version__,
        host=lookout.host,
        pid=None,
        started_at=None,
        listening=(),
        eyes=lookout.eye_records(),
        notes=("no daemon: this is one look, nothing is watched", *lookout.failures.lines),
        paused=paused,
    )
    return Desk(
        lookout.clock, lookout.roster, Feed(), _no_history, lookout.policy, lambda: standing, lookout.tree
    )


async def _no_history(
    session_id: SessionId | None = None,  # noqa: ARG001 - one look has no past, whoever asks for whatever
    *,
    after: int = 0,  # noqa: ARG001
    limit: int = 1000,  # noqa: ARG001
) -> list[Transition]:
    return []
