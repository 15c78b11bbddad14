"""The daemon: eyes that are told, doors that answer, a store that remembers. One process, one asyncio loop.

The order of starting is here, and the order of the end. Nothing here judges, and nothing an agent needs lives
in here: whatever happens to this process, sessions go on.
"""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from wakeful import __version__
from wakeful.adapters.cases.book import append_case
from wakeful.adapters.logs.folders import FolderWatch
from wakeful.adapters.sqlite.store import SqliteStore
from wakeful.adapters.system.clock import SystemClock
from wakeful.adapters.system.connections import tcp_callers
from wakeful.adapters.system.exits import ExitWatch
from wakeful.adapters.system.kept_child import KeptChild
from wakeful.adapters.system.notify import Notifier
from wakeful.adapters.system.pulse import Pulse
from wakeful.adapters.system.scopes import keep_apart, service_group
from wakeful.adapters.system.trouble_file import TroubleFile
from wakeful.care import Care
from wakeful.config import Config, Mode
from wakeful.domain.calm import pause_words
from wakeful.domain.eligibility import Reach
from wakeful.domain.errors import WorldError
from wakeful.domain.figures import Spread
from wakeful.domain.ids import SessionId
from wakeful.domain.moment import iso
from wakeful.domain.process import Process
from wakeful.domain.record import SessionRecord
from wakeful.doors import Doors
from wakeful.faults import reach
from wakeful.gauges import figures_of, unready
from wakeful.handwork import Handwork
from wakeful.home import store_path
from wakeful.hubwork import ancestor_pids, build_hub
from wakeful.interfaces.http.access import Access
from wakeful.interfaces.http.access_log import access_file
from wakeful.interfaces.http.app import build_app
from wakeful.interfaces.http.deciders import Deciders
from wakeful.interfaces.http.gate import Gate
from wakeful.interfaces.http.own_routes import OwnRoutes
from wakeful.interfaces.http.server import serve as serve_door
from wakeful.interfaces.http.token_file import load_or_create_token
from wakeful.lookout import BOOKMARKS_AT_ONCE_MAX, Lookout
from wakeful.places import Places
from wakeful.ports.store import Bookmark, Store, Transition
from wakeful.reporting import build_reports
from wakeful.services.calm import Calm
from wakeful.services.cases import CaseBook
from wakeful.services.desk import Desk, History, Standing
from wakeful.services.expiry import RunExpiry
from wakeful.services.feed import Change, Feed
from wakeful.services.figures import LoopLag
from wakeful.services.proving import Proofs
from wakeful.services.scribe import Scribe
from wakeful.services.watched import Standing as SessionStanding, standing_of
from wakeful.services.work import WorkDesk
from wakeful.wakework import WakeWork, timer_rules

# A backstop: whatever inotify did not tell is found this late. Costs 55 ms of CPU per 10,000 logs.
SWEEP_SECONDS: Final = 300.0
# While some folder cannot be watched at all, sweeping is how it is seen.
SLOW_SWEEP_SECONDS: Final = 5.0
# What a crash may cost is reading this much log again.
BOOKMARK_SECONDS: Final = 5.0
DRAIN_SECONDS: Final = 5.0
# 000 keeps what it wrote down for 30 days.
RETENTION_SECONDS: Final = 30 * 86_400.0
PRUNE_SECONDS: Final = 6 * 3600.0
STORE_RETRY_SECONDS: Final = 5.0

log = logging.getLogger("wakeful")


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
        self._searches: set[asyncio.Task[None]] = set()
        # Programs of ours that are kept running as long as this one does.
        self.beside: list[KeptChild] = []
        self.mode = config.daemon.mode
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
        task = self._loop.create_task(self._search(session_id))
        self._searches.add(task)
        task.add_done_callback(self._searches.discard)

    def seek_pane(self, session_id: SessionId) -> None:
        super().seek_pane(session_id)
        self.hub.arrived(session_id)

    async def listen(self) -> None:
        """Pass on what the file system tells, until cancelled."""
        self.listening = True
        try:
            async for told in self._folders:
                for eye in self.eyes:
                    eye.told(told)
        finally:
            self.listening = False

    async def sweep(self) -> None:
        """The backstop behind being told."""
        while True:
            slow = any(eye.slow for eye in self.eyes)
            await asyncio.sleep(SLOW_SWEEP_SECONDS if slow else SWEEP_SECONDS)
            began = self._loop.time()
            for log_eye in self.logs:
                await log_eye.sweep()
            for eye in (*self.holders, self.streams, self.spool):
                eye.look()
            await self.proofs.prove_all()
            self.sweeping.take(self._loop.time() - began)

    async def forget_old(self) -> None:
        """Transitions are kept for a month; a session's newest one stays."""
        while True:
            await self._store.prune(self.clock.now().wall - RETENTION_SECONDS)
            await self.care.forget_old()
            await self.handwork.once.forget_old()
            await asyncio.sleep(PRUNE_SECONDS)

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
        more = self.supervisor.settle()
        self.judging.take(self._loop.time() - began)
        if more:
            self._loop.call_soon(self._settle)

    def _ring(self) -> None:
        self._timer = None
        following = self.supervisor.ring()
        if following is not None:
            self.alarm(following)

    async def _search(self, session_id: SessionId) -> None:
        orphans = await asyncio.to_thread(self.orphans_of, session_id)
        self.supervisor.left_behind(session_id, orphans)


