"""The daemon: log sources, control, healing, hub, wake service and store in one asyncio loop.

It reacts to inotify, pidfds and deadlines; a sweep finds changes that inotify missed. Agents do not depend on
this process: if it ends, sessions go on. `serve.py` opens the listeners and defines the order of start and
shutdown.
"""

import asyncio
import os
from collections.abc import Mapping, Sequence
from math import inf
from typing import TYPE_CHECKING, Final

from wakeful.alerts.mute_pause import MutePause
from wakeful.config.paths import StatePaths
from wakeful.config.schema import Config, Mode
from wakeful.control.ownership import ManagedSessions
from wakeful.core.ids import SessionId
from wakeful.daemon.agents import build_agent_table, build_hub
from wakeful.daemon.config_watch import NO_FILES, ConfigSource, ConfigWatch
from wakeful.daemon.control import ControlComponents
from wakeful.daemon.healing import HealingComponents
from wakeful.daemon.heartbeat import AgentSessionAddresses, HeartbeatComponents
from wakeful.daemon.host import DaemonHost
from wakeful.daemon.observer import SessionObserver
from wakeful.daemon.source_set import BOOKMARKS_AT_ONCE_MAX
from wakeful.heartbeat.service import WakeControl
from wakeful.linux.child_process import ChildSupervisor
from wakeful.linux.clock import SystemClock
from wakeful.linux.exit_watch import ExitWatch
from wakeful.metrics.collect import LoopLag
from wakeful.metrics.model import Histogram
from wakeful.sessions.feed import Feed, SessionChange
from wakeful.sessions.registry import SessionRegistry
from wakeful.sessions.transition_writer import TransitionWriter
from wakeful.sources.base import FileChanges
from wakeful.sources.folder_watch import FolderWatch
from wakeful.sources.log_source import LogFileSource
from wakeful.storage.base import Bookmark, Store, Transition
from wakeful.work.expiry import RunExpiry
from wakeful.work.service import WorkQueue

if TYPE_CHECKING:
    from wakeful.integrations.docker.source import ContainerSource

# A backstop: changes that inotify did not report are found this late. Costs 55 ms of CPU per 10,000 logs.
SWEEP_SECONDS: Final = 300.0
# While some source reports delays, such as a folder that cannot be watched, only sweeps find its changes.
SLOW_SWEEP_SECONDS: Final = 5.0
# Full scans after lost kernel events happen at most this often.
RESCAN_SECONDS: Final = 2.0
# After a crash, at most this much log is read again.
BOOKMARK_SECONDS: Final = 5.0
# Critical events that were not archived stay for 30 days.
RETENTION_SECONDS: Final = 30 * 86_400.0
PRUNE_SECONDS: Final = 6 * 3600.0


