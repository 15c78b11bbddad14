"""Claims about healing: one revival, never a double effect, one alert for each incident. Virtual time."""

import asyncio
from collections.abc import Callable, Mapping

import pytest
from msgspec.structs import replace

from support.healing_fixture import (
    OWN_TMUX,
    FakeIssueTracker,
    HealingFixture,
    die_in_a_turn,
    opened,
    written,
)
from support.supervisor_fixture import BOOT, subject
from wakeful.control.briefs import PROMPT_FOLLOWS
from wakeful.control.driver import ActionResult, OnStarted, StartRequest, ignore_start
from wakeful.control.ownership import NotManaged
from wakeful.control.person_stops import STOP_SECONDS_MAX
from wakeful.control.start import RunRequest
from wakeful.core.ids import SessionId, agent_member_id
from wakeful.core.managed_session import SESSION_VARIABLE, ManagedSession
from wakeful.core.process import Process, ProcessState
from wakeful.healing.closed_sessions import CONFIRM_SECONDS, FailedStopDetector, UserCloseDetector
from wakeful.healing.healer import ApprovalRequired
from wakeful.healing.plan import HealingRules
from wakeful.healing.restore import NotLost
from wakeful.incidents.critical_event import ActionTaken, CriticalEventKind
from wakeful.incidents.issue_tracker import FilingResult, IssueReport
from wakeful.incidents.model import Cause, MemberStatus, Origin, summary_of
from wakeful.incidents.service import REOPEN_SECONDS
from wakeful.judging.events import (
    CallEnded,
    CallStarted,
    Failure,
    Progressed,
    Prompted,
    TurnEnded,
    TurnFailed,
)
from wakeful.storage.base import ActionOutcome

A = SessionId("claude-a")


async def test_a_death_in_the_middle_of_a_turn_is_revived_once() -> None:
    """Resumed with a brief that names what was cut off; one line, one issue, one alert, and its end."""
    notary = FakeIssueTracker()
    async with opened(forge=notary) as clinic:
        await die_in_a_turn(clinic)
        await clinic.clock.run_for(2)
        assert clinic.living.acts == []
        await clinic.clock.run_for(2)
        assert clinic.living.acts == ["start"]
        clinic.hear("a", TurnEnded(clinic.wall()))
        await clinic.clock.run_for(150)
    (prompt,) = clinic.living.prompts
    assert "`make test`" in prompt
    assert "https://forge.example/shop/1" in prompt
    assert written(clinic) == [
        (CriticalEventKind.SESSION_UNHEALTHY, ActionTaken.REVIVAL_ATTEMPTED),
        (CriticalEventKind.SESSION_RECOVERED, ActionTaken.NONE),
    ]
    assert clinic.events[0].github_issue == "https://forge.example/shop/1"
    assert len(notary.reports) == 1
    told, over = clinic.recorder.said
    assert told.startswith("shop: died in the middle of a turn (session_dead)")
    assert "resumed its conversation" in told
    assert over.startswith("Resolved")
    assert clinic.healer.case_of(A) is None


async def test_a_second_failure_of_the_same_work_is_given_up(clinic: HealingFixture) -> None:
    """No second revival, whatever happens and however long it lasts."""
    clinic.living.dies_at_once = True
    await die_in_a_turn(clinic)
    await clinic.clock.run_for(3600)
    assert clinic.living.acts == ["start"]
    assert (CriticalEventKind.REVIVAL_FAILED, ActionTaken.NONE) in written(clinic)
    assert "gave up" in clinic.recorder.said[-1]


async def test_another_work_has_another_budget(clinic: HealingFixture) -> None:
    """After a turn that ended well, a death in the next one is revived again."""
    await die_in_a_turn(clinic)
    await clinic.clock.run_for(10)
    clinic.hear("a", TurnEnded(clinic.wall()))
    await clinic.clock.run_for(10)
    clinic.work("a", "make test")
    (process,) = clinic.registry.find("a").presence.living_processes
    clinic.end(process.process)
    await clinic.clock.run_for(10)
    assert clinic.living.acts == ["start", "start"]


async def test_a_found_session_is_told_about_and_not_touched(clinic: HealingFixture) -> None:
    """The alert ends with the command that adopts it."""
    process = clinic.start("a")
    clinic.work("a")
    clinic.end(process)
    await clinic.clock.run_for(3600)
    assert clinic.living.acts == []
    (told,) = clinic.recorder.said
    assert told.splitlines()[-1] == "→ wakeful adopt claude-a"


async def test_what_runs_on_another_machine_is_no_problem_here(clinic: HealingFixture) -> None:
    """No incident, no alert, no action, although its process is not here."""
    clinic.supervisor.set_elsewhere({A: "tower"}, ())
    process = clinic.start("a")
    clinic.work("a", "make test")
    clinic.end(process)
    await clinic.clock.run_for(600)
    verdict = clinic.registry.find("a").verdict
    assert verdict is not None
    assert [each.code for each in verdict.findings] == ["runs_elsewhere"]
    assert clinic.living.acts == []
    assert await clinic.incidents.list_incidents(include_resolved=True) == []
    assert clinic.recorder.said == []


