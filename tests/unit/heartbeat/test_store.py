"""Claims about what is kept of waking: snapshots of a policy, the trail of decisions, and what `inspect` makes of them."""

import errno
import os

import msgspec
import pytest
from msgspec.structs import replace

from support.heartbeat_fixture import GUIDANCE, QUIET_NOW, HeartbeatFixture, fox, reason_of
from support.supervisor_fixture import subject
from wakeful.cli.commands.heartbeat import status_lines
from wakeful.judging.wake_eligibility import IneligibilityReason


async def test_an_invalid_file_names_its_line_and_keeps_the_last_good_snapshot(
    house: HeartbeatFixture,
) -> None:
    """Waking stops until it is mended; a deleted file is no policy; health is what it was all along."""
    name = await fox(house)
    before = house.registry.sessions[subject(name).id].record
    good = (await house.wakes.status("fox")).policy_snapshot
    path = house.write_policy("fox", "enabled: true", "leases: 3")
    status = await house.wakes.status("fox")
    assert status.policy_problem is not None
    assert (status.policy_problem.file, status.policy_problem.line) == (str(path), 3)
    assert f"{path}:3" in (await house.wakes.wake("fox")).words
    assert status.policy_snapshot == good
    assert "  policy: invalid; the last valid snapshot was hb-" in "\n".join(status_lines(status))
    elsewhere = replace(
        status, ineligibility_reason=IneligibilityReason.SESSION_NOT_FOUND, words="no session"
    )
    assert f"  {path}:3: " in "\n".join(status_lines(elsewhere)), "another reason does not hide it"
    path.unlink()
    assert await reason_of(house) is IneligibilityReason.HEARTBEAT_NO_POLICY
    house.build()
    await house.wakes.restore()
    assert (await house.wakes.status("fox")).policy_snapshot == good
    assert house.registry.sessions[subject(name).id].record is before


async def test_what_a_file_says_leaves_redacted_and_marked(house: HeartbeatFixture) -> None:
    """Its author may be an agent: no interface shows a secret in it, and its text is only under `untrusted`."""
    secret = "sk-ant-api03-" + "B" * 80
    name = await fox(house, f"summary: key {secret}")
    body = msgspec.json.encode(await house.wakes.status("fox")) + house.desk.inspect(name).body
    assert b"BBBB" not in body
    assert GUIDANCE.encode() not in body
    assert b'"untrusted":"key' in body
    house.write_policy("fox", f"preferences: {{min_interval: {secret}}}")
    answer = await house.wakes.wake("fox")
    assert answer.reason is IneligibilityReason.HEARTBEAT_INVALID
    assert "BBBB" not in answer.words


async def test_equal_refusals_are_one_entry_that_counts(house: HeartbeatFixture) -> None:
    """A request in a loop fills no disk; another reason is another entry."""
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
    assert (newest.reason, newest.count) == (IneligibilityReason.SESSION_PROMPT_ACTIVE, 1)
    assert (before.reason, before.count) == (IneligibilityReason.QUIET_WINDOW, 50)
    assert len(await house.store.notes("wake")) == 2
    house.clock.advance(5 * 86_400.0)
    await reason_of(house)
    house.clock.advance(5 * 86_400.0)
    await house.audits.forget_old()
    (kept,) = house.audits.of("fox")
    assert (kept.reason, kept.count) == (IneligibilityReason.SESSION_PROMPT_ACTIVE, 2), (
        "its newest is five days old"
    )
    house.clock.advance(8 * 86_400.0)
    await house.audits.forget_old()
    assert await house.store.notes("wake") == []


async def test_inspect_correlates_policy_wake_state_and_audit(house: HeartbeatFixture) -> None:
    """A managed session shows what the wake service knows of it, with a name or without; a found one shows nothing."""
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


async def test_inspect_tells_of_this_session(house: HeartbeatFixture) -> None:
    """Of an agent with several the wake service means one; each of them is shown as it is itself."""
    house.write_policy("fox")
    old = await house.raise_agent("fox", "old")
    house.clock.advance(5.0)
    new = await house.raise_agent("fox", "new")
    house.work(new)
    shown = [msgspec.json.decode(house.desk.inspect(each).body)["wake_reason"] for each in (old, new)]
    assert shown == [None, "session_prompt_active"]


async def test_a_file_that_could_not_be_read_once_is_read_again(
    monkeypatch: pytest.MonkeyPatch, house: HeartbeatFixture
) -> None:
    """A machine without a free descriptor is not a wrong file."""

    def refuse(*_words: object) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    await fox(house)
    with monkeypatch.context() as world:
        world.setattr("wakeful.heartbeat.file.os.open", refuse)
        answer = await house.wakes.wake("fox")
    assert (answer.reason, "Too many open files" in answer.words) == (
        IneligibilityReason.HEARTBEAT_INVALID,
        True,
    )
    assert await reason_of(house) is None


async def test_a_session_of_the_hubs_is_reached_by_its_agent(house: HeartbeatFixture) -> None:
    """A watched session is out of reach; once its agent is known, it is managed and can be woken."""
    house.start("a")
    house.finish("a")
    session = house.registry.sessions[subject("a").id]
    assert session.record is not None
    assert (session.record.agent, session.record.attachable) == (None, False)
    house.supervisor.set_agent(subject("a").id, "fox")
    house.settle()
    record = session.record
    assert (record.agent, record.attachable, record.managed) == ("fox", True, True)
    assert record.eligible_for_wake
