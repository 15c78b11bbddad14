"""Claims about the gate of wakes: one prompt at a time, one wake for many, over restarts, clocks and several daemons."""

import asyncio
from pathlib import Path

import pytest

from support.heartbeat_fixture import HeartbeatFixture, fox, opened, reason_of, refusing
from support.supervisor_fixture import subject
from wakeful.config.heartbeat import HeartbeatConfig
from wakeful.core.errors import WorldError
from wakeful.heartbeat import store as wake_audit
from wakeful.heartbeat.model import HealthNotKnownYet, WakeOutcome
from wakeful.heartbeat.service import WakeService
from wakeful.judging.events import Prompted
from wakeful.judging.wake_eligibility import IneligibilityReason
from wakeful.storage.base import ActionOutcome
from wakeful.testing.virtual_clock import START_WALL, settle


async def test_a_program_that_reads_lines_is_woken_by_one(house: HeartbeatFixture) -> None:
    """The same words, none of them lost."""
    house.write_policy("fox", body="One.\n\n  Two.")
    await house.raise_agent("fox")
    house.client.one_line = True
    assert await reason_of(house) is None
    (prompt,) = house.living.prompts
    assert prompt.endswith(" Guidance of that file: One. Two.")
    assert "\n" not in prompt


async def test_a_prompt_that_began_inside_the_gate_goes_first(house: HeartbeatFixture) -> None:
    """A person types while the wake waits for its turn: nothing is sent, and neither cooldown nor cycle is spent."""
    name = await fox(house)
    house.meanwhile = lambda _session: house.hear(name, Prompted(house.wall()))
    answer = await house.wakes.wake("fox")
    assert (answer.reason, answer.outcome) == (
        IneligibilityReason.SESSION_PROMPT_ACTIVE_RACE,
        WakeOutcome.SKIPPED,
    )
    assert house.living.prompts == []
    house.meanwhile = lambda _session: None
    house.end_turn(name)
    assert (await house.wakes.status("fox")).wake_state.wakes_in_cycle == 0
    assert await reason_of(house) is None


async def test_a_user_prompt_and_a_wake_are_serialised(house: HeartbeatFixture) -> None:
    """While a person's prompt is being delivered the session still looks idle: the wake waits, and sees it was overtaken."""
    name = await fox(house)
    house.client.held = asyncio.Event()
    house.client.writes_late = True
    person = asyncio.create_task(house.hands.deliver(name, "a person's words"))
    await settle()
    wake = asyncio.create_task(house.wakes.wake("fox"))
    await settle()
    # Its log is not written yet: what the gate knows must be enough.
    house.client.held.set()
    assert (await person).outcome is ActionOutcome.CONFIRMED
    assert (await wake).reason is IneligibilityReason.SESSION_PROMPT_ACTIVE_RACE
    assert house.living.prompts == ["a person's words"]


async def test_a_prompt_that_no_log_shows_yet_is_a_prompt(house: HeartbeatFixture) -> None:
    """Given a moment ago, it looks idle and is not; a client that shows nothing for half a minute has lost it."""
    name = await fox(house)
    house.client.writes_late = True
    house.clock.advance(5.0)
    await house.hands.deliver(name, "a person's words")
    assert await reason_of(house) is IneligibilityReason.SESSION_PROMPT_ACTIVE
    house.clock.advance(31.0)
    assert await reason_of(house) is None


async def test_whoever_ended_has_no_prompt_in_flight(house: HeartbeatFixture) -> None:
    """Its log never showed the last one, and the answer is that of its record."""
    house.client.writes_late = True
    name = await fox(house)
    house.clock.advance(5.0)
    assert await reason_of(house) is None
    house.end(house.registry.sessions[subject(name).id].presence.living_processes[0].process)
    house.settle()
    record = house.registry.sessions[subject(name).id].record
    assert record is not None
    assert (await reason_of(house), record.ineligibility_reason) == (
        IneligibilityReason.SESSION_NOT_ATTACHABLE,
    ) * 2


