"""Claims about waking: who is refused before any work, who goes first, what is written down, and when it happens."""

import asyncio
import errno
import os
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from desks import subject
from wakeful.domain.agents import BadAgentName
from wakeful.domain.eligibility import Reason
from wakeful.domain.errors import WorldError
from wakeful.domain.events import Asked, Prompted
from wakeful.domain.ids import SessionId
from wakeful.domain.moment import iso
from wakeful.domain.wake import HealthNotKnownYet, Trigger, WakeOutcome, WakesItself
from wakeful.domain.work import Work, WorkId
from wakeful.interfaces.cli.heartbeat import status_lines
from wakeful.ports.hands import PromptRefused
from wakeful.ports.store import Outcome
from wakeful.services import wake_audit
from wakeful.services.wake import WakeRules, WakeService
from wakeful.testing.virtual_clock import START_WALL, settle
from wakers import GUIDANCE, WakeHouse

# 2027-01-15T08:00:00Z
QUIET_NOW = "preferences: {quiet_windows: [{timezone: UTC, start: 07:00, end: 09:30}]}"
EVERYTHING = "context: {include: [self, session_health, task, inbox_summary]}"
Scene = Callable[[WakeHouse], Coroutine[Any, Any, None]]


def play(scene: Scene, folder: Path, rules: WakeRules | None = None, *, ready: bool = True) -> WakeHouse:
    """Play a scene in a house of its own."""
    house = WakeHouse(folder, rules)

    async def run() -> None:
        if ready:
            await house.wakes.take_up()
        await scene(house)

    asyncio.run(run())
    return house


async def fox(house: WakeHouse, *fields: str) -> str:
    house.write_policy("fox", *fields)
    return await house.raise_agent("fox")


async def reason_of(house: WakeHouse, name: str = "fox") -> Reason | None:
    return (await house.wakes.wake(name)).reason


def test_an_agent_is_woken_and_told_what_for(tmp_path: Path) -> None:
    """The prompt says that it is a wake and no person, names the snapshot, grants nothing, and carries the guidance."""

    async def scene(house: WakeHouse) -> None:
        name = await fox(house, "summary: Looks after the shop.")
        status = await house.wakes.status("fox")
        assert (status.eligible_for_wake, status.ineligibility_reason) == (True, None)
        answer = await house.wakes.wake("fox")
        assert (answer.outcome, answer.reason) == (WakeOutcome.SENT, None)
        assert answer.session_id == subject(name).id
        (prompt,) = house.living.prompts
        assert answer.snapshot_id is not None
        for words in (answer.snapshot_id, "not a message of a person", "grants no permission", GUIDANCE):
            assert words in prompt
        assert "by hand" in prompt
        assert prompt[0] not in "yYnN/!#"

    play(scene, tmp_path)


def order(number: int, *, project: str = "", session_id: SessionId | None = None) -> Work:
    return Work(WorkId(f"w-{number}"), project, "words of somebody", session_id, "", START_WALL + number)


def test_a_prompt_says_what_its_file_wants_to_be_told(tmp_path: Path) -> None:
    """Who it is, how it is, which work it holds and what waits for it: facts, and nobody's words."""

    async def scene(house: WakeHouse) -> None:
        name = await fox(house, EVERYTHING)
        record = house.roster.watched[subject(name).id].record
        assert record is not None
        assert (await house.wakes.wake("fox")).reason is None
        assert "\ntask: you hold no work\ninbox_summary: no work waits for you\n" in house.living.prompts[-1]
        for number in range(4):
            await house.store.enqueue(order(number, project=record.project))
        await house.store.enqueue(order(4, session_id=record.id))
        await house.store.enqueue(order(5, project="elsewhere"))
        run = await house.store.claim_next_run("fox", project=record.project)
        assert run is not None
        house.end_turn(name)
        house.clock.advance(3600.0)
        assert (await house.wakes.wake("fox")).reason is None
        prompt = house.living.prompts[-1]
        assert f"self: you are the agent fox, session {record.id}\n" in prompt
        assert "session_health: healthy, idle, last active 2027-01-15T08:" in prompt
        assert f"\ntask: you hold w-0 until {iso(run.lease_until)}\n" in prompt
        assert "\ninbox_summary: 4 waiting for you, the oldest since 2027-01-15T08:00:01" in prompt
        assert "words of somebody" not in prompt

    play(scene, tmp_path)


async def _not_found(house: WakeHouse) -> None:
    house.write_policy("fox")


async def _unhealthy(house: WakeHouse) -> None:
    house.fail(await fox(house))


async def _dead(house: WakeHouse) -> None:
    name = await fox(house)
    house.work(name)
    house.end(house.roster.watched[subject(name).id].presence.living[0].process)


async def _found(house: WakeHouse) -> None:
    await house.hands.release(await fox(house))
    house.settle()


async def _observed(house: WakeHouse) -> None:
    await fox(house)
    house.mode = "observe"


