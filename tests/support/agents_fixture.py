"""A hub over a scripted runtime: the real registry, commands, gate, store and budgets, in virtual time."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import msgspec

from support.recording_outbox import RecordingOutbox
from wakeful.agents.commands import AgentCommands
from wakeful.agents.leases import AgentLeases
from wakeful.agents.model import (
    AgentChange,
    AgentObservation,
    AgentRecord,
    AgentRuntime,
    AgentSpec,
    AgentState,
    Restart,
)
from wakeful.agents.runtime import Runtime
from wakeful.agents.table import Agent, AgentTable
from wakeful.alerts.notifier import Notifier
from wakeful.control.gate import ActionGate
from wakeful.core.ids import ConversationId, SessionId
from wakeful.core.process import Process, ProcessState
from wakeful.daemon.agents import HubParts, connect_hub
from wakeful.healing.plan import HealingRules
from wakeful.healing.rate_limit import RevivalLimiter
from wakeful.incidents.service import Incidents
from wakeful.sessions.feed import Feed
from wakeful.storage.base import Store
from wakeful.testing.memory_store import MemoryStore
from wakeful.testing.scripted_runtime import ALIVE, SESSION_DEAD, ScriptedRuntime
from wakeful.testing.virtual_clock import VirtualClock, settle

BOOT: Final = "a-boot-of-a-test"
SESSION: Final = SessionId("claude-9b1deb4d-3b7d-4bad-9bdd-2b0d7b3dcb6d")
NOT_READY: Final = msgspec.structs.replace(ALIVE, ready=False, reason="nothing was shown")


def agent(
    name: str = "claude",
    *,
    restart: Restart = Restart.MANUAL,
    runtime: AgentRuntime = AgentRuntime.TMUX,
    command: tuple[str, ...] = ("claude",),
) -> AgentSpec:
    return AgentSpec(name=name, runtime=runtime, command=command, restart=restart)


class ScriptedSessions:
    """Sessions of agents in the states that a test sets."""

    def __init__(self) -> None:
        self.by_pid: dict[int, SessionId] = {}
        self.busy: set[SessionId] = set()
        self.holders: dict[SessionId, int] = {}
        self.known: set[SessionId] = set()
        # Those that ended in the middle of a turn.
        self.cut_off: set[SessionId] = set()
        # The agent whose mark the processes of a session carry.
        self.named: dict[SessionId, str] = {}

    def session_below(self, pid: int) -> SessionId | None:
        return self.by_pid.get(pid)

    def pids_above(self, session_id: SessionId) -> frozenset[int]:
        return frozenset(pid for pid, known in self.by_pid.items() if known == session_id)

    def is_busy(self, session_id: SessionId) -> bool:
        return session_id in self.busy

    def is_cut_off(self, session_id: SessionId) -> bool:
        return session_id in self.cut_off

    def agent_pid(self, session_id: SessionId) -> int | None:
        return self.holders.get(session_id)

    def agent_by_mark(self, session_id: SessionId) -> str | None:
        return self.named.get(session_id)

    def can_resume(self, session_id: SessionId) -> bool:
        return session_id in self.known


class SilentGate:
    """Nothing hears of the gate's actions."""

    def refresh(self, session_id: SessionId) -> None: ...

    def on_action(self, session_id: SessionId) -> None: ...

    def on_concluded(self, session_id: SessionId) -> None: ...