async def test_a_thousand_wakes_at_once_are_one_prompt(house: HeartbeatFixture) -> None:
    """One is sent; the others are coalesced, and all of them are counted."""
    await fox(house)
    answers = await asyncio.gather(*(house.wakes.wake("fox") for _ in range(1000)))
    outcomes = [answer.outcome for answer in answers]
    assert outcomes.count(WakeOutcome.SENT) == len(house.living.prompts) == 1
    assert {answer.reason for answer in answers} == {None, IneligibilityReason.WAKE_COALESCED}
    assert sum(each.count for each in house.audits.of("fox")) == 1000


async def test_a_cycle_has_its_number_of_wakes(tmp_path: Path) -> None:
    """The next cycle has it again."""
    async with opened(tmp_path, HeartbeatConfig(max_wakes_per_cycle=2)) as house:
        for agent in ("ant", "bee", "cat"):
            house.write_policy(agent)
            await house.raise_agent(agent)
        reasons = [await reason_of(house, agent) for agent in ("ant", "bee", "cat")]
        assert reasons == [None, None, IneligibilityReason.HEARTBEAT_RATE_LIMITED]
        house.clock.advance(60.0)
        assert await reason_of(house, "cat") is None


async def test_a_restart_begins_no_new_cycle(tmp_path: Path) -> None:
    """Earlier wakes count until the cycle is over."""
    async with opened(tmp_path, HeartbeatConfig(max_wakes_per_cycle=2)) as house:
        for agent in ("ant", "bee", "cat"):
            house.write_policy(agent)
            await house.raise_agent(agent)
        assert await reason_of(house, "ant") is None
        house.clock.advance(20.0)
        assert await reason_of(house, "bee") is None
        house.clock.advance(20.0)
        house.build()
        await house.holdings.load()
        await house.wakes.restore()
        assert await reason_of(house, "cat") is IneligibilityReason.HEARTBEAT_RATE_LIMITED
        house.clock.advance(20.0)
        assert await reason_of(house, "cat") is None


@pytest.mark.parametrize("jump", [-86_400.0, 86_400.0])
async def test_a_clock_that_jumps_moves_no_cooldown(jump: float, house: HeartbeatFixture) -> None:
    """Cooldowns count seconds that passed; setting the wall clock changes none."""
    name = await fox(house)
    assert await reason_of(house) is None
    house.end_turn(name)
    house.clock.advance(30.0)
    house.clock.set_wall(START_WALL + 30.0 + jump)
    assert await reason_of(house) is IneligibilityReason.COOLDOWN_ACTIVE
    house.clock.advance(31.0)
    house.end_turn(name)
    assert await reason_of(house) is None


@pytest.mark.parametrize("jump", [-86_400.0, 0.0])
async def test_a_cooldown_outlives_the_daemon(jump: float, house: HeartbeatFixture) -> None:
    """Also if the wall clock was set back meanwhile: then it lasts once more, and not for a day."""
    name = await fox(house)
    assert await reason_of(house) is None
    house.end_turn(name)
    house.clock.set_wall(START_WALL + jump)
    house.build()
    await house.holdings.load()
    await house.wakes.restore()
    assert await reason_of(house) is IneligibilityReason.COOLDOWN_ACTIVE
    house.clock.advance(61.0)
    assert await reason_of(house) is None


async def test_wakes_before_and_after_a_jump_keep_their_order(house: HeartbeatFixture) -> None:
    """The clock is set back a day between two wakes: a restart still knows which was the last, and a third is sent."""
    name = await fox(house)
    for jump in (0.0, -86_400.0):
        house.clock.set_wall(house.clock.now().wall + jump)
        assert await reason_of(house) is None
        house.end_turn(name)
        house.clock.advance(3600.0)
    house.build()
    await house.holdings.load()
    await house.wakes.restore()
    assert await reason_of(house) is None
    assert [each.count for each in (await house.wakes.status("fox")).audits] == [1, 1, 1]


async def test_nobody_is_woken_before_everybody_was_judged(tmp_path: Path) -> None:
    """Asked too early, the service says so; it does not guess."""
    async with opened(tmp_path, ready=False) as house:
        await fox(house)
        for ask in (house.wakes.wake, house.wakes.status):
            with pytest.raises(HealthNotKnownYet):
                await ask("fox")
        await house.wakes.restore()
        assert await reason_of(house) is None


