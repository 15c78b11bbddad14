"""Claims about the clock that tests turn by hand."""

import asyncio

import pytest

from wakeful.core.clock import Clock
from wakeful.testing import virtual_clock
from wakeful.testing.virtual_clock import START_WALL, VirtualClock, settle

HOUR = 3600.0


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


async def note_when_woken(clock: Clock, noted: list[tuple[str, float]], name: str, seconds: float) -> None:
    await clock.sleep(seconds)
    noted.append((name, clock.now().awake))


def test_nothing_moves_by_itself() -> None:
    """Two looks without a turn of the clock are the same instant."""
    clock = VirtualClock(start_wall=5.0)
    assert clock.now() == clock.now()
    assert clock.now().wall == 5.0


def test_advancing_moves_both_clocks() -> None:
    """Awake and wall time pass together while the host is awake."""
    clock = VirtualClock()
    before = clock.now()
    clock.advance(HOUR)
    assert clock.now() == before.plus(HOUR)
    assert clock.jumps == 0


def test_a_sleeping_host_only_ages_on_the_wall() -> None:
    """After eight hours of sleep a record from before it is as old as it was."""
    clock = VirtualClock()
    written = clock.now()
    clock.advance(60)
    clock.now()
    clock.suspend(8 * HOUR)
    now = clock.now()
    assert now.wall == START_WALL + 60 + 8 * HOUR
    assert now.seconds_since(clock.instant(written.wall)) == 60
    assert clock.jumps == 1


def test_a_clock_set_back_makes_no_new_record_old() -> None:
    """A record stamped after the setting is new, whatever its stamp says."""
    clock = VirtualClock()
    clock.advance(HOUR)
    clock.now()
    clock.set_wall(START_WALL - 10 * HOUR)
    assert clock.now().seconds_since(clock.instant(START_WALL - 10 * HOUR)) == 0


def test_a_stamp_newer_than_the_last_look_is_new() -> None:
    """Asking for its instant looks at the clock first, as the real clock does."""
    clock = VirtualClock()
    clock.advance(HOUR)
    stamped = clock.instant(START_WALL + HOUR)
    assert clock.now().seconds_since(stamped) == 0


async def test_sleepers_wake_at_their_own_moments_and_in_order(clock: VirtualClock) -> None:
    """run_for stops at every deadline, so each sleeper sees the time it asked for."""
    noted: list[tuple[str, float]] = []
    start = clock.now().awake
    async with asyncio.TaskGroup() as tasks:
        for name, seconds in (("late", 30.0), ("first", 10.0), ("second", 10.0)):
            tasks.create_task(note_when_woken(clock, noted, name, seconds))
        still_asleep = tasks.create_task(note_when_woken(clock, noted, "never", 90.0))
        await clock.run_for(60)
        assert noted == [("first", start + 10), ("second", start + 10), ("late", start + 30)]
        assert clock.now().awake == start + 60
        still_asleep.cancel()


async def test_advancing_wakes_in_order_of_deadlines(clock: VirtualClock) -> None:
    """One big step wakes all due tasks, earliest first, at the end of the step."""
    noted: list[tuple[str, float]] = []
    start = clock.now().awake
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(note_when_woken(clock, noted, "late", 0.3))
        tasks.create_task(note_when_woken(clock, noted, "early", 0.1))
        await settle()
        clock.advance(1)
    assert noted == [("early", start + 1), ("late", start + 1)]


async def test_a_chain_of_sleeps_runs_inside_one_run_for(clock: VirtualClock) -> None:
    """A task that sleeps again after waking is woken again: a day of ten-second ticks is 8,640 of them."""
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await clock.sleep(10)
            ticks += 1

    ticking = asyncio.create_task(tick())
    await clock.run_for(24 * HOUR)
    assert ticks == 8640
    ticking.cancel()


async def test_a_suspended_host_wakes_nobody(clock: VirtualClock) -> None:
    """Deadlines count awake seconds."""
    sleeper = asyncio.create_task(clock.sleep(5))
    await settle()
    clock.suspend(HOUR)
    await settle()
    assert not sleeper.done()
    await clock.run_for(5)
    assert sleeper.done()


async def test_a_cancelled_sleeper_is_forgotten(clock: VirtualClock) -> None:
    """Its deadline neither stops the clock nor raises."""
    sleeper = asyncio.create_task(clock.sleep(5))
    await settle()
    sleeper.cancel()
    await clock.run_for(10)
    assert sleeper.cancelled()


async def test_a_deadline_in_the_past_still_lets_others_run(clock: VirtualClock) -> None:
    """A loop over passed deadlines cannot starve the rest."""
    other = asyncio.create_task(asyncio.sleep(0))
    await clock.sleep_until(clock.now().awake - 5)
    await clock.sleep_until(clock.now().awake - 5)
    assert other.done()


async def test_a_spinning_task_is_reported(monkeypatch: pytest.MonkeyPatch, clock: VirtualClock) -> None:
    """Waiting for a task that never waits would take forever; the test fails instead."""
    monkeypatch.setattr(virtual_clock, "TURNS_MAX", 50)

    async def spin() -> None:
        while True:  # noqa: ASYNC110 - spinning is the point
            await asyncio.sleep(0)

    spinning = asyncio.create_task(spin())
    with pytest.raises(AssertionError, match="still busy after 50 turns"):
        await clock.run_for(1)
    spinning.cancel()
