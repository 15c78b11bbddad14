"""Actions on agents: start, stop and restart of the session, each through the action gate and verified.

The state table accepts or refuses an action before the first await, so of two at once one wins. A stop is
also accepted during a start, and ends it.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar

from msgspec.structs import replace

from wakeful.agents.leases import AgentLeases
from wakeful.agents.model import (
    AgentEvent,
    AgentObservation,
    AgentRecord,
    AgentSpec,
    AgentState,
    accepts,
    event_of,
)
from wakeful.agents.runtime import EngineGone
from wakeful.agents.table import Agent, AgentTable
from wakeful.control.driver import ActionResult
from wakeful.control.gate import ActionGate, ActionIntent, ActionKind, ActionRecord, PerformAction
from wakeful.core.errors import OperatorError, WakefulError, WorldError
from wakeful.core.fault_points import fault_point
from wakeful.core.ids import ConversationId, SessionId
from wakeful.core.managed_session import INTENT_VARIABLE
from wakeful.core.process import ProcessState
from wakeful.judging.available_actions import OBSERVING
from wakeful.storage.base import ActionOutcome

STOPPED_WHILE_STARTING: Final = "it was stopped while it was starting"
T = TypeVar("T")

log = logging.getLogger("wakeful.hub")


class HubObserves(OperatorError, code="hub-observes", http_status=409, exit_code=1):
    """The mode is observe, so Wakeful takes no action. Set daemon.mode to mine and restart Wakeful."""


class NotStale(OperatorError, code="agent-not-stale", http_status=409, exit_code=1):
    """Agent {name} is {state}, not stale. Only a stale agent can restart its session.{advice}"""


class AgentBusy(OperatorError, code="agent-busy", http_status=409, exit_code=1):
    """Agent {name} is running a turn (session {session}). To stop it anyway: wakeful agent stop {name} --yes"""


class AlreadyRuns(OperatorError, code="agent-runs", http_status=409, exit_code=1):
    """Agent {name} is already running: Wakeful did not start it."""


class StoppedMeanwhile(OperatorError, code="agent-stopped-meanwhile", http_status=409, exit_code=1):
    """Agent {name} was stopped during its start."""


class NotStopped(WorldError, code="agent-not-stopped"):
    """Agent {name} did not stop; it is {state}: {reason}."""


class AgentSessions(Protocol):
    def session_below(self, pid: int) -> SessionId | None:
        """The session of this process, or of a process below it."""

    def pids_above(self, session_id: SessionId) -> frozenset[int]:
        """The processes that run this session, and their ancestors."""

    def is_busy(self, session_id: SessionId) -> bool:
        """Whether it is in the middle of a turn."""

    def agent_pid(self, session_id: SessionId) -> int | None:
        """The living process that runs this conversation, if there is one."""

    def agent_by_mark(self, session_id: SessionId) -> str | None:
        """The agent that the environment of this session's processes names."""

    def can_resume(self, session_id: SessionId) -> bool:
        """Whether its conversation has any content to continue."""


class CommandListener(Protocol):
    async def before_stop(self, agent: Agent) -> None:
        """Awaited before a person's stop ends any process: their end must raise no alert."""

    async def on_stop_failed(self, agent: Agent) -> None:
        """A stop did not end the agent: a later end of it has another cause."""

    async def on_session_replaced(self, session_id: SessionId) -> None:
        """A person starts the agent: another session replaces this one, which it hosts until then."""


AgentEnviron = Callable[[AgentSpec], Mapping[str, str]]
"""The values of the variables an agent names."""

ResumeCommand = Callable[[Sequence[str], ConversationId | None, str], tuple[str, ...]]
"""The command that continues a conversation. Raises an error with the reason if there is none."""


