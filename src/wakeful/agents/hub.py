"""The agent hub: checks all declared agents every ten seconds and updates their states.

A running container does not prove a working agent, so the hub checks container, tmux session and process. An
agent is checked at once when its process ends or its runtime sends an event. Every result goes through the
table in `agents/table.py`. Actions are in `agents/commands.py`.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping
from functools import partial
from typing import Final, Protocol

from msgspec import Struct

from wakeful.agents.auto_restart import AutoRestart, RuntimeLosses
from wakeful.agents.commands import AgentCommands, AgentSessions
from wakeful.agents.model import (
    AgentEvent,
    AgentObservation,
    AgentRecord,
    AgentSpec,
    AgentsSummary,
    AgentState,
    Restart,
    event_of,
    next_state,
    summarize_agents,
)
from wakeful.agents.runtime import NotReady, Runtime, UndeclaredAgent
from wakeful.agents.table import Agent, AgentTable
from wakeful.control.gate import ActionKind, ActionRecord
from wakeful.core.clock import Clock
from wakeful.core.errors import WorldError
from wakeful.core.ids import SessionId
from wakeful.core.process import Process, ProcessState
from wakeful.healing.plan import AgentRecovery
from wakeful.storage.base import ActionOutcome

# An agent whose session died is stale within this time.
SYNC_SECONDS: Final = 10.0
# A start that an earlier daemon ordered is seen ready, or ended, this late.
STARTING_SECONDS: Final = 1.0
# A lease lasts 60 s: two renewals may fail before anybody else can claim it.
RENEW_SECONDS: Final = 20.0
# A stop takes up to 15 s, signal by signal. An agent that runs after this time was not stopped.
STOP_SECONDS_MAX: Final = 60.0

log = logging.getLogger("wakeful.hub")


class ProcessLookup(Protocol):
    """Identifies and watches processes of this host."""

    def identify(self, pid: int) -> Process | None:
        """The process with this pid; None if it is gone or hidden."""

    def watch(self, process: Process) -> ProcessState:
        """Whether it is alive; if it is, its end will be reported."""


class ContainerAccess(Protocol):
    """Ways for the eyes to see what agents keep where only their runtime can reach it."""

    async def update(self, spec: AgentSpec, observation: AgentObservation) -> None:
        """This was seen of an agent: its window is opened, left as it is, or closed. Never raises what the world does."""


class Hub:
    """Looks, and keeps the book right."""

    def __init__(
        self,
        *,
        table: AgentTable,
        commands: AgentCommands,
        losses: RuntimeLosses,
        auto: AutoRestart,
        sessions: AgentSessions,
        processes: ProcessLookup,
        clock: Clock,
        windows: ContainerAccess | None = None,
    ) -> None:
        self._table = table
        self.commands = commands
        self._losses = losses
        self._auto_restart = auto
        self._runtimes = table.runtimes
        self._sessions = sessions
        self._processes = processes
        self._clock = clock
        self._container_access = windows
        # Beginnings and ends of looks, in their order.
        self._ticks = 0
        self._inspect_tasks: set[asyncio.Task[None]] = set()
        self._closed = False
        self._restored = asyncio.Event()
        self._renewed_at = clock.now().awake
        self.undeclared: tuple[UndeclaredAgent, ...] = ()
        commands.inspect_afterwards(self._inspect_after_command)

    @property
    def records(self) -> tuple[AgentRecord, ...]:
        return tuple(agent.record for agent in self._table.agents.values())

    def record(self, text: str) -> AgentRecord:
        """Raises AgentNotFound, BadAgentName."""
        return self._table.find(text).record

    @property
    def failed_counts(self) -> Mapping[str, int]:
        """How many looks came to nothing, by the runtime that was asked."""
        return self._table.failed_counts

    def summary(self) -> AgentsSummary:
        return summarize_agents(self.records)

    def attach_argv(self, text: str) -> tuple[str, ...]:
        """The command that hands a terminal to it. Raises AgentNotFound, BadAgentName."""
        agent = self._table.find(text)
        return agent.runtime.attach_argv(agent.spec)

    def agent_name_of(self, session_id: SessionId) -> str | None:
        """The agent that hosts this session, or did when it was last seen."""
        return next((each.name for each in self.records if each.session_id == session_id), None)

    def recovery_of(self, session_id: SessionId) -> AgentRecovery:
        """Who brings this session back, should its agent be gone."""
        agent = self._hosting_agent(session_id)
        if agent is None or agent.spec.restart is not Restart.AUTO or agent.stop_ordered:
            return AgentRecovery.NOTIFY
        if agent.state is AgentState.STALE:
            return AgentRecovery.REVIVE
        if agent.state is AgentState.RUNNING:
            return AgentRecovery.NOTIFY if self._runs_without(agent, session_id) else AgentRecovery.WAIT
        return (
            AgentRecovery.WAIT
            if agent.state in (AgentState.UNKNOWN, AgentState.STARTING)
            else AgentRecovery.NOTIFY
        )

    def _runs_without(self, agent: Agent, session_id: SessionId) -> bool:
        """Whether the agent runs on though its session ended: two rounds of looks have seen no end of it."""
        now = self._clock.now().awake
        if self._sessions.agent_pid(session_id) is not None:
            agent.session_missing_since = None
            return False
        if agent.session_missing_since is None:
            agent.session_missing_since = now
        return now - agent.session_missing_since >= 2 * SYNC_SECONDS

    def resume_agent(self, session_id: SessionId) -> Coroutine[None, None, ActionRecord] | None:
        """Start the agent that hosts this session, in its conversation; None where no agent does."""
        agent = self._hosting_agent(session_id)
        return self._resume_agent(agent) if agent is not None else None

    async def _resume_agent(self, agent: Agent) -> ActionRecord:
        await self._restored.wait()
        while _is_left_starting(agent):
            await self._clock.sleep(STARTING_SECONDS)
        if agent.state is AgentState.RUNNING:
            # An earlier daemon ended after it was started and before it was told anything.
            return ActionRecord(
                "", ActionKind.RESUME, agent.key, ActionOutcome.CONFIRMED, "its agent runs already"
            )
        return await self.commands.revive(agent)

    def _hosting_agent(self, session_id: SessionId) -> Agent | None:
        agents = self._table.agents.values()
        return next((each for each in agents if each.record.hosted_session == session_id), None)

    def program(self, text: str) -> str:
        """What it runs. Raises AgentNotFound, BadAgentName."""
        return self._table.find(text).spec.command[0]

    async def load(self) -> None:
        """What an earlier daemon knew. Before anybody is judged: whose agent hosts it is managed from the first moment."""
        await self._table.load()

    async def restore(self) -> None:
        """Go on where an earlier daemon stopped, and find out what became of everybody since."""
        await self._renew()
        await self.inspect(tuple(self._table.agents.values()))
        for agent in self._table.agents.values():
            if agent.state in (AgentState.RUNNING, AgentState.STALE):
                log.info("%s", _discovery_line(agent))
        await self._auto_restart.restore()
        self._restored.set()

    def on_exit(self, process: Process) -> None:
        """A process is gone: if it was an agent's, look at once."""
        for agent in self._table.agents.values():
            if agent.process == process:
                self._inspect_soon((agent,))

    def on_session_process(self, session_id: SessionId) -> None:
        """A session has a new holder: if that is an agent's, it is said at once whom it hosts."""
        if not self._table.agents:
            return
        agent = self._table.agents.get(self._sessions.agent_by_mark(session_id) or "")
        if agent is not None and self._is_free(agent):
            self._table.set_session(agent, session_id)
        if any(record.pid is not None for record in self.records):
            above = self._sessions.pids_above(session_id)
            self._inspect_soon([agent for agent in self._table.agents.values() if agent.record.pid in above])

    def _is_free(self, agent: Agent) -> bool:
        """Whether it hosts nobody who lives: a client that its own session started is not whom it hosts."""
        session_id = agent.record.session_id
        return session_id is None or self._sessions.agent_pid(session_id) is None

    def tasks(self) -> Iterator[tuple[Callable[[], Coroutine[None, None, None]], str]]:
        """What runs as long as the daemon does."""
        if self._table.agents:
            yield self.run, "agents are not looked at"
        for runtime in self._runtimes.values():
            yield partial(self._follow, runtime), f"nothing is heard of {runtime.name}"

    async def run(self) -> None:
        while True:
            await self.sync()
            starting = any(_is_left_starting(each) for each in self._table.agents.values())
            pause_seconds = STARTING_SECONDS if starting else SYNC_SECONDS
            await self._clock.sleep(pause_seconds)
            if self._clock.now().awake - self._renewed_at >= RENEW_SECONDS:
                await self._renew()

    async def sync(self) -> None:
        """Look at all of them, and at what else is there."""
        await self.inspect(tuple(self._table.agents.values()))
        for agent in self._table.agents.values():
            self._auto_restart.restart_if_stale(agent)
        known = frozenset(self._table.agents)
        found: list[UndeclaredAgent] = []
        for runtime in self._runtimes.values():
            try:
                found += await runtime.find_undeclared(known)
            except WorldError as error:
                log.debug("%s: %s", runtime.name, error)
        for each in set(found) - set(self.undeclared):
            log.info("found %s, which %s: declared nowhere, so it is left alone", each.name, each.words)
        self.undeclared = tuple(found)

    async def inspect(self, agents: Collection[Agent]) -> None:
        """Look, and take what was seen into account, unless something else was seen or ordered meanwhile."""
        free = [agent for agent in agents if not agent.commands_running]
        looks = await asyncio.gather(*(self._inspect_one(agent) for agent in free))
        for agent, look in zip(free, looks, strict=True):
            if agent.commands_running:
                continue
            if look.began < agent.last_inspection:
                # Nobody can tell which of the two saw later: if they differ, a third one does.
                if next_state(agent.state, event_of(look.glimpse)) is not agent.state:
                    self._inspect_soon((agent,))
                continue
            agent.last_inspection = look.ended
            await self._apply(agent, look.glimpse)

    async def close(self) -> None:
        """Let go of everything; agents go on."""
        self._closed = True
        for task in tuple(self._inspect_tasks):
            task.cancel()
        await asyncio.gather(*self._inspect_tasks, return_exceptions=True)
        await self._auto_restart.close()
        await self.commands.close()
        for runtime in self._runtimes.values():
            await runtime.close()

    async def _apply(self, agent: Agent, observation: AgentObservation) -> None:
        before = agent.record
        self._update_state(agent, observation)
        if self._outlived_its_stop(agent):
            agent.stop_ordered = False
            await self.commands.on_stop_failed(agent)
            await self._table.save(agent)
        elif agent.record != before:
            await self._table.save(agent)
        await self._losses.update(agent)
        await self._auto_restart.reconcile(agent)
        if self._container_access is not None:
            await self._container_access.update(agent.spec, observation)

    def _outlived_its_stop(self, agent: Agent) -> bool:
        """Whether a stop was ordered and never carried out, because Wakeful ended first: what ends it later is news."""
        runs = agent.stop_ordered and agent.state is AgentState.RUNNING
        return runs and self._clock.now().wall - agent.moved_at >= STOP_SECONDS_MAX

    def _update_state(self, agent: Agent, observation: AgentObservation) -> None:
        session = self._sessions.session_below(observation.pid) if observation.pid is not None else None
        self._table.apply_observation(agent, observation, session)
        if _is_left_starting(agent) and self._clock.now().wall - agent.moved_at >= agent.spec.ready_seconds:
            self._table.apply_event(agent, AgentEvent.NOT_READY, _not_ready(agent.spec, observation.reason))
        process = self._processes.identify(observation.pid) if observation.pid is not None else None
        agent.process = process
        if process is not None:
            ended = self._processes.watch(process) is ProcessState.DEAD
        else:
            # Gone already; or somebody else's that cannot be looked at, which a second look does not change.
            ended = observation.pid is not None and observation.pid != agent.unidentified_pid
            agent.unidentified_pid = observation.pid
        if ended:
            # Between the look and now: nobody else would tell.
            self._inspect_soon((agent,))

    async def _inspect_one(self, agent: Agent) -> "_Inspection":
        began = self._tick()
        try:
            observation = await agent.runtime.inspect(agent.spec)
        except WorldError as error:
            unknown = ProcessState.UNKNOWN
            observation = AgentObservation(
                container=unknown, session=unknown, agent=unknown, reason=str(error)
            )
        return _Inspection(began, self._tick(), observation)

    def _inspect_after_command(self, agent: Agent) -> None:
        # What was seen before it, or while it was carried out, does not count after it.
        agent.last_inspection = self._tick()
        self._inspect_soon((agent,))

    def _tick(self) -> int:
        self._ticks += 1
        return self._ticks

    async def _follow(self, runtime: Runtime) -> None:
        """Inspect what a runtime reports as changed, until cancelled."""
        async for name in runtime.changes():
            self._on_runtime_event(name)

    def _on_runtime_event(self, name: str) -> None:
        """A runtime heard something of an agent; of none in particular: of all it hosts."""
        agents = self._table.agents
        if not name:
            self._inspect_soon(tuple(agents.values()))
        elif name in agents:
            self._inspect_soon((agents[name],))

    def _inspect_soon(self, agents: Collection[Agent]) -> None:
        if not agents or self._closed:
            return
        task = asyncio.create_task(self._inspect_now(agents))
        self._inspect_tasks.add(task)
        task.add_done_callback(self._inspect_tasks.discard)

    async def _inspect_now(self, agents: Collection[Agent]) -> None:
        try:
            await self.inspect(agents)
        except WorldError as error:
            log.warning("what was seen of agents is not kept: %s", error)
        for agent in agents:
            self._auto_restart.restart_if_stale(agent)

    async def _renew(self) -> None:
        """Whoever runs under an epoch of ours keeps it, across restarts of ours."""
        self._renewed_at = self._clock.now().awake
        for agent in self._table.agents.values():
            epoch = agent.record.epoch
            # Whoever is not there has given it back.
            if not epoch or not agent.is_present:
                continue
            if not await self.commands.renew_lease(agent):
                log.warning("agent %s was claimed by somebody else since epoch %d", agent.name, epoch)


class _Inspection(Struct, frozen=True):
    """What was seen, somewhen between the two."""

    began: int
    ended: int
    glimpse: AgentObservation


def _is_left_starting(agent: Agent) -> bool:
    """Whether it starts and no order of this daemon sees to it: the one that did ended."""
    return agent.state is AgentState.STARTING and not agent.commands_running


def _not_ready(spec: AgentSpec, reason: str) -> str:
    return str(NotReady(name=spec.name, seconds=spec.ready_seconds, reason=reason))


def _discovery_line(agent: Agent) -> str:
    """The log line about an agent found at the start of the daemon."""
    what = "container" if agent.spec.runtime == "docker" else "session"
    return f"Discovered {agent.state} {what} for {agent.name} ({agent.record.reason})"
