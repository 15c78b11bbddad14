"""Claims about wakes: their prompts, refusals before any work with their reasons, and which session a name means."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.heartbeat_fixture import GUIDANCE, QUIET_NOW, HeartbeatFixture, Scene, fox, opened, reason_of
from support.supervisor_fixture import subject
from wakeful.agents.model import BadAgentName
from wakeful.config.heartbeat import HeartbeatConfig
from wakeful.control.driver import PromptRefused
from wakeful.core.clock import iso
from wakeful.core.ids import SessionId
from wakeful.core.leases import WorkId, WorkItem
from wakeful.heartbeat.model import WakeOutcome, WakesItself
from wakeful.judging.events import Prompted, QuestionAsked
from wakeful.judging.wake_eligibility import IneligibilityReason
from wakeful.storage.base import ActionOutcome
from wakeful.testing.virtual_clock import START_WALL

EVERYTHING = "context: {include: [self, session_health, task, inbox_summary]}"


async def test_an_agent_is_woken_and_told_what_for(house: HeartbeatFixture) -> None:
    """The prompt says that it is a wake and no person, names the snapshot, grants nothing, and carries the guidance."""
    name = await fox(house, "summary: Looks after the shop.")
    status = await house.wakes.status("fox")
    assert (status.eligible_for_wake, status.ineligibility_reason) == (True, None)
    answer = await house.wakes.wake("fox")
    assert (answer.outcome, answer.reason) == (WakeOutcome.SENT, None)
    assert answer.session_id == subject(name).id
    (prompt,) = house.living.prompts
    assert answer.snapshot_id is not None
    for words in (answer.snapshot_id, "not a message from a person", "grants no permission", GUIDANCE):
        assert words in prompt
    assert "because a person asked for it" in prompt
    assert prompt[0] not in "yYnN/!#"


def order(number: int, *, project: str = "", session_id: SessionId | None = None) -> WorkItem:
    return WorkItem(WorkId(f"w-{number}"), project, "words of somebody", session_id, "", START_WALL + number)


async def test_a_prompt_says_what_its_file_wants_to_be_told(house: HeartbeatFixture) -> None:
    """Its name, health, claimed tasks and waiting tasks: facts, and no text of others."""
    name = await fox(house, EVERYTHING)
    record = house.registry.sessions[subject(name).id].record
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


async def _not_found(house: HeartbeatFixture) -> None:
    house.write_policy("fox")


async def _unhealthy(house: HeartbeatFixture) -> None:
    house.fail(await fox(house))


async def _dead(house: HeartbeatFixture) -> None:
    name = await fox(house)
    house.work(name)
    house.end(house.registry.sessions[subject(name).id].presence.living_processes[0].process)


async def _found(house: HeartbeatFixture) -> None:
    await house.hands.release(await fox(house))
    house.settle()


async def _observed(house: HeartbeatFixture) -> None:
    await fox(house)
    house.mode = "observe"


async def _path_closed(house: HeartbeatFixture) -> None:
    await fox(house)
    house.path_open = False


async def _ended(house: HeartbeatFixture) -> None:
    name = await fox(house)
    house.end(house.registry.sessions[subject(name).id].presence.living_processes[0].process)


async def _busy(house: HeartbeatFixture) -> None:
    house.work(await fox(house))


async def _waiting(house: HeartbeatFixture) -> None:
    house.hear(await fox(house), Prompted(house.wall()), QuestionAsked(house.wall(), "Bash: rm"))


async def _quiet(house: HeartbeatFixture) -> None:
    await fox(house, QUIET_NOW)


async def _outside_active_hours(house: HeartbeatFixture) -> None:
    await fox(house, "preferences: {active_hours: [{timezone: UTC, start: 09:00, end: 17:00}]}")


async def _disabled(house: HeartbeatFixture) -> None:
    await fox(house, "enabled: false")


async def _invalid(house: HeartbeatFixture) -> None:
    await fox(house, "enabled: perhaps")


async def _no_policy(house: HeartbeatFixture) -> None:
    await house.raise_agent("fox")


async def _cooling(house: HeartbeatFixture) -> None:
    name = await fox(house)
    assert await reason_of(house) is None
    house.end_turn(name)
    house.clock.advance(59.0)


async def _inside_its_interval(house: HeartbeatFixture) -> None:
    name = await fox(house, 'preferences: {min_interval: "10m"}')
    assert await reason_of(house) is None
    house.end_turn(name)
    house.clock.advance(599.0)


async def _failing(house: HeartbeatFixture) -> None:
    await fox(house)
    house.living.outcome = ActionOutcome.INEFFECTIVE


async def _unseen(house: HeartbeatFixture) -> None:
    await fox(house)
    house.living.outcome = ActionOutcome.UNVERIFIED


async def _refusing(house: HeartbeatFixture) -> None:
    await fox(house)
    house.living.problem = PromptRefused(reason="a test")


SCENES: dict[str, tuple[Scene, IneligibilityReason]] = {
    "unknown agent": (_not_found, IneligibilityReason.SESSION_NOT_FOUND),
    "failed turn": (_unhealthy, IneligibilityReason.SESSION_UNHEALTHY),
    "dead": (_dead, IneligibilityReason.SESSION_UNHEALTHY),
    "found": (_found, IneligibilityReason.SESSION_NOT_ATTACHABLE),
    "observe": (_observed, IneligibilityReason.SESSION_NOT_ATTACHABLE),
    "path closed": (_path_closed, IneligibilityReason.SESSION_NOT_ATTACHABLE),
    "ended": (_ended, IneligibilityReason.SESSION_NOT_ATTACHABLE),
    "busy": (_busy, IneligibilityReason.SESSION_PROMPT_ACTIVE),
    "waits for a person": (_waiting, IneligibilityReason.SESSION_PROMPT_ACTIVE),
    "quiet window": (_quiet, IneligibilityReason.QUIET_WINDOW),
    "outside active hours": (_outside_active_hours, IneligibilityReason.QUIET_WINDOW),
    "disabled": (_disabled, IneligibilityReason.HEARTBEAT_DISABLED),
    "invalid": (_invalid, IneligibilityReason.HEARTBEAT_INVALID),
    "no policy": (_no_policy, IneligibilityReason.HEARTBEAT_NO_POLICY),
    "cooling": (_cooling, IneligibilityReason.COOLDOWN_ACTIVE),
    "inside its interval": (_inside_its_interval, IneligibilityReason.COOLDOWN_ACTIVE),
    "prompt not taken": (_failing, IneligibilityReason.SYNTHETIC_PROMPT_FAILED),
    "prompt not seen": (_unseen, IneligibilityReason.SYNTHETIC_PROMPT_FAILED),
    "prompt refused": (_refusing, IneligibilityReason.SYNTHETIC_PROMPT_FAILED),
}


@pytest.mark.parametrize("name", SCENES)
async def test_a_refusal_has_its_reason_and_no_effect(name: str, house: HeartbeatFixture) -> None:
    """Refused before any work: no prompt was sent, and the decision is in the store with its reason."""
    begin, reason = SCENES[name]
    await begin(house)
    prompts = len(house.living.prompts)
    status = await house.wakes.status("fox")
    answer = await house.wakes.wake("fox")
    assert answer.reason is reason
    if reason is IneligibilityReason.SYNTHETIC_PROMPT_FAILED:
        assert answer.outcome is WakeOutcome.FAILED
    else:
        assert status.ineligibility_reason is reason
        assert len(house.living.prompts) == prompts
    audit = house.audits.last("fox")
    assert audit is not None
    assert (audit.reason, audit.outcome, audit.words) == (reason, answer.outcome, answer.words)
    assert audit.snapshot_id == answer.snapshot_id


async def test_configuration_disables_everybody(tmp_path: Path) -> None:
    """`[agents.heartbeat] enabled = false`."""
    async with opened(tmp_path, HeartbeatConfig(enabled=False)) as house:
        await fox(house)
        assert await reason_of(house) is IneligibilityReason.HEARTBEAT_DISABLED


async def test_the_most_recently_active_session_is_meant(house: HeartbeatFixture) -> None:
    """An agent with several; the answer has its id."""
    house.write_policy("fox")
    await house.raise_agent("fox", "old")
    house.clock.advance(5.0)
    await house.raise_agent("fox", "new")
    assert (await house.wakes.status("fox")).session_id == subject("new").id
    house.clock.advance(5.0)
    house.finish("old")
    answer = await house.wakes.wake("fox")
    assert (answer.session_id, answer.outcome) == (subject("old").id, WakeOutcome.SENT)


async def test_a_session_that_lives_is_meant_before_one_that_ended_later(house: HeartbeatFixture) -> None:
    """The ended one was active last; a name that is used again means the session that can be woken."""
    house.write_policy("fox")
    await house.raise_agent("fox", "new")
    house.clock.advance(5.0)
    await house.raise_agent("fox", "old")
    house.end(house.registry.sessions[subject("old").id].presence.living_processes[0].process)
    house.settle()
    assert (await house.wakes.wake("fox")).session_id == subject("new").id


async def test_a_found_session_is_woken_by_the_name_it_is_adopted_by(house: HeartbeatFixture) -> None:
    """Before, the name is unknown."""
    house.write_policy("fox")
    house.start("a")
    house.finish("a")
    assert await reason_of(house) is IneligibilityReason.SESSION_NOT_FOUND
    await house.hands.adopt("a", name="fox")
    house.settle()
    assert await reason_of(house) is None


@pytest.mark.parametrize("name", ["Fox", "F" * 64, "sess_123"])
async def test_whatever_a_session_may_be_called_it_is_woken_by(name: str, house: HeartbeatFixture) -> None:
    """Agents of the hub have lower-case names; `wakeful run --name` takes others, too. Before, the name is unknown."""
    house.write_policy(name)
    assert await reason_of(house, name) is IneligibilityReason.SESSION_NOT_FOUND
    await house.raise_agent(name, "a")
    assert name in house.wakes._targets.names()
    assert await reason_of(house, name) is None


async def test_a_session_is_meant_by_its_id_too(house: HeartbeatFixture) -> None:
    """A watched one is not attachable, an unknown one not found, a path no id."""
    ids = [f"0b7ad3cd-16c1-4a5c-8a9b-7d1f0e2a3b{number}c" for number in range(3)]
    for name in ids[:2]:
        house.start(name)
        house.finish(name)
    assert await reason_of(house, f"claude-{ids[0]}") is IneligibilityReason.SESSION_NOT_ATTACHABLE
    assert await reason_of(house, f"claude-{ids[2]}") is IneligibilityReason.SESSION_NOT_FOUND
    await house.hands.adopt(ids[1])
    house.settle()
    assert await reason_of(house, f"claude-{ids[1]}") is IneligibilityReason.HEARTBEAT_NO_POLICY
    await house.hands.adopt(ids[0], name="fox")
    house.write_policy("fox")
    house.settle()
    woken = await house.wakes.wake(f"claude-{ids[0]}")
    assert (woken.agent, woken.session_id, woken.reason) == ("fox", f"claude-{ids[0]}", None)
    for odd in (f"../claude-{ids[0]}", f"claude-../{ids[0]}", "claude-0b7ad3cd!"):
        with pytest.raises(BadAgentName):
            await house.wakes.wake(odd)


def asked_by(session_id: SessionId, asked: list[str] | None = None) -> Callable[[], Any]:
    async def caller() -> SessionId:
        if asked is not None:
            asked.append(session_id)
        return session_id

    return caller


async def test_nobody_is_looked_up_for_a_wake_that_is_refused(house: HeartbeatFixture) -> None:
    """Who asks takes a walk over processes to know: of a thousand at once one walk is made, and none for a refusal."""
    name = await fox(house)
    asked: list[str] = []
    caller = asked_by(SessionId("claude-another"), asked)
    answers = await asyncio.gather(*(house.wakes.wake("fox", caller=caller) for _ in range(1000)))
    assert (len(asked), sum(each.outcome is WakeOutcome.SENT for each in answers)) == (1, 1)
    house.end_turn(name)
    assert (await house.wakes.wake("fox", caller=caller)).reason is IneligibilityReason.COOLDOWN_ACTIVE
    assert len(asked) == 1


async def test_a_prompt_given_while_the_caller_is_looked_up_goes_first(house: HeartbeatFixture) -> None:
    """The lookup takes a moment, and the prompt is in no log yet: the wake is still skipped."""
    name = await fox(house)
    house.client.writes_late = True

    async def slow() -> None:
        await house.hands.deliver(name, "a person's words")

    assert (
        await house.wakes.wake("fox", caller=slow)
    ).reason is IneligibilityReason.SESSION_PROMPT_ACTIVE_RACE
    assert house.client.prompts == ["a person's words"]


async def test_an_agent_does_not_wake_itself(house: HeartbeatFixture) -> None:
    """Others may be woken by it."""
    name = await fox(house)
    with pytest.raises(WakesItself):
        await house.wakes.wake("fox", caller=asked_by(subject(name).id))
    assert house.audits.last("fox") is None
    answer = await house.wakes.wake("fox", caller=asked_by(SessionId("claude-another")))
    assert answer.outcome is WakeOutcome.SENT