class TestHub:
    """All parts of a hub; `build` makes them again over the same store and runtime, as a restart does."""

    __test__ = False

    def __init__(self, *specs: AgentSpec, runtime: ScriptedRuntime | None = None, mode: str = "mine") -> None:
        self.clock = VirtualClock()
        self.store: Store = MemoryStore(now=lambda: self.clock.now().wall)
        self.runtime = runtime or ScriptedRuntime()
        self.sessions = ScriptedSessions()
        self.rules = HealingRules(mode=mode)
        self.changes: list[AgentChange] = []
        self.lodged: dict[SessionId, str | None] = {}
        self.outbox = RecordingOutbox(self.store, self.clock)
        # A stop waits for this before it ends anything, and agents that outlived their stop.
        self.stop_gate: asyncio.Event | None = None
        self.stops_failed: list[str] = []
        # Sessions that another one replaced, each with the agent that hosted it by then.
        self.replaced: list[tuple[SessionId, str | None]] = []
        # Processes that end between a probe and the pidfd, or before they were identified: the runtime is
        # different then.
        self.ends_unwatched: dict[int, str] = {}
        self.ends_unidentified: dict[int, str] = {}
        # Processes of other users, which exist and cannot be inspected.
        self.hidden: set[int] = set()
        # This hub's own process, and those of earlier hubs that were seen dead.
        self.daemon = Process(1000, 1, BOOT)
        self.dead_daemons: set[Process] = set()
        self.specs = specs
        self.mode = mode
        # Further subscribers to changes.
        self.feed: Feed | None = None
        self.build()

    def build(self, specs: Sequence[AgentSpec] | None = None) -> None:
        specs = self.specs if specs is None else specs
        runtimes: dict[str, Runtime] = {spec.runtime: self.runtime for spec in specs}
        self.incidents = Incidents(self.store, self.clock)
        self.book = AgentTable(specs, runtimes, self.store, self.clock, self)
        gate = ActionGate(self.store, self.clock, SilentGate(), lambda: self.rules.paused_by)
        self.daemon = Process(self.daemon.pid + 1, 1, BOOT)
        leases = AgentLeases(self.store, "a test", self.daemon, self.dead_daemons.__contains__)
        self.orders = AgentCommands(
            table=self.book,
            gate=gate,
            leases=leases,
            sessions=self.sessions,
            environ=lambda spec: dict.fromkeys(spec.env, "a value"),
            resuming=_resuming,
            mode=self.mode,
            listener=self,
        )
        self.limiter = RevivalLimiter(self.clock, 2.0, 10)
        self.notifier = Notifier(self.outbox, self.incidents, self.clock)
        parts = HubParts(
            table=self.book,
            commands=self.orders,
            store=self.store,
            clock=self.clock,
            sessions=self.sessions,
            processes=self,
            incidents=self.incidents,
            notifier=self.notifier,
            limiter=self.limiter,
            rules=lambda: self.rules,
            scopes={"tmux": "a socket"},
        )
        self.hub = connect_hub(parts)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Start the daemon's tasks."""
        await self.incidents.load()
        await self.hub.load()
        await self.hub.restore()
        tasks = [asyncio.create_task(run()) for run, _ in self.hub.tasks()]
        await settle()
        try:
            yield
        finally:
            await self.hub.close()
            await self.notifier.close()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def said(self) -> list[tuple[str, str]]:
        return [(each.episode, each.text) for each in self.outbox.alerts]

    @property
    def over(self) -> list[tuple[str, str]]:
        return [(key, text or "") for key, text in self.outbox.resolved]

    def record(self, name: str = "claude") -> AgentRecord:
        return self.hub.record(name)

    async def happens(self, glimpse: AgentObservation, name: str = "claude") -> AgentRecord:
        """Change the runtime's state, and let the runtime report it."""
        self.runtime.observations[name] = glimpse
        await self.runtime.changed_agents.put(name)
        await settle()
        return self.record(name)

    def set_agent(self, session_id: SessionId, agent: str | None) -> None:
        self.lodged[session_id] = agent

    def publish_agent_change(self, change: bytes) -> None:
        self.changes.append(msgspec.json.decode(change, type=AgentChange))
        if self.feed is not None:
            self.feed.publish_agent_change(change)

    def identify(self, pid: int) -> Process | None:
        if pid in self.ends_unidentified:
            self.runtime.observations[self.ends_unidentified[pid]] = SESSION_DEAD
            return None
        return None if pid in self.hidden else Process(pid, 1, BOOT)

    def watch(self, process: Process) -> ProcessState:
        name = self.ends_unwatched.get(process.pid)
        if name is None:
            return ProcessState.ALIVE
        self.runtime.observations[name] = SESSION_DEAD
        return ProcessState.DEAD

    # What commands tell.
    async def before_stop(self, agent: Agent) -> None:
        del agent
        if self.stop_gate is not None:
            await self.stop_gate.wait()

    async def on_stop_failed(self, agent: Agent) -> None:
        self.stops_failed.append(agent.name)

    async def on_session_replaced(self, session_id: SessionId) -> None:
        self.replaced.append((session_id, self.lodged.get(session_id)))


def _resuming(argv: Sequence[str], conversation: ConversationId | None, _cwd: str) -> tuple[str, ...]:
    return (*argv, "--resume", str(conversation))


def with_pid(glimpse: AgentObservation, pid: int) -> AgentObservation:
    return msgspec.structs.replace(glimpse, pid=pid)


@asynccontextmanager
async def opened(*specs: AgentSpec, **options: Any) -> AsyncIterator[TestHub]:
    house = TestHub(*specs, **options)
    async with house.open():
        yield house


async def running(house: TestHub, pid: int = 41) -> None:
    """An agent that was found alive."""
    await house.happens(with_pid(ALIVE, pid))
    assert house.record().state is AgentState.RUNNING