async def _path_closed(house: WakeHouse) -> None:
    await fox(house)
    house.path_open = False


async def _ended(house: WakeHouse) -> None:
    name = await fox(house)
    house.end(house.roster.watched[subject(name).id].presence.living[0].process)


async def _busy(house: WakeHouse) -> None:
    house.work(await fox(house))


async def _waiting(house: WakeHouse) -> None:
    house.hear(await fox(house), Prompted(house.wall()), Asked(house.wall(), "Bash: rm"))


async def _quiet(house: WakeHouse) -> None:
    await fox(house, QUIET_NOW)


async def _outside_active_hours(house: WakeHouse) -> None:
    await fox(house, "preferences: {active_hours: [{timezone: UTC, start: 09:00, end: 17:00}]}")


async def _disabled(house: WakeHouse) -> None:
    await fox(house, "enabled: false")


async def _invalid(house: WakeHouse) -> None:
    await fox(house, "enabled: perhaps")


async def _no_policy(house: WakeHouse) -> None:
    await house.raise_agent("fox")


async def _cooling(house: WakeHouse) -> None:
    name = await fox(house)
    assert await reason_of(house) is None
    house.end_turn(name)
    house.clock.advance(59.0)


async def _inside_its_interval(house: WakeHouse) -> None:
    name = await fox(house, 'preferences: {min_interval: "10m"}')
    assert await reason_of(house) is None
    house.end_turn(name)
    house.clock.advance(599.0)


async def _failing(house: WakeHouse) -> None:
    await fox(house)
    house.living.outcome = Outcome.INEFFECTIVE


async def _unseen(house: WakeHouse) -> None:
    await fox(house)
    house.living.outcome = Outcome.UNVERIFIED


async def _refusing(house: WakeHouse) -> None:
    await fox(house)
    house.living.problem = PromptRefused(reason="a test")


SCENES: dict[str, tuple[Scene, Reason]] = {
    "unknown agent": (_not_found, Reason.SESSION_NOT_FOUND),
    "failed turn": (_unhealthy, Reason.SESSION_UNHEALTHY),
    "dead": (_dead, Reason.SESSION_UNHEALTHY),
    "found": (_found, Reason.SESSION_NOT_ATTACHABLE),
    "observe": (_observed, Reason.SESSION_NOT_ATTACHABLE),
    "path closed": (_path_closed, Reason.SESSION_NOT_ATTACHABLE),
    "ended": (_ended, Reason.SESSION_NOT_ATTACHABLE),
    "busy": (_busy, Reason.SESSION_PROMPT_ACTIVE),
    "waits for a person": (_waiting, Reason.SESSION_PROMPT_ACTIVE),
    "quiet window": (_quiet, Reason.QUIET_WINDOW),
    "outside active hours": (_outside_active_hours, Reason.QUIET_WINDOW),
    "disabled": (_disabled, Reason.HEARTBEAT_DISABLED),
    "invalid": (_invalid, Reason.HEARTBEAT_INVALID),
    "no policy": (_no_policy, Reason.HEARTBEAT_NO_POLICY),
    "cooling": (_cooling, Reason.COOLDOWN_ACTIVE),
    "inside its interval": (_inside_its_interval, Reason.COOLDOWN_ACTIVE),
    "prompt not taken": (_failing, Reason.SYNTHETIC_PROMPT_FAILED),
    "prompt not seen": (_unseen, Reason.SYNTHETIC_PROMPT_FAILED),
    "prompt refused": (_refusing, Reason.SYNTHETIC_PROMPT_FAILED),
}


@pytest.mark.parametrize("name", SCENES)
def test_a_refusal_has_its_reason_and_no_effect(name: str, tmp_path: Path) -> None:
    """Refused before any work: nobody was spoken to, and the decision stands in the store with its reason."""
    begin, reason = SCENES[name]

    async def scene(house: WakeHouse) -> None:
        await begin(house)
        prompts = len(house.living.prompts)
        status = await house.wakes.status("fox")
        answer = await house.wakes.wake("fox")
        assert answer.reason is reason
        if reason is Reason.SYNTHETIC_PROMPT_FAILED:
            assert answer.outcome is WakeOutcome.FAILED
        else:
            assert status.ineligibility_reason is reason
            assert len(house.living.prompts) == prompts
        audit = house.audits.last("fox")
        assert audit is not None
        assert (audit.reason, audit.outcome, audit.words) == (reason, answer.outcome, answer.words)
        assert audit.snapshot_id == answer.snapshot_id

    play(scene, tmp_path)


def test_configuration_disables_everybody(tmp_path: Path) -> None:
    """`[agents.heartbeat] enabled = false`."""

    async def scene(house: WakeHouse) -> None:
        await fox(house)
        assert await reason_of(house) is Reason.HEARTBEAT_DISABLED

    play(scene, tmp_path, WakeRules(enabled=False))