async def test_a_problem_that_is_another_machine_s_is_over_here(clinic: HealingFixture) -> None:
    """A shared home shows a log before the store says whose it is."""
    process = clinic.start("a")
    clinic.work("a", "make test")
    clinic.end(process)
    await clinic.clock.run_for(1)
    clinic.supervisor.set_elsewhere({A: "tower"}, ())
    clinic.settle()
    await clinic.clock.run_for(600)
    assert clinic.living.acts == []
    assert await clinic.incidents.list_incidents() == []
    assert "runs on another machine: tower" in clinic.recorder.said[-1]


async def test_a_call_that_probably_asks_is_no_trouble(clinic: HealingFixture) -> None:
    """For a day: no interrupt, no revival, no incident, and no alert about a problem."""
    await clinic.manage("a")
    at, given = clinic.wall(), b'{"command": "git push"}'
    call = CallStarted(
        at, "c", "Bash", input=given, timeout_seconds=120.0, enforced=True, limit_seconds=120.0
    )
    clinic.hear("a", Prompted(at), call)
    await clinic.clock.run_for(86_400)
    assert await clinic.incidents.list_incidents(include_resolved=True) == []
    clinic.hear("a", CallEnded(clinic.wall(), "c", result=b"pushed"), TurnEnded(clinic.wall()))
    await clinic.clock.run_for(60)
    assert (clinic.living.acts, written(clinic), clinic.recorder.said) == ([], [], [])


async def test_a_resume_that_failed_elsewhere_recovers_nothing(clinic: HealingFixture) -> None:
    """One line and one alert for the death, and no more while it stays dead; a resume that works ends it."""
    process = clinic.start("a")
    clinic.work("a")
    await clinic.clock.run_for(5)
    clinic.end(process)
    await clinic.clock.run_for(60)
    for pid in (901, 902):
        failing = clinic.start_again("a", pid)
        await clinic.clock.run_for(2)
        clinic.end(failing)
        await clinic.clock.run_for(60)
    assert written(clinic) == [(CriticalEventKind.SESSION_UNHEALTHY, ActionTaken.NONE)]
    clinic.start_again("a", 903)
    clinic.hear("a", Prompted(clinic.wall()), TurnEnded(clinic.wall()))
    await clinic.clock.run_for(150)
    assert written(clinic)[1:] == [(CriticalEventKind.SESSION_RECOVERED, ActionTaken.NONE)]
    assert len(clinic.recorder.said) == 2


async def test_a_call_elsewhere_holds_the_revival_until_a_person_says_yes(clinic: HealingFixture) -> None:
    """Nothing is spent or done before; afterwards it is revived once."""
    await die_in_a_turn(clinic, command="git push origin main")
    await clinic.clock.run_for(3600)
    assert clinic.living.acts == []
    with pytest.raises(ApprovalRequired, match="git push origin main"):
        await clinic.healer.revive("a", approved=False)
    record = await clinic.healer.revive("a", approved=True)
    assert record.outcome is ActionOutcome.CONFIRMED
    assert clinic.living.acts == ["start"]
    assert written(clinic)[0] == (CriticalEventKind.SESSION_UNHEALTHY, ActionTaken.HELD_FOR_APPROVAL)
    assert "wakeful checkpoint show 1" in clinic.recorder.said[0]


@pytest.mark.parametrize("command", ["git push origin main", "make test"])
async def test_a_yes_that_comes_first_is_heard(command: str, clinic: HealingFixture) -> None:
    """Approved before the healer has seen the death: it is resumed at once, without a question."""
    await die_in_a_turn(clinic, command=command)
    assert clinic.healer.case_of(subject("a").id) is None
    record = await clinic.healer.revive("a", approved=True, by="ann")
    assert record.outcome is ActionOutcome.CONFIRMED
    await clinic.clock.run_for(60)
    assert clinic.living.acts == ["start"]
    assert written(clinic)[0] == (CriticalEventKind.SESSION_UNHEALTHY, ActionTaken.REVIVAL_ATTEMPTED)
    assert "checkpoint" not in "".join(clinic.recorder.said)


async def test_a_silent_agent_is_seen_dead_before_the_next_one_starts(clinic: HealingFixture) -> None:
    """Stop first, then resume in the same conversation."""
    await clinic.manage("a")
    clinic.hear("a", Prompted(clinic.wall()))
    await clinic.clock.run_for(700)
    assert clinic.living.acts == ["stop", "start"]
    assert clinic.events[0].reason == "silent_for_10_minutes"
    # It never called a tool: its prompt is none.
    assert (clinic.events[0].details["last_tool_call"], clinic.events[0].details["tool_count"]) == (None, 0)


