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

from wakeful.alerts.failed_parts import FailureAlerts
from wakeful.alerts.mute_pause_model import pause_text
from wakeful.alerts.refused_decisions import RefusedDecisions
from wakeful.config.load import LoadedConfig
from wakeful.config.paths import StatePaths
from wakeful.config.schema import Config, secret_values
from wakeful.config.state_dir import store_path
from wakeful.config.token_file import load_or_create_token
from wakeful.core.decoding import decode_json
from wakeful.core.errors import WorldError
from wakeful.core.fault_points import fault_point
from wakeful.core.ids import SessionId
from wakeful.core.waiting import running
from wakeful.daemon.agents import ancestor_pids
from wakeful.daemon.callers import DaemonCallers
from wakeful.daemon.config_watch import NO_FILES, ConfigSource
from wakeful.daemon.daemon import Daemon
from wakeful.daemon.facts import DaemonFacts
from wakeful.daemon.heartbeat import timer_rules
from wakeful.daemon.metrics import collect_metrics, readiness_problem
from wakeful.daemon.reports import ObserverReportSources, build_reports
from wakeful.daemon.sockets import Listeners
from wakeful.http.access_log import access_file
from wakeful.http.app import build_app
from wakeful.http.auth import Authenticator, url_of
from wakeful.http.caller import CallerCheck
from wakeful.http.gate import Gate
from wakeful.http.logins import Logins
from wakeful.http.routes.daemon import MonitoringRoutes
from wakeful.http.server import serve as serve_listener
from wakeful.judging.session_record import SessionRecord
from wakeful.linux.child_environment import configure_environments
from wakeful.linux.child_process import ChildSupervisor
from wakeful.linux.files import ProblemFile
from wakeful.linux.log_files import keep_own_log_short
from wakeful.linux.logging import limit_log
from wakeful.linux.machine import is_on_local_disk
from wakeful.linux.shutdown import shutdown_event
from wakeful.linux.systemd import LoopWatchdog, SystemdNotifier, move_agents_to_scopes, service_group
from wakeful.replay.cases import CaseFile, append_case
from wakeful.reports.service import ReportService
from wakeful.sessions.session import TransitionKey, transition_key_of
from wakeful.sources.folder_watch import FolderWatch
from wakeful.storage.base import Store
from wakeful.storage.sqlite.store import SqliteStore
from wakeful.views.records import MODES
from wakeful.views.sessions import SessionQueries

DRAIN_SECONDS: Final = 5.0

log = logging.getLogger("wakeful")


async def serve(
    config: Config,
    paths: StatePaths,
    announce: Callable[[str], None],
    *,
    with_login: bool = False,
    port_asked_for: bool = False,
    gateway: Sequence[str] | None = None,
    supervised: bool = False,
    config_source: ConfigSource = NO_FILES,
) -> None:
    """Run until SIGINT, SIGTERM, `wakeful down` or cancellation. `announce` gets lines for a person to read.

    `with_login` puts a one-time login into the page's link: only for an interactive terminal. `gateway` is the
    Wakeful command that the daemon keeps running, if any. `supervised`: it also ends when standard input does.
    The configuration is read again when the files of `config_source` change.
    """
    # First: this removes the notification socket from the environment, so no child process can use it.
    notifier = SystemdNotifier.from_environ(os.environ)
    limit_log()
    listeners = Listeners(config, paths, port_asked_for=port_asked_for)
    async with AsyncExitStack() as stack:
        stack.callback(listeners.close)
        stack.enter_context(access_file(Path(paths.logs) / "access.log"))
        database = store_path(config, paths)
        store = await SqliteStore.open(database)
        stack.push_async_callback(store.close)
        if database == Path(paths.database) and is_on_local_disk(database) and await store.inherit():
            # The listeners have shown that no other daemon uses this folder. A container that was started again has
            # other pids than before, and its decisions, alerts, logins and chats go on.
            log.info("the stored state of an earlier machine is continued")
        # Before anything is started.
        _withhold_secrets(paths, config)
        fault_point("daemon.opened")
        folders = await stack.enter_async_context(FolderWatch())
        daemon = Daemon(
            config,
            paths,
            store,
            folders,
            {each.path: each for each in await store.bookmarks()},
            config_source=config_source,
            child_processes=_child_processes(paths, gateway),
        )
        stack.callback(daemon.exits.close)
        await _restore(daemon, store)
        ended = shutdown_event(supervised=supervised)
        queries = _session_queries(config, paths, listeners, daemon, store)
        sources = ObserverReportSources(daemon.observer, daemon.mute_pause, daemon.hub)
        reports = build_reports(daemon.observer, store, sources)
        app, authenticator = _app(
            config, paths, listeners, daemon, queries=queries, reports=reports, store=store, end=ended.set
        )
        await authenticator.logins.restore()
        stack.callback(app.log.close)
        link = _link(config, listeners, authenticator if with_login else None)
        for line in _startup_lines(config, listeners, daemon, link):
            announce(line)
        tasks = [serve_listener(app, listener) for listener in listeners.listeners]
        tasks.append(LoopWatchdog(Path(paths.logs), notifier).run())
        if (group := service_group()) is not None:
            tasks.append(move_agents_to_scopes(group))
        daemon.config_watch.subscribe(partial(_apply_config, paths, daemon, queries, reports, config))
        await _run(daemon, tasks, ended)


