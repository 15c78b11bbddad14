"""Builds the hub: runtimes, leases, orders, auto-restart, and its links to sessions, alerts and healing.

A runtime's library is imported only if a configured agent declares that runtime. `records_without_hub` serves
commands that find no daemon: it looks at every declared agent once, read-only, and stores nothing.
"""

import asyncio
import logging
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from wakeful.agents.auto_restart import AutoRestart, Losses, Telling
from wakeful.agents.commands import Orders
from wakeful.agents.hub import Hub, Processes, Windows
from wakeful.agents.leases import AgentLeases
from wakeful.agents.model import AgentRecord, AgentRuntime, AgentSpec
from wakeful.agents.runtime import Runtime
from wakeful.agents.table import Agent, AgentBook
from wakeful.alerts.model import Alert, AlertKind, Topic
from wakeful.alerts.outbox import AlertDesk
from wakeful.config.paths import Places
from wakeful.config.schema import Config
from wakeful.core.clock import Clock
from wakeful.core.errors import WakefulError, WorldError
from wakeful.core.ids import SessionId
from wakeful.core.managed_session import AGENT_VARIABLE, SESSION_VARIABLE
from wakeful.core.process import Process, Sight
from wakeful.daemon.control import Handwork
from wakeful.daemon.healing import Care
from wakeful.daemon.observer import Lookout
from wakeful.healing.rate_limit import Pace
from wakeful.integrations.tmux.agent_runtime import PREFIX as AGENT_PREFIX, TmuxAgents, is_on
from wakeful.integrations.tmux.programs import resuming
from wakeful.judging.findings import State
from wakeful.linux import proc
from wakeful.linux.child_environment import given_environ
from wakeful.linux.clock import SystemClock
from wakeful.linux.logging import show_moves
from wakeful.sessions.feed import Feed
from wakeful.sessions.registry import Roster
from wakeful.storage.base import Note, Store

# Who descends from whom is read once for all agents of a sync: two hundred of them ask at once.
LINEAGE_SECONDS: Final = 1.0
# The kernel's own number for the first one of a host (PROC_PID_INIT_INO).
_FIRST_NAMESPACE: Final = 0xEFFFFFFC

log = logging.getLogger("wakeful.hub")


class EngineLibraryMissing(WorldError):
    """Agents in containers need {library}, which is not installed: pip install 'wakeful[docker]'."""

    code = "engine-library-missing"


def runtimes_of(specs: Iterable[AgentSpec], places: Places, clock: Clock) -> dict[str, Runtime]:
    """The runtimes these agents live in. An engine's library is imported only if one of them needs it.

    Raises EngineLibraryMissing.
    """
    wanted = {spec.runtime for spec in specs}
    found: dict[str, Runtime] = {}
    if AgentRuntime.TMUX in wanted:
        found[AgentRuntime.TMUX] = TmuxAgents(places.tmux, places.agents, clock)
    if AgentRuntime.DOCKER in wanted:
        try:
            from wakeful.integrations.docker.agent_runtime import DockerRuntime  # noqa: PLC0415 - see the docstring
        except ImportError as error:
            raise EngineLibraryMissing(library=error.name) from error
        address = engine_address(os.environ)
        # Only processes of this host can be watched from it.
        found[AgentRuntime.DOCKER] = DockerRuntime(address, clock, sees_processes=address.startswith("unix:"))
    return found


def engine_address(environ: Mapping[str, str]) -> str:
    """Where docker's own command would look for its engine."""
    return environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"