async def test_an_agent_that_cannot_be_stopped_gets_no_twin(clinic: HealingFixture) -> None:
    """Without the old owner's death nothing is started, and the outcome says so."""
    clinic.living.outcome = ActionOutcome.INEFFECTIVE
    await clinic.manage("a")
    clinic.hear("a", Prompted(clinic.wall()))
    await clinic.clock.run_for(800)
    assert clinic.living.acts == ["stop"]
    (told,) = clinic.recorder.said
    assert "no effect" in told
    assert "then gave up" in told


class SlowIssueTracker(FakeIssueTracker):
    """While it files, the world goes on."""

    def __init__(self, meanwhile: Callable[[], None]) -> None:
        super().__init__()
        self._meanwhile = meanwhile

    async def file(self, report: IssueReport) -> FilingResult:
        self._meanwhile()
        return await super().file(report)


async def test_whoever_lives_again_by_then_is_not_replaced() -> None:
    """A person resumed it while its issue was filed: the new process is neither stopped nor started again."""
    house: list[HealingFixture] = []

    def meanwhile() -> None:
        (clinic,) = house
        clinic.come_up("a", Process(900_001, 1, BOOT))
        clinic.hear("a", Prompted(clinic.wall()))

    async with opened(forge=SlowIssueTracker(meanwhile)) as clinic:
        house.append(clinic)
        await die_in_a_turn(clinic)
        await clinic.clock.run_for(60)
    assert clinic.living.acts == []
    assert written(clinic) == []


async def test_what_cannot_be_done_is_said_once_and_tried_on(clinic: HealingFixture) -> None:
    """An unseen process holds its conversation for an hour: one line, one alert; then it is revived, as one attempt."""
    clinic.world.marks[SESSION_VARIABLE, "claude-a"] = [Process(4242, 1, BOOT)]
    await die_in_a_turn(clinic)
    await clinic.clock.run_for(3600)
    assert written(clinic) == [(CriticalEventKind.SESSION_UNHEALTHY, ActionTaken.NONE)]
    (told,) = clinic.recorder.said
    assert "Action: could not resume its conversation: process 4242" in told
    assert "Until you act: Wakeful retries by itself" in told
    (incident,) = await clinic.incidents.list_incidents()
    assert [each.fate for each in incident.members] == [MemberStatus.LEFT_ALONE]
    clinic.world.marks.clear()
    await clinic.clock.run_for(60)
    clinic.answer("a")
    await clinic.clock.run_for(60)
    assert clinic.living.acts == ["start"]
    assert written(clinic) == [
        (CriticalEventKind.SESSION_UNHEALTHY, ActionTaken.NONE),
        (CriticalEventKind.SESSION_UNHEALTHY, ActionTaken.REVIVAL_ATTEMPTED),
        (CriticalEventKind.SESSION_RECOVERED, ActionTaken.NONE),
    ]


async def test_a_loop_gets_a_word_before_it_is_cut_short(clinic: HealingFixture) -> None:
    """Prompted once; two minutes later interrupted and prompted again."""
    await clinic.manage("a")
    clinic.living.outcome = ActionOutcome.DECLINED
    clinic.hear("a", Prompted(clinic.wall()))
    for number in range(8):
        call = CallStarted(clinic.wall(), f"c{number}", "Bash", input=b'{"command": "make"}')
        clinic.hear("a", call, CallEnded(clinic.wall(), f"c{number}", is_error=False, result=b"same"))
    await clinic.clock.run_for(10)
    assert clinic.living.prompts[0].startswith("Wakeful: you repeat")
    assert all(act.startswith("deliver") for act in clinic.living.acts)


async def test_a_failed_turn_of_a_living_agent_goes_on_by_a_word(clinic: HealingFixture) -> None:
    """No process is replaced where a prompt is enough."""
    await clinic.manage("a")
    clinic.fail("a")
    await clinic.clock.run_for(10)
    assert [act.partition(" ")[0] for act in clinic.living.acts] == ["deliver"]


