"""One daemon's healing as a process that can be killed anywhere: real store, real log, an agent that is lines in a file.

    python healing_worker.py prepare|heal|count FOLDER

`prepare` leaves a managed session that died in the middle of a turn. `heal` runs the healer over it until nothing more
happens. `count` does that too and prints how often each fault point was reached. The world (which process lives, what
the log says, what was done) is a file of its own, written before an act returns: it outlives every kill.
"""

import asyncio
import sys
from pathlib import Path
from typing import Any, Final

import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from support.healing_fixture import HealingFixture, RespondingDriver
from wakeful.control.driver import ActionResult, OnStarted, StartRequest, ignore_start
from wakeful.control.gate import reconcile
from wakeful.core import fault_points as faults
from wakeful.core.ids import ConversationId
from wakeful.core.managed_session import INTENT_VARIABLE, ManagedSession
from wakeful.core.process import Process
from wakeful.incidents.critical_event import CriticalEvent
from wakeful.incidents.critical_log import CriticalLog
from wakeful.judging.events import CallStarted, LogOpened, Prompted, TurnEnded
from wakeful.storage.base import ActionOutcome, Store
from wakeful.storage.sqlite.store import SqliteStore

NAME: Final = "a"
# Healing takes some seconds of virtual time; what a thread of the store does takes real ones.
SECONDS: Final = 40
BREATH_SECONDS: Final = 0.004
# On a busy disk everything takes longer: so many seconds more, with time to breathe.
LATE_SECONDS: Final = 200
LATE_BREATH_SECONDS: Final = 0.05


class World(msgspec.Struct):
    """What is true outside of any daemon."""

    now: float
    acts: list[str] = msgspec.field(default_factory=list)
    # The wall time of every prompt, and of every end of a turn.
    prompts: list[float] = msgspec.field(default_factory=list)
    ends: list[float] = msgspec.field(default_factory=list)
    alive: Process | None = None
    intent: str = ""

    @classmethod
    def load(cls, folder: Path) -> "World":
        return msgspec.json.decode((folder / "world.json").read_bytes(), type=cls)

    def save(self, folder: Path) -> None:
        fresh = folder / "world.new"
        fresh.write_bytes(msgspec.json.encode(self))
        fresh.replace(folder / "world.json")


class WorldDriver(RespondingDriver):
    """An agent that is started in the world's file first, and seen afterwards."""

    def __init__(self, clinic: HealingFixture, world: World, folder: Path) -> None:
        super().__init__(clinic)
        self._world = world
        self._folder = folder

    async def start(self, order: StartRequest, begun: OnStarted = ignore_start) -> ActionResult:
        at = self._clinic.wall()
        self._world.acts.append("resume")
        self._world.prompts.append(at)
        self._world.alive = Process(800_000 + len(self._world.acts), 1, "a-boot-of-a-test")
        self._world.intent = order.intent_id
        self._world.now = at
        self._world.save(self._folder)
        faults.fault_point("world.started")
        assert order.session_id is not None, "resumed by its name"
        managed = ManagedSession(
            order.session_id, order.conversation_id or ConversationId(NAME), "claude", order.cwd, order.argv,
            order.epoch, at, self._world.alive,
        )  # fmt: skip
        await begun(managed)
        self._clinic.come_up(NAME, self._world.alive)
        self._clinic.hear(NAME, Prompted(at, by_wakeful=True))
        return ActionResult(ActionOutcome.CONFIRMED, "started", managed)


class KilledClinic(HealingFixture):
    """A clinic on a real store and a real log of events, over a world that outlives it."""

    # What its agent was cut off in.
    cut_off = b'{"command": "make test"}'

    def __init__(self, world: World, folder: Path, store: Store) -> None:
        self._folder = folder
        self._world = world
        super().__init__(store=store, start_wall=world.now)
        self.living = WorldDriver(self, world, folder)
        self.build()

    async def _write(self, event: CriticalEvent) -> None:
        await asyncio.to_thread(CriticalLog(self._folder / "critical.jsonl").append, event)

    def recall(self) -> None:
        """What the eyes of a new daemon would see."""
        world = self._world
        first = world.prompts[0]
        call = CallStarted(first, "c1", "Bash", input=self.cut_off)
        if world.alive is not None:
            self.come_up(NAME, world.alive)
            self.world.marks[INTENT_VARIABLE, world.intent] = [world.alive]
        else:
            self.come_up(NAME, GONE)
        self.hear(NAME, LogOpened(first, ConversationId(NAME), "/home/me/shop"), Prompted(first), call)
        if world.alive is None:
            self.end(GONE)
        for at in world.prompts[1:]:
            self.hear(NAME, Prompted(at, by_wakeful=True))
        for at in world.ends:
            self.hear(NAME, TurnEnded(at))


GONE: Final = Process(700_001, 1, "a-boot-of-a-test")


async def prepare(folder: Path) -> None:
    world = World(now=1_800_000_000.0, prompts=[1_800_000_000.0])
    store = await SqliteStore.open(folder / "wakeful.db")
    clinic = KilledClinic(world, folder, store)
    clinic.come_up(NAME, GONE)
    clinic.hear(NAME, LogOpened(world.now, ConversationId(NAME), "/home/me/shop"))
    await clinic.hands.adopt(NAME)
    await store.close()
    world.now += 60
    world.save(folder)


async def heal(folder: Path) -> None:
    world = World.load(folder)
    world.now += 600
    store = await SqliteStore.open(folder / "wakeful.db")
    clinic = KilledClinic(world, folder, store)
    clinic.recall()
    await clinic.holdings.load()
    await reconcile(store, clinic.gate, clinic.holdings, clinic.world)
    async with clinic.open():
        for _ in range(SECONDS):
            await clinic.clock.run_for(1)
            await asyncio.sleep(BREATH_SECONDS)
        for _ in range(LATE_SECONDS):
            # Written once everything is done.
            if (folder / "critical.jsonl").exists():
                break
            await clinic.clock.run_for(1)
            await asyncio.sleep(LATE_BREATH_SECONDS)
    await store.close()


def main(mode: str, folder: Path) -> None:
    plan: Any = faults.FaultInjector() if mode == "count" else None
    if plan is not None:
        faults.install(plan)
    asyncio.run(prepare(folder) if mode == "prepare" else heal(folder))
    if plan is not None:
        sys.stdout.write(msgspec.json.encode(dict(plan._reach_counts)).decode())


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
