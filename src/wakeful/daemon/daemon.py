"""The daemon: log sources, control, healing, hub, wake service and store in one asyncio loop.

It reacts to inotify, pidfds and deadlines; a sweep finds changes that inotify missed. Agents do not depend on
this process: if it ends, sessions go on. `serve.py` opens the listeners and defines the order of start and
shutdown.
"""

import asyncio
import os
from collections.abc import Callable, Mapping
from math import inf
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from wakeful.alerts.mute_pause import MutePause
from wakeful.config.paths import StatePaths
from wakeful.config.schema import Config, Mode
from wakeful.core.ids import SessionId
from wakeful.core.process import Process
from wakeful.daemon.agents import build_hub
from wakeful.daemon.control import ControlComponents
from wakeful.daemon.healing import HealingComponents
from wakeful.daemon.heartbeat import HeartbeatComponents
from wakeful.daemon.observer import BOOKMARKS_AT_ONCE_MAX, SessionObserver
from wakeful.judging.wake_eligibility import Reachability
from wakeful.linux.child_process import ChildSupervisor
from wakeful.linux.clock import SystemClock
from wakeful.linux.exit_watch import ExitWatch
from wakeful.metrics.collect import LoopLag
from wakeful.metrics.model import Histogram
from wakeful.sessions.feed import Feed, SessionChange
from wakeful.sessions.reachability import ReachabilityChecker
from wakeful.sessions.transition_writer import TransitionWriter
from wakeful.sources.base import FileChanges, Source
from wakeful.sources.folder_watch import FolderWatch
from wakeful.sources.log_source import LogFileSource
from wakeful.sources.tool_processes import orphans_of_all
from wakeful.storage.base import Bookmark, Store, Transition
from wakeful.work.expiry import RunExpiry
from wakeful.work.service import WorkQueue

if TYPE_CHECKING:
    from wakeful.integrations.docker.source import ContainerSource

# A backstop: whatever inotify did not tell is found this late. Costs 55 ms of CPU per 10,000 logs.
SWEEP_SECONDS: Final = 300.0
# While some folder cannot be watched at all, sweeping is how it is seen.
SLOW_SWEEP_SECONDS: Final = 5.0
# At most this often everything is looked at because the kernel could not tell what changed.
RESCAN_SECONDS: Final = 2.0
# What a crash may cost is reading this much log again.
BOOKMARK_SECONDS: Final = 5.0
# Critical events that were not archived stay for 30 days.
RETENTION_SECONDS: Final = 30 * 86_400.0
PRUNE_SECONDS: Final = 6 * 3600.0
JUDGING: Final = "judging"


