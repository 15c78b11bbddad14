"""A held session and a person's decision about it, as a process that can be killed anywhere.

    python checkpoint_worker.py continue|abort|count-continue|count-abort|settle FOLDER

The folder is one that `healing_worker.py prepare` made. The agent was cut off inside a push: it is held, and the first
two decide about its checkpoint as soon as there is one. `settle` only lets what was begun come to its end.
"""

import asyncio
import sys
from pathlib import Path
from typing import Any

import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from crash.healing_worker import BREATH_SECONDS, KilledClinic, World
from wakeful.checkpoints.model import ChoiceName
from wakeful.control.gate import reconcile
from wakeful.core import fault_points as faults
from wakeful.storage.sqlite.store import SqliteStore

SECONDS = 30
DECIDES_AT_SECOND = 12


class PushClinic(KilledClinic):
    """Its agent was cut off inside a push."""

    cut_off = b'{"command": "git push origin main"}'


async def decide(folder: Path, choice: str) -> None:
    world = World.load(folder)
    world.now += 600
    store = await SqliteStore.open(folder / "wakeful.db")
    clinic = PushClinic(world, folder, store)
    clinic.recall()
    await clinic.holdings.load()
    await reconcile(store, clinic.gate, clinic.holdings, clinic.world)
    async with clinic.open():
        deciding: asyncio.Task[Any] | None = None
        for second in range(SECONDS):
            await clinic.clock.run_for(1)
            await asyncio.sleep(BREATH_SECONDS)
            if second >= DECIDES_AT_SECOND and choice != "settle" and deciding is None:
                # On a busy machine the threads of the store lag behind the virtual clock.
                while not await clinic.checkpoints.list_checkpoints():
                    await clinic.clock.run_for(1)
                    await asyncio.sleep(BREATH_SECONDS)
                deciding = asyncio.create_task(clinic.checkpoints.decide(1, ChoiceName(choice), "ann@host"))
        if deciding is not None:
            await deciding
    await store.close()


def main(mode: str, folder: Path) -> None:
    plan: Any = faults.FaultInjector() if mode.startswith("count-") else None
    if plan is not None:
        faults.install(plan)
    asyncio.run(decide(folder, mode.removeprefix("count-")))
    if plan is not None:
        sys.stdout.write(msgspec.json.encode(dict(plan._reach_counts)).decode())


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
