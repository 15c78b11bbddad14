"""Runs the daemon and its listeners from start to shutdown.

It defines both orders. Listeners serve only after every session was judged. At shutdown it closes the change
feed, the hub and healing, then flushes the transition writer and the bookmarks, then cancels the remaining
tasks.
"""

import asyncio
import logging
import os
import sys
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from wakeful import __version__
from wakeful.alerts.failed_parts import FailureAlerts
from wakeful.alerts.mute_pause_model import pause_words
from wakeful.alerts.refused_decisions import RefusedDecisions
from wakeful.config.paths import Places
from wakeful.config.schema import Config, secret_values
from wakeful.config.state_dir import store_path
from wakeful.config.token_file import load_or_create_token
from wakeful.core.clock import iso
from wakeful.core.decoding import decode_json
from wakeful.core.errors import WorldError
from wakeful.core.fault_points import reach
from wakeful.core.ids import SessionId
from wakeful.core.waiting import ended_or_failed
from wakeful.daemon.agents import ancestor_pids
from wakeful.daemon.daemon import Daemon
from wakeful.daemon.heartbeat import timer_rules
from wakeful.daemon.metrics import figures_of, unready
from wakeful.daemon.reports import build_reports
from wakeful.daemon.sockets import Doors
from wakeful.http.access_log import access_file
from wakeful.http.app import build_app
from wakeful.http.auth import Access, url_of
from wakeful.http.caller import Deciders, OnlyInChat, Refusal
from wakeful.http.gate import Gate
from wakeful.http.routes.daemon import OwnRoutes
from wakeful.http.server import serve as serve_door
from wakeful.judging.session_record import SessionRecord
from wakeful.linux import proc
from wakeful.linux.child_environment import learn
from wakeful.linux.child_process import KeptChild
from wakeful.linux.files import TroubleFile
from wakeful.linux.locks import gateway_name, holder_on_host
from wakeful.linux.log_files import keep_own_log_short
from wakeful.linux.logging import limit_log
from wakeful.linux.shutdown import told_to_end
from wakeful.linux.systemd import Notifier, Pulse, keep_apart, service_group
from wakeful.linux.tcp_peers import tcp_callers
from wakeful.replay.cases import CaseBook, append_case
from wakeful.sessions.session import Standing as SessionStanding, standing_of
from wakeful.sources.folder_watch import FolderWatch
from wakeful.storage.base import Store
from wakeful.storage.sqlite.store import SqliteStore
from wakeful.views.sessions import Desk, History, Standing

DRAIN_SECONDS: Final = 5.0

log = logging.getLogger("wakeful")


async def serve(
    config: Config,
    places: Places,
    announce: Callable[[str], None],
    *,
    with_login: bool = False,
    port_asked_for: bool = False,
    gateway: Sequence[str] | None = None,
    supervised: bool = False,
    config_files: tuple[str, ...] = (),
) -> None:
    """Run until SIGINT, SIGTERM, `wakeful down` or cancellation. `announce` gets lines for a person to read.

    `with_login` puts a one-time login into the page's link: only for a terminal somebody sits at. `gateway` are the
    words of the command that is kept running beside it, if one is. `supervised`: it also ends when standard input does.
    """
    # First: nothing that is started from here may speak to systemd in our name.
    notifier = Notifier.taken_from(os.environ)
    limit_log()
    doors = Doors(config, places, port_asked_for=port_asked_for)
    async with AsyncExitStack() as stack:
        stack.callback(doors.close)
        stack.enter_context(access_file(Path(places.logs) / "access.log"))
        store = await SqliteStore.open(store_path(config, places))
        stack.push_async_callback(store.close)
        # Before anything is started.
        learn(
            (*secret_values(config), load_or_create_token(Path(places.token))), config.daemon.pass_environment
        )
        reach("daemon.opened")
        folders = await stack.enter_async_context(FolderWatch())
        daemon = Daemon(config, places, store, folders, {each.path: each for each in await store.bookmarks()})
        stack.callback(daemon.exits.close)
        daemon.config_files = config_files
        daemon.supervisor.recall_standings(await _standings(store))
        await daemon.calm.current()
        # Before anybody is judged: what a person ended must not be called dead, not even for a moment.
        await daemon.handwork.person_stops.load()
        await daemon.hub.load()
        await daemon.look()
        reach("daemon.looked")
        await daemon.handwork.take_up()
        reach("daemon.hands")
        await daemon.care.take_up()
        reach("daemon.care")
        await daemon.hub.take_up()
        # Last: by now everybody was judged by what is there, so nobody is woken on what was true before.
        daemon.settle()
        reach("daemon.judged")
        await daemon.waking.take_up()
        daemon.looked = True
        if gateway is not None:
            daemon.beside.append(_gateway(places, gateway))
        ended = told_to_end(supervised=supervised)
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
            standings[row.id] = standing_of(decode_json(row.record, SessionRecord))
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
    access = Access(
        load_or_create_token(Path(places.token)), doors.port, daemon.clock.now, config.daemon.host
    )
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
        _deciders(config, daemon),
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


