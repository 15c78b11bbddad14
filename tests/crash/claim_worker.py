"""A worker on a shared store, as a process of its own that can be frozen or killed.

    python claim_worker.py race DATABASE NAME FOLDER    claims and completes until no work is left
    python claim_worker.py hold DATABASE NAME           claims one run; completes it when a line comes in

It says what happened, a line each: `claimed WORK EPOCH`, `done`, `fenced`, `double KEY`.
"""

import asyncio
import os
import sys
from pathlib import Path

from wakeful.core.leases import Run, WorkState
from wakeful.storage.sqlite.store import SqliteStore

WORKER = Path(__file__)
# Far longer than a claim and its completion need here; owners that freeze shorten it first.
LEASE_SECONDS = 30.0
WORK_SECONDS = 0.001
# Every so many claims an owner freezes past its lease and then goes on as if nothing had been.
FREEZE_EVERY = 40
FROZEN_SECONDS = 0.2
EXPIRE_EVERY = 10


def say(*words: object) -> None:
    # Not through a buffer: what was said must stand when the process is killed next.
    os.write(sys.stdout.fileno(), f"{' '.join(map(str, words))}\n".encode())


class Racer:
    """Claims whatever it gets. A file per conversation, made exclusively, shows a second owner at work."""

    def __init__(self, store: SqliteStore, name: str, folder: Path) -> None:
        self._store = store
        self._name = name
        self._folder = folder
        self._claims = 0

    async def run(self) -> None:
        while await self._is_work_left():
            run = await self._store.claim_next_run(self._name, ttl_seconds=LEASE_SECONDS)
            if run is None:
                await self._store.expire_runs()
                await asyncio.sleep(WORK_SECONDS)
                continue
            self._claims += 1
            say("claimed", run.work.id, run.epoch)
            await self._own(run)
            if self._claims % EXPIRE_EVERY == 0:
                await self._store.expire_runs()

    async def _own(self, run: Run) -> None:
        mark = self._folder / run.work.lease_key
        try:
            mark.touch(exist_ok=False)
        except FileExistsError:
            say("double", run.work.lease_key)
            return
        await asyncio.sleep(WORK_SECONDS)
        mark.unlink()
        if self._claims % FREEZE_EVERY == 0:
            await self._store.heartbeat_run_lease(run.work.id, run.epoch, FROZEN_SECONDS / 4)
            await asyncio.sleep(FROZEN_SECONDS)
        completed = await self._store.complete_run(run.work.id, run.epoch, self._name)
        say("done" if completed else "fenced", run.work.id, run.epoch)

    async def _is_work_left(self) -> bool:
        for state in (WorkState.PENDING, WorkState.RUNNING):
            if await self._store.works(state, limit=1):
                return True
        return False


async def race(database: Path, name: str, folder: str) -> None:
    store = await SqliteStore.open(database)
    await Racer(store, name, Path(folder)).run()
    await store.close()


async def hold(database: Path, name: str) -> None:
    store = await SqliteStore.open(database)
    run = await store.claim_next_run(name, ttl_seconds=FROZEN_SECONDS)
    assert run is not None
    say("claimed", run.work.id, run.epoch)
    await asyncio.to_thread(sys.stdin.readline)
    completed = await store.complete_run(run.work.id, run.epoch, name)
    say("done" if completed else "fenced")
    await store.close()


if __name__ == "__main__":
    mode, database_, *rest = sys.argv[1:]
    asyncio.run(race(Path(database_), *rest) if mode == "race" else hold(Path(database_), *rest))
