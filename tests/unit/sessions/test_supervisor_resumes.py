"""Claims about sessions that are resumed: a resume that fails changes nothing, and one that works is seen."""

import pytest
from msgspec.structs import replace

from support.supervisor_claims import codes, come_up, killed_in_a_turn, pass_time, record
from support.supervisor_fixture import SupervisorFixture, subject
from wakeful.core.clock import iso
from wakeful.core.process import Process, ProcessState
from wakeful.judging.events import Prompted
from wakeful.judging.evidence import ClientStatus, DialogKind, Pane
from wakeful.judging.findings import FindingCode, State


def test_a_resume_that_failed_elsewhere_changes_nothing(house: SupervisorFixture) -> None:
    """Its pane stays known, it died when it died; a resume that writes a word is the session's new process."""
    process = house.start("a")
    pane = Pane("/tmp/tmux", "work", "%1", Process(5, 1, "boot"), ProcessState.ALIVE, ProcessState.ALIVE)
    house.supervisor.on_pane(subject("a").id, pane)
    house.work("a")
    pass_time(house, 5)
    house.end(process)
    dead = record(house, "a")
    assert [(each.code, each.since) for each in dead.findings] == [
        (FindingCode.AGENT_EXITED, iso(house.clock.now().wall))
    ]
    pass_time(house, 60)
    failing = resume(house, "a", pane)
    pass_time(house, 1)
    house.end(failing)
    assert (record(house, "a").findings, record(house, "a").alive_to) == (dead.findings, dead.alive_to)
    working = resume(house, "a", pane)
    house.hear("a", Prompted(house.clock.now().wall))
    house.supervisor.on_pane(subject("a").id, replace(pane, sight=ProcessState.DEAD))
    pass_time(house, 1)
    house.end(working)
    assert [(each.code, each.since) for each in record(house, "a").findings] == [
        (FindingCode.SESSION_DEAD, iso(house.clock.now().wall))
    ]


@pytest.mark.parametrize("is_shown", [True, False], ids=["in another pane", "in no pane"])
def test_a_resume_that_fails_beside_a_living_process_takes_no_pane(
    house: SupervisorFixture, *, is_shown: bool
) -> None:
    """Its pane stays the one of the process that lives; a process that stays is shown once the other one ended."""
    first = house.start("a")
    pane = Pane("/tmp/tmux", "work", "%1", Process(5, 1, "boot"), ProcessState.ALIVE, ProcessState.ALIVE)
    elsewhere = Pane("/tmp/tmux", "work", "%2", Process(6, 1, "boot"), ProcessState.ALIVE, ProcessState.ALIVE)
    house.supervisor.on_pane(subject("a").id, pane)
    house.work("a")
    pass_time(house, 5)
    sought = len(house.sought)
    second = Process(900_000, 1, "boot")
    house.supervisor.on_process(subject("a"), second, ProcessState.ALIVE, source="a test")
    house.supervisor.on_pane(
        subject("a").id, elsewhere if is_shown else replace(pane, sight=ProcessState.DEAD)
    )
    house.settle()
    assert house.registry.sessions[subject("a").id].presence.pane == pane
    house.end(second)
    assert house.registry.sessions[subject("a").id].presence.pane == pane
    assert house.sought[sought:] == [subject("a").id] * 2
    house.supervisor.on_process(
        subject("a"), Process(900_001, 1, "boot"), ProcessState.ALIVE, source="a test"
    )
    house.end(first)
    house.supervisor.on_pane(subject("a").id, elsewhere)
    assert house.registry.sessions[subject("a").id].presence.pane == elsewhere


def test_a_resume_that_fails_beside_an_open_question_leaves_it_open(house: SupervisorFixture) -> None:
    """Its client asks the same question as before, so no second alert is sent."""
    process = house.start("a")
    house.work("a")
    house.supervisor.on_process(
        subject("a"),
        process,
        ProcessState.ALIVE,
        source="a test",
        status=ClientStatus.WAITING,
        waiting_for="permission",
    )
    house.settle()
    asked = record(house, "a").expected_waits
    assert record(house, "a").state is State.WAITING
    pass_time(house, 5)
    failing = Process(900_000, 1, "boot")
    house.supervisor.on_process(subject("a"), failing, ProcessState.ALIVE, source="a test")
    house.settle()
    assert (record(house, "a").state, record(house, "a").expected_waits) == (State.WAITING, asked)
    house.end(failing)
    assert (record(house, "a").state, record(house, "a").expected_waits) == (State.WAITING, asked)


def test_a_resume_that_failed_after_a_restart_changes_nothing(house: SupervisorFixture) -> None:
    """The daemon was killed before it could write down that the agent had ended: it died no later for that."""
    process = house.start("a")
    pass_time(house, 5)
    house.work("a")
    kept = house.supervisor.snapshot(subject("a").id)
    assert kept is not None

    after = SupervisorFixture()
    after.clock.advance(60.0)
    after.end(process)
    assert after.supervisor.restore(subject("a"), kept)
    after.settle()
    dead = record(after, "a")
    assert codes(after, "a") == [FindingCode.SESSION_DEAD]
    pane = Pane("/tmp/tmux", "work", "%1", Process(5, 1, "boot"), ProcessState.ALIVE, ProcessState.ALIVE)
    pass_time(after, 60)
    failing = resume(after, "a", pane)
    pass_time(after, 1)
    after.end(failing)
    after.settle()
    assert record(after, "a").findings == dead.findings


