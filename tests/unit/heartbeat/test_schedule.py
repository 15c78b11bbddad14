"""Claims about the schedule: when an agent is woken by itself, and who goes first."""

import asyncio
from collections.abc import Coroutine
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from support.heartbeat_fixture import HeartbeatFixture, fox, opened, refusing
from wakeful.config.heartbeat import HeartbeatConfig
from wakeful.heartbeat.model import Trigger, WakeOutcome
from wakeful.testing.virtual_clock import settle


def played(house: HeartbeatFixture, seconds: float) -> Coroutine[Any, Any, None]:
    """Let the schedule run for so long."""

    async def run() -> None:
        running = asyncio.create_task(house.wakes.run())
        await house.clock.run_for(seconds)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    return run()


def moments(house: HeartbeatFixture) -> list[str]:
    """When prompts were sent, as a person reads it."""
    sent = [each for each in reversed(house.audits.of("fox", 1000)) if each.outcome is WakeOutcome.SENT]
    return [datetime.fromtimestamp(each.wall, UTC).strftime("%H:%M:%S") for each in sent]


async def test_a_quiet_window_ends_with_a_wake(house: HeartbeatFixture) -> None:
    """Due inside of it, the agent is woken at its end: to the second, not to the cycle."""
    # So that neither cycles nor intervals fall on whole minutes.
    house.clock.advance(23.0)
    await fox(house, "preferences: {quiet_windows: [{timezone: UTC, start: 07:00, end: 09:17}]}")
    await played(house, 2 * 3600.0)
    assert moments(house) == ["09:17:00"]
    assert "on its schedule" in house.living.prompts[0]


@pytest.mark.parametrize(
    ("start", "end", "quiet_until", "next_wake_at"),
    [
        ("08:20", "10:17", None, "10:17"),
        ("07:00", "08:20", "08:20", "08:30"),
        ("08:31", "08:00", None, "08:30"),
    ],
)
async def test_the_next_wake_is_when_it_will_be(
    start: str, end: str, quiet_until: str | None, next_wake_at: str, house: HeartbeatFixture
) -> None:
    """Due at half past eight: later if it is quiet then."""
    await fox(house, f"preferences: {{quiet_windows: [{{timezone: UTC, start: {start}, end: {end}}}]}}")
    state = (await house.wakes.status("fox")).wake_state
    assert (state.quiet_until or "T")[11:16] == (quiet_until or "")
    assert (state.next_wake_at or "")[11:16] == next_wake_at


async def test_who_is_always_quiet_has_no_next_wake(house: HeartbeatFixture) -> None:
    """Active hours that lie in a quiet window are none."""
    hours = "active_hours: [{timezone: UTC, start: 08:00, end: 09:00}]"
    quiet = "quiet_windows: [{timezone: UTC, start: 07:00, end: 10:00}]"
    await fox(house, f"preferences: {{{hours}, {quiet}}}")
    state = (await house.wakes.status("fox")).wake_state
    assert (state.quiet_until, state.next_wake_at) == (None, None)


async def test_the_schedule_keeps_the_interval(house: HeartbeatFixture) -> None:
    """The file's own, or the default; it counts from the last wake or the last sign of work."""
    name = await fox(house, 'preferences: {min_interval: "1h"}')
    for _ in range(3):
        await played(house, 3600.0)
        house.end_turn(name)
    assert moments(house) == ["09:00:00", "10:00:00", "11:00:00"]


async def test_who_waited_longest_is_woken_first(tmp_path: Path) -> None:
    """More agents than a cycle has wakes for: none of them is left out for good by its name."""
    async with opened(tmp_path, HeartbeatConfig(max_wakes_per_cycle=1)) as house:
        agents = [f"agent-{number}" for number in range(6)]
        for agent in agents:
            house.write_policy(agent, 'preferences: {min_interval: "5m"}')
            await house.raise_agent(agent)
        for _ in range(20):
            await played(house, 60.0)
            for record in (house.registry.sessions[house.session(f"of-{each}")].record for each in agents):
                assert record is not None
                if record.active_prompt:
                    house.end_turn(record.id)
        woken = {
            each for each in agents if house.audits.last_prompt_at(house.session(f"of-{each}")) is not None
        }
        assert woken == set(agents)


async def test_one_who_is_slow_to_take_a_prompt_keeps_nobody_waiting(house: HeartbeatFixture) -> None:
    """Due agents are woken at once, in parallel."""
    for agent in ("ant", "bee"):
        house.write_policy(agent)
        await house.raise_agent(agent)
    house.clock.advance(3600.0)
    house.client.held = asyncio.Event()
    running = asyncio.create_task(house.wakes.cycle())
    await settle()
    states = [(await house.wakes.status(agent)).wake_state.waking for agent in ("ant", "bee")]
    house.client.held.set()
    await running
    assert states == [True, True]


async def test_nobody_is_woken_while_paused(house: HeartbeatFixture) -> None:
    """The schedule waits; a manual wake is sent."""
    await fox(house)
    await house.calm.pause("a test")
    await played(house, 2 * 3600.0)
    assert house.living.prompts == []
    assert (await house.wakes.wake("fox", Trigger.MANUAL)).outcome is WakeOutcome.SENT


async def test_a_schedule_outlives_a_store_that_refuses(house: HeartbeatFixture) -> None:
    """A failure for one agent does not affect another."""
    name = await fox(house)
    take_again = refusing(house)
    house.clock.advance(3600.0)
    await house.wakes.cycle()
    assert house.living.prompts == []
    take_again()
    await house.wakes.cycle()
    assert len(house.living.prompts) == 1
    house.end_turn(name)