def _withhold_secrets(paths: StatePaths, *configs: Config) -> None:
    """No child process gets a secret of these configurations."""
    secrets = (secret for config in configs for secret in secret_values(config))
    token = load_or_create_token(Path(paths.token))
    configure_environments((*secrets, token), configs[0].daemon.pass_environment)


def _apply_config(
    paths: StatePaths,
    daemon: Daemon,
    queries: SessionQueries,
    reports: ReportService,
    started_with: Config,
    config: Config,
    loaded: LoadedConfig,
) -> None:
    """Use a changed configuration; `config` has the values that a running daemon can change."""
    # The earlier secrets may still be in its environment.
    _withhold_secrets(paths, started_with, loaded.config)
    daemon.observer.supervisor.set_policy(config.detect)
    queries.set_rules(config.detect, timer_rules(config.supervision))
    reports.set_policy(config.detect)
    daemon.heartbeat.apply_config(config.detect, config.supervision)
    daemon.healing.apply_config(config)


async def _restore(daemon: Daemon, store: Store) -> None:
    """Continue where an earlier daemon stopped: read everything once, judge it, then let each part act."""
    daemon.observer.supervisor.restore_transition_keys(await _stored_transition_keys(store))
    await daemon.mute_pause.reload()
    # Before sessions are judged: a session that a person stopped must not count as dead, not even for a moment.
    await daemon.control.person_stops.load()
    await daemon.hub.load()
    # Nor a managed session: its owner knows whether its end was ordered.
    with daemon.host.held_judging():
        await daemon.observer.scan_sources()
        fault_point("daemon.looked")
        await daemon.control.restore()
    daemon.observer.judge_all_pending()
    fault_point("daemon.hands")
    await daemon.healing.restore()
    fault_point("daemon.care")
    await daemon.hub.restore()
    # Last: every session was judged by current evidence, so no wake depends on old state.
    daemon.observer.judge_all_pending()
    fault_point("daemon.judged")
    await daemon.heartbeat.restore()
    daemon.has_scanned = True


def _child_processes(paths: StatePaths, gateway: Sequence[str] | None) -> tuple[ChildSupervisor, ...]:
    if gateway is None:
        return ()
    # -P: a `wakeful` folder in the working directory must not be run.
    argv = (sys.executable, "-P", "-m", "wakeful", *gateway)
    return (ChildSupervisor("gateway", argv, Path(paths.logs) / "gateway.log"),)


async def _stored_transition_keys(store: Store) -> dict[SessionId, TransitionKey]:
    """The last stored key of each session; a session with a record of another schema counts as new."""
    keys = {}
    for row in await store.sessions():
        try:
            keys[row.id] = transition_key_of(decode_json(row.record, SessionRecord))
        except msgspec.DecodeError:
            log.info("the stored record of %s is from another version", row.id)
    return keys


def _app(
    config: Config,
    paths: StatePaths,
    listeners: Listeners,
    daemon: Daemon,
    *,
    queries: SessionQueries,
    reports: ReportService,
    store: Store,
    end: Callable[[], None],
) -> tuple[Gate, Authenticator]:
    logins = Logins(daemon.clock, store)
    token = load_or_create_token(Path(paths.token))
    authenticator = Authenticator(token, listeners.port, logins, config.daemon.host)
    daemon.mute_pause.subscribe(lambda: daemon.feed.publish_overview(queries.overview().body))
    for counted in (daemon.healing.incidents, daemon.healing.checkpoints):
        counted.subscribe(lambda: daemon.feed.publish_status_soon(lambda: queries.overview().body))
    refused = RefusedDecisions(daemon.healing.notifier, daemon.clock)
    callers = DaemonCallers(daemon.control.callers, refused, config.gateway.token)
    app = build_app(
        queries,
        daemon.work,
        (daemon.control.controller, daemon.control.idempotent_controller),
        CallerCheck(callers, only_in_chat=config.gateway.approve_only_in_chat),
        authenticator,
        clock=daemon.clock,
        ancestors=ancestor_pids,
        shut_down=end,
        mute_pause=daemon.mute_pause,
        incidents=daemon.healing.incidents.list_incidents,
        critical=daemon.healing.critical_log,
        healing=(daemon.healing.healer, daemon.healing.restorer),
        checkpoints=(daemon.healing.checkpoints, daemon.healing.lessons),
        queue=daemon.healing.queue_approval,
        hub=daemon.hub,
        wakes=daemon.heartbeat.wake_service,
        repairs=daemon.heartbeat.repairs,
        own=MonitoringRoutes(partial(readiness_problem, daemon), partial(collect_metrics, daemon)),
        reports=reports,
    )
    return app, authenticator


