"""Claims about the end of a problem: only a session that was seen at work again is called recovered. Virtual time."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from support.healing_fixture import HealingFixture, die_in_a_turn, opened
from support.supervisor_fixture import BOOT, subject
from wakeful.checkpoints.model import ChoiceName
from wakeful.core.clock import Instant
from wakeful.core.ids import SessionId
from wakeful.core.process import Process, ProcessState
from wakeful.healing.case import HealingCase
from wakeful.healing.case_ending import (
    END_LOGGED_SECONDS,
    END_UNSEEN,
    OPENED_AGAIN,
    RECOVERED,
    UNSEEN,
    CaseEnding,
    ending_of,
)
from wakeful.healing.healer import MISSING_SECONDS
from wakeful.healing.plan import REVIVED_SECONDS
from wakeful.incidents.critical_event import CriticalEventKind
from wakeful.incidents.model import Cause, Incident, counts_text, member_text
from wakeful.incidents.service import REOPEN_SECONDS
from wakeful.judging.activity import Activity
from wakeful.judging.events import Failure, Progressed, Prompted, TurnEnded, TurnInterrupted
from wakeful.judging.evidence import AgentProcess, ClientStatus, DialogKind, RuntimeState
from wakeful.judging.findings import FindingCode, Health
from wakeful.judging.judge import NO_EVIDENCE_VERDICT
from wakeful.judging.turn_state import TurnPhase

A = SessionId("claude-a")


def die_unmanaged(clinic: HealingFixture) -> None:
    process = clinic.start("a")
    clinic.work("a")
    clinic.end(process)


def recoveries(clinic: HealingFixture) -> int:
    return sum(each.event is CriticalEventKind.SESSION_RECOVERED for each in clinic.events)


async def test_a_resume_that_fails_is_no_recovery(clinic: HealingFixture) -> None:
    """A client that lives for two seconds and ends again leaves the incident open, and no end is sent."""
    die_unmanaged(clinic)
    await clinic.clock.run_for(10)
    process = clinic.start("a")
    await clinic.clock.run_for(2)
    clinic.end(process)
    await clinic.clock.run_for(2 * REOPEN_SECONDS)
    (incident,) = await clinic.incidents.list_incidents()
    assert incident.sessions == (A,)
    assert recoveries(clinic) == 0
    assert len(clinic.recorder.said) == 1


async def test_a_session_that_was_opened_again_is_recovered_when_it_works(clinic: HealingFixture) -> None:
    """Idle for minutes: its incident is closed and says why. At work: the event is written, once."""
    die_unmanaged(clinic)
    await clinic.clock.run_for(10)
    clinic.start("a")
    await clinic.clock.run_for(3 * REOPEN_SECONDS)
    assert recoveries(clinic) == 0
    (incident,) = await clinic.incidents.list_incidents(include_resolved=True)
    assert member_text(incident.members[0]) == "closed: it was opened again, and nothing has run in it since"
    clinic.hear("a", Progressed(clinic.wall()))
    await clinic.clock.run_for(10)
    assert recoveries(clinic) == 1
    assert clinic.recorder.said[-1].startswith("Closed: shop")


async def test_a_revived_session_is_recovered_when_it_works(clinic: HealingFixture) -> None:
    """Nothing changes for those that were brought back: one event, and Resolved."""
    await die_in_a_turn(clinic)
    await clinic.clock.run_for(10)
    clinic.hear("a", TurnEnded(clinic.wall()))
    await clinic.clock.run_for(2 * REOPEN_SECONDS)
    assert recoveries(clinic) == 1
    assert clinic.recorder.said[-1].startswith("Resolved: shop")


async def test_a_session_that_vanishes_closes_its_incident_at_once(clinic: HealingFixture) -> None:
    """Its log was removed: no event of a recovery, and the alert of the end says that it is gone."""
    process = clinic.start("a")
    clinic.fail("a")
    await clinic.clock.run_for(10)
    clinic.forget("a", process)
    await clinic.clock.run_for(1)
    assert await clinic.incidents.list_incidents() == []
    await clinic.clock.run_for(REOPEN_SECONDS)
    assert recoveries(clinic) == 0
    assert clinic.recorder.said[-1].startswith(
        "Closed: claude fails to answer: 1 session, 1: its session is gone"
    )


async def test_a_session_that_vanished_while_wakeful_was_away_closes_its_incident() -> None:
    """The next daemon does not find it, waits a minute for containers, and closes the incident."""
    async with opened() as clinic:
        die_unmanaged(clinic)
        await clinic.clock.run_for(10)
    del clinic.registry.sessions[A]
    clinic.build()
    async with clinic.open():
        await clinic.clock.run_for(MISSING_SECONDS - 10)
        assert len(await clinic.incidents.list_incidents()) == 1
        await clinic.clock.run_for(20)
        assert await clinic.incidents.list_incidents() == []
        await clinic.clock.run_for(REOPEN_SECONDS)
    assert recoveries(clinic) == 0
    assert clinic.recorder.said[-1].startswith("Closed: shop: died in the middle of a turn")


async def test_a_session_whose_process_is_gone_is_not_well_again(clinic: HealingFixture) -> None:
    """A login that failed, and its terminal closed long after: the incident says that the process is gone."""
    process = clinic.start("a")
    clinic.fail("a", "please log in", Failure.AUTH)
    await clinic.clock.run_for(100)
    clinic.end(process)
    await clinic.clock.run_for(10)
    (incident,) = await clinic.incidents.list_incidents(include_resolved=True)
    assert not incident.is_open
    assert member_text(incident.members[0]) == "closed: its process is gone"
    assert recoveries(clinic) == 0


def test_what_nobody_sees_any_more_is_not_well_again() -> None:
    """A finding that disappears because its session is unknown is no recovery."""
    case = HealingCase(
        session_id=A, work="w", project="shop", code=FindingCode.LOOP, opened_at=0.0, code_since=0.0
    )
    ending = ending_of(case, NO_EVIDENCE_VERDICT, Activity(), RuntimeState(), Instant(1.0, 1.0))
    assert ending == CaseEnding(UNSEEN)


def test_a_process_that_only_came_up_ends_no_problem() -> None:
    """A person replaced a silent client, and the new one wrote nothing yet, although its finding is gone."""
    old = AgentProcess(
        Process(1, 1, BOOT), ProcessState.DEAD, Instant(1.0, 1.0), "a test", ended_at=Instant(700.0, 700.0)
    )
    new = AgentProcess(Process(2, 1, BOOT), ProcessState.ALIVE, Instant(701.0, 701.0), "a test")
    activity = Activity(phase=TurnPhase.TOOL, last_at=Instant(10.0, 10.0))
    alive = replace(NO_EVIDENCE_VERDICT, health=Health.HEALTHY, agent=ProcessState.ALIVE)
    case = HealingCase(
        session_id=A, work="w", project="shop", code=FindingCode.SILENT, opened_at=600.0, code_since=600.0
    )
    ending = ending_of(case, alive, activity, RuntimeState(holders={1: old, 2: new}), Instant(711.0, 711.0))
    assert ending == CaseEnding(OPENED_AGAIN, REVIVED_SECONDS - 10.0)
    activity.last_at = Instant(705.0, 705.0)
    assert (
        ending_of(case, alive, activity, RuntimeState(holders={1: old, 2: new}), Instant(711.0, 711.0))
        == RECOVERED
    )


async def test_after_an_abort_nothing_is_well_again(clinic: HealingFixture) -> None:
    """A person aborted what was held: no recovered event, no Resolved, and the end says who did it."""
    await die_in_a_turn(clinic, command="git push origin main")
    await clinic.clock.run_for(10)
    (checkpoint,) = await clinic.checkpoints.list_checkpoints(everything=False)
    await clinic.checkpoints.decide(checkpoint.number, ChoiceName.ABORT, "ada")
    await clinic.clock.run_for(2 * REOPEN_SECONDS)
    assert await clinic.incidents.list_incidents() == []
    assert recoveries(clinic) == 0
    held, over = clinic.recorder.said
    assert "needs you" in held or "No action: an interrupted call" in held
    assert over.startswith("Closed: shop")
    assert "a person stopped it" in over or "aborted by ada" in over


def test_an_incident_counts_each_ending_apart() -> None:
    """Two recovered, one stopped, one gone: only those seen healthy count as recovered."""
    incident = Incident("i-1", Cause.NETWORK, "tower", 0.0, 0.0, None, (), "no route")
    for name in "abcd":
        incident = incident.with_session(subject(name).id, 0.0, name)
    for name, ended in (("a", ""), ("b", ""), ("c", "a person stopped it"), ("d", "its process is gone")):
        incident = incident.with_session_left(subject(name).id, 1.0, ended)
    assert counts_text(incident) == "4 sessions, 2 recovered, 1: a person stopped it, 1: its process is gone"
    assert not incident.is_well


def open_login_on_screen(clinic: HealingFixture, process: Process) -> None:
    clinic.supervisor.on_dialog(subject("a"), process, DialogKind.LOGIN, "Select login method:", cwd=None)
    clinic.settle()


def report_status(clinic: HealingFixture, process: Process, status: ClientStatus) -> None:
    clinic.supervisor.on_process(
        subject("a"),
        process,
        ProcessState.ALIVE,
        source="a test",
        status=status,
        status_wall=clinic.wall(),
    )
    clinic.settle()


def open_login_by_status(clinic: HealingFixture, process: Process) -> None:
    report_status(clinic, process, ClientStatus.WAITING)


@pytest.mark.parametrize("open_login", [open_login_on_screen, open_login_by_status])
@pytest.mark.parametrize("failure", [Failure.AUTH, Failure.PROVIDER, Failure.LIMIT])
async def test_a_dialog_over_a_failed_turn_is_no_recovery(
    open_login: Callable[[HealingFixture, Process], None], failure: Failure, clinic: HealingFixture
) -> None:
    """A person opens the login that is missing: the incident stays open until a turn works."""
    process = clinic.start("a")
    clinic.fail("a", "please log in", failure)
    await clinic.clock.run_for(10)
    open_login(clinic, process)
    await clinic.clock.run_for(2 * REOPEN_SECONDS)
    (incident,) = await clinic.incidents.list_incidents()
    assert incident.sessions == (A,)
    assert recoveries(clinic) == 0
    assert len(clinic.recorder.said) == 1
    clinic.supervisor.on_dialog_closed(process)
    clinic.finish("a")
    await clinic.clock.run_for(2 * REOPEN_SECONDS)
    assert await clinic.incidents.list_incidents() == []
    assert recoveries(clinic) == 1


@pytest.mark.parametrize("idle_seconds", [None, 0.2])
async def test_an_interrupted_turn_is_not_well_again(
    idle_seconds: float | None, clinic: HealingFixture
) -> None:
    """A person presses Escape in a turn that hangs: it neither worked nor ended well, and the alert says so.

    The client may report itself idle before its log says how the turn ended.
    """
    process = clinic.start("a")
    clinic.hear("a", Prompted(clinic.wall()))
    await clinic.clock.run_for(700)
    assert len(await clinic.incidents.list_incidents()) == 1
    if idle_seconds is not None:
        report_status(clinic, process, ClientStatus.IDLE)
        await clinic.clock.run_for(idle_seconds)
    # The client writes what had arrived of the answer.
    clinic.hear("a", Progressed(clinic.wall()), TurnInterrupted(clinic.wall()))
    await clinic.clock.run_for(2 * REOPEN_SECONDS)
    (incident,) = await clinic.incidents.list_incidents(include_resolved=True)
    assert not incident.is_open
    assert member_text(incident.members[0]) == "closed: its turn was interrupted"
    assert recoveries(clinic) == 0
    assert clinic.recorder.said[-1].startswith("Closed: shop")


async def test_an_idle_client_whose_log_does_not_end_the_turn_is_not_well_again(
    clinic: HealingFixture,
) -> None:
    """Nothing more is written: the incident is closed after a while, and says that the end was not seen."""
    process = clinic.start("a")
    clinic.hear("a", Prompted(clinic.wall()))
    await clinic.clock.run_for(700)
    report_status(clinic, process, ClientStatus.IDLE)
    await clinic.clock.run_for(END_LOGGED_SECONDS - 1)
    assert len(await clinic.incidents.list_incidents()) == 1
    await clinic.clock.run_for(2)
    (incident,) = await clinic.incidents.list_incidents(include_resolved=True)
    assert member_text(incident.members[0]) == f"closed: {END_UNSEEN}"
    assert recoveries(clinic) == 0