@pytest.mark.parametrize("is_logged", [True, False])
async def test_who_has_a_new_prompt_is_not_told_that_the_turn_before_failed(
    clinic: HealingFixture, is_logged: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The healer waited until a person's prompt was given: its own would be another turn, with another answer."""
    await clinic.manage("a")
    healers = clinic.living.deliver

    async def deliver(
        hosting: ManagedSession, prompt: str, environ: Mapping[str, str] | None = None
    ) -> ActionResult:
        if prompt != "mine":
            return await healers(hosting, prompt, environ)
        await clinic.clock.sleep(10)
        if is_logged:
            clinic.prompted("a", prompt)
        return ActionResult(ActionOutcome.CONFIRMED, "sent")

    monkeypatch.setattr(clinic.living, "deliver", deliver)
    clinic.fail("a")
    await clinic.clock.run_for(1)
    asked = asyncio.create_task(clinic.hands.deliver("a", "mine"))
    await clinic.clock.run_for(60)
    assert (await asked).outcome is ActionOutcome.CONFIRMED
    assert clinic.living.prompts == []


@pytest.mark.parametrize("failure", [Failure.PROVIDER, Failure.LIMIT])
async def test_a_failed_turn_whose_user_was_told_is_not_continued(
    clinic: HealingFixture, failure: Failure
) -> None:
    """Its user repeats the message, so the work would be done twice; the next turn is healed as every other."""
    await clinic.manage("a")
    until = clinic.wall() + 60 if failure is Failure.LIMIT else None
    clinic.hear("a", Prompted(clinic.wall()), TurnFailed(clinic.wall(), failure, "failed", until=until))
    left = await clinic.healer.leave_to_user("a")
    assert left.outcome is ActionOutcome.CONFIRMED
    await clinic.clock.run_for(600)
    assert clinic.living.prompts == []
    case = clinic.trouble_of(A)
    assert case is not None
    assert "its chat was told that this turn failed" in case.did
    await clinic.hands.deliver("a", "again")
    clinic.fail("a")
    await clinic.clock.run_for(60)
    assert [each.partition(":")[0] for each in clinic.living.prompts] == ["again", "Wakeful"]


async def test_a_failure_is_left_to_its_user_before_its_log_shows_it(clinic: HealingFixture) -> None:
    """The gateway reads the stream, which can be ahead of the log."""
    await clinic.manage("a")
    clinic.hear("a", Prompted(clinic.wall()))
    assert (await clinic.healer.leave_to_user("a")).outcome is ActionOutcome.CONFIRMED
    clinic.hear("a", TurnFailed(clinic.wall(), Failure.PROVIDER, "overloaded"))
    await clinic.clock.run_for(60)
    assert clinic.living.prompts == []


async def test_a_dead_turn_whose_user_was_told_is_not_resumed(clinic: HealingFixture) -> None:
    """It did not come back in time: the end of the pause does not bring it back either, and a person still may."""
    await clinic.calm.pause("ada")
    await die_in_a_turn(clinic)
    await clinic.clock.run_for(180)
    assert (await clinic.healer.leave_to_user("a")).outcome is ActionOutcome.CONFIRMED
    await clinic.calm.resume()
    clinic.healer.recheck_all()
    await clinic.clock.run_for(60)
    assert "start" not in [act for act, _ in clinic.living.asked]
    assert (await clinic.healer.revive("a", approved=True)).outcome is ActionOutcome.CONFIRMED


async def test_whoever_was_told_to_write_again_is_waited_for_after_a_resume(clinic: HealingFixture) -> None:
    """A chat message resumes the conversation first: its brief names what was interrupted, and goes on with nothing."""
    await clinic.calm.pause("ada")
    await die_in_a_turn(clinic)
    await clinic.clock.run_for(180)
    await clinic.healer.leave_to_user("a")
    await clinic.hands.resume("a", prompt_follows=True)
    (brief,) = clinic.living.prompts
    assert "make test" in brief
    assert brief.endswith(PROMPT_FOLLOWS)


async def test_a_poisoned_conversation_is_replaced_and_its_user_waited_for(clinic: HealingFixture) -> None:
    """It fails with every prompt, so the next message needs another one, which must not do the work beforehand."""
    await clinic.manage("a")
    for _ in range(4):
        clinic.fail("a", "it cannot be", Failure.REQUEST)
        await clinic.healer.leave_to_user("a")
        await clinic.clock.run_for(30)
    (brief,) = clinic.living.prompts
    assert "you take its place" in brief
    assert brief.endswith(PROMPT_FOLLOWS)


async def test_what_was_continued_or_waits_for_a_person_is_not_left_to_its_user(
    clinic: HealingFixture,
) -> None:
    """Its user must not be asked to repeat it; what failed again after that is."""
    await clinic.manage("a")
    clinic.fail("a")
    await clinic.clock.run_for(10)
    left = await clinic.healer.leave_to_user("a")
    assert (left.outcome, "sent a prompt to continue" in left.words) == (ActionOutcome.DECLINED, True)
    clinic.hear("a", TurnFailed(clinic.wall(), Failure.PROVIDER, "overloaded"))
    assert (await clinic.healer.leave_to_user("a")).outcome is ActionOutcome.CONFIRMED
    await die_in_a_turn(clinic, "b", "git push origin main")
    await clinic.clock.run_for(10)
    assert (await clinic.healer.leave_to_user("b")).outcome is ActionOutcome.DECLINED


@pytest.mark.parametrize("is_prompted", [True, False])
async def test_a_dead_turn_with_a_newer_prompt_is_not_resumed(
    clinic: HealingFixture, is_prompted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process for each turn: the healer's own would truncate the output of the one that the prompt had."""
    clinic.living.name, clinic.living.per_turn = "codex", True

    async def deliver(*_: object) -> ActionResult:
        await clinic.clock.sleep(10)
        return ActionResult(ActionOutcome.CONFIRMED, "sent")

    monkeypatch.setattr(clinic.living, "deliver", deliver)
    process = await clinic.manage("codex-a")
    clinic.work("codex-a")
    clinic.end(process)
    await clinic.clock.run_for(1)
    asked = asyncio.create_task(clinic.hands.deliver("codex-a", "mine")) if is_prompted else None
    await clinic.clock.run_for(60)
    assert asked is None or (await asked).outcome is ActionOutcome.CONFIRMED
    assert ("start" in [act for act, _ in clinic.living.asked]) is not is_prompted


async def test_many_turns_that_fail_for_one_reason_are_one_incident_and_one_alert() -> None:
    """Six sessions without a login: one message, and no action."""
    notary = FakeIssueTracker()
    async with opened(forge=notary) as clinic:
        for name in "abcdef":
            await clinic.manage(name)
            clinic.fail(name, "please log in", Failure.AUTH)
        await clinic.clock.run_for(600)
        (incident,) = await clinic.incidents.list_incidents()
        assert (incident.cause, incident.affected) == (Cause.AUTH, 6)
    assert (clinic.living.acts, len(notary.reports), len(clinic.recorder.said)) == ([], 1, 1)
    assert {each.github_issue for each in clinic.events} == {"https://forge.example/shop/1"}


async def test_a_dead_tmux_server_brings_six_back_with_one_alert(clinic: HealingFixture) -> None:
    """In a turn or idle, each returns to its conversation; found ones are left alone."""
    processes = {}
    for name in "abcdef":
        processes[name] = await clinic.manage(name)
        clinic.show(name, processes[name])
    for name in "xy":
        processes[name] = clinic.start(name)
        clinic.show(name, processes[name])
    for name in "abcx":
        clinic.work(name)
    for name in "defy":
        clinic.finish(name)
    for name, process in processes.items():
        clinic.show(name, process, runtime=ProcessState.DEAD)
        clinic.end(process)
    await clinic.clock.run_for(5)
    for name in "abc":
        clinic.answer(name)
    await clinic.clock.run_for(60)
    (incident,) = await clinic.incidents.list_incidents(include_resolved=True)
    assert (incident.cause, incident.scope) == (Cause.TMUX_SERVER, OWN_TMUX)
    assert clinic.living.acts == ["start"] * 6
    assert len(clinic.living.prompts) == 3
    (told,) = [each for each in clinic.recorder.said if not each.startswith("Resolved")]
    assert ": 1 session affected, 6 recovered" in told
    assert "resumed 6 sessions, all recovered" in told


async def test_an_agent_of_the_hub_and_its_session_count_once_in_an_incident(clinic: HealingFixture) -> None:
    """The hub missed the agent first; its session, which the healer brings back, takes its place."""
    origin = Origin(Cause.TMUX_SERVER, OWN_TMUX)
    processes = {name: await clinic.manage(name) for name in ("builder", "plain")}
    clinic.supervisor.set_agent(subject("builder").id, "builder")
    for name, process in processes.items():
        clinic.show(name, process)
        clinic.work(name)
    for agent in ("builder", "other"):
        await clinic.incidents.join(agent_member_id(agent), origin, "lost", f"agent {agent}")
    for name, process in processes.items():
        clinic.show(name, process, runtime=ProcessState.DEAD)
        clinic.end(process)
    await clinic.clock.run_for(1)
    (incident,) = await clinic.incidents.list_incidents()
    names = {subject("builder").id, subject("plain").id, agent_member_id("other")}
    assert set(incident.sessions) == {each.id for each in incident.members} == names
    assert incident.affected == 3
    assert ": 3 sessions affected" in summary_of(incident)
    assert clinic.incidents.of(agent_member_id("builder")) is None


async def test_revivals_are_paced(clinic: HealingFixture) -> None:
    """Ten at once, then one every two seconds."""
    processes = [await clinic.manage(f"s{number}") for number in range(20)]
    for number, process in enumerate(processes):
        clinic.work(f"s{number}")
        clinic.end(process)
    await clinic.clock.run_for(4)
    assert len(clinic.living.acts) == 10
    await clinic.clock.run_for(30)
    assert len(clinic.living.acts) == 20


async def test_a_session_released_while_it_waits_for_its_turn_is_left_alone(clinic: HealingFixture) -> None:
    """The decision was made while it was managed; it is not adopted again."""
    processes = [await clinic.manage(f"s{number}") for number in range(11)]
    for number, process in enumerate(processes):
        clinic.work(f"s{number}")
        clinic.end(process)
    await clinic.clock.run_for(3)
    assert len(clinic.living.acts) == 10
    waiting = [each for each in clinic.holdings.all() if each.epoch == 1]
    assert len(waiting) == 1
    await clinic.hands.release(waiting[0].session_id)
    await clinic.clock.run_for(60)
    assert len(clinic.living.acts) == 10
    assert not clinic.holdings.is_managed(waiting[0].session_id)


async def test_the_brake_stops_revivals_that_lead_nowhere(clinic: HealingFixture) -> None:
    """When more than a fifth were given up within ten minutes, no more are tried until that has passed."""
    clinic.living.dies_at_once = True
    for number in range(5):
        await die_in_a_turn(clinic, f"s{number}")
        await clinic.clock.run_for(10)
    assert clinic.living.acts == ["start"] * 3
    await clinic.clock.run_for(300)
    assert clinic.living.acts == ["start"] * 3
    await clinic.clock.run_for(600)
    assert clinic.living.acts == ["start"] * 5


async def test_a_pause_stops_healing_and_its_end_lets_it_go_on(clinic: HealingFixture) -> None:
    """While paused only requests of a person are carried out, and the alert says who paused."""
    await clinic.calm.pause("ada")
    await die_in_a_turn(clinic)
    await clinic.clock.run_for(600)
    assert clinic.living.acts == []
    assert "PAUSED by ada" in clinic.recorder.said[0]
    assert (await clinic.healer.revive("a", approved=True)).outcome is ActionOutcome.CONFIRMED
    assert clinic.living.acts == ["start"]
    await die_in_a_turn(clinic, "b")
    await clinic.calm.resume()
    clinic.healer.recheck_all()
    await clinic.clock.run_for(10)
    assert clinic.living.acts == ["start", "start"]


async def test_a_usage_limit_is_waited_for_and_then_continued_once(clinic: HealingFixture) -> None:
    """Nothing before its end and the client's own minute; one word afterwards."""
    await clinic.manage("a")
    limit = TurnFailed(clinic.wall(), Failure.LIMIT, "limit reached", until=clinic.wall() + 3600)
    clinic.hear("a", Prompted(clinic.wall()), limit)
    await clinic.clock.run_for(3650)
    assert clinic.living.acts == []
    await clinic.clock.run_for(60)
    assert [act.partition(" ")[0] for act in clinic.living.acts] == ["deliver"]


async def test_three_hours_of_steady_work_and_a_night_of_rest_lead_to_nothing(clinic: HealingFixture) -> None:
    """No act, no alert, no line."""
    await clinic.manage("a")
    await clinic.manage("b")
    clinic.finish("b")
    clinic.hear("a", Prompted(clinic.wall()))
    for minute in range(100):
        call = CallStarted(clinic.wall(), f"c{minute}", "Read", input=b'{"file_path": "%d"}' % minute)
        clinic.hear("a", call)
        await clinic.clock.run_for(30)
        clinic.hear("a", CallEnded(clinic.wall(), f"c{minute}", result=b"%d" % minute))
        await clinic.clock.run_for(30)
    clinic.hear("a", TurnEnded(clinic.wall()))
    await clinic.clock.run_for(8 * 3600)
    assert (clinic.living.acts, clinic.recorder.said, clinic.events) == ([], [], [])


async def test_a_runaway_that_makes_progress_is_only_told(clinic: HealingFixture) -> None:
    """Two hours of varied work end nothing."""
    await clinic.manage("a")
    clinic.hear("a", Prompted(clinic.wall()))
    for _minute in range(150):
        clinic.hear("a", Progressed(clinic.wall()))
        await clinic.clock.run_for(60)
    assert clinic.living.acts == []
    assert clinic.events[0].reason == "running_for_2_hours"


async def test_a_revived_agent_is_told_what_it_already_did_elsewhere(clinic: HealingFixture) -> None:
    """Completed remote calls are listed, so that they are not repeated."""
    process = await clinic.manage("a")
    at = clinic.wall()
    pushed = CallStarted(at, "c1", "Bash", input=b'{"command": "git push origin main"}')
    clinic.hear("a", Prompted(at), pushed, CallEnded(at, "c1", result=b"ok"))
    clinic.end(process)
    await clinic.clock.run_for(10)
    (prompt,) = clinic.living.prompts
    assert "do not repeat: Bash `git push origin main`" in prompt


async def test_a_folder_that_is_gone_is_told_and_not_revived(clinic: HealingFixture) -> None:
    """There is nowhere to go on in."""
    clinic.place.gone.add("/home/me/shop")
    await die_in_a_turn(clinic)
    await clinic.clock.run_for(60)
    assert clinic.living.acts == []
    assert len(clinic.recorder.said) == 1


async def test_a_restarted_daemon_remembers_that_the_budget_is_spent(clinic: HealingFixture) -> None:
    """The second failure is known as one although another daemon saw the first."""
    await die_in_a_turn(clinic)
    await clinic.clock.run_for(10)
    assert clinic.living.acts == ["start"]
    clinic.build()
    async with clinic.open():
        (process,) = clinic.registry.find("a").presence.living_processes
        clinic.end(process.process)
        await clinic.clock.run_for(60)
    assert clinic.living.acts == ["start"]


async def test_a_death_soon_after_other_trouble_is_told_as_a_death(clinic: HealingFixture) -> None:
    """A turn failed, the next one began, and its agent died in it: another incident and another alert, within minutes."""
    process = clinic.start("a")
    clinic.work("a")
    clinic.hear("a", TurnFailed(clinic.wall(), Failure.REQUEST, "API Error: 400"))
    await clinic.clock.run_for(10)
    clinic.work("a")
    await clinic.clock.run_for(10)
    clinic.end(process)
    await clinic.clock.run_for(10)
    failed, died = await clinic.incidents.list_incidents(include_resolved=True)
    assert (failed.is_open, died.is_open) == (False, True)
    assert died.summary == "died in the middle of a turn"
    assert [each.split("\n")[0] for each in clinic.recorder.said] == [
        "shop: the last turn ended with an error: `API Error: 400` (turn_failed)",
        "shop: died in the middle of a turn: `Bash: make test` (session_dead)",
    ]
    clinic.start("a")
    clinic.work("a")
    await clinic.clock.run_for(10)
    assert await clinic.incidents.list_incidents() == []


async def test_nobody_revives_what_was_only_found_or_is_well(clinic: HealingFixture) -> None:
    """A person's request too needs a managed session with a problem."""
    clinic.start("a")
    with pytest.raises(NotManaged):
        await clinic.healer.revive("a", approved=True)
    await clinic.hands.adopt("a")
    record = await clinic.healer.revive("a", approved=True)
    assert (record.outcome, record.words) == (ActionOutcome.DECLINED, "nothing is wrong with it")


async def test_mode_observe_heals_nothing() -> None:
    """It tells, whatever it sees."""
    async with opened(rules=HealingRules(mode="observe")) as clinic:
        await die_in_a_turn(clinic)
        await clinic.clock.run_for(600)
    assert clinic.living.acts == []
    assert len(clinic.recorder.said) == 1


async def test_what_a_reboot_took_along_is_listed_and_brought_back(clinic: HealingFixture) -> None:
    """Name, folder and conversation; what a person must look at first is skipped with the reason."""
    for name, command in (("a", "make"), ("b", "git push")):
        process = clinic.start(name)
        clinic.show(name, process, socket="/tmp/tmux-1/default")
        clinic.work(name, command)
        clinic.show(name, process, runtime=ProcessState.DEAD, socket="/tmp/tmux-1/default")
        clinic.end(process)
    first, second = clinic.restorer.list_lost()
    assert (first.name, first.cwd, first.skipped) == ("a", "/home/me/shop", None)
    assert second.skipped is not None
    assert "wakeful resume shop --yes" in second.skipped
    clinic.supervisor.set_agent(first.session_id, "bot")
    assert clinic.restorer.list_lost()[0].skipped == "agent bot hosts it: `wakeful attach bot`"


@pytest.mark.parametrize("seconds", [30.0, 240.0])
async def test_what_was_closed_before_a_reboot_is_not_brought_back_by_it(
    seconds: float, clinic: HealingFixture
) -> None:
    """Its person left it and its host lived on; what ended just before the host did was taken along."""
    process = await clinic.manage("a")
    clinic.finish("a")
    closing = UserCloseDetector(clinic.clock, clinic.registry, clinic.holdings, clinic.circumstances)
    noting = asyncio.create_task(closing.run())
    clinic.end(process)
    await clinic.clock.run_for(1)
    closing.on_judged(subject("a").id)
    await clinic.clock.run_for(seconds)
    noting.cancel()
    clinic.place.boot_id = "the next boot"
    clinic.healer.on_judged(subject("a").id)
    lost = [each.session_id for each in clinic.restorer.list_lost()]
    await clinic.clock.run_for(10)
    assert (lost, clinic.living.acts) == (
        ([], []) if seconds > CONFIRM_SECONDS else (["claude-a"], ["start"])
    )


@pytest.mark.parametrize("seconds", [30.0, 240.0])
async def test_a_stop_that_its_process_outlived_does_not_explain_a_later_death(
    seconds: float, clinic: HealingFixture
) -> None:
    """A crash cut it off, or a process resisted it: what ends a minute later by itself is healed."""
    process = await clinic.manage("a")
    clinic.work("a")
    session = subject("a").id
    await clinic.holdings.save(replace(clinic.holdings.get(session), stopped=True))
    failed = FailedStopDetector(clinic.clock, clinic.registry, clinic.holdings)
    withdrawing = asyncio.create_task(failed.run())
    failed.on_judged(session)
    await clinic.clock.run_for(seconds)
    withdrawing.cancel()
    assert clinic.holdings.get(session).stopped is (seconds < STOP_SECONDS_MAX)
    clinic.end(process)
    await clinic.clock.run_for(60)
    assert clinic.living.acts == ([] if seconds < STOP_SECONDS_MAX else ["start"])


async def test_nobody_else_brings_back_what_is_being_restored(
    monkeypatch: pytest.MonkeyPatch, clinic: HealingFixture
) -> None:
    """A found session is managed from then on; a client that takes its time is started once, and not called unhealthy."""
    process = clinic.start("a")
    clinic.hear("a", Prompted(clinic.wall()))
    clinic.finish("a")
    clinic.show("a", process, runtime=ProcessState.DEAD)
    clinic.end(process)
    start = clinic.living.start

    async def slowly(order: StartRequest, begun: OnStarted = ignore_start) -> ActionResult:
        clinic.settle()
        clinic.healer.on_judged(subject("a").id)
        await clinic.clock.sleep(10)
        return await start(order, begun)

    monkeypatch.setattr(clinic.living, "start", slowly)
    restoring = asyncio.create_task(clinic.restorer.resume("a"))
    await clinic.clock.run_for(60)
    assert (await restoring).outcome is ActionOutcome.CONFIRMED
    assert clinic.living.acts == ["start"]
    assert written(clinic) == []


async def test_what_was_taught_to_be_local_is_restored(clinic: HealingFixture) -> None:
    """`restore` and `resume` class calls as healing does: by the rules, and by what was taught about the project."""
    process = clinic.start("a")
    clinic.work("a", "./sync-fixtures.sh --all")
    clinic.show("a", process, runtime=ProcessState.DEAD)
    clinic.end(process)
    (before,) = clinic.restorer.list_lost()
    assert before.skipped is not None
    await clinic.lessons.teach("shop", "./sync-fixtures.sh", "ann")
    (lost,) = clinic.restorer.list_lost()
    assert lost.skipped is None
    assert (await clinic.restorer.resume("a")).outcome is ActionOutcome.CONFIRMED
    assert clinic.living.acts == ["start"]


async def test_a_lost_session_that_was_never_asked_anything_returns_without_a_turn(
    clinic: HealingFixture,
) -> None:
    """Its client comes up again and waits for its first prompt, as it did before."""
    asked = RunRequest(argv=("claude",), cwd="/home/me/shop", environ={"PATH": "/bin"})
    record = await clinic.hands.run(asked)
    managed = clinic.holdings.find(record.session_id)
    assert managed is not None
    assert managed.process is not None
    name = record.session_id.removeprefix("claude-")
    clinic.show(name, managed.process)
    clinic.show(name, managed.process, runtime=ProcessState.DEAD)
    clinic.end(managed.process)
    await clinic.clock.run_for(60 + REOPEN_SECONDS)
    assert clinic.living.acts == ["start", "start"]
    assert clinic.living.prompts == []
    assert written(clinic) == [
        (CriticalEventKind.SESSION_UNHEALTHY, ActionTaken.REVIVAL_ATTEMPTED),
        (CriticalEventKind.SESSION_RECOVERED, ActionTaken.NONE),
    ]
    told, over = clinic.recorder.said
    assert "Action: started a new conversation" in told
    assert over.startswith("Closed")
    assert over.splitlines()[-1].startswith("Reason: its work continues in claude-")


async def test_what_was_lost_during_a_pause_is_written_down_when_it_comes_back(
    clinic: HealingFixture,
) -> None:
    """First that nothing was done, then what was; its incident says that it came back."""
    process = await clinic.manage("a")
    clinic.finish("a")
    await clinic.calm.pause("ada")
    clinic.show("a", process, runtime=ProcessState.DEAD)
    clinic.end(process)
    await clinic.clock.run_for(10)
    await clinic.calm.resume()
    clinic.healer.recheck_all()
    await clinic.clock.run_for(60)
    (incident,) = await clinic.incidents.list_incidents(include_resolved=True)
    assert [each.fate for each in incident.members] == [MemberStatus.REVIVED]
    assert [action for _, action in written(clinic)] == [
        ActionTaken.NONE,
        ActionTaken.REVIVAL_ATTEMPTED,
        ActionTaken.NONE,
    ]


async def test_people_are_told_before_an_issue_is_filed() -> None:
    """An issue tracker that hangs delays the log line, which waits for its address, and no message."""
    told: list[int] = []

    class Slow(FakeIssueTracker):
        async def file(self, report: IssueReport) -> FilingResult:
            await clinic.clock.sleep(20.0)
            told.append(len(clinic.recorder.said))
            return await super().file(report)

    clinic = HealingFixture(forge=Slow())
    async with clinic.open():
        await die_in_a_turn(clinic, command="git push")
        await clinic.clock.run_for(15)
        assert len(clinic.events) == 0
        await clinic.clock.run_for(15)
        assert len(clinic.events) == 1
    assert told == [1]


async def test_whoever_lets_a_held_session_go_on_is_not_told_that_it_died(clinic: HealingFixture) -> None:
    """People got the alert that it waits for them; then only its end. Its incident has the outcome."""
    await die_in_a_turn(clinic, command="git push")
    await clinic.clock.run_for(10)
    await clinic.healer.revive("a", approved=True, by="ann")
    clinic.finish("a")
    await clinic.clock.run_for(REOPEN_SECONDS + 10)
    (incident,) = await clinic.incidents.list_incidents(include_resolved=True)
    assert [each.fate for each in incident.members] == [MemberStatus.REVIVED]
    held, over = clinic.recorder.said
    assert ("No action: an interrupted call" in held, over.partition(":")[0]) == (True, "Resolved")


async def test_only_what_was_lost_is_restored(clinic: HealingFixture) -> None:
    """Neither a living session nor one that died by itself, nor what a person must look at first."""
    clinic.start("a")
    for name, command in (("b", "make test"), ("c", "git push")):
        process = clinic.start(name)
        clinic.work(name, command)
        clinic.end(process)
        if name == "c":
            clinic.show(name, process, runtime=ProcessState.DEAD)
    for name in "abc":
        with pytest.raises(NotLost):
            await clinic.restorer.resume(name)
    assert clinic.living.acts == []