def _session_queries(
    config: Config, paths: StatePaths, listeners: Listeners, daemon: Daemon, store: Store
) -> SessionQueries:
    wrong = Path(paths.cases) / "wrong.jsonl"
    observer = daemon.observer
    cases = CaseFile(str(wrong), observer.read_last_events, partial(append_case, wrong))
    facts = DaemonFacts(config, ProblemFile(Path(paths.gateway_problem)), listeners, daemon, store)
    timers = timer_rules(config.supervision)
    return SessionQueries(daemon.clock, observer.registry, daemon.feed, observer.policy, facts, cases, timers)


def _link(config: Config, listeners: Listeners, authenticator: Authenticator | None) -> str | None:
    if listeners.port is None:
        return None
    page = f"{url_of(config.daemon.host, listeners.port)}/"
    if authenticator is None:
        return f"{page} (`wakeful open` gives a link that logs in)"
    return f"{page}#code={authenticator.logins.new_code()} (good once, for 10 minutes)"


def _startup_lines(config: Config, listeners: Listeners, daemon: Daemon, link: str | None) -> Iterator[str]:
    total = daemon.observer.registry.counts(daemon.clock.now())["total"]
    if daemon.mute_pause.current_pause is not None:
        yield pause_text(daemon.mute_pause.current_pause)
    yield f"mode: {MODES[config.daemon.mode]}"
    yield f"listening on {' and '.join(listeners.listening)}"
    if link is not None:
        yield f"page: {link}"
    sessions = "session" if total["shown"] == 1 else "sessions"
    yield f"found {total['shown']} {sessions}, {total['managed']} managed; {total['older']} older folded"
    if counts := daemon.hub.summary().counts:
        yield f"agents: {', '.join(f'{count} {state}' for state, count in counts.items())}"
    yield from (each.start_message for each in daemon.child_processes)
    yield from (f"note: {note}" for note in listeners.notes)
    for source in daemon.observer.sources.records():
        yield from (f"note: {source.name}: {note}" for note in (source.slow, source.left_out) if note)


async def _run(daemon: Daemon, tasks: Sequence[Coroutine[None, None, None]], ended: asyncio.Event) -> None:
    """Run all parts until the shutdown event is set or a listener fails, then shut down.

    The shutdown closes the feed, the hub and healing and saves unsaved data while the other parts still
    run; then it cancels them. The transition writer ends last: a listener that fails does not take it along.
    """
    keep = daemon.failures.keep_running
    async with (
        running(keep("transition writer", daemon.transition_writer.run)),
        running(*tasks, *_parts(daemon)),
    ):
        try:
            await ended.wait()
        finally:
            await _shut_down(daemon)


def _parts(daemon: Daemon) -> Iterator[Coroutine[None, None, None]]:
    """The daemon's permanent tasks. A part that raises is marked as down and retried; the others go on."""
    keep = daemon.failures.keep_running
    observer = daemon.observer
    yield keep("file watching", daemon.listen)
    yield keep("configuration watching", daemon.config_watch.run)
    yield keep("sweep", daemon.run_sweep)
    yield keep(observer.tmux.name, observer.tmux.run)
    yield keep("loop lag", daemon.lag.run)
    yield keep("log rotation", keep_own_log_short)
    yield keep("reachability checks", partial(observer.reachability.run, daemon.feed))
    alerts = FailureAlerts(daemon.failures, daemon.healing.notifier, observer.host)
    stored = (
        (daemon.run_bookmark_saving, "bookmarks are not saved"),
        (daemon.expiry.run, "leases do not expire"),
        (daemon.run_retention, "old transitions are not dropped"),
        (daemon.control.managed_sessions.run, "claims are not renewed"),
        (alerts.run, "what is down is not told"),
        *daemon.healing.tasks(),
        *daemon.hub.tasks(),
        *daemon.heartbeat.tasks(),
    )
    for run, consequence in stored:
        # A full disk must not end the daemon either: it still judges and shows sessions.
        yield keep(consequence, run, world_errors=True)
    for child in daemon.child_processes:
        yield keep("gateway", child.run)


async def _shut_down(daemon: Daemon) -> None:
    daemon.feed.close()
    await daemon.hub.close()
    await daemon.healing.close()
    await daemon.transition_writer.drain(DRAIN_SECONDS)
    try:
        await daemon.save_bookmarks()
    except WorldError as error:
        # The next start reads a little more; nothing else depends on it.
        log.warning("bookmarks were not saved: %s", error)
