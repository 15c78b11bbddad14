"""One of several daemons on one store that all see the same session dead: tries to revive it, again and again.

    python revival_racer.py STORE RACES READY_FOLDER NAME

Race N is about the work `work-N`. The winner of the budget writes its name to that work's file, exclusively: a second
winner would be seen. None starts before all are there.
"""

import asyncio
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from wakeful.healing.plan import BUDGET_SECONDS, REVIVALS_MAX
from wakeful.storage.base import Note
from wakeful.storage.sqlite.store import SqliteStore

RACERS = 8
BLOCK = 50


def wait_for_everybody(folder: Path, name: str) -> None:
    (folder / f"ready-{name}").touch()
    while len(list(folder.glob("ready-*"))) < RACERS:
        time.sleep(0.01)


def _order(races: int, name: str) -> Iterator[int]:
    """All race for the same few works at the same time, and no one is always first."""
    chance = random.Random(name)
    for block in range(0, races, BLOCK):
        numbers = list(range(block, min(block + BLOCK, races)))
        chance.shuffle(numbers)
        yield from numbers


async def race(store_path: Path, races: int, folder: Path, name: str) -> int:
    store = await SqliteStore.open(store_path)
    await asyncio.to_thread(wait_for_everybody, folder, name)
    won = 0
    for number in _order(races, name):
        note = Note("revival", f"{name}-{number}", name.encode())
        if await store.spend_budget(
            f"work-{number}", note, times_max=REVIVALS_MAX, window_seconds=BUDGET_SECONDS
        ):
            won += 1
            with (folder / f"won-{number}").open("x") as file:
                file.write(name)
    await store.close()
    return won


if __name__ == "__main__":
    sys.stdout.write(
        str(asyncio.run(race(Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]), sys.argv[4])))
    )
