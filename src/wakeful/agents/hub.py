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
from wakeful.control.person_stops import STOP_SECONDS_MAX
from wakeful.core.clock import Clock
from wakeful.core.errors import WorldError
from wakeful.core.ids import SessionId
from wakeful.core.process import Process, ProcessState
from wakeful.healing.plan import AgentRecovery
from wakeful.storage.base import ActionOutcome

# An agent becomes stale within this time after its session died.
SYNC_SECONDS: Final = 10.0
# The interval while an agent is starting that an earlier daemon started.
STARTING_SECONDS: Final = 1.0
# A lease lasts 60 s: two renewals may fail before another owner can claim it.
RENEW_SECONDS: Final = 20.0

log = logging.getLogger("wakeful.hub")


class ProcessLookup(Protocol):
    def identify(self, pid: int) -> Process | None:
        """The process with this pid; None if it has ended or is hidden."""

    def watch(self, process: Process) -> ProcessState:
        """Whether it is alive; if it is, its end will be reported."""


class ContainerAccess(Protocol):
    """Opens log sources for files that only an agent's runtime can reach."""

    async def update(self, spec: AgentSpec, observation: AgentObservation) -> None:
        """Open, keep or close the access to an agent, by this observation. Never raises a WorldError."""


class Hub:
    """Inspects agents and updates the table."""

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
        # Numbers the beginnings and ends of inspections.
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
        return self._table.failed_counts

    def summary(self) -> AgentsSummary:
        return summarize_agents(self.records)

    def attach_argv(self, text: str) -> tuple[str, ...]:
        """The command that attaches a terminal to it. Raises AgentNotFound, BadAgentName."""
        agent = self._table.find(text)
        return agent.runtime.attach_argv(agent.spec)

    def agent_name_of(self, session_id: SessionId) -> str | None:
        """The agent that hosts this session, or did when it was last seen."""
        return next((each.name for each in self.records if each.session_id == session_id), None)

    def recovery_of(self, session_id: SessionId) -> AgentRecovery:
        """How this session comes back after its agent ended."""
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
        """Whether the agent runs on although its session ended, for two rounds of inspections."""
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
            # An earlier daemon ended between its start and its brief.
            return ActionRecord(
                "", ActionKind.RESUME, agent.key, ActionOutcome.CONFIRMED, "its agent runs already"
            )
        return await self.commands.revive(agent)

    def _hosting_agent(self, session_id: SessionId) -> Agent | None:
        agents = self._table.agents.values()
        return next((each for each in agents if each.record.hosted_session == session_id), None)

    def program(self, text: str) -> str:
        """Its program. Raises AgentNotFound, BadAgentName."""
        return self._table.find(text).spec.command[0]

    async def load(self) -> None:
        """Load the stored agents. Before sessions are judged: a session of an agent counts as managed from the start."""
        await self._table.load()

    async def restore(self) -> None:
        """Continue where an earlier daemon stopped, and inspect every agent."""
        await self._renew()
        await self.inspect(tuple(self._table.agents.values()))
        for agent in self._table.agents.values():
            if agent.state in (AgentState.RUNNING, AgentState.STALE):
                what = "container" if agent.spec.runtime == "docker" else "session"
                log.info("Discovered %s %s for %s (%s)", agent.state, what, agent.name, agent.record.reason)
        await self._auto_restart.restore()
        self._restored.set()

    def on_exit(self, process: Process) -> None:
        """A process ended: if it was an agent's, inspect the agent at once."""
        for agent in self._table.agents.values():
            if agent.process == process:
                self._inspect_soon((agent,))

    def on_session_process(self, session_id: SessionId) -> None:
        """A session has a new process: if it is an agent's, the agent hosts this session from now on."""
        if not self._table.agents:
            return
        agent = self._table.agents.get(self._sessions.agent_by_mark(session_id) or "")
        if agent is not None:
            hosted = agent.record.session_id
            # A client that the hosted session itself started is not hosted.
            if hosted is None or self._sessions.agent_pid(hosted) is None:
                self._table.set_session(agent, session_id)
        if any(record.pid is not None for record in self.records):
            above = self._sessions.pids_above(session_id)
            self._inspect_soon([agent for agent in self._table.agents.values() if agent.record.pid in above])

    def tasks(self) -> Iterator[tuple[Callable[[], Coroutine[None, None, None]], str]]:
        if self._table.agents:
            yield self.run, "agents are not checked"
        for runtime in self._runtimes.values():
            yield partial(self._follow, runtime), f"{runtime.name} reports nothing"

    async def run(self) -> None:
        while True:
            await self.sync()
            starting = any(_is_left_starting(each) for each in self._table.agents.values())
            await self._clock.sleep(STARTING_SECONDS if starting else SYNC_SECONDS)
            if self._clock.now().awake - self._renewed_at >= RENEW_SECONDS:
                await self._renew()

    async def sync(self) -> None:
        """Inspect all agents, and find undeclared ones."""
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
            log.info("found %s, which %s: not declared; no action taken", each.name, each.words)
        self.undeclared = tuple(found)

    async def inspect(self, agents: Collection[Agent]) -> None:
        """Inspect these agents, and apply each result unless a newer one or an order came in between."""
        free = [agent for agent in agents if not agent.commands_running]
        inspections = await asyncio.gather(*(self._inspect_one(agent) for agent in free))
        for agent, inspection in zip(free, inspections, strict=True):
            if agent.commands_running:
                continue
            if inspection.began < agent.last_inspection:
                # The order of the two observations is unknown: if they differ, a third one decides.
                if next_state(agent.state, event_of(inspection.observation)) is not agent.state:
                    self._inspect_soon((agent,))
                continue
            agent.last_inspection = inspection.ended
            await self._apply(agent, inspection.observation)

    async def close(self) -> None:
        """End all tasks; agents go on."""
        self._closed = True
        for task in tuple(self._inspect_tasks):
            task.cancel()
        await asyncio.gather(*self._inspect_tasks, return_exceptions=True)
        await self._auto_restart.close()
        await self.commands.close()
        for runtime in self._runtimes.values():
            await runtime.close()

    async def _apply(self, agent: Agent, observation: AgentObservation) -> None:
        self._update_state(agent, observation)
        runs = agent.stop_ordered and agent.state is AgentState.RUNNING
        if runs and self._clock.now().wall - agent.moved_at >= STOP_SECONDS_MAX:
            # Wakeful ended before it carried the stop out: a later end of the agent is another problem.
            agent.stop_ordered = False
            await self.commands.listener.on_stop_failed(agent)
            await self._table.save(agent)
        elif agent.record != agent.stored_record:
            await self._table.save(agent)
        await self._losses.update(agent)
        await self._auto_restart.reconcile(agent)
        if self._container_access is not None:
            await self._container_access.update(agent.spec, observation)

    def _update_state(self, agent: Agent, observation: AgentObservation) -> None:
        session = self._sessions.session_below(observation.pid) if observation.pid is not None else None
        self._table.apply_observation(agent, observation, session)
        if _is_left_starting(agent) and self._clock.now().wall - agent.moved_at >= agent.spec.ready_seconds:
            problem = NotReady(name=agent.name, seconds=agent.spec.ready_seconds, reason=observation.reason)
            self._table.apply_event(agent, AgentEvent.NOT_READY, str(problem))
        process = agent.process = (
            self._processes.identify(observation.pid) if observation.pid is not None else None
        )
        if process is not None:
            ended = self._processes.watch(process) is ProcessState.DEAD
        else:
            # It has ended; or it belongs to another user, which a second inspection does not change.
            ended = observation.pid is not None and observation.pid != agent.unidentified_pid
            agent.unidentified_pid = observation.pid
        if ended:
            # It ended between the inspection and now, and no other event would report it.
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
        # Inspections from before or during the command do not count after it.
        agent.last_inspection = self._tick()
        self._inspect_soon((agent,))

    def _tick(self) -> int:
        self._ticks += 1
        return self._ticks

    async def _follow(self, runtime: Runtime) -> None:
        """Inspect the agents that a runtime reports as changed, until cancelled."""
        async for name in runtime.changes():
            self._on_runtime_event(name)

    def _on_runtime_event(self, name: str) -> None:
        """A runtime reported an agent, or with an empty name all agents."""
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
            log.warning("observations of agents were not stored: %s", error)
        for agent in agents:
            self._auto_restart.restart_if_stale(agent)

    async def _renew(self) -> None:
        """Renew the leases of all running agents, also those that an earlier daemon claimed."""
        self._renewed_at = self._clock.now().awake
        for agent in self._table.agents.values():
            epoch = agent.record.epoch
            # An agent that does not exist has released its lease.
            if not epoch or not agent.is_present:
                continue
            if not await self.commands.leases.renew(agent):
                log.warning("agent %s was claimed by another owner since epoch %d", agent.name, epoch)


class _Inspection(Struct, frozen=True):
    """An observation, made between the two ticks."""

    began: int
    ended: int
    observation: AgentObservation


def _is_left_starting(agent: Agent) -> bool:
    """Whether it starts without an order of this daemon: an earlier daemon ordered it."""
    return agent.state is AgentState.STARTING and not agent.commands_running