def test_a_program_that_reads_lines_is_woken_by_one(tmp_path: Path) -> None:
    """The same words, none of them lost."""

    async def scene(house: WakeHouse) -> None:
        house.write_policy("fox", body="One.\n\n  Two.")
        await house.raise_agent("fox")
        house.client.one_line = True
        assert await reason_of(house) is None
        (prompt,) = house.living.prompts
        assert prompt.endswith(" Guidance of that file: One. Two.")
        assert "\n" not in prompt

    play(scene, tmp_path)


def test_a_prompt_that_began_inside_the_gate_goes_first(tmp_path: Path) -> None:
    """A person types while the wake waits for its turn: nothing is sent, and neither cooldown nor cycle is spent."""

    async def scene(house: WakeHouse) -> None:
        name = await fox(house)
        house.meanwhile = lambda _session: house.hear(name, Prompted(house.wall()))
        answer = await house.wakes.wake("fox")
        assert (answer.reason, answer.outcome) == (Reason.SESSION_PROMPT_ACTIVE_RACE, WakeOutcome.SKIPPED)
        assert house.living.prompts == []
        house.meanwhile = lambda _session: None
        house.end_turn(name)
        assert (await house.wakes.status("fox")).wake_state.wakes_in_cycle == 0
        assert await reason_of(house) is None

    play(scene, tmp_path)


def test_a_user_prompt_and_a_wake_are_serialised(tmp_path: Path) -> None:
    """While a person's prompt is being delivered the session still looks idle: the wake waits, and sees it was overtaken."""

    async def scene(house: WakeHouse) -> None:
        name = await fox(house)
        house.client.held = asyncio.Event()
        house.client.writes_late = True
        person = asyncio.create_task(house.hands.deliver(name, "a person's words"))
        await settle()
        wake = asyncio.create_task(house.wakes.wake("fox"))
        await settle()
        # Its log is not written yet: what the gate knows must be enough.
        house.client.held.set()
        assert (await person).outcome is Outcome.RECOVERED
        assert (await wake).reason is Reason.SESSION_PROMPT_ACTIVE_RACE
        assert house.living.prompts == ["a person's words"]

    play(scene, tmp_path)


def test_a_prompt_that_no_log_shows_yet_is_a_prompt(tmp_path: Path) -> None:
    """Given a moment ago, it looks idle and is not; a client that shows nothing for half a minute has lost it."""

    async def scene(house: WakeHouse) -> None:
        name = await fox(house)
        house.client.writes_late = True
        house.clock.advance(5.0)
        await house.hands.deliver(name, "a person's words")
        assert await reason_of(house) is Reason.SESSION_PROMPT_ACTIVE
        house.clock.advance(31.0)
        assert await reason_of(house) is None

    play(scene, tmp_path)


def test_whoever_ended_has_no_prompt_in_flight(tmp_path: Path) -> None:
    """Its log never showed the last one, and the answer is that of its record."""

    async def scene(house: WakeHouse) -> None:
        house.client.writes_late = True
        name = await fox(house)
        house.clock.advance(5.0)
        assert await reason_of(house) is None
        house.end(house.roster.watched[subject(name).id].presence.living[0].process)
        house.settle()
        record = house.roster.watched[subject(name).id].record
        assert record is not None
        assert (await reason_of(house), record.ineligibility_reason) == (Reason.SESSION_NOT_ATTACHABLE,) * 2

    play(scene, tmp_path)


def test_a_thousand_wakes_at_once_are_one_prompt(tmp_path: Path) -> None:
    """One is sent; the others are coalesced, and all of them are counted."""

    async def scene(house: WakeHouse) -> None:
        await fox(house)
        answers = await asyncio.gather(*(house.wakes.wake("fox") for _ in range(1000)))
        outcomes = [answer.outcome for answer in answers]
        assert outcomes.count(WakeOutcome.SENT) == len(house.living.prompts) == 1
        assert {answer.reason for answer in answers} == {None, Reason.WAKE_COALESCED}
        assert sum(each.count for each in house.audits.of("fox")) == 1000

    play(scene, tmp_path)


def test_a_cycle_has_its_number_of_wakes(tmp_path: Path) -> None:
    """The next cycle has it again."""

    async def scene(house: WakeHouse) -> None:
        for agent in ("ant", "bee", "cat"):
            house.write_policy(agent)
            await house.raise_agent(agent)
        reasons = [await reason_of(house, agent) for agent in ("ant", "bee", "cat")]
        assert reasons == [None, None, Reason.HEARTBEAT_RATE_LIMITED]
        house.clock.advance(60.0)
        assert await reason_of(house, "cat") is None

    play(scene, tmp_path, WakeRules(wakes_per_cycle_max=2))