async def serve(
    config: Config,
    places: Places,
    announce: Callable[[str], None],
    *,
    with_login: bool = False,
    port_asked_for: bool = False,
    gateway: Sequence[str] | None = None,
) -> None:
    """Run until SIGINT, SIGTERM, `wakeful down` or cancellation. `announce` gets lines for a person to read.

    `with_login` puts a one-time login into the page's link: only for a terminal somebody sits at. `gateway` are the
    words of the command that is kept running beside it, if one is.
    """
    # First: nothing that is started from here may speak to systemd in our name.
    notifier = Notifier.taken_from(os.environ)
    doors = Doors(config, places, port_asked_for=port_asked_for)
    async with AsyncExitStack() as stack:
        stack.callback(doors.close)
        stack.enter_context(access_file(Path(places.logs) / "access.log"))
        store = await SqliteStore.open(store_path(config, places))
        stack.push_async_callback(store.close)
        folders = await stack.enter_async_context(FolderWatch())
        daemon = Daemon(config, places, store, folders, {each.path: each for each in await store.bookmarks()})
        stack.callback(daemon.exits.close)
        daemon.supervisor.recall_standings(await _standings(store))
        await daemon.calm.current()
        await daemon.look()
        await daemon.handwork.take_up()
        await daemon.care.take_up()
        await daemon.hub.take_up()
        # Last: by now everybody was judged by what is there, so nobody is woken on what was true before.
        daemon.settle()
        reach("daemon.judged")
        await daemon.waking.take_up()
        daemon.looked = True
        if gateway is not None:
            daemon.beside.append(_gateway(places, gateway))
        ended = asyncio.Event()
        app, access = _app(config, places, doors, daemon, store=store, end=ended.set)
        stack.callback(app.log.close)
        link = _link(config, doors, access if with_login else None)
        for line in _greeting(config, doors, daemon, link):
            announce(line)
        pulse = Pulse(Path(places.logs), notifier)
        served = [serve_door(app, listener) for listener in doors.listeners]
        group = service_group()
        apart = [keep_apart(group)] if group is not None else []
        await _run(daemon, [*served, pulse.run(), *apart], ended)


def _gateway(places: Places, words: Sequence[str]) -> KeptChild:
    # -P: a `wakeful` folder in the working directory is not what we mean to run.
    argv = (sys.executable, "-P", "-m", "wakeful", *words)
    return KeptChild("gateway", argv, Path(places.logs) / "gateway.log")


async def _standings(store: Store) -> dict[SessionId, SessionStanding]:
    """What each session was when it was last stored; records of another schema are judged as new."""
    standings = {}
    for row in await store.sessions():
        try:
            standings[row.id] = standing_of(msgspec.json.decode(row.record, type=SessionRecord))
        except msgspec.DecodeError:
            log.info("the stored record of %s is of another version", row.id)
    return standings


def _app(
    config: Config,
    places: Places,
    doors: Doors,
    daemon: Daemon,
    *,
    store: Store,
    end: Callable[[], None],
) -> tuple[Gate, Access]:
    access = Access(load_or_create_token(Path(places.token)), doors.port, daemon.clock.now)
    desk = _desk(config, places, doors, daemon, store.transitions)
    heal = daemon.calm.changed

    def calm_changed() -> None:
        heal()
        daemon.feed.greet(desk.overview().body)

    daemon.calm.changed = calm_changed
    app = build_app(
        desk,
        daemon.work,
        (daemon.handwork.hands, daemon.handwork.once),
        Deciders(daemon.handwork.supervised, tcp_callers),
        access,
        now=daemon.clock.now,
        ancestors=ancestor_pids,
        shut_down=end,
        calm=daemon.calm,
        incidents=daemon.care.incidents.listed,
        critical=daemon.care.critical,
        healing=(daemon.care.healer, daemon.care.restorer),
        checkpoints=(daemon.care.checkpoints, daemon.care.lessons),
        queue=daemon.care.queue_door,
        hub=daemon.hub,
        wakes=daemon.waking.wakes,
        repairs=daemon.waking.repairs,
        own=OwnRoutes(partial(unready, daemon), partial(figures_of, daemon)),
        reports=build_reports(
            daemon, store, paused=lambda: daemon.calm.paused_record, agents=lambda: daemon.hub.records
        ),
    )
    return app, access


