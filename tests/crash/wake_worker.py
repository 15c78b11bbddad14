"""One wake on a real store over a world that outlives the process: `wake_worker.py prepare|wake FOLDER`.

The world is a file that grows by a line for every prompt its agent was given.
"""

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from support.heartbeat_fixture import HeartbeatFixture, SlowDriver
from support.supervisor_fixture import subject
from wakeful.control.driver import ActionResult
from wakeful.control.gate import reconcile
from wakeful.core import fault_points as faults
from wakeful.core.managed_session import ManagedSession
from wakeful.core.process import Process
from wakeful.heartbeat.model import HeartbeatStatus, WakeAnswer
from wakeful.storage.base import ActionOutcome, Store
from wakeful.storage.sqlite.store import SqliteStore

NAME: Final = "of-fox"
FIRST_WALL: Final = 1_800_000_010.0
AGENT: Final = Process(700_001, 1, "a-boot-of-a-test")


class WritingDriver(SlowDriver):
    """Its agent's prompts are in the world before any part of Wakeful knows."""

    def __init__(self, house: "KilledFixture") -> None:
        super().__init__(house)
        self._world = house.folder / "prompts"

    async def deliver(
        self, hosting: ManagedSession, prompt: str, environ: Mapping[str, str] | None = None
    ) -> ActionResult:
        del hosting, environ
        with self._world.open("a") as world:
            world.write(prompt.partition(".")[0] + "\n")
        faults.fault_point("world.prompted")
        # Its turn is short: nothing but the cooldown keeps the next wake away.
        return ActionResult(ActionOutcome.CONFIRMED, "its turn began")


class KilledFixture(HeartbeatFixture):
    """A daemon that may end anywhere."""

    def __init__(self, folder: Path, store: Store, wall: float) -> None:
        super().__init__(folder, store=store, start_wall=wall)

    def build(self) -> None:
        super().build()
        driver = WritingDriver(self)
        self.living = self.client = driver
        for controller in (self.hands, self.wakes._controllers["schedule"]):  # type: ignore[index]
            drivers: Any = controller._drivers.drivers
            drivers.update(dict.fromkeys(drivers, driver))

    def see(self) -> None:
        """What the log sources of a new daemon see: an idle agent."""
        self.come_up(NAME, AGENT)
        self.start(NAME, pid=AGENT.pid)
        self.finish(NAME)
        self.clock.advance(40.0)


async def prepare(folder: Path) -> None:
    store = await SqliteStore.open(folder / "wakeful.db")
    house = KilledFixture(folder, store, 1_800_000_000.0)
    house.see()
    managed = await house.hands.adopt(NAME)
    await house.holdings.save(replace(managed, name="fox"))
    house.write_policy("fox")
    await store.close()


async def wake(folder: Path, wall: float) -> tuple[WakeAnswer, HeartbeatStatus]:
    """A daemon's life: see, judge, take up, and only then wake."""
    store = await SqliteStore.open(folder / "wakeful.db")
    house = KilledFixture(folder, store, wall)
    house.see()
    await house.holdings.load()
    await reconcile(store, house.gate, house.holdings, house.world)
    house.settle()
    faults.fault_point("daemon.judged")
    record = house.registry.sessions[subject(NAME).id].record
    assert record is not None, "judged before anybody can be woken"
    await house.wakes.restore()
    answer = await house.wakes.wake("fox")
    status = await house.wakes.status("fox")
    await store.close()
    return answer, status


if __name__ == "__main__":
    mode, place = sys.argv[1:]
    asyncio.run(prepare(Path(place)) if mode == "prepare" else wake(Path(place), FIRST_WALL))