def test_a_restart_begins_no_new_cycle(tmp_path: Path) -> None:
    """Whoever was woken before it counts until the cycle is over."""

    async def scene(house: WakeHouse) -> None:
        for agent in ("ant", "bee", "cat"):
            house.write_policy(agent)
            await house.raise_agent(agent)
        assert await reason_of(house, "ant") is None
        house.clock.advance(20.0)
        assert await reason_of(house, "bee") is None
        house.clock.advance(20.0)
        house.build()
        await house.holdings.load()
        await house.wakes.take_up()
        assert await reason_of(house, "cat") is Reason.HEARTBEAT_RATE_LIMITED
        house.clock.advance(20.0)
        assert await reason_of(house, "cat") is None

    play(scene, tmp_path, WakeRules(wakes_per_cycle_max=2))


@pytest.mark.parametrize("jump", [-86_400.0, 86_400.0])
def test_a_clock_that_jumps_moves_no_cooldown(jump: float, tmp_path: Path) -> None:
    """Cooldowns count seconds that passed; what the wall clock was set to is nobody's cooldown."""

    async def scene(house: WakeHouse) -> None:
        name = await fox(house)
        assert await reason_of(house) is None
        house.end_turn(name)
        house.clock.advance(30.0)
        house.clock.set_wall(START_WALL + 30.0 + jump)
        assert await reason_of(house) is Reason.COOLDOWN_ACTIVE
        house.clock.advance(31.0)
        house.end_turn(name)
        assert await reason_of(house) is None

    play(scene, tmp_path)


@pytest.mark.parametrize("jump", [-86_400.0, 0.0])
def test_a_cooldown_outlives_the_daemon(jump: float, tmp_path: Path) -> None:
    """Also if the wall clock was set back meanwhile: then it lasts once more, and not for a day."""

    async def scene(house: WakeHouse) -> None:
        name = await fox(house)
        assert await reason_of(house) is None
        house.end_turn(name)
        house.clock.set_wall(START_WALL + jump)
        house.build()
        await house.holdings.load()
        await house.wakes.take_up()
        assert await reason_of(house) is Reason.COOLDOWN_ACTIVE
        house.clock.advance(61.0)
        assert await reason_of(house) is None

    play(scene, tmp_path)


def test_wakes_before_and_after_a_jump_keep_their_order(tmp_path: Path) -> None:
    """The clock is set back a day between two wakes: a restart still knows which was the last, and a third is sent."""

    async def scene(house: WakeHouse) -> None:
        name = await fox(house)
        for jump in (0.0, -86_400.0):
            house.clock.set_wall(house.clock.now().wall + jump)
            assert await reason_of(house) is None
            house.end_turn(name)
            house.clock.advance(3600.0)
        house.build()
        await house.holdings.load()
        await house.wakes.take_up()
        assert await reason_of(house) is None
        assert [each.count for each in (await house.wakes.status("fox")).audits] == [1, 1, 1]

    play(scene, tmp_path)


def test_the_most_recently_active_session_is_meant(tmp_path: Path) -> None:
    """An agent with several; the answer has its id."""

    async def scene(house: WakeHouse) -> None:
        house.write_policy("fox")
        await house.raise_agent("fox", "old")
        house.clock.advance(5.0)
        await house.raise_agent("fox", "new")
        assert (await house.wakes.status("fox")).session_id == subject("new").id
        house.clock.advance(5.0)
        house.finish("old")
        answer = await house.wakes.wake("fox")
        assert (answer.session_id, answer.outcome) == (subject("old").id, WakeOutcome.SENT)

    play(scene, tmp_path)


def test_a_found_session_is_woken_by_the_name_it_is_adopted_by(tmp_path: Path) -> None:
    """Before, nobody has that name."""

    async def scene(house: WakeHouse) -> None:
        house.write_policy("fox")
        house.start("a")
        house.finish("a")
        assert await reason_of(house) is Reason.SESSION_NOT_FOUND
        await house.hands.adopt("a", name="fox")
        house.settle()
        assert await reason_of(house) is None

    play(scene, tmp_path)


@pytest.mark.parametrize("name", ["Fox", "F" * 64, "sess_123"])
def test_whatever_a_session_may_be_called_it_is_woken_by(name: str, tmp_path: Path) -> None:
    """Agents of the hub have small letters; `wakeful run --name` takes others, too. Before, nobody has that name."""

    async def scene(house: WakeHouse) -> None:
        house.write_policy(name)
        assert await reason_of(house, name) is Reason.SESSION_NOT_FOUND
        await house.raise_agent(name, "a")
        assert name in house.wakes._targets.names()
        assert await reason_of(house, name) is None

    play(scene, tmp_path)