def test_a_process_that_worked_beside_another_one_is_no_failed_resume(house: SupervisorFixture) -> None:
    """The older one ended while this one waited for the model: its own death is when it died, and its tools are sought."""
    older = house.start("a")
    pass_time(house, 5)
    newer = Process(9, 9, "boot")
    house.supervisor.on_process(subject("a"), newer, ProcessState.ALIVE, source="a test")
    pass_time(house, 5)
    house.hear("a", Prompted(house.clock.now().wall))
    pass_time(house, 60)
    house.end(older)
    pass_time(house, 60)
    house.end(newer)
    assert [(each.code, each.since) for each in record(house, "a").findings] == [
        (FindingCode.SESSION_DEAD, iso(house.clock.now().wall))
    ]


def resume(house: SupervisorFixture, name: str, pane: Pane) -> Process:
    """A person resumes it elsewhere: its pane does not show that."""
    process = Process(900_000 + int(house.clock.now().awake), 1, "boot")
    house.supervisor.on_process(subject(name), process, ProcessState.ALIVE, source="a test")
    house.settle()
    house.supervisor.on_pane(subject(name).id, replace(pane, sight=ProcessState.DEAD))
    house.settle()
    return process


async def test_a_resumed_session_is_starting_until_its_client_says_what_it_does(
    house: SupervisorFixture,
) -> None:
    """The turn that its predecessor left open is not at work again, and does not end when the client is idle."""
    killed_in_a_turn(house)
    process = come_up(house, 9000)
    assert (record(house, "a").state, record(house, "a").active_prompt) == (State.STARTING, False)
    house.supervisor.on_process(
        subject("a"),
        process,
        ProcessState.ALIVE,
        source="registry",
        status=ClientStatus.IDLE,
        status_wall=house.clock.now().wall,
    )
    house.settle()
    assert record(house, "a").state is State.IDLE
    states = [each.new_state for each in await house.store.transitions(subject("a").id)]
    assert states[-3:] == [State.STOPPED, State.STARTING, State.IDLE]


def test_a_resumed_session_that_says_nothing_is_at_work_and_gets_silent(house: SupervisorFixture) -> None:
    """Clients without a registry show their work in the log; one that writes nothing at all is found."""
    killed_in_a_turn(house)
    come_up(house, 9000)
    pass_time(house, 11)
    assert record(house, "a").state is State.PROMPTING
    pass_time(house, house.policy.silence_seconds)
    assert FindingCode.SILENT in codes(house, "a")


def test_a_second_process_for_a_moment_is_no_twin(house: SupervisorFixture) -> None:
    """A resume that fails elsewhere is registered for a tenth of a second; one that stays is a twin."""
    house.start("a")
    house.finish("a")
    second = come_up(house, 9000)
    pass_time(house, 1)
    assert codes(house, "a") == []
    house.end(second)
    assert (codes(house, "a"), record(house, "a").state) == ([], State.IDLE)
    come_up(house, 9001)
    pass_time(house, 6)
    assert codes(house, "a") == [FindingCode.TWIN_PROCESSES]


@pytest.mark.parametrize("had_pane", [True, False], ids=["one in a pane", "a headless one"])
def test_a_resume_that_is_turned_away_at_its_dialog_leaves_no_pane(
    house: SupervisorFixture, *, had_pane: bool
) -> None:
    """It was shown elsewhere while its dialog was open: the session did not exit to the shell there."""
    process = house.start("a")
    pane = Pane("/tmp/tmux", "work", "%1", Process(5, 1, "boot"), ProcessState.ALIVE, ProcessState.ALIVE)
    elsewhere = Pane("/tmp/tmux", "work", "%2", Process(6, 1, "boot"), ProcessState.ALIVE, ProcessState.ALIVE)
    house.work("a")
    if had_pane:
        house.supervisor.on_pane(subject("a").id, pane)
    pass_time(house, 60)
    house.end(process)
    dead = record(house, "a")
    pass_time(house, 60)
    resumed = Process(900_000, 1, "boot")
    house.supervisor.on_process(subject("a"), resumed, ProcessState.ALIVE, source="a test")
    house.supervisor.on_pane(subject("a").id, elsewhere)
    house.supervisor.on_dialog(subject("a"), resumed, DialogKind.TRUST, "?", cwd="/work")
    house.settle()
    assert record(house, "a").state is State.WAITING
    pass_time(house, 60)
    house.end(resumed)
    house.settle()
    left = record(house, "a")
    assert (left.findings, left.alive_to) == (dead.findings, dead.alive_to)
    assert {each.name: each.argv for each in left.actions} == {each.name: each.argv for each in dead.actions}
