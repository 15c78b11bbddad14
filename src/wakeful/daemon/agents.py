"""Builds the hub: runtimes, leases, orders, auto-restart, and its links to sessions, alerts and healing.

A runtime's library is imported only if a configured agent declares that runtime. `records_without_hub` serves
commands that find no daemon: it inspects every declared agent once, read-only, and stores nothing.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, Protocol

from msgspec import Struct

from wakeful.agents.auto_restart import AutoRestart, RuntimeLosses
from wakeful.agents.commands import AgentCommands, AgentSessions
from wakeful.agents.hub import ContainerAccess, Hub, ProcessLookup
from wakeful.agents.leases import AgentLeases
from wakeful.agents.model import AgentRecord, AgentRuntime, AgentSpec
from wakeful.agents.runtime import Runtime
from wakeful.agents.stale_alerts import StaleAlerts
from wakeful.agents.table import Agent, AgentTable, NoAgentListener
from wakeful.alerts.notifier import Notifier
from wakeful.config.paths import StatePaths
from wakeful.config.schema import Config
from wakeful.core.clock import Clock
from wakeful.core.errors import WorldError
from wakeful.core.ids import SessionId
from wakeful.core.managed_session import AGENT_VARIABLE, SESSION_VARIABLE
from wakeful.core.process import Process, ProcessState
from wakeful.daemon.control import ControlComponents
from wakeful.daemon.healing import HealingComponents
from wakeful.daemon.observer import SessionObserver
from wakeful.healing.healer import Healer
from wakeful.healing.plan import HealingRules
from wakeful.healing.rate_limit import RevivalLimiter
from wakeful.incidents.service import Incidents
from wakeful.integrations.tmux.agent_runtime import PREFIX as AGENT_PREFIX, TmuxAgentRuntime, runs_on_server
from wakeful.integrations.tmux.programs import resume_argv
from wakeful.judging.findings import State
from wakeful.linux import proc
from wakeful.linux.child_environment import given_environ
from wakeful.linux.clock import SystemClock
from wakeful.linux.logging import log_to_stderr
from wakeful.sessions.feed import Feed
from wakeful.sessions.registry import SessionRegistry
from wakeful.sessions.supervisor import Supervisor
from wakeful.sources.base import ProcessWatch
from wakeful.storage.base import Note, Store

# Process ancestry is read once for all agents of a sync, which may be two hundred.
LINEAGE_SECONDS: Final = 1.0
# The inode of a host's first pid namespace (PROC_PID_INIT_INO).
_FIRST_NAMESPACE: Final = 0xEFFFFFFC

log = logging.getLogger("wakeful.hub")


class EngineLibraryMissing(WorldError, code="engine-library-missing"):
    """Agents in containers need {library}, which is not installed: pip install 'wakeful[docker]'."""


def runtimes_of(specs: Iterable[AgentSpec], paths: StatePaths, clock: Clock) -> dict[str, Runtime]:
    """The runtimes of these agents; an engine's library is imported only if needed. Raises EngineLibraryMissing."""
    wanted = {spec.runtime for spec in specs}
    found: dict[str, Runtime] = {}
    if AgentRuntime.TMUX in wanted:
        found[AgentRuntime.TMUX] = TmuxAgentRuntime(paths.tmux, paths.agents, clock)
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
    """The engine's address, found as the docker command finds it."""
    return environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"


def build_agent_table(
    config: Config, paths: StatePaths, store: Store, observer: SessionObserver, feed: Feed
) -> AgentTable:
    # Every change of an agent's state is one line of the daemon's log.
    log_to_stderr(log)
    clock = observer.clock
    runtimes = runtimes_of(config.agents, paths, clock)
    return AgentTable(config.agents, runtimes, store, clock, AgentEvents(feed, observer.supervisor))


class AgentEvents:
    """Publishes changes of agents, and reports to the supervisor which sessions they host."""

    def __init__(self, feed: Feed, supervisor: Supervisor) -> None:
        self._feed = feed
        self._supervisor = supervisor

    def publish_agent_change(self, change: bytes) -> None:
        self._feed.publish_agent_change(change)

    def set_agent(self, session_id: SessionId, agent: str | None) -> None:
        self._supervisor.set_agent(session_id, agent)


class HubSessions(AgentSessions, Protocol):
    def is_cut_off(self, session_id: SessionId) -> bool:
        """Whether it ended in the middle of a turn."""