class AgentCommands:
    def __init__(
        self,
        *,
        table: AgentTable,
        gate: ActionGate,
        leases: AgentLeases,
        sessions: AgentSessions,
        environ: AgentEnviron,
        resuming: ResumeCommand,
        mode: str,
        listener: CommandListener,
    ) -> None:
        self._table = table
        self._gate = gate
        self.leases = leases
        self._sessions = sessions
        self._environ = environ
        self._build_resume_command = resuming
        self._mode = mode
        self.listener = listener
        self._inspectors: list[Callable[[Agent], None]] = []
        self._start_tasks: dict[str, asyncio.Task[AgentObservation]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._revive_lock = asyncio.Lock()

    def inspect_afterwards(self, inspector: Callable[[Agent], None]) -> None:
        self._inspectors.append(inspector)

    async def start(self, text: str) -> AgentRecord:
        """Start it and wait until it is ready. Raises AgentRefuses and the runtime's errors."""
        agent = self._table.find(text)
        self._require(agent, AgentEvent.START)
        if agent.record.session_id is not None:
            # First: once the order is accepted, the agent does not host this session any more, and it would count as watched only.
            await self.listener.on_session_replaced(agent.record.session_id)
        agent = self._accept(text, AgentEvent.START)
        return await self._run_shielded(agent, self._start(agent))

    async def restart_session(self, text: str) -> AgentRecord:
        """Start a new session where the old one died. Raises NotStale and the runtime's errors."""
        agent = self._table.find(text)
        if agent.state is not AgentState.STALE:
            startable = accepts(agent.state, AgentEvent.START)
            advice = f" `wakeful agent start {agent.name}` starts it." if startable else ""
            raise NotStale(name=agent.name, state=agent.state, advice=advice)
        return await self.start(text)

    async def stop(self, text: str, *, even_if_busy: bool = False) -> AgentRecord:
        """End it and remove its container. Raises AgentRefuses, AgentBusy, NotStopped, EngineGone."""
        agent = self._table.find(text)
        session = agent.record.session_id
        busy = agent.state is AgentState.RUNNING and session is not None and self._sessions.is_busy(session)
        if busy and not even_if_busy:
            raise AgentBusy(name=agent.name, session=session)
        agent = self._accept(text, AgentEvent.STOP)
        if (starting := self._start_tasks.get(agent.name)) is not None:
            starting.cancel()
        return await self._run_shielded(agent, self._stop(agent))

    def obstacle(self, agent: Agent) -> str | None:
        """Why a stale agent cannot be restarted now: its conversation runs already, or no command resumes it."""
        command = self._resume_command(agent)
        return command if isinstance(command, str) else None

    async def revive(self, agent: Agent) -> ActionRecord:
        """Restart a stale agent automatically, in its conversation. Never raises a WorldError.

        One after the other: many agents that start at once would overload the host.
        """
        async with self._revive_lock:
            command = self._resume_command(agent)
            if agent.state is not AgentState.STALE:
                command = f"it is {agent.state}"
            if isinstance(command, str):
                return ActionRecord("", ActionKind.RESUME, agent.key, ActionOutcome.DECLINED, command)
            self._table.apply_event(agent, AgentEvent.START, "restarted by Wakeful")
            return await self._run_shielded(agent, self._revive(agent, command))

    async def close(self) -> None:
        """Cancel orders under way; the next daemon inspects their effects."""
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _accept(self, text: str, event: AgentEvent) -> Agent:
        """Accept an order if the state table allows it, without an await in between."""
        agent = self._table.find(text)
        self._require(agent, event)
        self._table.apply_command(agent, event)
        return agent

    def _require(self, agent: Agent, event: AgentEvent) -> None:
        """Raises HubObserves, AgentRefuses."""
        if self._mode == "observe":
            raise HubObserves
        self._table.require(agent, event)

    async def _run_shielded(self, agent: Agent, order: Coroutine[Any, Any, T]) -> T:
        """Finish an order that has begun even if its caller disconnects."""
        # Counted at once: a running inspection must not count as the result of the order.
        agent.commands_running += 1
        task = asyncio.create_task(self._run_and_save(agent, order))
        self._tasks.add(task)
        task.add_done_callback(self._on_task_done)
        return await asyncio.shield(task)

    async def _run_and_save(self, agent: Agent, order: Coroutine[Any, Any, T]) -> T:
        try:
            # The stored record has the order and its time, for a restart after a crash.
            await self._table.save(agent)
            return await order
        finally:
            agent.commands_running -= 1
            await self._table.save(agent)
            for inspect in self._inspectors:
                inspect(agent)

    def _on_task_done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.debug("a command was not carried out: %s", error)

    async def _start(self, agent: Agent) -> AgentRecord:
        try:
            record = await self._pass_gate(ActionKind.START, agent, self._start_action(agent, agent.spec))
        except WakefulError as error:
            await self._on_start_failed(agent, error)
            raise
        if record.outcome is not ActionOutcome.CONFIRMED:
            raise StoppedMeanwhile(name=agent.name)
        return agent.record

    async def _revive(self, agent: Agent, command: tuple[str, ...]) -> ActionRecord:
        spec = replace(agent.spec, command=command)
        try:
            record = await self._pass_gate(
                ActionKind.RESUME, agent, self._start_action(agent, spec), by_itself=True
            )
            if record.outcome is ActionOutcome.DECLINED and agent.state is AgentState.STARTING:
                # A pause began meanwhile: nothing was done, and the agent is stale again.
                self._table.apply_event(agent, AgentEvent.CALLED_OFF, record.words)
        except WakefulError as error:
            await self._on_start_failed(agent, error)
            record = ActionRecord("", ActionKind.RESUME, agent.key, ActionOutcome.INEFFECTIVE, str(error))
        return record

    async def _stop(self, agent: Agent) -> AgentRecord:
        await self.listener.before_stop(agent)
        fault_point("hub.stop_noted")
        try:
            await self._pass_gate(ActionKind.STOP, agent, self._stop_action(agent))
        except WakefulError as error:
            self._table.apply_event(agent, AgentEvent.UNSEEN, str(error))
            raise
        if agent.state is not AgentState.STOPPED:
            raise NotStopped(name=agent.name, state=agent.state, reason=agent.record.reason)
        await self.leases.give_back(agent)
        return agent.record

    async def _pass_gate(
        self, action: ActionKind, agent: Agent, perform: PerformAction, *, by_itself: bool = False
    ) -> ActionRecord:
        expected = AgentState.STOPPING if action is ActionKind.STOP else AgentState.STARTING

        def objection() -> str | None:
            if self._mode == "observe":
                return OBSERVING
            return None if agent.state is expected else STOPPED_WHILE_STARTING

        record, _ = await self._gate.execute(
            action, agent.key, ActionIntent(), objection, perform, by_itself=by_itself
        )
        return record

    def _start_action(self, agent: Agent, spec: AgentSpec) -> PerformAction:
        async def perform(intent_id: str) -> ActionResult:
            before = await agent.runtime.inspect(agent.spec)
            if event_of(before) is AgentEvent.READY:
                self._table.apply_observation(agent, before)
                raise AlreadyRuns(name=agent.name)
            epoch = await self.leases.claim(agent)
            self._table.set_epoch(agent, epoch)
            fault_point("hub.claimed")
            # Otherwise the next daemon would take this claim for another owner's.
            await self._table.save(agent)
            environ = {**self._environ(agent.spec), INTENT_VARIABLE: intent_id}
            has_container = before.container is ProcessState.ALIVE
            start = agent.runtime.restart_session if has_container else agent.runtime.start
            if not agent.is_in(AgentState.STARTING):
                return ActionResult(ActionOutcome.INEFFECTIVE, STOPPED_WHILE_STARTING)
            starting = asyncio.create_task(start(spec, epoch, environ))
            self._start_tasks[agent.name] = starting
            try:
                observation = await starting
            except asyncio.CancelledError:
                if agent.is_in(AgentState.STARTING):
                    raise
                return ActionResult(ActionOutcome.INEFFECTIVE, STOPPED_WHILE_STARTING)
            finally:
                self._start_tasks.pop(agent.name, None)
            if not agent.is_in(AgentState.STARTING):
                return ActionResult(ActionOutcome.INEFFECTIVE, STOPPED_WHILE_STARTING)
            self._table.apply_observation(agent, observation)
            return ActionResult(ActionOutcome.CONFIRMED, f"process {observation.pid} was seen ready")

        return perform

    def _stop_action(self, agent: Agent) -> PerformAction:
        async def perform(_intent_id: str) -> ActionResult:
            self._table.apply_observation(agent, await agent.runtime.stop(agent.spec))
            stopped = agent.state is AgentState.STOPPED
            return ActionResult(
                ActionOutcome.CONFIRMED if stopped else ActionOutcome.INEFFECTIVE, f"it is {agent.state}"
            )

        return perform

    async def _on_start_failed(self, agent: Agent, error: WakefulError) -> None:
        """Set the state after a failed start: unknown if the engine does not answer, otherwise an error."""
        observation = await agent.runtime.inspect(agent.spec)
        agent.is_present = event_of(observation) not in (AgentEvent.GONE, AgentEvent.UNSEEN)
        self._table.apply_event(
            agent, AgentEvent.UNSEEN if isinstance(error, EngineGone) else AgentEvent.NOT_READY, str(error)
        )

    def _resume_command(self, agent: Agent) -> tuple[str, ...] | str:
        """The command that continues its conversation, or why nothing may be started."""
        session = agent.record.session_id
        if session is None or not self._sessions.can_resume(session):
            return agent.spec.command
        if (pid := self._sessions.agent_pid(session)) is not None:
            return f"process {pid} already runs its conversation"
        conversation = ConversationId(session.partition("-")[2])
        try:
            return self._build_resume_command(agent.spec.command, conversation, agent.spec.workdir)
        except WakefulError as error:
            return str(error)
