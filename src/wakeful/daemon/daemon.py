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

from wakeful.alerts.mute_pause import Calm
from wakeful.config.paths import Places
from wakeful.config.schema import Config, Mode
from wakeful.core.ids import SessionId
from wakeful.core.process import Process
from wakeful.daemon.agents import build_hub
from wakeful.daemon.control import Handwork
from wakeful.daemon.healing import Care
from wakeful.daemon.heartbeat import WakeWork
from wakeful.daemon.observer import BOOKMARKS_AT_ONCE_MAX, Lookout
from wakeful.judging.wake_eligibility import Reach
from wakeful.linux.child_process import KeptChild
from wakeful.linux.clock import SystemClock
from wakeful.linux.exit_watch import ExitWatch
from wakeful.metrics.collect import LoopLag
from wakeful.metrics.model import Spread
from wakeful.sessions.feed import Change, Feed
from wakeful.sessions.reachability import Proofs
from wakeful.sessions.transition_writer import Scribe
from wakeful.sources.base import Changes, Eye
from wakeful.sources.folder_watch import FolderWatch
from wakeful.sources.log_source import LogEye
from wakeful.sources.tool_processes import orphans_of_all
from wakeful.storage.base import Bookmark, Store, Transition
from wakeful.work.expiry import RunExpiry
from wakeful.work.service import WorkDesk

if TYPE_CHECKING:
    from wakeful.integrations.docker.source import ContainerEyes

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