class Daemon(SessionObserver):
    """A lookout that stays: told by inotify and pidfds, woken by deadlines, writing down what changes."""

    def __init__(
        self,
        config: Config,
        paths: StatePaths,
        store: Store,
        folders: FolderWatch,
        bookmarks: Mapping[str, Bookmark],
    ) -> None:
        self.exits = ExitWatch(self._on_exit)
        super().__init__(config, paths, SystemClock(), self.exits, folders=folders, bookmarks=bookmarks)
        self.feed = Feed()
        self.transition_writer = TransitionWriter(store)
        self.mute_pause = MutePause(store, self.clock)
        self.reachability = ReachabilityChecker(self.supervisor, self.reach)
        self.control = ControlComponents(self, paths, store, config.daemon.mode, self.mute_pause.pause_reason)
        self.healing = HealingComponents(
            self, paths, store, config, self.control, self.mute_pause, lambda: self.transition_writer.problem
        )
        self.expiry = RunExpiry(store, self.clock, self.healing.work_revival.on_expired)
        self.hub = build_hub(config, paths, store, self, self.feed, self.control, self.healing)
        self.heartbeat = HeartbeatComponents(
            config,
            paths,
            store,
            self,
            self.feed,
            self.control,
            self.hub,
            self.mute_pause,
            lambda session_id: self.healing.healer.case_of(session_id) is not None,
        )
        self.work = WorkQueue(
            store,
            self.clock,
            self.registry.resolve,
            self.expiry.recheck_soon,
            lambda session_id: self.control.managed_sessions.find(session_id) is not None,
        )
        self._store = store
        self._config = config
        self._folders = folders
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        # Sessions whose agent ended, until the processes were searched for what it left running.
        self._sessions_to_search: set[SessionId] = set()
        self._search_task: asyncio.Task[None] | None = None
        self._rescanned_at = -inf
        self._rescan_timer: asyncio.TimerHandle | None = None
        self._retries: dict[str, asyncio.TimerHandle] = {}
        # Programs of ours that are kept running as long as this one does.
        self.child_processes: list[ChildSupervisor] = []
        self.mode = config.daemon.mode
        self.config_files: tuple[str, ...] = ()
        # Whether everything was looked at once, and whether the file system's word is being heard.
        self.has_scanned = self.is_listening = False
        self.lag, self.judging_seconds, self.sweep_seconds = LoopLag(), Histogram(), Histogram()

    def request_judging(self) -> None:
        self._loop.call_soon(self._judge_pending)

    def set_timer(self, awake: float) -> None:
        # The loop's clock is CLOCK_MONOTONIC, the one awake seconds are counted on.
        if self._timer is not None:
            if self._timer.when() <= awake and not self._timer.cancelled():
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(awake, self._on_timer)

    def reach(self, session_id: SessionId) -> Reachability:
        """The act gate's own word, asked while the session is judged."""
        enabled = self._config.heartbeat.enabled
        if self._config.daemon.mode is Mode.OBSERVE:
            return Reachability(enabled=enabled, observing=True)
        return replace(self.control.controller.reach(session_id), enabled=enabled)

    def needs_approval(self, session_id: SessionId) -> bool:
        return self.control.controller.needs_approval(session_id)

    def on_judged(self, transitions: list[Transition], changes: list[SessionChange]) -> None:
        self.transition_writer.enqueue(transitions)
        self.feed.publish(changes)
        self.healing.on_changes(changes)
        self.heartbeat.on_transitions(transitions)

    def on_agent_exit(self, session_id: SessionId) -> None:
        self.read_last_calls(session_id)
        self._sessions_to_search.add(session_id)
        if self._search_task is None or self._search_task.done():
            self._search_task = self._loop.create_task(self._search_orphans())

    def on_session_gone(self, session_id: SessionId) -> None:
        self.healing.healer.on_judged(session_id)

    def find_pane(self, session_id: SessionId) -> None:
        super().find_pane(session_id)
        self.hub.on_session_process(session_id)

    async def listen(self) -> None:
        """Pass on what the file system tells, until cancelled."""
        self.is_listening = True
        try:
            async for told in self._folders:
                if told.rescan and not self._may_rescan():
                    told.rescan = False
                for source in self.sources:
                    self.observe(source, source.on_changes, told)
        finally:
            self.is_listening = False

    def _may_rescan(self) -> bool:
        """The kernel tells less than all when too much happens at once; looking at everything may not happen as often."""
        wait_seconds = self._rescanned_at + RESCAN_SECONDS - self._loop.time()
        if wait_seconds <= 0:
            self._rescanned_at = self._loop.time()
            return True
        if self._rescan_timer is None:
            self._rescan_timer = self._loop.call_later(wait_seconds, self._rescan)
        return False

    def _rescan(self) -> None:
        self._rescan_timer, self._rescanned_at = None, self._loop.time()
        for source in self.sources:
            self.observe(source, source.on_changes, FileChanges(set(), set(), set(), rescan=True))

    def continue_reading(self, source: Source, act: Callable[[], None]) -> None:
        """A source has more to read than one turn of the loop takes."""
        self._loop.call_soon(self.observe, source, act)

    async def run_sweep(self) -> None:
        """The backstop behind being told."""
        while True:
            slow = any(source.delay_reason for source in self.sources)
            await asyncio.sleep(SLOW_SWEEP_SECONDS if slow else SWEEP_SECONDS)
            began = self._loop.time()
            for log_eye in self.log_sources:
                await self._sweep_source(log_eye)
            for source in (*self.process_sources, self.streams, self.spool):
                self.observe(source, source.scan)
            await self.reachability.check_all()
            self.sweep_seconds.observe(self._loop.time() - began)

    def retry_later(self, source: Source, seconds: float) -> None:
        """A source that raised is looked at again; once that works, it is told of changes as before."""
        if source.name not in self._retries:
            self._retries[source.name] = self._loop.call_later(seconds, self._retry, source)

    def _retry(self, source: Source) -> None:
        self._retries.pop(source.name, None)
        self.observe(source, source.scan)
        if source.name not in self._retries:
            self.failures.on_success(source.name)

    async def _sweep_source(self, source: "LogFileSource | ContainerSource") -> None:
        try:
            await source.sweep()
        except Exception as error:  # noqa: BLE001 - the other sources are swept even so
            self.retry_later(source, self.failures.on_failure(source.name, error))

    async def run_retention(self) -> None:
        """Transitions are kept for a month; a session's newest one stays."""
        while True:
            await self._store.prune(self.clock.now().wall - RETENTION_SECONDS)
            await self._drop_lost_bookmarks()
            await self.healing.forget_old()
            await self.control.idempotent_controller.forget_old()
            await asyncio.sleep(PRUNE_SECONDS)

    async def _drop_lost_bookmarks(self) -> None:
        """What was folded of a log goes with it."""
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
        """Once for every log: what grows meanwhile is for the next time."""
        more = True
        while more:
            bookmarks = self.take_bookmarks()
            more = len(bookmarks) == BOOKMARKS_AT_ONCE_MAX
            if bookmarks:
                await self._store.save_bookmarks(bookmarks)

    def _on_exit(self, process: Process) -> None:
        self.supervisor.on_exit(process)
        self.tmux.on_exit(process)
        self.hub.on_exit(process)

    def _judge_pending(self) -> None:
        began = self._loop.time()
        try:
            more = self.supervisor.judge_pending()
        except Exception as error:  # noqa: BLE001 - what is left to judge is judged after a rest
            self._loop.call_later(self.failures.on_failure(JUDGING, error), self._judge_pending)
            return
        self.failures.on_success(JUDGING)
        self.judging_seconds.observe(self._loop.time() - began)
        if more:
            self._loop.call_soon(self._judge_pending)

    def _on_timer(self) -> None:
        self._timer = None
        try:
            following = self.supervisor.on_timer()
        except Exception as error:  # noqa: BLE001 - the deadlines after this one are still to come
            self.set_timer(self._loop.time() + self.failures.on_failure(JUDGING, error))
            return
        if following is not None:
            self.set_timer(following)

    async def _search_orphans(self) -> None:
        """One pass over the processes for all that ended since the last one, however many these are."""
        while self._sessions_to_search:
            ended, self._sessions_to_search = self._sessions_to_search, set()
            for session_id, orphans in (await asyncio.to_thread(orphans_of_all, ended)).items():
                self.report_orphans(session_id, orphans)