def test_a_session_is_meant_by_its_id_too(tmp_path: Path) -> None:
    """Nobody's session has one as well: a found one is not attachable, an unknown one not found, a path no id."""
    ids = [f"0b7ad3cd-16c1-4a5c-8a9b-7d1f0e2a3b{number}c" for number in range(3)]

    async def scene(house: WakeHouse) -> None:
        for name in ids[:2]:
            house.start(name)
            house.finish(name)
        assert await reason_of(house, f"claude-{ids[0]}") is Reason.SESSION_NOT_ATTACHABLE
        assert await reason_of(house, f"claude-{ids[2]}") is Reason.SESSION_NOT_FOUND
        await house.hands.adopt(ids[1])
        house.settle()
        assert await reason_of(house, f"claude-{ids[1]}") is Reason.HEARTBEAT_NO_POLICY
        await house.hands.adopt(ids[0], name="fox")
        house.write_policy("fox")
        house.settle()
        woken = await house.wakes.wake(f"claude-{ids[0]}")
        assert (woken.agent, woken.session_id, woken.reason) == ("fox", f"claude-{ids[0]}", None)
        for odd in (f"../claude-{ids[0]}", f"claude-../{ids[0]}", "claude-0b7ad3cd!"):
            with pytest.raises(BadAgentName):
                await house.wakes.wake(odd)

    play(scene, tmp_path)


def asked_by(session_id: SessionId, asked: list[str] | None = None) -> Callable[[], Any]:
    async def caller() -> SessionId:
        if asked is not None:
            asked.append(session_id)
        return session_id

    return caller


def test_nobody_is_looked_up_for_a_wake_that_is_refused(tmp_path: Path) -> None:
    """Who asks takes a walk over processes to know: of a thousand at once one walk is made, and none for a refusal."""

    async def scene(house: WakeHouse) -> None:
        name = await fox(house)
        asked: list[str] = []
        caller = asked_by(SessionId("claude-another"), asked)
        answers = await asyncio.gather(*(house.wakes.wake("fox", caller=caller) for _ in range(1000)))
        assert (len(asked), sum(each.outcome is WakeOutcome.SENT for each in answers)) == (1, 1)
        house.end_turn(name)
        assert (await house.wakes.wake("fox", caller=caller)).reason is Reason.COOLDOWN_ACTIVE
        assert len(asked) == 1

    play(scene, tmp_path)


def test_a_prompt_given_while_the_caller_is_looked_up_goes_first(tmp_path: Path) -> None:
    """The look takes a moment, and the prompt is in no log yet: the wake is skipped all the same."""

    async def scene(house: WakeHouse) -> None:
        name = await fox(house)
        house.client.writes_late = True

        async def slow() -> None:
            await house.hands.deliver(name, "a person's words")

        assert (await house.wakes.wake("fox", caller=slow)).reason is Reason.SESSION_PROMPT_ACTIVE_RACE
        assert house.client.prompts == ["a person's words"]

    play(scene, tmp_path)


def test_an_agent_does_not_wake_itself(tmp_path: Path) -> None:
    """Others may be woken by it."""

    async def scene(house: WakeHouse) -> None:
        name = await fox(house)
        with pytest.raises(WakesItself):
            await house.wakes.wake("fox", caller=asked_by(subject(name).id))
        assert house.audits.last("fox") is None
        answer = await house.wakes.wake("fox", caller=asked_by(SessionId("claude-another")))
        assert answer.outcome is WakeOutcome.SENT

    play(scene, tmp_path)


def test_nobody_is_woken_before_everybody_was_judged(tmp_path: Path) -> None:
    """Asked too early, the service says so; it does not guess."""

    async def scene(house: WakeHouse) -> None:
        await fox(house)
        for ask in (house.wakes.wake, house.wakes.status):
            with pytest.raises(HealthNotKnownYet):
                await ask("fox")
        await house.wakes.take_up()
        assert await reason_of(house) is None

    play(scene, tmp_path, ready=False)


def refusing(house: WakeHouse) -> Callable[[], None]:
    """The store takes nothing from now on; what is given back ends that."""
    keep, spend = house.store.keep_note, house.store.spend

    async def refuse(*_words: object, **_options: object) -> Any:
        raise WorldError

    def take_again() -> None:
        house.store.keep_note, house.store.spend = keep, spend  # type: ignore[method-assign]

    house.store.keep_note = house.store.spend = refuse  # type: ignore[method-assign]
    return take_again


def test_what_cannot_be_written_down_is_not_done(tmp_path: Path) -> None:
    """A store that refuses the reservation: no prompt, and no cooldown afterwards."""

    async def scene(house: WakeHouse) -> None:
        await fox(house)
        take_again = refusing(house)
        with pytest.raises(WorldError):
            await house.wakes.wake("fox")
        assert house.living.prompts == []
        take_again()
        assert await reason_of(house) is None

    play(scene, tmp_path)


async def second_daemon(house: WakeHouse) -> tuple[WakeService, WakeService]:
    """Two wake services on one store, as of two daemons: neither hears of the other's acts, and logs show nothing yet."""
    first = house.wakes
    house.client.writes_late = True
    house.build()
    house.client.writes_late = True
    await house.holdings.load()
    await house.wakes.take_up()
    return first, house.wakes


