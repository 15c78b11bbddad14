"""Agents that can be woken: the real wake service over real files, scripted clients and virtual time."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from support.fake_driver import ScriptedDriver
from support.healing_fixture import HealingFixture, RespondingDriver
from support.supervisor_fixture import subject
from wakeful.config.heartbeat import HeartbeatConfig
from wakeful.config.paths import StatePaths
from wakeful.control.driver import ActionResult, LinesRefused
from wakeful.control.gate import ActionGate
from wakeful.control.ownership import ManagedSessions
from wakeful.control.person_stops import PersonStops
from wakeful.core.errors import WorldError
from wakeful.core.ids import SessionId
from wakeful.core.managed_session import ManagedSession
from wakeful.daemon.heartbeat import build_wake
from wakeful.heartbeat.service import WakeControl, WakeService
from wakeful.judging.events import TurnEnded
from wakeful.judging.wake_eligibility import IneligibilityReason
from wakeful.storage.base import Store
from wakeful.testing.virtual_clock import START_WALL

GUIDANCE = "Look at the queue."
# 2027-01-15T08:00:00Z
QUIET_NOW = "preferences: {quiet_windows: [{timezone: UTC, start: 07:00, end: 09:30}]}"


class SlowDriver(RespondingDriver):
    """A client that can be slow to accept a prompt."""

    def __init__(self, clinic: HealingFixture) -> None:
        super().__init__(clinic)
        self.held: asyncio.Event | None = None
        # Whether its log shows a prompt at once.
        self.writes_late = False
        # Whether it takes each line for a prompt of its own.
        self.one_line = False

    async def deliver(
        self, hosting: ManagedSession, prompt: str, environ: Mapping[str, str] | None = None
    ) -> ActionResult:
        if self.one_line and "\n" in prompt:
            raise LinesRefused
        if self.held is not None:
            await self.held.wait()
        if self.writes_late:
            self.prompts.append(prompt)
            return await ScriptedDriver.deliver(self, hosting, prompt, environ)
        return await super().deliver(hosting, prompt, environ)


class HeartbeatFixture(HealingFixture):
    """`raise_agent` gives a managed session a name, `policy` writes its HEARTBEAT.md."""

    def __init__(
        self,
        folder: Path,
        config: HeartbeatConfig | None = None,
        *,
        store: Store | None = None,
        start_wall: float = START_WALL,
        burst: int = 10,
    ) -> None:
        self.folder = folder
        self.config = config or HeartbeatConfig()
        # Runs while an action is inside the gate.
        self.meanwhile: Callable[[SessionId], None] = lambda _session_id: None
        super().__init__(store=store, start_wall=start_wall, burst=burst)

    def build(self) -> None:
        self.living = self.client = SlowDriver(self)
        self.gate = ActionGate(self.store, self.clock, self, self.calm.pause_reason)
        stops = PersonStops(self.store, self.clock, self.supervisor)
        self.holdings = ManagedSessions(self.store, self.supervisor, "testhost", self, stops)
        super().build()
        control = WakeControl(self.gate, self.hands, self.controllers.automatic, self, self.calm)
        self.wakes = build_wake(self.config, StatePaths(str(self.folder)), self.store, self, control)
        self.audits = self.wakes.audits

    @property
    def waking(self) -> WakeService:
        return self.wakes

    def refresh(self, session_id: SessionId) -> None:
        super().refresh(session_id)
        self.meanwhile(session_id)

    async def raise_agent(self, agent: str, name: str | None = None) -> str:
        """An idle session of a managed agent; returns its conversation's name."""
        name = name or f"of-{agent}"
        self.start(name)
        self.finish(name)
        managed = await self.hands.adopt(name)
        await self.holdings.save(replace(managed, name=agent))
        self.settle()
        return name

    def write_policy(self, agent: str, *fields: str, body: str = GUIDANCE) -> Path:
        path = self.folder / "agents" / agent / "HEARTBEAT.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(("---", *fields, "---", body)))
        return path

    def end_turn(self, name: str) -> None:
        self.hear(name, TurnEnded(self.wall()))

    def session(self, name: str) -> SessionId:
        return subject(name).id


Scene = Callable[[HeartbeatFixture], Coroutine[Any, Any, None]]


@asynccontextmanager
async def opened(
    folder: Path, config: HeartbeatConfig | None = None, *, ready: bool = True
) -> AsyncIterator[HeartbeatFixture]:
    house = HeartbeatFixture(folder, config)
    if ready:
        await house.wakes.restore()
    yield house


async def fox(house: HeartbeatFixture, *fields: str) -> str:
    house.write_policy("fox", *fields)
    return await house.raise_agent("fox")


async def reason_of(house: HeartbeatFixture, name: str = "fox") -> IneligibilityReason | None:
    return (await house.wakes.wake(name)).reason


def refusing(house: HeartbeatFixture) -> Callable[[], None]:
    """The store refuses writes until the returned function is called."""
    keep, spend = house.store.save_note, house.store.spend_budget

    async def refuse(*_words: object, **_options: object) -> Any:
        raise WorldError

    def take_again() -> None:
        house.store.save_note, house.store.spend_budget = keep, spend  # type: ignore[method-assign]

    house.store.save_note = house.store.spend_budget = refuse  # type: ignore[method-assign]
    return take_again