def build_hub(
    config: Config,
    places: Places,
    store: Store,
    lookout: Lookout,
    feed: Feed,
    handwork: Handwork,
    care: Care,
) -> Hub:
    """The hub of one daemon."""
    # Every change of an agent's state is one line of the daemon's log.
    show_moves(log)
    clock = lookout.clock
    runtimes = runtimes_of(config.agents, places, clock)
    sessions = HostedSessions(lookout.roster, clock, places.tmux)
    book = AgentBook(config.agents, runtimes, store, clock, feed.announce, lookout.supervisor.lodge)
    leases = AgentLeases(store, _owner(lookout.host), proc.identify_if_seen(os.getpid()), _is_dead)
    orders = Orders(
        book=book,
        gate=handwork.gate,
        leases=leases,
        sessions=sessions,
        environ=passed_through,
        resuming=resuming,
        mode=config.daemon.mode,
    )
    messages = _Messages(care.alerts)
    told = Telling(clock, care.incidents.newest, messages.tell, messages.resolve)
    hub = Hub(
        book=book,
        orders=orders,
        losses=Losses(care.incidents, {"tmux": places.tmux, "docker": engine_address(os.environ)}, told),
        auto=AutoRestart(
            book=book,
            orders=orders,
            store=store,
            clock=clock,
            pace=Pace(clock, config.heal.pace_seconds, config.heal.pace_burst),
            rules=care.rules,
            told=told,
            is_cut_off=sessions.is_cut_off,
        ),
        runtimes=runtimes,
        sessions=sessions,
        processes=Processes(proc.identify_if_seen, lookout.watch),
        leases=leases,
        clock=clock,
        windows=_windows(runtimes, lookout),
    )
    care.circumstances.agent_of = hub.host_of
    care.circumstances.agent_way = hub.way_of
    care.reviver.start_agent = hub.bring_back

    async def before_stop(agent: Agent) -> None:
        await handwork.person_stops.order(run_by(agent.record.pid))
        if agent.record.session_id is not None:
            await settle_ended(agent.record.session_id)

    async def settle_ended(session_id: SessionId) -> None:
        """A session that had died before needs nobody any more, unless it waits for a person's decision."""
        if sessions.holder(session_id) is not None:
            return
        trouble = care.healer.trouble_of(session_id)
        if trouble is None or not trouble.held:
            await handwork.given_up(session_id)
            lookout.supervisor.acted(session_id)

    async def stop_came_to_nothing(agent: Agent) -> None:
        await handwork.person_stops.withdraw(run_by(agent.record.pid))

    orders.before_stop = before_stop
    orders.session_replaced = settle_ended
    orders.stop_came_to_nothing = stop_came_to_nothing
    return hub


def run_by(pid: int | None) -> list[Process]:
    """This process and everybody below it."""
    process = proc.identify_if_seen(pid) if pid is not None else None
    return [process, *proc.descendants(process)] if process is not None else []


def _owner(host: str) -> str:
    """Who holds leases here. The same only for whoever sees the same processes: containers share a boot id, not those."""
    seen = Path("/proc/self/ns/pid").stat().st_ino
    return f"wakeful on {host}" if seen == _FIRST_NAMESPACE else f"wakeful on {host} (pid namespace {seen})"


def _is_dead(process: Process) -> bool:
    """Whether it is certainly gone. Of another boot nobody can say which host's it was."""
    return process.boot_id == proc.boot_id() and proc.sight(process) is Sight.DEAD


def _windows(runtimes: Mapping[str, Runtime], lookout: Lookout) -> Windows | None:
    """The way into containers, if there are any: the eyes are told of each by the hub."""
    if AgentRuntime.DOCKER not in runtimes:
        return None
    from wakeful.integrations.docker.agent_runtime import DockerRuntime  # noqa: PLC0415 - as in `runtimes_of`
    from wakeful.integrations.docker.source import ContainerWindows  # noqa: PLC0415

    runtime = runtimes[AgentRuntime.DOCKER]
    assert isinstance(runtime, DockerRuntime), "made in `runtimes_of`"
    return ContainerWindows(runtime, lookout.open_containers())


def passed_through(spec: AgentSpec) -> Mapping[str, str]:
    """The values of the variables an agent names, as the daemon has them. Names are logged, values never."""
    missing = [name for name in spec.env if name not in os.environ]
    if missing:
        log.warning("agent %s: %s is not set here, so it does not get it", spec.name, ", ".join(missing))
    passed = given_environ({name: os.environ[name] for name in spec.env if name in os.environ})
    if withheld := [name for name in spec.env if name in os.environ and name not in passed]:
        log.warning(
            "agent %s: %s holds a secret of Wakeful, so it does not get it", spec.name, ", ".join(withheld)
        )
    return passed