def test_a_wake_that_was_not_given_costs_nobody_else_his(tmp_path: Path) -> None:
    """A store that refused one reservation has not used up the cycle."""

    async def scene(house: WakeHouse) -> None:
        await fox(house)
        take_again = refusing(house)
        for _ in range(2):
            with pytest.raises(WorldError):
                await house.wakes.wake("fox")
        take_again()
        assert await reason_of(house) is None

    play(scene, tmp_path, WakeRules(wakes_per_cycle_max=1))


@pytest.mark.parametrize(("interval", "reason"), [("1h", None), ("20d", Reason.COOLDOWN_ACTIVE)])
def test_a_session_outlives_what_is_kept_of_its_wakes(
    interval: str, reason: Reason | None, tmp_path: Path
) -> None:
    """After the retention and a restart it is woken as if nothing were forgotten: not barred, and not too early."""

    async def scene(house: WakeHouse) -> None:
        name = await fox(house, f"preferences: {{min_interval: {interval}}}")
        assert await reason_of(house) is None
        house.end_turn(name)
        house.clock.advance(8 * 86_400.0)
        await house.audits.forget_old()
        house.build()
        await house.holdings.load()
        await house.wakes.take_up()
        assert await reason_of(house) is reason

    play(scene, tmp_path)


def test_names_that_nobody_has_fill_no_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks for ever new ones drives out the oldest decisions, never what a session cools by."""
    monkeypatch.setattr(wake_audit, "ENTRIES_MAX", 10)

    async def scene(house: WakeHouse) -> None:
        name = await fox(house)
        assert await reason_of(house) is None
        house.end_turn(name)
        for number in range(50):
            assert await reason_of(house, f"nobody-{number}") is Reason.SESSION_NOT_FOUND
        assert len(await house.store.notes("wake")) == 10
        assert house.audits.last("nobody-0") is None
        assert await reason_of(house) is Reason.COOLDOWN_ACTIVE

    play(scene, tmp_path)


def test_of_two_daemons_on_one_store_one_wakes(tmp_path: Path) -> None:
    """Both are asked at once, or one after the other: one prompt, and the other one says that it cools."""

    async def scene(house: WakeHouse) -> None:
        await fox(house)
        first, second = await second_daemon(house)
        answers = await asyncio.gather(first.wake("fox"), second.wake("fox"))
        assert [each.reason for each in answers].count(None) == 1
        assert {each.reason for each in answers} == {None, Reason.COOLDOWN_ACTIVE}
        house.clock.advance(61.0)
        assert (await second.wake("fox")).reason is None
        house.clock.advance(31.0)
        assert (await first.wake("fox")).reason is Reason.COOLDOWN_ACTIVE
        house.clock.advance(30.0)
        assert (await first.wake("fox")).reason is None

    play(scene, tmp_path)


def test_a_daemon_that_missed_many_wakes_still_wakes(tmp_path: Path) -> None:
    """It reads what it missed, and goes on from there."""

    async def scene(house: WakeHouse) -> None:
        await fox(house)
        first, second = await second_daemon(house)
        for _ in range(3):
            assert (await second.wake("fox")).reason is None
            house.clock.advance(61.0)
        assert (await first.wake("fox")).reason is None

    play(scene, tmp_path)


def test_an_invalid_file_names_its_line_and_keeps_the_last_good_snapshot(tmp_path: Path) -> None:
    """Waking stops until it is mended; a deleted file is no policy; health is what it was all along."""

    async def scene(house: WakeHouse) -> None:
        name = await fox(house)
        before = house.roster.watched[subject(name).id].record
        good = (await house.wakes.status("fox")).policy_snapshot
        path = house.write_policy("fox", "enabled: true", "leases: 3")
        status = await house.wakes.status("fox")
        assert status.policy_problem is not None
        assert (status.policy_problem.file, status.policy_problem.line) == (str(path), 3)
        assert f"{path}:3" in (await house.wakes.wake("fox")).words
        assert status.policy_snapshot == good
        assert "  policy: invalid; the last valid one was hb-" in "\n".join(status_lines(status))
        path.unlink()
        assert await reason_of(house) is Reason.HEARTBEAT_NO_POLICY
        house.build()
        await house.wakes.take_up()
        assert (await house.wakes.status("fox")).policy_snapshot == good
        assert house.roster.watched[subject(name).id].record is before

    play(scene, tmp_path)


def test_what_a_file_says_leaves_redacted_and_marked(tmp_path: Path) -> None:
    """Its author may be an agent: a secret in it leaves by no door, and its words stand under `untrusted` alone."""

    async def scene(house: WakeHouse) -> None:
        secret = "sk-ant-api03-" + "B" * 80
        name = await fox(house, f"summary: key {secret}")
        body = msgspec.json.encode(await house.wakes.status("fox")) + house.desk.inspect(name).body
        assert b"BBBB" not in body
        assert GUIDANCE.encode() not in body
        assert b'"untrusted":"key' in body
        house.write_policy("fox", f"preferences: {{min_interval: {secret}}}")
        answer = await house.wakes.wake("fox")
        assert answer.reason is Reason.HEARTBEAT_INVALID
        assert "BBBB" not in answer.words

    play(scene, tmp_path)


def test_equal_refusals_are_one_entry_that_counts(tmp_path: Path) -> None:
    """Whoever asks in a loop fills no disk; another reason is another entry."""

    async def scene(house: WakeHouse) -> None:
        name = await fox(house, QUIET_NOW)
        for _ in range(50):
            await reason_of(house)
        house.work(name)
        await reason_of(house)
        status = await house.wakes.status("fox")
        newest, before = status.audits
        shown = "\n".join(status_lines(status))
        assert ": skipped session_prompt_active\n" in shown
        assert shown.endswith(": skipped quiet_window (50 times)")
        assert (newest.reason, newest.count) == (Reason.SESSION_PROMPT_ACTIVE, 1)
        assert (before.reason, before.count) == (Reason.QUIET_WINDOW, 50)
        assert len(await house.store.notes("wake")) == 2
        house.clock.advance(5 * 86_400.0)
        await reason_of(house)
        house.clock.advance(5 * 86_400.0)
        await house.audits.forget_old()
        (kept,) = house.audits.of("fox")
        assert (kept.reason, kept.count) == (Reason.SESSION_PROMPT_ACTIVE, 2), "its newest is five days old"
        house.clock.advance(8 * 86_400.0)
        await house.audits.forget_old()
        assert await house.store.notes("wake") == []

    play(scene, tmp_path)


def played(house: WakeHouse, seconds: float) -> Coroutine[Any, Any, None]:
    """Let the schedule run for so long."""

    async def run() -> None:
        running = asyncio.create_task(house.wakes.run())
        await house.clock.run_for(seconds)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    return run()


def moments(house: WakeHouse) -> list[str]:
    """When prompts were sent, as a person reads it."""
    sent = [each for each in reversed(house.audits.of("fox", 1000)) if each.outcome is WakeOutcome.SENT]
    return [datetime.fromtimestamp(each.wall, UTC).strftime("%H:%M:%S") for each in sent]


def test_a_quiet_window_ends_with_a_wake(tmp_path: Path) -> None:
    """Due inside of it, the agent is woken at its end: to the second, not to the cycle."""

    async def scene(house: WakeHouse) -> None:
        # So that neither cycles nor intervals fall on whole minutes.
        house.clock.advance(23.0)
        await fox(house, "preferences: {quiet_windows: [{timezone: UTC, start: 07:00, end: 09:17}]}")
        await played(house, 2 * 3600.0)
        assert moments(house) == ["09:17:00"]
        assert "on its schedule" in house.living.prompts[0]

    play(scene, tmp_path)


@pytest.mark.parametrize(
    ("start", "end", "quiet_until", "next_wake_at"),
    [
        ("08:20", "10:17", None, "10:17"),
        ("07:00", "08:20", "08:20", "08:30"),
        ("08:31", "08:00", None, "08:30"),
    ],
)
def test_the_next_wake_is_when_it_will_be(
    start: str, end: str, quiet_until: str | None, next_wake_at: str, tmp_path: Path
) -> None:
    """Due at half past eight: later if it is quiet then."""

    async def scene(house: WakeHouse) -> None:
        await fox(house, f"preferences: {{quiet_windows: [{{timezone: UTC, start: {start}, end: {end}}}]}}")
        state = (await house.wakes.status("fox")).wake_state
        assert (state.quiet_until or "T")[11:16] == (quiet_until or "")
        assert (state.next_wake_at or "")[11:16] == next_wake_at

    play(scene, tmp_path)


def test_who_is_always_quiet_has_no_next_wake(tmp_path: Path) -> None:
    """Active hours that lie in a quiet window are none."""

    async def scene(house: WakeHouse) -> None:
        hours = "active_hours: [{timezone: UTC, start: 08:00, end: 09:00}]"
        quiet = "quiet_windows: [{timezone: UTC, start: 07:00, end: 10:00}]"
        await fox(house, f"preferences: {{{hours}, {quiet}}}")
        state = (await house.wakes.status("fox")).wake_state
        assert (state.quiet_until, state.next_wake_at) == (None, None)

    play(scene, tmp_path)


def test_the_schedule_keeps_the_interval(tmp_path: Path) -> None:
    """The file's own, or the default; it counts from the last wake or the last sign of work."""

    async def scene(house: WakeHouse) -> None:
        name = await fox(house, 'preferences: {min_interval: "1h"}')
        for _ in range(3):
            await played(house, 3600.0)
            house.end_turn(name)
        assert moments(house) == ["09:00:00", "10:00:00", "11:00:00"]

    play(scene, tmp_path)


