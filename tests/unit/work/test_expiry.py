"""Leases end by deadline, and owners that could not send heartbeats get their time again."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from wakeful.core.leases import (
    AttemptState,
    LeaseKey,
    Run,
    WorkId,
    WorkItem,
    WorkState,
    parse_work_id,
    state_after,
    work_id_for,
)
from wakeful.storage.sqlite.errors import StoreBusy
from wakeful.testing.memory_store import MemoryStore
from wakeful.testing.virtual_clock import VirtualClock
from wakeful.work.expiry import GRACE_SECONDS, RunExpiry


class CountedStore(MemoryStore):
    """Counts the reads, and refuses them while set."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(now=lambda: clock.now().wall)
        self.looks = 0
        self.refusing = False

    async def next_expiry(self) -> float | None:
        self.looks += 1
        if self.refusing:
            raise StoreBusy(path="wakeful.db", seconds=5.0)
        return await super().next_expiry()


class ExpiryFixture:
    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.store = CountedStore(self.clock)
        self.expired: list[Run] = []
        self.expiry = RunExpiry(self.store, self.clock, self._tell)

    def _tell(self, runs: Sequence[Run]) -> None:
        self.expired += runs

    async def claim(self, id_: str, ttl_seconds: float = 60.0) -> Run:
        await self.store.enqueue(WorkItem(WorkId(id_), "p", "do", None, "", 1.0))
        run = await self.store.claim_next_run("a", ttl_seconds=ttl_seconds)
        assert run is not None
        self.expiry.recheck_soon()
        return run


@asynccontextmanager
async def running() -> AsyncIterator[ExpiryFixture]:
    """Past the grace of the start, with the task running."""
    scene = ExpiryFixture()
    task = asyncio.create_task(scene.expiry.run())
    await scene.clock.run_for(GRACE_SECONDS)
    try:
        yield scene
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_an_attempt_ends_with_its_lease() -> None:
    """Not before the lease's end, and within a second after it; subscribers get the event."""
    async with running() as scene:
        await scene.claim("w-1", ttl_seconds=10.0)
        await scene.clock.run_for(9.9)
        assert scene.expired == []
        await scene.clock.run_for(1.1)
        assert [(run.work.id, run.work.state) for run in scene.expired] == [("w-1", WorkState.FAILED)]


async def test_an_owner_that_is_heard_of_keeps_its_run() -> None:
    """Heartbeats move the deadline on."""
    async with running() as scene:
        run = await scene.claim("w-1")
        for _ in range(10):
            await scene.clock.run_for(20)
            assert await scene.store.heartbeat_run_lease(run.work.id, run.epoch, 60.0) is not None
        assert scene.expired == []
        await scene.clock.run_for(61)
        assert len(scene.expired) == 1


async def test_nothing_is_polled() -> None:
    """An idle hour costs one look a minute, a long lease no more than that."""
    async with running() as scene:
        await scene.claim("w-1", ttl_seconds=3600.0)
        before = scene.store.looks
        await scene.clock.run_for(3000)
        assert scene.store.looks - before <= 52


async def test_a_lease_yielded_early_ends_its_run_at_once() -> None:
    """The event is enough; the deadline is not waited for."""
    async with running() as scene:
        run = await scene.claim("w-1")
        await scene.store.yield_lease(LeaseKey("work/w-1"), run.epoch)
        scene.expiry.recheck_soon()
        await scene.clock.run_for(0)
        assert [each.epoch for each in scene.expired] == [run.epoch]


async def test_a_host_that_slept_forgives_one_lease() -> None:
    """After sleep an owner has a whole lease's time for a heartbeat; a silent one expires after it."""
    async with running() as scene:
        kept, silent = await scene.claim("w-1"), await scene.claim("w-2")
        scene.clock.suspend(7200)
        await scene.clock.run_for(20)
        assert await scene.store.heartbeat_run_lease(kept.work.id, kept.epoch, 600.0) is not None
        await scene.clock.run_for(GRACE_SECONDS + 61)
        assert [run.work.id for run in scene.expired] == [silent.work.id]


async def test_a_restart_forgives_one_lease() -> None:
    """Owners whose heartbeats came while the daemon was away get time before any lease expires."""
    scene = ExpiryFixture()
    run = await scene.claim("w-1")
    scene.clock.advance(3600)
    task = asyncio.create_task(scene.expiry.run())
    await scene.clock.run_for(GRACE_SECONDS - 1)
    assert scene.expired == []
    assert await scene.store.heartbeat_run_lease(run.work.id, run.epoch, 60.0) is not None
    await scene.clock.run_for(30)
    assert scene.expired == []
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_store_that_refuses_is_asked_again() -> None:
    """A locked or full store ends nothing but this look."""
    async with running() as scene:
        await scene.claim("w-1", ttl_seconds=5.0)
        scene.store.refusing = True
        await scene.clock.run_for(10)
        scene.store.refusing = False
        await scene.clock.run_for(120)
        assert len(scene.expired) == 1


@pytest.mark.parametrize(
    ("ending", "attempts", "attempts_max", "state"),
    [
        (AttemptState.DONE, 1, 1, WorkState.DONE),
        (AttemptState.DONE, 1, 3, WorkState.DONE),
        (AttemptState.FAILED, 1, 1, WorkState.FAILED),
        (AttemptState.EXPIRED, 1, 1, WorkState.FAILED),
        (AttemptState.EXPIRED, 1, 2, WorkState.PENDING),
        (AttemptState.FAILED, 2, 2, WorkState.FAILED),
    ],
)
async def test_budgets_belong_to_the_work(
    ending: AttemptState, attempts: int, attempts_max: int, state: WorkState
) -> None:
    """By default nothing is tried twice."""
    assert state_after(ending, attempts, attempts_max) is state


async def test_a_key_names_one_work() -> None:
    """The id of a key is an id, and no other key's."""
    assert parse_work_id(work_id_for("nightly ☃")) == work_id_for("nightly ☃")
    assert work_id_for("a") != work_id_for("b")