class HostedSessions:
    """Sessions by the processes that hold them."""

    def __init__(self, roster: Roster, clock: Clock, tmux: str) -> None:
        self._roster = roster
        self._tmux = tmux
        self._clock = clock
        self._below: dict[int, SessionId] = {}
        self._below_at = float("-inf")

    def below(self, pid: int) -> SessionId | None:
        now = self._clock.now().awake
        if now - self._below_at >= LINEAGE_SECONDS:
            self._below, self._below_at = dict(self._lineages()), now
        return self._below.get(pid)

    def above(self, session_id: SessionId) -> frozenset[int]:
        watched = self._roster.watched.get(session_id)
        living = [each.process.pid for each in watched.presence.living] if watched is not None else []
        # Somebody new is among them: who descends from whom is read anew.
        self._below_at = float("-inf")
        return frozenset(pid for each in living for pid in (each, *ancestor_pids(each)))

    def _lineages(self) -> Iterator[tuple[int, SessionId]]:
        """Every living holder and whoever it descends from; the nearest session counts."""
        living = [(each, holder) for each in self._roster.watched.values() for holder in each.presence.living]
        for watched, holder in living:
            yield from ((above, watched.subject.id) for above in ancestor_pids(holder.process.pid))
        yield from ((holder.process.pid, watched.subject.id) for watched, holder in living)

    def is_busy(self, session_id: SessionId) -> bool:
        watched = self._roster.watched.get(session_id)
        record = watched.record if watched is not None else None
        return record is not None and (record.active_prompt or record.state is State.PROMPTING)

    def is_cut_off(self, session_id: SessionId) -> bool:
        """Whether it ended in the middle of a turn: the healer brings it back, or a person gave this turn up."""
        watched = self._roster.watched.get(session_id)
        if watched is None or watched.verdict is None:
            return False
        return watched.activity.in_turn and (bool(watched.verdict.findings) or watched.presence.stopped)

    def agent_named(self, session_id: SessionId) -> str | None:
        """The agent whose mark the processes of this session carry."""
        watched = self._roster.watched.get(session_id)
        for holder in watched.presence.living if watched is not None else ():
            hosted = proc.environ_value(holder.process.pid, SESSION_VARIABLE) or ""
            named = proc.environ_value(holder.process.pid, AGENT_VARIABLE)
            if named:
                return named
            if hosted.startswith(AGENT_PREFIX) and is_on(self._tmux, holder.process.pid):
                return hosted.removeprefix(AGENT_PREFIX)
        return None

    def holder(self, session_id: SessionId) -> int | None:
        watched = self._roster.watched.get(session_id)
        living = watched.presence.living if watched is not None else ()
        return next((each.process.pid for each in living), None)

    def can_go_on(self, session_id: SessionId) -> bool:
        watched = self._roster.watched.get(session_id)
        return watched is not None and watched.activity.known > 0


def ancestor_pids(pid: int) -> list[int]:
    try:
        return [each.pid for each in proc.ancestors(pid)]
    except proc.ProcessHidden:
        return []


class _Messages:
    """Alerts about agents. A store that refuses them costs the message, never the hub."""

    def __init__(self, alerts: AlertDesk) -> None:
        self._alerts = alerts

    async def tell(self, key: str, words: str, topic: Topic) -> None:
        try:
            await self._alerts.owe(Alert(AlertKind.TROUBLE, key, words, topic=topic))
        except WakefulError as error:
            log.warning("nobody could be told: %s", error)

    async def resolve(self, key: str, words: str) -> None:
        try:
            await self._alerts.resolve(key, words)
        except WakefulError as error:
            log.warning("nobody could be told that it is over: %s", error)


def records_without_hub(config: Config, places: Places) -> list[AgentRecord]:
    """Every declared agent as one look shows it. Nothing is watched afterwards, and nothing is left behind."""
    return asyncio.run(_look_once(config, places))


async def _look_once(config: Config, places: Places) -> list[AgentRecord]:
    clock = SystemClock()
    runtimes = runtimes_of(config.agents, places, clock)
    book = AgentBook(config.agents, runtimes, NoNotes(), clock, lambda _change: None)
    try:
        agents = tuple(book.agents.values())
        glimpses = await asyncio.gather(*(agent.runtime.look(agent.spec) for agent in agents))
    finally:
        for runtime in runtimes.values():
            await runtime.close()
    for agent, glimpse in zip(agents, glimpses, strict=True):
        book.looked(agent, glimpse)
    return [agent.record for agent in agents]


class NoNotes:
    """A look by a command keeps nothing."""

    async def keep_note(self, note: Note) -> None:
        """Forgotten at once."""

    async def drop_note(self, kind: str, key: str) -> bool:
        del kind, key
        return False

    async def notes(self, kind: str) -> list[Note]:
        del kind
        return []
