"""The agent hub: checks all declared agents every ten seconds and updates their states.

A running container does not prove a working agent, so the hub checks container, tmux session and process. An
agent is checked at once when its process ends or its runtime sends an event. Every result goes through the
table in `agents/table.py`. Actions are in `agents/commands.py`.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping
from typing import Final, Protocol

from msgspec import Struct

from wakeful.agents.auto_restart import AutoRestart, Losses
from wakeful.agents.commands import Orders, Sessions
from wakeful.agents.leases import AgentLeases
from wakeful.agents.model import (
    AgentRecord,
    AgentSpec,
    AgentsStanding,
    AgentState,
    Glimpse,
    Move,
    Restart,
    after,
    move_of,
    standing_of,
)
from wakeful.agents.runtime import Found, NotReady, Runtime
from wakeful.agents.table import Agent, AgentBook
from wakeful.control.gate import Act, Deed
from wakeful.core.clock import Clock
from wakeful.core.errors import WorldError
from wakeful.core.ids import SessionId
from wakeful.core.process import Process, Sight
from wakeful.healing.plan import AgentWay
from wakeful.storage.base import Outcome

# An agent whose session died is stale within this time.
SYNC_SECONDS: Final = 10.0
# A start that an earlier daemon ordered is seen ready, or ended, this late.
STARTING_SECONDS: Final = 1.0
# A lease lasts 60 s: two renewals may fail before anybody else can claim it.
RENEW_SECONDS: Final = 20.0
# A stop takes up to 15 s, signal by signal. An agent that runs after this time was not stopped.
STOP_SECONDS_MAX: Final = 60.0

log = logging.getLogger("wakeful.hub")


class Processes:
    """How processes of this host are known and watched."""

    def __init__(self, identify: Callable[[int], Process | None], watch: Callable[[Process], Sight]) -> None:
        self.identify = identify
        self.watch = watch


class Windows(Protocol):
    """Ways for the eyes to see what agents keep where only their runtime can reach it."""

    async def open(self, spec: AgentSpec, glimpse: Glimpse) -> None:
        """This was seen of an agent: its window is opened, left as it is, or closed. Never raises what the world does."""


class Hub:
    """Looks, and keeps the book right."""

    def __init__(
        self,
        *,
        book: AgentBook,
        orders: Orders,
        losses: Losses,
        auto: AutoRestart,
        runtimes: Mapping[str, Runtime],
        sessions: Sessions,
        processes: Processes,
        leases: AgentLeases,
        clock: Clock,
        windows: Windows | None = None,
    ) -> None:
        self._book = book
        self.orders = orders
        self._losses = losses
        self._auto = auto
        self._runtimes = runtimes
        self._sessions = sessions
        self._processes = processes
        self._leases = leases
        self._clock = clock
        self._windows = windows
        # Beginnings and ends of looks, in their order.
        self._ticks = 0
        self._hurrying: set[asyncio.Task[None]] = set()
        self._closed = False
        self._taken_up = asyncio.Event()
        self._renewed_at = clock.now().awake
        self.found: tuple[Found, ...] = ()
        orders.after = self._look_after_order

    @property
    def records(self) -> tuple[AgentRecord, ...]:
        return tuple(agent.record for agent in self._book.agents.values())

    def record(self, text: str) -> AgentRecord:
        """Raises AgentNotFound, BadAgentName."""
        return self._book.find(text).record

    @property
    def failed(self) -> Mapping[str, int]:
        """How many looks came to nothing, by the runtime that was asked."""
        return self._book.failed

    def standing(self) -> AgentsStanding:
        return standing_of(self.records)

    def attach_argv(self, text: str) -> tuple[str, ...]:
        """The command that hands a terminal to it. Raises AgentNotFound, BadAgentName."""
        agent = self._book.find(text)
        return agent.runtime.attach_argv(agent.spec)

    def host_of(self, session_id: SessionId) -> str | None:
        """The agent that hosts this session, or did when it was last seen."""
        return next((each.name for each in self.records if each.session_id == session_id), None)

    def way_of(self, session_id: SessionId) -> AgentWay:
        """Who brings this session back, should its agent be gone."""
        agent = self._host(session_id)
        if agent is None or agent.spec.restart is not Restart.AUTO or agent.stop_ordered:
            return AgentWay.TELL
        if agent.state is AgentState.STALE:
            return AgentWay.REVIVE
        if agent.state is AgentState.RUNNING:
            return AgentWay.TELL if self._runs_without(agent, session_id) else AgentWay.WAIT
        return AgentWay.WAIT if agent.state in (AgentState.UNKNOWN, AgentState.STARTING) else AgentWay.TELL

    def _runs_without(self, agent: Agent, session_id: SessionId) -> bool:
        """Whether the agent runs on though its session ended: two rounds of looks have seen no end of it."""
        now = self._clock.now().awake
        if self._sessions.holder(session_id) is not None:
            agent.alone_since = None
            return False
        if agent.alone_since is None:
            agent.alone_since = now
        return now - agent.alone_since >= 2 * SYNC_SECONDS

    def bring_back(self, session_id: SessionId) -> Coroutine[None, None, Deed] | None:
        """Start the agent that hosts this session, in its conversation; None where no agent does."""
        agent = self._host(session_id)
        return self._bring_back(agent) if agent is not None else None

    async def _bring_back(self, agent: Agent) -> Deed:
        await self._taken_up.wait()
        while _is_left_starting(agent):
            await self._clock.sleep_until(self._clock.now().awake + STARTING_SECONDS)
        if agent.state is AgentState.RUNNING:
            # An earlier daemon ended after it was started and before it was told anything.
            return Deed("", Act.RESUME, agent.key, Outcome.RECOVERED, "its agent runs already")
        return await self.orders.revive(agent)

    def _host(self, session_id: SessionId) -> Agent | None:
        agents = self._book.agents.values()
        return next((each for each in agents if each.record.hosts == session_id), None)

    def program(self, text: str) -> str:
        """What it runs. Raises AgentNotFound, BadAgentName."""
        return self._book.find(text).spec.command[0]

    async def load(self) -> None:
        """What an earlier daemon knew. Before anybody is judged: whose agent hosts it is managed from the first moment."""
        await self._book.load()

    async def take_up(self) -> None:
        """Go on where an earlier daemon stopped, and find out what became of everybody since."""
        await self._renew()
        await self.look_at(tuple(self._book.agents.values()))
        for agent in self._book.agents.values():
            if agent.state in (AgentState.RUNNING, AgentState.STALE):
                log.info("%s", _discovered(agent))
        await self._auto.take_up()
        self._taken_up.set()

    def ended(self, process: Process) -> None:
        """A process is gone: if it was an agent's, look at once."""
        for agent in self._book.agents.values():
            if agent.process == process:
                self._hurry((agent,))

    def arrived(self, session_id: SessionId) -> None:
        """A session has a new holder: if that is an agent's, it is said at once whom it hosts."""
        if not self._book.agents:
            return
        agent = self._book.agents.get(self._sessions.agent_named(session_id) or "")
        if agent is not None and self._is_free(agent):
            self._book.hosts(agent, session_id)
        if any(record.pid is not None for record in self.records):
            above = self._sessions.above(session_id)
            self._hurry([agent for agent in self._book.agents.values() if agent.record.pid in above])

    def _is_free(self, agent: Agent) -> bool:
        """Whether it hosts nobody who lives: a client that its own session started is not whom it hosts."""
        session_id = agent.record.session_id
        return session_id is None or self._sessions.holder(session_id) is None

    def tasks(self) -> Iterator[tuple[Callable[[], Coroutine[None, None, None]], str]]:
        """What runs as long as the daemon does."""
        if self._book.agents:
            yield self.run, "agents are not looked at"
        for runtime in self._runtimes.values():
            yield _Hearing(runtime, self._heard).run, f"nothing is heard of {runtime.name}"

    async def run(self) -> None:
        while True:
            await self.sync()
            starting = any(_is_left_starting(each) for each in self._book.agents.values())
            pause_seconds = STARTING_SECONDS if starting else SYNC_SECONDS
            await self._clock.sleep_until(self._clock.now().awake + pause_seconds)
            if self._clock.now().awake - self._renewed_at >= RENEW_SECONDS:
                await self._renew()

    async def sync(self) -> None:
        """Look at all of them, and at what else is there."""
        await self.look_at(tuple(self._book.agents.values()))
        for agent in self._book.agents.values():
            self._auto.consider(agent)
        known = frozenset(self._book.agents)
        found: list[Found] = []
        for runtime in self._runtimes.values():
            try:
                found += await runtime.found(known)
            except WorldError as error:
                log.debug("%s: %s", runtime.name, error)
        for each in set(found) - set(self.found):
            log.info("found %s, which %s: declared nowhere, so it is left alone", each.name, each.words)
        self.found = tuple(found)

    async def look_at(self, agents: Collection[Agent]) -> None:
        """Look, and take what was seen into account, unless something else was seen or ordered meanwhile."""
        free = [agent for agent in agents if not agent.orders]
        looks = await asyncio.gather(*(self._look(agent) for agent in free))
        for agent, look in zip(free, looks, strict=True):
            if agent.orders:
                continue
            if look.began < agent.look_taken:
                # Nobody can tell which of the two saw later: if they differ, a third one does.
                if after(agent.state, move_of(look.glimpse)) is not agent.state:
                    self._hurry((agent,))
                continue
            agent.look_taken = look.ended
            await self._take(agent, look.glimpse)

    async def close(self) -> None:
        """Let go of everything; agents go on."""
        self._closed = True
        for task in tuple(self._hurrying):
            task.cancel()
        await asyncio.gather(*self._hurrying, return_exceptions=True)
        await self._auto.close()
        await self.orders.close()
        for runtime in self._runtimes.values():
            await runtime.close()

    async def _take(self, agent: Agent, glimpse: Glimpse) -> None:
        before = agent.record
        self._believe(agent, glimpse)
        if self._outlived_its_stop(agent):
            agent.stop_ordered = False
            await self.orders.stop_came_to_nothing(agent)
            await self._book.keep(agent)
        elif agent.record != before:
            await self._book.keep(agent)
        await self._losses.settle(agent)
        await self._auto.settle(agent)
        if self._windows is not None:
            await self._windows.open(agent.spec, glimpse)

    def _outlived_its_stop(self, agent: Agent) -> bool:
        """Whether a stop was ordered and never carried out, because Wakeful ended first: what ends it later is news."""
        runs = agent.stop_ordered and agent.state is AgentState.RUNNING
        return runs and self._clock.now().wall - agent.moved_at >= STOP_SECONDS_MAX

    def _believe(self, agent: Agent, glimpse: Glimpse) -> None:
        session = self._sessions.below(glimpse.pid) if glimpse.pid is not None else None
        self._book.looked(agent, glimpse, session)
        if _is_left_starting(agent) and self._clock.now().wall - agent.moved_at >= agent.spec.ready_seconds:
            self._book.moved(agent, Move.NOT_READY, _not_ready(agent.spec, glimpse.reason))
        process = self._processes.identify(glimpse.pid) if glimpse.pid is not None else None
        agent.process = process
        if process is not None:
            ended = self._processes.watch(process) is Sight.DEAD
        else:
            # Gone already; or somebody else's that cannot be looked at, which a second look does not change.
            ended = glimpse.pid is not None and glimpse.pid != agent.unidentified_pid
            agent.unidentified_pid = glimpse.pid
        if ended:
            # Between the look and now: nobody else would tell.
            self._hurry((agent,))

    async def _look(self, agent: Agent) -> "_Look":
        began = self._tick()
        try:
            glimpse = await agent.runtime.look(agent.spec)
        except WorldError as error:
            unknown = Sight.UNKNOWN
            glimpse = Glimpse(container=unknown, session=unknown, agent=unknown, reason=str(error))
        return _Look(began, self._tick(), glimpse)

    def _look_after_order(self, agent: Agent) -> None:
        # What was seen before it, or while it was carried out, does not count after it.
        agent.look_taken = self._tick()
        self._hurry((agent,))

    def _tick(self) -> int:
        self._ticks += 1
        return self._ticks

    def _heard(self, name: str) -> None:
        """A runtime heard something of an agent; of none in particular: of all it hosts."""
        agents = self._book.agents
        if not name:
            self._hurry(tuple(agents.values()))
        elif name in agents:
            self._hurry((agents[name],))

    def _hurry(self, agents: Collection[Agent]) -> None:
        if not agents or self._closed:
            return
        task = asyncio.create_task(self._look_now(agents))
        self._hurrying.add(task)
        task.add_done_callback(self._hurrying.discard)

    async def _look_now(self, agents: Collection[Agent]) -> None:
        try:
            await self.look_at(agents)
        except WorldError as error:
            log.warning("what was seen of agents is not kept: %s", error)
        for agent in agents:
            self._auto.consider(agent)

    async def _renew(self) -> None:
        """Whoever runs under an epoch of ours keeps it, across restarts of ours."""
        self._renewed_at = self._clock.now().awake
        for agent in self._book.agents.values():
            epoch = agent.record.epoch
            # Whoever is not there has given it back.
            if not epoch or not agent.placed:
                continue
            if not await self._leases.renew(agent):
                log.warning("agent %s was claimed by somebody else since epoch %d", agent.name, epoch)


class _Look(Struct, frozen=True):
    """What was seen, somewhen between the two."""

    began: int
    ended: int
    glimpse: Glimpse


class _Hearing:
    """Passes on what a runtime hears, until cancelled."""

    def __init__(self, runtime: Runtime, heard: Callable[[str], None]) -> None:
        self._runtime = runtime
        self._heard = heard

    async def run(self) -> None:
        async for name in self._runtime.changes():
            self._heard(name)


def _is_left_starting(agent: Agent) -> bool:
    """Whether it starts and no order of this daemon sees to it: the one that did ended."""
    return agent.state is AgentState.STARTING and not agent.orders


def _not_ready(spec: AgentSpec, reason: str) -> str:
    return str(NotReady(name=spec.name, seconds=spec.ready_seconds, reason=reason))


def _discovered(agent: Agent) -> str:
    """The log line about an agent found at the start of the daemon."""
    what = "container" if agent.spec.runtime == "docker" else "session"
    return f"Discovered {agent.state} {what} for {agent.name} ({agent.record.reason})"