class Daemon:
    """The parts of the daemon, and its periodic tasks."""

    def __init__(
        self,
        config: Config,
        paths: StatePaths,
        store: Store,
        folders: FolderWatch,
        bookmarks: Mapping[str, Bookmark],
        *,
        config_source: ConfigSource = NO_FILES,
        child_processes: Sequence[ChildSupervisor] = (),
    ) -> None:
        clock = self.clock = SystemClock()
        self.mode = config.daemon.mode
        self.config_watch = ConfigWatch(config_source, config, folders, clock)
        # Programs of Wakeful that run as long as the daemon does.
        self.child_processes = child_processes
        self.host = DaemonHost(clock, observing=self.mode is Mode.OBSERVE, wakes=config.heartbeat.enabled)
        self.failures = self.host.failures
        self.exits = ExitWatch(self.host.on_exit)
        observer = self.observer = SessionObserver(
            config, paths, clock, self.exits, runner=self.host, folders=folders, bookmarks=bookmarks
        )
        self.feed = Feed()
        self.transition_writer = TransitionWriter(store)
        self.mute_pause = MutePause(store, clock)
        table = build_agent_table(config, paths, store, observer, self.feed)
        agents = AgentSessionAddresses(table, config, paths)
        self.control = ControlComponents(observer, paths, store, config, self.mute_pause, agents)
        self.healing = HealingComponents(
            observer, paths, store, config, self.control, self.mute_pause, self.transition_writer
        )
        self.expiry = RunExpiry(store, clock, self.healing.work_revival.on_expired)
        self.hub = build_hub(config, paths, store, observer, table, self.control, self.healing)
        asked, automatic = self.control.controller, self.control.automatic_controller
        wakes = WakeControl(self.control.gate, asked, automatic, self.host, self.mute_pause)
        self.heartbeat = HeartbeatComponents(
            config, paths, store, observer, wakes, self.feed, self.hub, self.healing
        )
        sessions = QueueSessions(observer.registry, self.control.managed_sessions)
        self.work = WorkQueue(store, clock, sessions, self.expiry)
        self._store = store
        self._folders = folders
        self._loop = asyncio.get_running_loop()
        self._rescanned_at = -inf
        self._rescan_timer: asyncio.TimerHandle | None = None
        # Whether everything was scanned once, and whether file changes are being reported.
        self.has_scanned = self.is_listening = False
        self.lag, self.sweep_seconds = LoopLag(), Histogram()
        self._join_host()

    def _join_host(self) -> None:
        """All parts are built: from here on they get the supervisor's results."""
        self.host.join(
            controller=self.control.controller,
            judged=JudgedResults(self.transition_writer, self.feed, self.healing, self.heartbeat),
            processes=self.hub,
            exits=(self.observer.supervisor, self.observer.tmux, self.hub),
        )

    async def listen(self) -> None:
        """Pass on file system events, until cancelled."""
        self.is_listening = True
        try:
            async for changes in self._folders:
                if changes.rescan and not self._may_rescan():
                    changes.rescan = False
                self._pass_on(changes)
        finally:
            self.is_listening = False

    def _may_rescan(self) -> bool:
        """The kernel loses events when too many happen at once; the full scans that follow are limited."""
        wait_seconds = self._rescanned_at + RESCAN_SECONDS - self._loop.time()
        if wait_seconds <= 0:
            self._rescanned_at = self._loop.time()
            return True
        if self._rescan_timer is None:
            self._rescan_timer = self._loop.call_later(wait_seconds, self._rescan)
        return False

    def _rescan(self) -> None:
        self._rescan_timer, self._rescanned_at = None, self._loop.time()
        self._pass_on(FileChanges(set(), set(), set(), rescan=True))

    def _pass_on(self, changes: FileChanges) -> None:
        self.config_watch.on_changes(changes)
        for source in self.observer.sources.all():
            self.observer.sources.observe(source, source.on_changes, changes)

    async def run_sweep(self) -> None:
        """Scan at intervals: file system events may be lost."""
        while True:
            slow = any(source.delay_reason for source in self.observer.sources.all())
            await asyncio.sleep(SLOW_SWEEP_SECONDS if slow else SWEEP_SECONDS)
            began = self._loop.time()
            sources = self.observer.sources
            for log_source in sources.logs:
                await self._sweep_source(log_source)
            for source in (*sources.processes, *sources.streams, *sources.spools):
                sources.observe(source, source.scan)
            await self.observer.reachability.check_all()
            self.sweep_seconds.observe(self._loop.time() - began)

    async def _sweep_source(self, source: "LogFileSource | ContainerSource") -> None:
        try:
            await source.sweep()
        except Exception as error:  # noqa: BLE001 - the other sources are swept even so
            self.observer.sources.on_failure(source, error)

    async def run_retention(self) -> None:
        """Delete transitions older than a month, except each session's newest, and other old records."""
        while True:
            await self._store.prune(self.clock.now().wall - RETENTION_SECONDS)
            await self._drop_lost_bookmarks()
            await self.healing.forget_old()
            await self.control.idempotent_controller.forget_old()
            await asyncio.sleep(PRUNE_SECONDS)

    async def _drop_lost_bookmarks(self) -> None:
        """Delete the bookmarks of logs that no longer exist."""
        paths = [each.path for each in await self._store.bookmarks()]
        lost = await asyncio.to_thread(lambda: [path for path in paths if not os.path.lexists(path)])
        if lost:
            await self._store.drop_bookmarks(lost)

    async def run_bookmark_saving(self) -> None:
        """Save how far logs were read, so that a restart goes on from there."""
        while True:
            await asyncio.sleep(BOOKMARK_SECONDS)
            await self.save_bookmarks()

    async def save_bookmarks(self) -> None:
        """Save a bookmark of every log that was read since the last time."""
        more = True
        while more:
            bookmarks = self.observer.sources.take_bookmarks()
            more = len(bookmarks) == BOOKMARKS_AT_ONCE_MAX
            if bookmarks:
                await self._store.save_bookmarks(bookmarks)


class QueueSessions:
    def __init__(self, registry: SessionRegistry, managed_sessions: ManagedSessions) -> None:
        self._registry = registry
        self._managed_sessions = managed_sessions

    def resolve(self, text: str) -> SessionId:
        return self._registry.resolve(text)

    def is_managed(self, session_id: SessionId) -> bool:
        return self._managed_sessions.is_managed(session_id)


class JudgedResults:
    """Stores judged changes, publishes them, and lets healing and the health hook act on them, in this order."""

    def __init__(
        self, writer: TransitionWriter, feed: Feed, healing: HealingComponents, heartbeat: HeartbeatComponents
    ) -> None:
        self._writer = writer
        self._feed = feed
        self._healing = healing
        self._heartbeat = heartbeat

    def on_judged(self, transitions: list[Transition], changes: list[SessionChange]) -> None:
        self._writer.enqueue(transitions)
        self._feed.publish(changes)
        self._healing.on_changes(changes)
        self._heartbeat.on_transitions(transitions)

    def on_session_gone(self, session_id: SessionId) -> None:
        self._feed.publish_gone(session_id)
        self._healing.healer.on_judged(session_id)