def test_who_waited_longest_is_woken_first(tmp_path: Path) -> None:
    """More agents than a cycle has wakes for: none of them is left out for good by its name."""

    async def scene(house: WakeHouse) -> None:
        agents = [f"agent-{number}" for number in range(6)]
        for agent in agents:
            house.write_policy(agent, 'preferences: {min_interval: "5m"}')
            await house.raise_agent(agent)
        for _ in range(20):
            await played(house, 60.0)
            for record in (house.roster.watched[house.session(f"of-{each}")].record for each in agents):
                assert record is not None
                if record.active_prompt:
                    house.end_turn(record.id)
        woken = {each for each in agents if house.audits.last_given(house.session(f"of-{each}")) is not None}
        assert woken == set(agents)

    play(scene, tmp_path, WakeRules(wakes_per_cycle_max=1))


def test_one_who_is_slow_to_take_a_prompt_keeps_nobody_waiting(tmp_path: Path) -> None:
    """Whoever is due is woken at once, beside the others."""

    async def scene(house: WakeHouse) -> None:
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

    play(scene, tmp_path)


def test_nobody_is_woken_while_paused(tmp_path: Path) -> None:
    """The schedule waits; a person who asks by hand is heard."""

    async def scene(house: WakeHouse) -> None:
        await fox(house)
        await house.calm.pause("a test")
        await played(house, 2 * 3600.0)
        assert house.living.prompts == []
        assert (await house.wakes.wake("fox", Trigger.HAND)).outcome is WakeOutcome.SENT

    play(scene, tmp_path)