def _desk(config: Config, places: Places, doors: Doors, daemon: Daemon, history: History) -> Desk:
    started_at = iso(daemon.clock.now().wall)

    gateway_trouble = TroubleFile(Path(places.gateway_trouble))

    def standing() -> Standing:
        trouble = [f"the store refuses writes: {daemon.scribe.trouble}"] if daemon.scribe.trouble else []
        if words := gateway_trouble.read():
            trouble.append(f"gateway: {words}")
        return Standing(
            mode=config.daemon.mode,
            version=__version__,
            host=daemon.host,
            pid=os.getpid(),
            started_at=started_at,
            listening=tuple(doors.listening),
            eyes=daemon.eye_records(),
            notes=(
                *doors.notes,
                *trouble,
                *daemon.care.notes,
                *(each.line for each in daemon.beside),
                *daemon.calm.lines(daemon.clock.now().wall),
            ),
            paused=daemon.calm.paused_record,
        )

    wrong = Path(places.cases) / "wrong.jsonl"
    cases = CaseBook(str(wrong), daemon.recall_events, partial(append_case, wrong))
    return Desk(
        daemon.clock,
        daemon.roster,
        daemon.feed,
        history,
        daemon.policy,
        standing,
        daemon.tree,
        cases,
        daemon.care.healer.trouble_of,
        daemon.hub.standing,
        os.path.isdir,
        daemon.waking.wakes.of_session,
        timer_rules(config.supervision),
        daemon.waking.timers.warnings,
        daemon.recall_events,
    )


def _link(config: Config, doors: Doors, access: Access | None) -> str | None:
    if doors.port is None:
        return None
    page = f"http://{config.daemon.host}:{doors.port}/"
    if access is None:
        return f"{page} (`wakeful open` gives a link that logs in)"
    return f"{page}#code={access.logins.new_code()} (good once, for 10 minutes)"


def _greeting(config: Config, doors: Doors, daemon: Daemon, link: str | None) -> Iterator[str]:
    """Which sessions it may touch, where it listens, and what it found."""
    total = daemon.roster.counts(daemon.clock.now())["total"]
    if daemon.calm.paused is not None:
        yield pause_words(daemon.calm.paused)
    yield f"mode: {config.daemon.mode} ({_MODES[config.daemon.mode]})"
    yield f"listening on {' and '.join(doors.listening)}"
    if link is not None:
        yield f"page: {link}"
    sessions = "session" if total["shown"] == 1 else "sessions"
    yield f"found {total['shown']} {sessions}, {total['managed']} managed; {total['older']} older folded"
    if counts := daemon.hub.standing().counts:
        yield f"agents: {', '.join(f'{count} {state}' for state, count in counts.items())}"
    yield from (f"note: {note}" for note in doors.notes)
    for eye in daemon.eye_records():
        yield from (f"note: {eye.name}: {told}" for told in (eye.slow, eye.left_out) if told)


_MODES: Final = {
    "observe": "acts on nothing",
    "mine": "will act on managed sessions only; found ones are watched",
    "all": "may act on every session",
}


async def _whatever_the_store_says(task: Callable[[], Coroutine[None, None, None]], otherwise: str) -> None:
    """Keep a background task going: a full disk must not end the daemon, which still sees and tells the truth."""
    while True:
        try:
            await task()
        except WorldError as error:
            log.warning("%s: %s", otherwise, error)
            await asyncio.sleep(STORE_RETRY_SECONDS)


async def _run(daemon: Daemon, doors: Sequence[Coroutine[None, None, None]], ended: asyncio.Event) -> None:
    """Serve until told to end, then close in the reverse order: listeners first, memory last."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, ended.set)
    work = (
        *doors,
        daemon.listen(),
        daemon.sweep(),
        daemon.tmux.run(),
        daemon.scribe.run(),
        daemon.lag.run(),
        daemon.proofs.run(lambda: daemon.feed.is_heard),
        _whatever_the_store_says(daemon.keep_place, "bookmarks are not saved"),
        _whatever_the_store_says(daemon.expiry.run, "leases do not expire"),
        _whatever_the_store_says(daemon.forget_old, "old transitions are not dropped"),
        _whatever_the_store_says(daemon.handwork.holdings.run, "claims are not renewed"),
        *(_whatever_the_store_says(task, otherwise) for task, otherwise in daemon.care.tasks()),
        *(_whatever_the_store_says(task, otherwise) for task, otherwise in daemon.hub.tasks()),
        *(_whatever_the_store_says(task, otherwise) for task, otherwise in daemon.waking.tasks()),
        *(each.run() for each in daemon.beside),
    )
    tasks = [asyncio.create_task(each) for each in work]
    waiting = asyncio.create_task(ended.wait())
    try:
        done, _ = await asyncio.wait((*tasks, waiting), return_when=asyncio.FIRST_COMPLETED)
        for task in done - {waiting}:
            # Only a failure ends one of these early.
            task.result()
    finally:
        daemon.feed.close()
        await daemon.hub.close()
        await daemon.care.close()
        await daemon.scribe.drain(DRAIN_SECONDS)
        try:
            await daemon.save_place()
        except WorldError as error:
            # The next start reads a little more; nothing else depends on it.
            log.warning("bookmarks were not saved: %s", error)
        for task in (*tasks, waiting):
            task.cancel()
        await asyncio.gather(*tasks, waiting, return_exceptions=True)