async def test_what_cannot_be_written_down_is_not_done(house: HeartbeatFixture) -> None:
    """A store that refuses the reservation: no prompt, and no cooldown afterwards."""
    await fox(house)
    take_again = refusing(house)
    with pytest.raises(WorldError):
        await house.wakes.wake("fox")
    assert house.living.prompts == []
    take_again()
    assert await reason_of(house) is None


async def second_daemon(house: HeartbeatFixture) -> tuple[WakeService, WakeService]:
    """Two wake services on one store, as of two daemons: neither hears of the other's acts, and logs show nothing yet."""
    first = house.wakes
    house.client.writes_late = True
    house.build()
    house.client.writes_late = True
    await house.holdings.load()
    await house.wakes.restore()
    return first, house.wakes


async def test_a_wake_that_was_not_given_costs_nobody_else_his(tmp_path: Path) -> None:
    """A store that refused one reservation has not used up the cycle."""
    async with opened(tmp_path, HeartbeatConfig(max_wakes_per_cycle=1)) as house:
        await fox(house)
        take_again = refusing(house)
        for _ in range(2):
            with pytest.raises(WorldError):
                await house.wakes.wake("fox")
        take_again()
        assert await reason_of(house) is None


@pytest.mark.parametrize(("interval", "reason"), [("1h", None), ("20d", IneligibilityReason.COOLDOWN_ACTIVE)])
async def test_a_session_outlives_what_is_kept_of_its_wakes(
    interval: str, reason: IneligibilityReason | None, house: HeartbeatFixture
) -> None:
    """After the retention and a restart it is woken as if nothing were forgotten: not barred, and not too early."""
    name = await fox(house, f"preferences: {{min_interval: {interval}}}")
    assert await reason_of(house) is None
    house.end_turn(name)
    house.clock.advance(8 * 86_400.0)
    await house.audits.forget_old()
    house.build()
    await house.holdings.load()
    await house.wakes.restore()
    assert await reason_of(house) is reason


async def test_names_that_nobody_has_fill_no_memory(
    monkeypatch: pytest.MonkeyPatch, house: HeartbeatFixture
) -> None:
    """Requests with ever new names drop the oldest decisions, never those that a cooldown counts from."""
    monkeypatch.setattr(wake_audit, "ENTRIES_MAX", 10)
    name = await fox(house)
    assert await reason_of(house) is None
    house.end_turn(name)
    for number in range(50):
        assert await reason_of(house, f"nobody-{number}") is IneligibilityReason.SESSION_NOT_FOUND
    assert len(await house.store.notes("wake")) == 10
    assert house.audits.last("nobody-0") is None
    assert await reason_of(house) is IneligibilityReason.COOLDOWN_ACTIVE


async def test_of_two_daemons_on_one_store_one_wakes(house: HeartbeatFixture) -> None:
    """Both are asked at once, or one after the other: one prompt, and the other one says that it cools."""
    await fox(house)
    first, second = await second_daemon(house)
    answers = await asyncio.gather(first.wake("fox"), second.wake("fox"))
    assert [each.reason for each in answers].count(None) == 1
    assert {each.reason for each in answers} == {None, IneligibilityReason.COOLDOWN_ACTIVE}
    house.clock.advance(61.0)
    assert (await second.wake("fox")).reason is None
    house.clock.advance(31.0)
    assert (await first.wake("fox")).reason is IneligibilityReason.COOLDOWN_ACTIVE
    house.clock.advance(30.0)
    assert (await first.wake("fox")).reason is None


async def test_a_daemon_that_missed_many_wakes_still_wakes(house: HeartbeatFixture) -> None:
    """It reads what it missed, and goes on from there."""
    await fox(house)
    first, second = await second_daemon(house)
    for _ in range(3):
        assert (await second.wake("fox")).reason is None
        house.clock.advance(61.0)
    assert (await first.wake("fox")).reason is None