class Daemon(Lookout):
    """A lookout that stays: told by inotify and pidfds, woken by deadlines, writing down what changes."""

    def __init__(
        self,
        config: Config,
        places: Places,
        store: Store,
        folders: FolderWatch,
        bookmarks: Mapping[str, Bookmark],
    ) -> None:
        self.exits = ExitWatch(self._gone)
        super().__init__(config, places, SystemClock(), self.exits, folders=folders, bookmarks=bookmarks)
        self.feed = Feed()
        self.scribe = Scribe(store)
        self.calm = Calm(store, self.clock)
        self.proofs = Proofs(self.supervisor, self.reach)
        self.handwork = Handwork(self, places, store, config.daemon.mode, self.calm.forbids)
        self.care = Care(self, places, store, config, self.handwork, self.calm, lambda: self.scribe.trouble)
        self.expiry = RunExpiry(store, self.clock, self.care.works.expired)
        self.hub = build_hub(config, places, store, self, self.feed, self.handwork, self.care)
        self.waking = WakeWork(
            config,
            places,
            store,
            self,
            self.feed,
            self.handwork,
            self.hub,
            self.calm,
            lambda session_id: self.care.healer.trouble_of(session_id) is not None,
        )
        self.work = WorkDesk(
            store,
            self.clock,
            self.roster.resolve,
            self.expiry.look_sooner,
            lambda session_id: self.handwork.holdings.find(session_id) is not None,
        )
        self._store = store
        self._config = config
        self._folders = folders
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        # Sessions whose agent ended, until the processes were searched for what it left running.
        self._to_search: set[SessionId] = set()
        self._searching: asyncio.Task[None] | None = None
        self._rescanned_at = -inf
        self._rescanning: asyncio.TimerHandle | None = None
        self._retries: dict[str, asyncio.TimerHandle] = {}
        # Programs of ours that are kept running as long as this one does.
        self.beside: list[KeptChild] = []
        self.mode = config.daemon.mode
        self.config_files: tuple[str, ...] = ()
        # Whether everything was looked at once, and whether the file system's word is being heard.
        self.looked = self.listening = False
        self.lag, self.judging, self.sweeping = LoopLag(), Spread(), Spread()

    def wake(self) -> None:
        self._loop.call_soon(self._settle)

    def alarm(self, awake: float) -> None:
        # The loop's clock is CLOCK_MONOTONIC, the one awake seconds are counted on.
        if self._timer is not None:
            if self._timer.when() <= awake and not self._timer.cancelled():
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(awake, self._ring)

    def reach(self, session_id: SessionId) -> Reach:
        """The act gate's own word, asked while the session is judged."""
        enabled = self._config.heartbeat.enabled
        if self._config.daemon.mode is Mode.OBSERVE:
            return Reach(enabled=enabled, observing=True)
        return replace(self.handwork.hands.reach(session_id), enabled=enabled)

    def is_held(self, session_id: SessionId) -> bool:
        return self.handwork.hands.is_held(session_id)

    def changed(self, transitions: list[Transition], changes: list[Change]) -> None:
        self.scribe.take(transitions)
        self.feed.publish(changes)
        self.care.seen(changes)
        self.waking.seen(transitions)

    def died(self, session_id: SessionId) -> None:
        self.hear_last_calls(session_id)
        self._to_search.add(session_id)
        if self._searching is None or self._searching.done():
            self._searching = self._loop.create_task(self._search())

    def vanished(self, session_id: SessionId) -> None:
        self.care.healer.seen(session_id)

    def seek_pane(self, session_id: SessionId) -> None:
        super().seek_pane(session_id)
        self.hub.arrived(session_id)

    async def listen(self) -> None:
        """Pass on what the file system tells, until cancelled."""
        self.listening = True
        try:
            async for told in self._folders:
                if told.rescan and not self._may_rescan():
                    told.rescan = False
                for eye in self.eyes:
                    self.observe(eye, eye.told, told)
        finally:
            self.listening = False

    def _may_rescan(self) -> bool:
        """The kernel tells less than all when too much happens at once; looking at everything may not happen as often."""
        wait_seconds = self._rescanned_at + RESCAN_SECONDS - self._loop.time()
        if wait_seconds <= 0:
            self._rescanned_at = self._loop.time()
            return True
        if self._rescanning is None:
            self._rescanning = self._loop.call_later(wait_seconds, self._rescan)
        return False

    def _rescan(self) -> None:
        self._rescanning, self._rescanned_at = None, self._loop.time()
        for eye in self.eyes:
            self.observe(eye, eye.told, Changes(set(), set(), set(), rescan=True))

    def go_on(self, source: Eye, act: Callable[[], None]) -> None:
        """A source has more to read than one turn of the loop takes."""
        self._loop.call_soon(self.observe, source, act)

    async def sweep(self) -> None:
        """The backstop behind being told."""
        while True:
            slow = any(eye.slow for eye in self.eyes)
            await asyncio.sleep(SLOW_SWEEP_SECONDS if slow else SWEEP_SECONDS)
            began = self._loop.time()
            for log_eye in self.logs:
                await self._sweep(log_eye)
            for eye in (*self.holders, self.streams, self.spool):
                self.observe(eye, eye.look)
            await self.proofs.prove_all()
            self.sweeping.take(self._loop.time() - began)

    def look_later(self, source: Eye, seconds: float) -> None:
        """A source that raised is looked at again; once that works, it is told of changes as before."""
        if source.name not in self._retries:
            self._retries[source.name] = self._loop.call_later(seconds, self._look_again_at, source)

    def _look_again_at(self, source: Eye) -> None:
        self._retries.pop(source.name, None)
        self.observe(source, source.look)
        if source.name not in self._retries:
            self.failures.works(source.name)

    async def _sweep(self, source: "LogEye | ContainerEyes") -> None:
        try:
            await source.sweep()
        except Exception as error:  # noqa: BLE001 - the other sources are swept even so
            self.look_later(source, self.failures.failed(source.name, error))

    async def forget_old(self) -> None:
        """Transitions are kept for a month; a session's newest one stays."""
        while True:
            await self._store.prune(self.clock.now().wall - RETENTION_SECONDS)
            await self._drop_lost_bookmarks()
            await self.care.forget_old()
            await self.handwork.once.forget_old()
            await asyncio.sleep(PRUNE_SECONDS)

    async def _drop_lost_bookmarks(self) -> None:
        """What was folded of a log goes with it."""
        paths = [each.path for each in await self._store.bookmarks()]
        lost = await asyncio.to_thread(lambda: [path for path in paths if not os.path.lexists(path)])
        if lost:
            await self._store.drop_bookmarks(lost)

    async def keep_place(self) -> None:
        """Save how far logs were read, so that a restart goes on from there."""
        while True:
            await asyncio.sleep(BOOKMARK_SECONDS)
            await self.save_place()

    async def save_place(self) -> None:
        """Once for every log: what grows meanwhile is for the next time."""
        more = True
        while more:
            bookmarks = self.take_bookmarks()
            more = len(bookmarks) == BOOKMARKS_AT_ONCE_MAX
            if bookmarks:
                await self._store.save_bookmarks(bookmarks)

    def _gone(self, process: Process) -> None:
        self.supervisor.gone(process)
        self.tmux.ended(process)
        self.hub.ended(process)

    def _settle(self) -> None:
        began = self._loop.time()
        try:
            more = self.supervisor.settle()
        except Exception as error:  # noqa: BLE001 - what is left to judge is judged after a rest
            self._loop.call_later(self.failures.failed(JUDGING, error), self._settle)
            return
        self.failures.works(JUDGING)
        self.judging.take(self._loop.time() - began)
        if more:
            self._loop.call_soon(self._settle)

    def _ring(self) -> None:
        self._timer = None
        try:
            following = self.supervisor.ring()
        except Exception as error:  # noqa: BLE001 - the deadlines after this one are still to come
            self.alarm(self._loop.time() + self.failures.failed(JUDGING, error))
            return
        if following is not None:
            self.alarm(following)

    async def _search(self) -> None:
        """One pass over the processes for all that ended since the last one, however many these are."""
        while self._to_search:
            ended, self._to_search = self._to_search, set()
            for session_id, orphans in (await asyncio.to_thread(orphans_of_all, ended)).items():
                self.left_behind(session_id, orphans)