def test_a_schedule_outlives_a_store_that_refuses(tmp_path: Path) -> None:
    """One agent's trouble is not another's."""

    async def scene(house: WakeHouse) -> None:
        name = await fox(house)
        take_again = refusing(house)
        house.clock.advance(3600.0)
        await house.wakes.cycle()
        assert house.living.prompts == []
        take_again()
        await house.wakes.cycle()
        assert len(house.living.prompts) == 1
        house.end_turn(name)

    play(scene, tmp_path)


def test_inspect_correlates_policy_wake_state_and_audit(tmp_path: Path) -> None:
    """A managed session shows what the wake service knows of it, with a name or without; a found one shows nothing."""

    async def scene(house: WakeHouse) -> None:
        name = await fox(house, QUIET_NOW)
        house.start("stranger")
        answer = await house.wakes.wake("fox")
        shown = msgspec.json.decode(house.desk.inspect(name).body)
        assert shown["policy_snapshot"]["id"] == answer.snapshot_id
        assert shown["policy_snapshot"]["digest"] == answer.digest
        assert shown["wake_state"]["quiet_until"] == "2027-01-15T09:30:00.000Z"
        assert (shown["last_audit"]["reason"], shown["wake_reason"]) == ("quiet_window", "quiet_window")
        assert (shown["eligible_for_wake"], shown["ineligibility_reason"]) == (True, None)
        stranger = msgspec.json.decode(house.desk.inspect("stranger").body)
        assert [stranger[key] for key in ("policy_snapshot", "wake_state", "last_audit")] == [None] * 3
        house.start("nameless")
        house.finish("nameless")
        await house.hands.adopt("nameless")
        house.settle()
        nameless = msgspec.json.decode(house.desk.inspect("nameless").body)
        assert (nameless["policy_state"], nameless["wake_reason"]) == ("missing", "heartbeat_no_policy")

    play(scene, tmp_path)


def test_inspect_tells_of_this_session(tmp_path: Path) -> None:
    """Of an agent with several the wake service means one; each of them is shown as it is itself."""

    async def scene(house: WakeHouse) -> None:
        house.write_policy("fox")
        old = await house.raise_agent("fox", "old")
        house.clock.advance(5.0)
        new = await house.raise_agent("fox", "new")
        house.work(new)
        shown = [msgspec.json.decode(house.desk.inspect(each).body)["wake_reason"] for each in (old, new)]
        assert shown == [None, "session_prompt_active"]

    play(scene, tmp_path)


def test_a_file_that_could_not_be_read_once_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine without a free descriptor is not a wrong file."""

    def refuse(*_words: object) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    async def scene(house: WakeHouse) -> None:
        await fox(house)
        with monkeypatch.context() as world:
            world.setattr("wakeful.adapters.heartbeat.files.os.open", refuse)
            answer = await house.wakes.wake("fox")
        assert (answer.reason, "Too many open files" in answer.words) == (Reason.HEARTBEAT_INVALID, True)
        assert await reason_of(house) is None

    play(scene, tmp_path)


def test_a_session_of_the_hubs_is_reached_by_its_agent(tmp_path: Path) -> None:
    """Found, it is nobody's and out of reach; told whose it is, it is managed and can be woken."""

    async def scene(house: WakeHouse) -> None:
        house.start("a")
        house.finish("a")
        watched = house.roster.watched[subject("a").id]
        assert watched.record is not None
        assert (watched.record.agent, watched.record.attachable) == (None, False)
        house.supervisor.lodge(subject("a").id, "fox")
        house.settle()
        record = watched.record
        assert (record.agent, record.attachable, record.managed) == ("fox", True, True)
        assert record.eligible_for_wake

    play(scene, tmp_path)
