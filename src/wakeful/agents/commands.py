"""Actions on agents: start, stop and restart of the session, each through the action gate and verified.

The state table accepts or refuses an action before the first await, so of two at once one wins. A stop is
also accepted during a start, and ends it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar

from msgspec.structs import replace

from wakeful.agents.leases import AgentLeases
from wakeful.agents.model import AgentRecord, AgentSpec, AgentState, Glimpse, Move, accepts, move_of
from wakeful.agents.runtime import EngineGone
from wakeful.agents.table import Agent, AgentBook
from wakeful.control.driver import Seen
from wakeful.control.gate import Act, ActGate, Deed, Perform, Purpose
from wakeful.core.errors import OperatorError, WakefulError, WorldError
from wakeful.core.fault_points import reach
from wakeful.core.ids import ConversationId, SessionId
from wakeful.core.managed_session import INTENT_VARIABLE
from wakeful.core.process import Sight
from wakeful.judging.available_actions import OBSERVING
from wakeful.storage.base import Outcome

CUT_OFF: Final = "it was stopped while it started"
T = TypeVar("T")

log = logging.getLogger("wakeful.hub")


class HubObserves(OperatorError):
    """The mode is observe: Wakeful acts on nothing. Set daemon.mode to mine, and start it again."""

    code = "hub-observes"
    http_status = 409
    exit_code = 1


class NotStale(OperatorError):
    """Agent {name} is {state}, not stale: there is no session to restart.{advice}"""

    code = "agent-not-stale"
    http_status = 409
    exit_code = 1


class AgentBusy(OperatorError):
    """Agent {name} is in the middle of a turn (session {session}). To stop it all the same: wakeful agent stop {name} --yes"""

    code = "agent-busy"
    http_status = 409
    exit_code = 1


class AlreadyRuns(OperatorError):
    """Agent {name} runs already: it was started by somebody else."""

    code = "agent-runs"
    http_status = 409
    exit_code = 1


class StoppedMeanwhile(OperatorError):
    """Agent {name} was stopped while it started."""

    code = "agent-stopped-meanwhile"
    http_status = 409
    exit_code = 1


class NotStopped(WorldError):
    """Agent {name} was told to stop, and is {state}: {reason}."""

    code = "agent-not-stopped"


class Sessions(Protocol):
    """The sessions agents host, as the head knows them."""

    def below(self, pid: int) -> SessionId | None:
        """The session whose agent is this process or was started below it."""

    def above(self, session_id: SessionId) -> frozenset[int]:
        """The processes that run this session, and whoever they descend from."""

    def is_busy(self, session_id: SessionId) -> bool:
        """Whether it is in the middle of a turn."""

    def holder(self, session_id: SessionId) -> int | None:
        """The living process that runs this conversation, if there is one."""

    def agent_named(self, session_id: SessionId) -> str | None:
        """The agent whose mark the processes of this session carry."""

    def can_go_on(self, session_id: SessionId) -> bool:
        """Whether its conversation has anything in it to go on with."""


Environ = Callable[[AgentSpec], Mapping[str, str]]
"""The values of the variables an agent names."""

Resuming = Callable[[Sequence[str], ConversationId | None, str], tuple[str, ...]]
"""The words that continue a conversation. Raises what says why they cannot."""


class Orders:
    """Everything that may be done to an agent."""

    def __init__(
        self,
        *,
        book: AgentBook,
        gate: ActGate,
        leases: AgentLeases,
        sessions: Sessions,
        environ: Environ,
        resuming: Resuming,
        mode: str,
    ) -> None:
        self._book = book
        self._gate = gate
        self._leases = leases
        self._sessions = sessions
        self._environ = environ
        self._resuming = resuming
        self._mode = mode
        # Called after every order, to look at what it left.
        self.after: Callable[[Agent], None] = lambda _agent: None
        # Awaited before a person's stop ends anybody: what it ends must alarm nobody.
        self.before_stop: Callable[[Agent], Awaitable[None]] = _nothing
        # A person's start put another session in its place.
        self.session_replaced: Callable[[SessionId], Awaitable[None]] = _nothing
        # Awaited when an agent outlived a stop: whatever ends it from now on is no person's doing.
        self.stop_came_to_nothing: Callable[[Agent], Awaitable[None]] = _nothing
        self._starting: dict[str, asyncio.Task[Glimpse]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._reviving = asyncio.Lock()

    async def start(self, text: str) -> AgentRecord:
        """Start it and see it ready. Raises AgentRefuses and what the runtime raises."""
        before = self._book.find(text).record.session_id
        agent = self._ordered(text, Move.START)
        record = await self._to_its_end(agent, self._start(agent))
        if before is not None:
            await self.session_replaced(before)
        return record

    async def restart_session(self, text: str) -> AgentRecord:
        """A new session where the old one died. Raises NotStale and what the runtime raises."""
        agent = self._book.find(text)
        if agent.state is not AgentState.STALE:
            startable = accepts(agent.state, Move.START)
            advice = f" `wakeful agent start {agent.name}` starts it." if startable else ""
            raise NotStale(name=agent.name, state=agent.state, advice=advice)
        return await self.start(text)

    async def stop(self, text: str, *, even_if_busy: bool = False) -> AgentRecord:
        """End it and remove its container. Raises AgentRefuses, AgentBusy, NotStopped, EngineGone."""
        agent = self._book.find(text)
        session = agent.record.session_id
        busy = agent.state is AgentState.RUNNING and session is not None and self._sessions.is_busy(session)
        if busy and not even_if_busy:
            raise AgentBusy(name=agent.name, session=session)
        agent = self._ordered(text, Move.STOP)
        if (starting := self._starting.get(agent.name)) is not None:
            starting.cancel()
        return await self._to_its_end(agent, self._stop(agent))

    def obstacle(self, agent: Agent) -> str | None:
        """Why a stale agent cannot be brought back now: its conversation lives elsewhere, or cannot be named."""
        command = self._resumed(agent)
        return command if isinstance(command, str) else None

    async def revive(self, agent: Agent) -> Deed:
        """Bring a stale agent back by ourselves, in the conversation it was in. Never raises what the world does.

        One after the other: many that one server took along would wear the host down if they came back at once.
        """
        async with self._reviving:
            command = self._resumed(agent)
            if agent.state is not AgentState.STALE:
                command = f"it is {agent.state}"
            if isinstance(command, str):
                return Deed("", Act.RESUME, agent.key, Outcome.DECLINED, command)
            self._book.moved(agent, Move.START, "brought back by Wakeful")
            return await self._to_its_end(agent, self._revive(agent, command))

    async def close(self) -> None:
        """Let go of orders under way; the next start looks at what they left."""
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _ordered(self, text: str, order: Move) -> Agent:
        """Take an order, if the table does; nobody else's fits in between."""
        agent = self._book.find(text)
        if self._mode == "observe":
            raise HubObserves
        self._book.require(agent, order)
        self._book.ordered(agent, order)
        return agent

    async def _to_its_end(self, agent: Agent, order: Coroutine[Any, Any, T]) -> T:
        """Whoever asked may hang up: what has begun is brought to its end."""
        # Counted at once: a look that is on its way must not be taken for what the order did.
        agent.orders += 1
        task = asyncio.create_task(self._finished(agent, order))
        self._tasks.add(task)
        task.add_done_callback(self._forget)
        return await asyncio.shield(task)

    async def _finished(self, agent: Agent, order: Coroutine[Any, Any, T]) -> T:
        try:
            # A crash in its middle leaves what was ordered, and since when.
            await self._book.keep(agent)
            return await order
        finally:
            agent.orders -= 1
            await self._book.keep(agent)
            self.after(agent)

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.debug("an order was not carried out: %s", error)

    async def _start(self, agent: Agent) -> AgentRecord:
        try:
            deed = await self._pass(Act.START, agent, self._performing_start(agent, agent.spec))
        except WakefulError as error:
            await self._failed(agent, error)
            raise
        if deed.outcome is not Outcome.RECOVERED:
            raise StoppedMeanwhile(name=agent.name)
        return agent.record

    async def _revive(self, agent: Agent, command: tuple[str, ...]) -> Deed:
        spec = replace(agent.spec, command=command)
        try:
            deed = await self._pass(Act.RESUME, agent, self._performing_start(agent, spec), by_itself=True)
            if deed.outcome is Outcome.DECLINED and agent.state is AgentState.STARTING:
                # A pause came in between: nothing was done, and it is as stale as before.
                self._book.moved(agent, Move.CALLED_OFF, deed.words)
        except WakefulError as error:
            await self._failed(agent, error)
            deed = Deed("", Act.RESUME, agent.key, Outcome.INEFFECTIVE, str(error))
        return deed

    async def _stop(self, agent: Agent) -> AgentRecord:
        await self.before_stop(agent)
        reach("hub.stop_noted")
        try:
            await self._pass(Act.STOP, agent, self._performing_stop(agent))
        except WakefulError as error:
            self._book.moved(agent, Move.UNSEEN, str(error))
            raise
        if agent.state is not AgentState.STOPPED:
            raise NotStopped(name=agent.name, state=agent.state, reason=agent.record.reason)
        await self._leases.give_back(agent)
        return agent.record

    async def _pass(self, act: Act, agent: Agent, perform: Perform, *, by_itself: bool = False) -> Deed:
        expected = AgentState.STOPPING if act is Act.STOP else AgentState.STARTING

        def objection() -> str | None:
            if self._mode == "observe":
                return OBSERVING
            return None if agent.state is expected else CUT_OFF

        deed, _ = await self._gate.pass_through(
            act, agent.key, Purpose(), objection, perform, by_itself=by_itself
        )
        return deed

    def _performing_start(self, agent: Agent, spec: AgentSpec) -> Perform:
        async def perform(intent_id: str) -> Seen:
            before = await agent.runtime.look(agent.spec)
            if move_of(before) is Move.READY:
                self._book.looked(agent, before)
                raise AlreadyRuns(name=agent.name)
            epoch = await self._leases.claim(agent)
            self._book.claimed(agent, epoch)
            reach("hub.claimed")
            # Otherwise the next daemon would take this claim for another owner's.
            await self._book.keep(agent)
            environ = {**self._environ(agent.spec), INTENT_VARIABLE: intent_id}
            there = before.container is Sight.ALIVE
            begin = agent.runtime.restart_session if there else agent.runtime.start
            if not agent.is_in(AgentState.STARTING):
                return Seen(Outcome.INEFFECTIVE, CUT_OFF)
            starting = asyncio.create_task(_awaited(begin(spec, epoch, environ)))
            self._starting[agent.name] = starting
            try:
                glimpse = await starting
            except asyncio.CancelledError:
                if agent.is_in(AgentState.STARTING):
                    raise
                return Seen(Outcome.INEFFECTIVE, CUT_OFF)
            finally:
                self._starting.pop(agent.name, None)
            if not agent.is_in(AgentState.STARTING):
                return Seen(Outcome.INEFFECTIVE, CUT_OFF)
            self._book.looked(agent, glimpse)
            return Seen(Outcome.RECOVERED, f"process {glimpse.pid} was seen ready")

        return perform

    def _performing_stop(self, agent: Agent) -> Perform:
        async def perform(_intent_id: str) -> Seen:
            self._book.looked(agent, await agent.runtime.stop(agent.spec))
            gone = agent.state is AgentState.STOPPED
            return Seen(Outcome.RECOVERED if gone else Outcome.INEFFECTIVE, f"it is {agent.state}")

        return perform

    async def _failed(self, agent: Agent, error: WakefulError) -> None:
        """What a start that came to nothing leaves: an engine that is gone prevents seeing, all else is an error."""
        glimpse = await agent.runtime.look(agent.spec)
        agent.placed = move_of(glimpse) not in (Move.GONE, Move.UNSEEN)
        self._book.moved(agent, Move.UNSEEN if isinstance(error, EngineGone) else Move.NOT_READY, str(error))

    def _resumed(self, agent: Agent) -> tuple[str, ...] | str:
        """The command that continues its conversation, or why nothing may be started."""
        session = agent.record.session_id
        if session is None or not self._sessions.can_go_on(session):
            return agent.spec.command
        if (pid := self._sessions.holder(session)) is not None:
            return f"process {pid} runs its conversation already"
        conversation = ConversationId(session.partition("-")[2])
        try:
            return self._resuming(agent.spec.command, conversation, agent.spec.workdir)
        except WakefulError as error:
            return str(error)


async def _nothing(_what: Agent | SessionId) -> None: ...


async def _awaited(work: Any) -> Glimpse:
    """A task needs a coroutine; a runtime's acts may be anything that can be awaited."""
    found: Glimpse = await work
    return found