class HubParts(Struct, frozen=True, kw_only=True):
    """What a hub is built on. `scopes` names the server of each runtime, for incidents."""

    table: AgentTable
    commands: AgentCommands
    store: Store
    clock: Clock
    sessions: HubSessions
    processes: ProcessLookup
    incidents: Incidents
    notifier: Notifier
    limiter: RevivalLimiter
    rules: Callable[[], HealingRules]
    scopes: Mapping[str, str]
    containers: ContainerAccess | None = None


def connect_hub(parts: HubParts) -> Hub:
    auto = AutoRestart(
        table=parts.table,
        commands=parts.commands,
        store=parts.store,
        clock=parts.clock,
        limiter=parts.limiter,
        rules=parts.rules,
        alerts=StaleAlerts(parts.table, parts.notifier, parts.incidents),
        is_cut_off=parts.sessions.is_cut_off,
    )
    return Hub(
        table=parts.table,
        commands=parts.commands,
        losses=RuntimeLosses(parts.incidents, parts.scopes, parts.notifier),
        auto=auto,
        sessions=parts.sessions,
        processes=parts.processes,
        clock=parts.clock,
        windows=parts.containers,
    )


def build_hub(
    config: Config,
    paths: StatePaths,
    store: Store,
    observer: SessionObserver,
    table: AgentTable,
    control: ControlComponents,
    healing: HealingComponents,
) -> Hub:
    clock = observer.clock
    sessions = HostedSessions(observer.registry, clock, paths.tmux)
    # The owner differs for another view of processes: containers share a boot id, but not processes.
    namespace = Path("/proc/self/ns/pid").stat().st_ino
    inside = "" if namespace == _FIRST_NAMESPACE else f" (pid namespace {namespace})"
    owner = f"wakeful on {observer.host}{inside}"
    leases = AgentLeases(store, owner, proc.identify_or_none(os.getpid()), _is_dead)
    commands = AgentCommands(
        table=table,
        gate=control.gate,
        leases=leases,
        sessions=sessions,
        environ=pass_through_environ,
        resuming=resume_argv,
        mode=config.daemon.mode,
        listener=PersonCommandListener(sessions, control, healing.healer, observer.supervisor),
    )
    parts = HubParts(
        table=table,
        commands=commands,
        store=store,
        clock=clock,
        sessions=sessions,
        processes=LocalProcessLookup(observer.processes),
        incidents=healing.incidents,
        notifier=healing.notifier,
        limiter=healing.limiter,
        rules=healing.rules,
        scopes={"tmux": paths.tmux, "docker": engine_address(os.environ)},
        containers=_container_access(table.runtimes, observer),
    )
    hub = connect_hub(parts)
    healing.situations.add_agents(hub)
    healing.reviver.add_agents(hub)
    return hub


class LocalProcessLookup:
    def __init__(self, processes: ProcessWatch) -> None:
        self._processes = processes

    def identify(self, pid: int) -> Process | None:
        return proc.identify_or_none(pid)

    def watch(self, process: Process) -> ProcessState:
        return self._processes.watch(process)


class PersonCommandListener:
    """Records what people stop, so that it raises no alert and nothing resumes it."""

    def __init__(
        self,
        sessions: "HostedSessions",
        control: ControlComponents,
        healer: Healer,
        supervisor: Supervisor,
    ) -> None:
        self._sessions = sessions
        self._control = control
        self._healer = healer
        self._supervisor = supervisor

    async def before_stop(self, agent: Agent) -> None:
        await self._control.person_stops.record_order(processes_from(agent.record.pid))
        if agent.record.session_id is not None:
            await self.on_session_replaced(agent.record.session_id)

    async def on_stop_failed(self, agent: Agent) -> None:
        await self._control.person_stops.withdraw(processes_from(agent.record.pid))

    async def on_session_replaced(self, session_id: SessionId) -> None:
        """A dead session needs no treatment any more, unless it waits for a person's decision."""
        if self._sessions.agent_pid(session_id) is not None:
            return
        case = self._healer.case_of(session_id)
        if case is None or not case.held:
            await self._control.mark_given_up(session_id)
            self._supervisor.on_action(session_id)


def processes_from(pid: int | None) -> list[Process]:
    process = proc.identify_or_none(pid) if pid is not None else None
    return [process, *proc.descendants(process)] if process is not None else []


def _is_dead(process: Process) -> bool:
    """Whether it has certainly ended; of another machine that is never known."""
    return proc.state_of(process) is ProcessState.DEAD