def _deciders(config: Config, daemon: Daemon) -> Deciders:
    told, token = RefusedDecisions(daemon.care.alerts, daemon.clock), config.gateway.token

    async def refused(refusal: Refusal) -> None:
        commands = await asyncio.to_thread(lambda: [" ".join(proc.command(pid)) for pid in refusal.pids[:1]])
        is_seen = isinstance(refusal.why, OnlyInChat)
        asker = refusal.session or ("a process outside the chat" if is_seen else "an unseen process")
        await told.tell(asker, f"POST {refusal.path}", refusal.why.code, "".join(commands))

    def is_chat(pids: Sequence[int]) -> bool:
        # Its name on this host is held by the process that serves the chat, and by no other.
        return bool(token) and len(pids) == 1 and holder_on_host(gateway_name(token)) == pids[0]

    daemon.handwork.callers.agents = lambda: {each.name for each in daemon.hub.records}
    return Deciders(
        daemon.handwork.callers.session_of,
        tcp_callers,
        is_chat=is_chat,
        only_in_chat=config.gateway.approve_only_in_chat,
        refused=refused,
    )


def _desk(config: Config, places: Places, doors: Doors, daemon: Daemon, history: History) -> Desk:
    started_at = iso(daemon.clock.now().wall)

    gateway_trouble = TroubleFile(Path(places.gateway_trouble))

    def standing() -> Standing:
        trouble = [f"the store refuses writes: {daemon.scribe.trouble}"] if daemon.scribe.trouble else []
        if words := gateway_trouble.read():
            trouble.append(f"gateway: {words}")
        if config.gateway.approve_only_in_chat and not config.gateway.token:
            trouble.append(
                "no approval can be given: gateway.approve_only_in_chat is true, and there is no gateway.token"
            )
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
                *daemon.failures.lines,
                *(each.line for each in daemon.beside),
                *daemon.calm.lines(daemon.clock.now().wall),
            ),
            paused=daemon.calm.paused_record,
            config_files=daemon.config_files,
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
    page = f"{url_of(config.daemon.host, doors.port)}/"
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
    yield from (each.greeting for each in daemon.beside)
    yield from (f"note: {note}" for note in doors.notes)
    for eye in daemon.eye_records():
        yield from (f"note: {eye.name}: {told}" for told in (eye.slow, eye.left_out) if told)


_MODES: Final = {
    "observe": "acts on nothing",
    "mine": "will act on managed sessions only; found ones are watched",
    "all": "may act on every session",
}


async def _run(daemon: Daemon, doors: Sequence[Coroutine[None, None, None]], ended: asyncio.Event) -> None:
    """Serve until told to end, then close in the reverse order: listeners first, memory last."""
    keep = daemon.failures.keep_running
    alerts = FailureAlerts(daemon.failures, daemon.care.alerts, daemon.host)
    # A full disk must not end the daemon either: it still sees and tells the truth.
    stored = (
        (daemon.keep_place, "bookmarks are not saved"),
        (daemon.expiry.run, "leases do not expire"),
        (daemon.forget_old, "old transitions are not dropped"),
        (daemon.handwork.holdings.run, "claims are not renewed"),
        (alerts.run, "what is down is not told"),
        *daemon.care.tasks(),
        *daemon.hub.tasks(),
        *daemon.waking.tasks(),
    )
    work = (
        *doors,
        keep("file watching", daemon.listen),
        keep("sweep", daemon.sweep),
        keep(daemon.tmux.name, daemon.tmux.run),
        keep("transition writer", daemon.scribe.run),
        keep("loop lag", daemon.lag.run),
        keep("log rotation", keep_own_log_short),
        keep("reachability checks", lambda: daemon.proofs.run(lambda: daemon.feed.is_heard)),
        *(keep(otherwise, task, world_errors=True) for task, otherwise in stored),
        *(keep("gateway", each.run) for each in daemon.beside),
    )
    tasks = [asyncio.create_task(each) for each in work]
    try:
        await ended_or_failed(tasks, ended)
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
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
