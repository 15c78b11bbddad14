"""Claims about a pause that ends by itself. Virtual time."""

import asyncio

import pytest

from wakeful.alerts.mute_pause import MutePause
from wakeful.testing.memory_store import MemoryStore
from wakeful.testing.virtual_clock import VirtualClock

HOUR = 3600.0


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


def mute_pause(clock: VirtualClock, store: MemoryStore | None = None) -> MutePause:
    return MutePause(store or MemoryStore(now=lambda: clock.now().wall), clock)


def test_a_pause_ends_when_its_time_is_over(clock: VirtualClock) -> None:
    """Once: the listeners hear of the beginning and of the end, and the store keeps nothing."""

    async def scene() -> None:
        store = MemoryStore(now=lambda: clock.now().wall)
        pauses, heard = mute_pause(clock, store), []
        pauses.subscribe(lambda: heard.append(pauses.current_pause is not None))
        ending = asyncio.create_task(pauses.end_on_time())
        assert await pauses.pause("ada", "lunch", HOUR)
        record = pauses.current_pause_record
        assert record is not None
        assert record.until is not None
        await clock.run_for(HOUR - 1)
        assert (pauses.current_pause is not None, heard) == (True, [True])
        await clock.run_for(2)
        assert (pauses.current_pause, heard) == (None, [True, False])
        assert await store.notes("pause") == []
        ending.cancel()

    asyncio.run(scene())


def test_a_pause_without_an_end_stays(clock: VirtualClock) -> None:
    async def scene() -> None:
        pauses = mute_pause(clock)
        ending = asyncio.create_task(pauses.end_on_time())
        await pauses.pause("ada")
        await clock.run_for(90 * 24 * HOUR)
        assert pauses.current_pause is not None
        ending.cancel()

    asyncio.run(scene())


def test_a_pause_that_ended_while_no_daemon_ran_is_none(clock: VirtualClock) -> None:
    """The next daemon acts at once, and a new pause is a new one."""

    async def scene() -> None:
        store = MemoryStore(now=lambda: clock.now().wall)
        await mute_pause(clock, store).pause("ada", "lunch", HOUR)
        clock.advance(2 * HOUR)
        later = mute_pause(clock, store)
        assert await later.reload() is None
        assert later.pause_reason() is None
        assert await later.pause("bob", "deploy")
        assert later.current_pause is not None
        assert (later.current_pause.by, later.current_pause.until) == ("bob", None)

    asyncio.run(scene())


def test_a_clock_that_is_set_forward_ends_a_pause(clock: VirtualClock) -> None:
    """Within a minute: the end is a time of the wall."""

    async def scene() -> None:
        pauses = mute_pause(clock)
        ending = asyncio.create_task(pauses.end_on_time())
        await pauses.pause("ada", "", 10 * HOUR)
        await clock.run_for(1)
        clock.set_wall(clock.now().wall + 11 * HOUR)
        assert pauses.current_pause is None
        await clock.run_for(61)
        assert await pauses._store.notes("pause") == []
        ending.cancel()

    asyncio.run(scene())