def _container_access(runtimes: Mapping[str, Runtime], observer: SessionObserver) -> ContainerAccess | None:
    """The way into containers, if there are any; the hub reports each container to it."""
    if AgentRuntime.DOCKER not in runtimes:
        return None
    from wakeful.integrations.docker.agent_runtime import DockerRuntime  # noqa: PLC0415 - as in `runtimes_of`
    from wakeful.integrations.docker.source import ContainerSourceUpdater  # noqa: PLC0415

    runtime = runtimes[AgentRuntime.DOCKER]
    assert isinstance(runtime, DockerRuntime), "made in `runtimes_of`"
    return ContainerSourceUpdater(runtime, observer.open_containers())


def pass_through_environ(spec: AgentSpec) -> Mapping[str, str]:
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
    def __init__(self, registry: SessionRegistry, clock: Clock, tmux: str) -> None:
        self._registry = registry
        self._tmux = tmux
        self._clock = clock
        self._below: dict[int, SessionId] = {}
        self._below_at = float("-inf")

    def session_below(self, pid: int) -> SessionId | None:
        now = self._clock.now().awake
        if now - self._below_at >= LINEAGE_SECONDS:
            self._below, self._below_at = dict(self._lineages()), now
        return self._below.get(pid)

    def pids_above(self, session_id: SessionId) -> frozenset[int]:
        session = self._registry.sessions.get(session_id)
        living = (
            [each.process.pid for each in session.presence.living_processes] if session is not None else []
        )
        # There is a new process: the ancestry is read again.
        self._below_at = float("-inf")
        return frozenset(pid for each in living for pid in (each, *ancestor_pids(each)))

    def _lineages(self) -> Iterator[tuple[int, SessionId]]:
        """Every living agent process and its ancestors; the nearest session counts."""
        living = [
            (each, process)
            for each in self._registry.sessions.values()
            for process in each.presence.living_processes
        ]
        for session, process in living:
            yield from ((above, session.subject.id) for above in ancestor_pids(process.process.pid))
        yield from ((process.process.pid, session.subject.id) for session, process in living)

    def is_busy(self, session_id: SessionId) -> bool:
        session = self._registry.sessions.get(session_id)
        record = session.record if session is not None else None
        return record is not None and (record.active_prompt or record.state is State.PROMPTING)

    def is_cut_off(self, session_id: SessionId) -> bool:
        """Whether it ended in the middle of a turn: the healer treats it, or a person gave this turn up."""
        session = self._registry.sessions.get(session_id)
        if session is None or session.verdict is None:
            return False
        return session.activity.in_turn and (bool(session.verdict.findings) or session.presence.stopped)

    def agent_by_mark(self, session_id: SessionId) -> str | None:
        session = self._registry.sessions.get(session_id)
        for process in session.presence.living_processes if session is not None else ():
            hosted = proc.environ_value(process.process.pid, SESSION_VARIABLE) or ""
            named = proc.environ_value(process.process.pid, AGENT_VARIABLE)
            if named:
                return named
            if hosted.startswith(AGENT_PREFIX) and runs_on_server(self._tmux, process.process.pid):
                return hosted.removeprefix(AGENT_PREFIX)
        return None

    def agent_pid(self, session_id: SessionId) -> int | None:
        session = self._registry.sessions.get(session_id)
        living = session.presence.living_processes if session is not None else ()
        return next((each.process.pid for each in living), None)

    def can_resume(self, session_id: SessionId) -> bool:
        session = self._registry.sessions.get(session_id)
        return session is not None and session.activity.known > 0


def ancestor_pids(pid: int) -> list[int]:
    try:
        return [each.pid for each in proc.ancestors(pid)]
    except proc.ProcessHidden:
        return []


def records_without_hub(config: Config, paths: StatePaths) -> list[AgentRecord]:
    return asyncio.run(_inspect_once(config, paths))


async def _inspect_once(config: Config, paths: StatePaths) -> list[AgentRecord]:
    """Inspect every declared agent once. Nothing is watched or stored."""
    clock = SystemClock()
    runtimes = runtimes_of(config.agents, paths, clock)
    table = AgentTable(config.agents, runtimes, NoNotes(), clock, NoAgentListener())
    try:
        agents = tuple(table.agents.values())
        observations = await asyncio.gather(*(agent.runtime.inspect(agent.spec) for agent in agents))
    finally:
        for runtime in runtimes.values():
            await runtime.close()
    for agent, observation in zip(agents, observations, strict=True):
        table.apply_observation(agent, observation)
    return [agent.record for agent in agents]


class NoNotes:
    """For a command without a daemon: nothing is stored."""

    async def save_note(self, note: Note) -> None: ...

    async def drop_note(self, kind: str, key: str) -> bool:
        del kind, key
        return False

    async def notes(self, kind: str) -> list[Note]:
        del kind
        return []
