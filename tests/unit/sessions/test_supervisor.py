"""Claims about the supervisor: what evidence leads to, and when, with a clock that only the test moves."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from support.supervisor_claims import HOUR, codes, come_up, pass_time, record
from support.supervisor_fixture import SupervisorFixture, subject
from wakeful.core.ids import ConversationId
from wakeful.core.managed_session import ManagedSession
from wakeful.core.process import Process, ProcessState
from wakeful.judging.activity import Activity
from wakeful.judging.events import CallEnded, CallStarted, Progressed, Prompted, QuestionAsked, TurnEnded
from wakeful.judging.evidence import STREAM, ClientStatus, Orphan, Pane
from wakeful.judging.findings import FindingCode, Health, State, Verdict
from wakeful.judging.judge import judge
from wakeful.sessions.registry import Query
from wakeful.sessions.session_judge import PROBE_SECONDS_MAX
from wakeful.sessions.supervisor import DEADLINES_SPARE


def test_a_pending_answer_is_silent_after_its_limit_and_not_before(house: SupervisorFixture) -> None:
    """The deadline alone changes the verdict: no poll is needed."""
    house.start("a")
    house.hear("a", Prompted(house.clock.now().wall))
    pass_time(house, house.policy.silence_seconds - 1)
    assert codes(house, "a") == []
    pass_time(house, 2)
    assert codes(house, "a") == [FindingCode.SILENT]
    assert record(house, "a").health is Health.DEGRADED


def test_a_session_that_changes_often_leaves_few_deadlines(house: SupervisorFixture) -> None:
    """And the one that counts is among those that are kept."""
    house.start("a")
    for _ in range(3 * DEADLINES_SPARE):
        house.clock.advance(0.01)
        house.hear("a", Prompted(house.clock.now().wall))
    assert len(house.supervisor._deadlines) <= DEADLINES_SPARE + 2
    pass_time(house, house.policy.silence_seconds + 1)
    assert codes(house, "a") == [FindingCode.SILENT]


def test_a_silence_that_ended_is_over(house: SupervisorFixture) -> None:
    """One sign of progress and the session is healthy again."""
    house.start("a")
    house.hear("a", Prompted(house.clock.now().wall))
    pass_time(house, HOUR)
    assert codes(house, "a") == [FindingCode.SILENT]
    house.hear("a", Progressed(house.clock.now().wall))
    assert codes(house, "a") == []


def test_a_host_that_slept_accuses_nobody(house: SupervisorFixture) -> None:
    """Eight hours of suspend inside a turn are not silence."""
    house.start("a")
    house.hear("a", Prompted(house.clock.now().wall))
    house.clock.suspend(8 * HOUR)
    pass_time(house, 1)
    assert codes(house, "a") == []


def test_a_clock_set_forth_and_back_accuses_nobody(house: SupervisorFixture) -> None:
    """A wall clock that jumps is not time that passed."""
    house.start("a")
    house.hear("a", Prompted(house.clock.now().wall))
    house.clock.set_wall(house.clock.now().wall + 24 * HOUR)
    pass_time(house, 1)
    assert codes(house, "a") == []
    house.clock.set_wall(house.clock.now().wall - 48 * HOUR)
    pass_time(house, 1)
    assert codes(house, "a") == []


def test_a_tool_with_its_own_timeout_is_waited_for(house: SupervisorFixture) -> None:
    """Half an hour was declared: silent for twenty minutes is expected, silent for forty is not."""
    house.start("a")
    now = house.clock.now().wall
    house.hear("a", Prompted(now), CallStarted(now, "1", "Bash", timeout_seconds=1800))
    pass_time(house, 20 * 60)
    assert codes(house, "a") == []
    assert [wait.kind for wait in record(house, "a").expected_waits] == ["tool"]
    pass_time(house, 20 * 60)
    assert codes(house, "a") == [FindingCode.SILENT, FindingCode.TOOL_WEDGED]


def test_a_question_is_waited_for_without_end(house: SupervisorFixture) -> None:
    """A person may take all night."""
    house.start("a")
    house.ask("a")
    pass_time(house, 12 * HOUR)
    assert (record(house, "a").state, codes(house, "a")) == (State.WAITING, [])


def test_a_guessed_permission_is_looked_at_until_its_call_runs(house: SupervisorFixture) -> None:
    """No process of the call is found, so it probably asks; once one is seen it works, and the wait is over."""
    house.start("a")
    now = house.clock.now().wall
    call = CallStarted(now, "1", "Bash", timeout_seconds=120.0, enforced=True, limit_seconds=120.0)
    house.hear("a", Prompted(now), call)
    pass_time(house, 149)
    assert record(house, "a").state is State.PROMPTING
    pass_time(house, 2)
    (wait,) = record(house, "a").expected_waits
    assert (record(house, "a").state, wait.probable, codes(house, "a")) == (State.WAITING, True, [])
    house.tool_runs = True
    pass_time(house, PROBE_SECONDS_MAX)
    assert (record(house, "a").state, codes(house, "a")) == (State.PROMPTING, [])


def test_an_escalated_call_that_runs_is_never_called_waiting(house: SupervisorFixture) -> None:
    """Its permission was given before: the first look finds its process."""
    house.start("a")
    now = house.clock.now().wall
    house.tool_runs = True
    house.hear("a", Prompted(now), CallStarted(now, "1", "exec_command", enforced=True, escalated=True))
    assert record(house, "a").state is State.PROMPTING


def test_a_call_found_open_by_a_new_daemon_is_looked_at_first(house: SupervisorFixture) -> None:
    """Open for an hour when it is first read, and its process is there: it works."""
    house.start("a")
    before = house.clock.now().wall - HOUR
    house.tool_runs = True
    house.hear("a", Prompted(before), CallStarted(before, "1", "Bash", enforced=True, limit_seconds=120.0))
    assert (record(house, "a").state, codes(house, "a")) == (State.PROMPTING, [])


def test_the_same_call_with_the_same_result_is_a_loop(house: SupervisorFixture) -> None:
    """Four in a row; a different result would have ended the streak."""
    house.start("a")
    for number in range(4):
        assert codes(house, "a") == []
        at = house.clock.now().wall
        call = str(number)
        house.hear(
            "a", CallStarted(at, call, "Bash", input=b'{"command":"ls"}'), CallEnded(at, call, result=b'"x"')
        )
    assert codes(house, "a") == [FindingCode.LOOP]


def test_six_errors_in_a_row_are_a_cascade(house: SupervisorFixture) -> None:
    """Five occurred in a healthy recording, six in none."""
    house.start("a")
    for number in range(6):
        assert codes(house, "a") == []
        at, call = house.clock.now().wall, str(number)
        given = f'{{"command":"{number}"}}'.encode()
        house.hear(
            "a", CallStarted(at, call, "Bash", input=given), CallEnded(at, call, is_error=True, result=given)
        )
    assert codes(house, "a") == [FindingCode.ERROR_CASCADE]


def test_gone_after_a_finished_turn_is_stopped(house: SupervisorFixture) -> None:
    """A normal exit is healthy."""
    process = house.start("a")
    house.finish("a")
    house.end(process)
    assert (record(house, "a").state, record(house, "a").health) == (State.STOPPED, Health.HEALTHY)


def test_gone_inside_a_turn_is_dead(house: SupervisorFixture) -> None:
    """With the call that was open named as untrusted text."""
    process = house.start("a")
    house.work("a", "make deploy")
    house.end(process)
    assert (record(house, "a").health, codes(house, "a")) == (Health.DEAD, [FindingCode.SESSION_DEAD])
    assert "make deploy" in record(house, "a").findings[0].untrusted[0]


def test_another_process_with_the_same_pid_changes_nothing(house: SupervisorFixture) -> None:
    """A pid is not an identity."""
    process = house.start("a")
    house.work("a")
    house.end(msgspec.structs.replace(process, started=process.started + 1))
    assert record(house, "a").session_alive is True


def test_a_resumed_conversation_forgets_its_death(house: SupervisorFixture) -> None:
    """Every field is valid for the current attempt only."""
    process = house.start("a")
    house.work("a")
    house.end(process)
    house.supervisor.on_process(
        subject("a"), Process(9, 9, process.boot_id), ProcessState.ALIVE, source="a test"
    )
    house.hear("a", Prompted(house.clock.now().wall))
    assert (record(house, "a").health, codes(house, "a")) == (Health.HEALTHY, [])


def test_a_log_that_grows_after_its_process_ended_has_another_writer(house: SupervisorFixture) -> None:
    """Its writer is not dead, seen or not; once it is quiet again its state is unknown. A restart does not
    forget that."""
    house.end(start_work(house))
    assert codes(house, "a") == [FindingCode.SESSION_DEAD]
    house.clock.advance(60)
    house.hear("a", Progressed(house.clock.now().wall))
    assert (record(house, "a").state, codes(house, "a")) == (State.PROMPTING, [])
    kept = house.supervisor.snapshot(subject("a").id)
    assert kept is not None
    pass_time(house, house.policy.silence_seconds + 2)
    assert (record(house, "a").health, codes(house, "a")) == (Health.UNKNOWN, [])
    later = SupervisorFixture()
    assert later.supervisor.restore(subject("a"), kept)
    later.settle()
    assert (record(later, "a").health, codes(later, "a")) == (Health.UNKNOWN, [])


def test_the_last_lines_of_a_process_do_not_revive_it(house: SupervisorFixture) -> None:
    """They may be read after its end: its own lines are no other writer, nor is a report without a time."""
    process = start_work(house)
    wall = house.clock.now().wall
    house.clock.advance(1)
    house.end(process)
    house.clock.advance(30)
    house.hear("a", Progressed(wall))
    assert codes(house, "a") == [FindingCode.SESSION_DEAD]
    house.supervisor.on_events(
        replace(subject("a"), source=STREAM), [QuestionAsked(wall + 31, "Bash")], live=True
    )
    house.settle()
    assert codes(house, "a") == [FindingCode.SESSION_DEAD]


def test_what_a_process_wrote_while_nobody_watched_does_not_revive_it(house: SupervisorFixture) -> None:
    """It went on after the daemon ended, and died: when is not known, so that its last lines are its own."""
    process = start_work(house)
    kept = house.supervisor.snapshot(subject("a").id)
    assert kept is not None
    later = SupervisorFixture()
    later.clock.advance(HOUR)
    later.end(process)
    assert later.supervisor.restore(subject("a"), kept)
    unwatched = house.clock.now().wall + HOUR / 2
    later.supervisor.on_events(subject("a"), [Progressed(unwatched)], live=False)
    later.settle()
    assert codes(later, "a") == [FindingCode.SESSION_DEAD]


def test_a_process_that_takes_over_and_dies_is_dead(house: SupervisorFixture) -> None:
    """Another writer is believed until it is known, no longer."""
    house.end(start_work(house))
    house.clock.advance(60)
    house.hear("a", Progressed(house.clock.now().wall))
    second = Process(9, 9, "boot")
    house.supervisor.on_process(subject("a"), second, ProcessState.ALIVE, source="a test")
    house.end(second)
    assert codes(house, "a") == [FindingCode.SESSION_DEAD]


def start_work(house: SupervisorFixture) -> Process:
    process = house.start("a")
    house.work("a")
    return process


@pytest.mark.parametrize(
    ("status", "health"),
    [(ClientStatus.BUSY, Health.UNKNOWN), (None, Health.UNKNOWN), (ClientStatus.IDLE, Health.HEALTHY)],
)
def test_how_a_process_ended_whose_log_is_gone_is_unknown(
    house: SupervisorFixture, status: ClientStatus | None, health: Health
) -> None:
    """Only its registry file is left: a good end is reported only for one that had called itself idle."""
    for state in (ProcessState.ALIVE, ProcessState.DEAD):
        name = f"first seen {state}".replace(" ", "-")
        process = Process(7, 7, "boot")
        house.supervisor.on_process(subject(name), process, state, source="registry", status=status)
        house.end(process)
        assert (record(house, name).state, record(house, name).health) == (State.STOPPED, health), name
        assert codes(house, name) == []


def test_the_clients_own_word_counts_where_it_is_newer(house: SupervisorFixture) -> None:
    """The registry says idle after the last record: the turn is over, whatever the log left open."""
    process = house.start("a")
    house.work("a")
    house.clock.advance(5)
    wall = house.clock.now().wall
    house.supervisor.on_process(
        subject("a"),
        process,
        ProcessState.ALIVE,
        source="registry",
        status=ClientStatus.IDLE,
        status_wall=wall,
    )
    house.settle()
    assert record(house, "a").state is State.IDLE


async def test_only_transitions_are_stored(house: SupervisorFixture) -> None:
    """A hundred lines of work are one row."""
    house.start("a")
    house.hear("a", Prompted(house.clock.now().wall))
    before = len(await house.store.transitions(subject("a").id))
    for _ in range(100):
        house.clock.advance(1)
        house.hear("a", Progressed(house.clock.now().wall))
    assert len(await house.store.transitions(subject("a").id)) == before


def test_a_secret_in_an_error_does_not_reach_the_record(house: SupervisorFixture) -> None:
    """`last_error` is redacted."""
    house.start("a")
    house.fail("a", "401 for key sk-ant-REDACTED at https://me:hunter2@example.org")
    body = house.registry.sessions[subject("a").id].body()
    assert b"abcdefghijklmnop" not in body
    assert b"hunter2" not in body


def test_nothing_is_kept_of_a_session_nobody_heard_of(house: SupervisorFixture) -> None:
    """An empty log is followed before it is a session; asking about it is no error."""
    assert house.supervisor.snapshot(subject("empty").id) is None


def killed_with_tools(house: SupervisorFixture, *pids: int) -> list[Process]:
    """An agent that died and left these tools running."""
    process = house.start("a")
    house.work("a")
    house.end(process)
    tools = [Process(pid, 1, process.boot_id) for pid in pids]
    house.supervisor.on_orphans(subject("a").id, tuple(Orphan(each, "make") for each in tools))
    house.settle()
    return tools


def still_running(house: SupervisorFixture) -> list[str]:
    return [line for line in record(house, "a").findings[0].evidence if "still runs" in line]


def test_an_orphan_that_ended_is_named_no_more(house: SupervisorFixture) -> None:
    """One tool ends after the other, and each is dropped as it does."""
    one, two = killed_with_tools(house, 71, 72)
    assert still_running(house) == [
        "its tool still runs as process 71",
        "its tool still runs as process 72",
    ]
    house.end(one)
    assert still_running(house) == ["its tool still runs as process 72"]
    house.end(two)
    assert still_running(house) == []


def test_an_orphan_that_ended_before_it_was_reported_is_not_named(house: SupervisorFixture) -> None:
    """The search for orphans takes a while; a process that has ended by then is none."""
    house.end(Process(71, 1, "a-boot-of-a-test"))
    killed_with_tools(house, 71)
    assert still_running(house) == []


def working_in_a_pane(house: SupervisorFixture, name: str = "work") -> tuple[Process, Pane, bytes]:
    """A session at work in a pane: its process, its pane and what a daemon keeps of it."""
    agent = house.start("a")
    house.work("a")
    runtime, server = Process(70, 1, agent.boot_id), Process(60, 1, agent.boot_id)
    pane = Pane("/run/tmux", name, "%0", runtime, ProcessState.ALIVE, ProcessState.ALIVE, server)
    house.supervisor.on_pane(subject("a").id, pane)
    kept = house.supervisor.snapshot(subject("a").id)
    assert kept is not None
    return agent, pane, kept


def restarted(kept: bytes, *ended: Process) -> SupervisorFixture:
    """The next daemon, after these processes ended."""
    after = SupervisorFixture()
    for process in ended:
        after.end(process)
    assert after.supervisor.restore(subject("a"), kept)
    assert after.searched == []
    after.supervisor.on_restored(subject("a").id)
    after.settle()
    return after


def test_a_restart_says_the_same_of_an_agent_that_left_its_pane(house: SupervisorFixture) -> None:
    """The pane is remembered with the rest, and its tools are looked for again."""
    agent, _, kept = working_in_a_pane(house)
    after = restarted(kept, agent)
    assert codes(after, "a") == [FindingCode.AGENT_EXITED]
    assert after.searched == [subject("a").id]


def test_a_turn_that_ended_while_no_daemon_ran_leaves_no_tools(house: SupervisorFixture) -> None:
    """Whether an ended agent was in a turn is asked once its log is read to the end, not where the last daemon stopped."""
    agent = house.start("a")
    house.work("a")
    kept = house.supervisor.snapshot(subject("a").id)
    assert kept is not None

    after = SupervisorFixture()
    after.end(agent)
    assert after.supervisor.restore(subject("a"), kept)
    after.supervisor.on_events(subject("a"), [TurnEnded(after.clock.now().wall)], live=False)
    after.supervisor.on_restored(subject("a").id)
    after.settle()
    assert (codes(after, "a"), after.searched) == ([], [])


def test_a_restart_keeps_the_time_of_a_death(house: SupervisorFixture) -> None:
    """The registry reports the dead process before the log and its snapshot are read: that is no newer death."""
    process = start_work(house)
    pass_time(house, 300)
    house.end(process)
    dead = record(house, "a").findings
    kept = house.supervisor.snapshot(subject("a").id)
    assert kept is not None

    after = SupervisorFixture(clock=house.clock)
    pass_time(after, 60)
    after.end(process)
    after.supervisor.on_process(subject("a"), process, ProcessState.DEAD, source="a test")
    assert after.supervisor.restore(subject("a"), kept)
    after.settle()
    assert record(after, "a").findings == dead


def test_a_pane_that_ended_with_the_daemon_away_is_not_remembered(house: SupervisorFixture) -> None:
    """A session whose pane is gone too has not left for a shell: it is dead."""
    agent, pane, kept = working_in_a_pane(house)
    assert codes(restarted(kept, agent, pane.process), "a") == [FindingCode.SESSION_DEAD]


def test_a_server_that_ended_with_the_daemon_away_is_named(house: SupervisorFixture) -> None:
    """The server ended the session: no person left it."""
    agent, pane, kept = working_in_a_pane(house)
    assert pane.server is not None
    after = restarted(kept, agent, pane.process, pane.server)
    shown = after.registry.sessions[subject("a").id].presence.pane
    assert shown == replace(pane, sight=ProcessState.DEAD, runtime=ProcessState.DEAD)


def test_a_pane_of_another_boot_is_remembered_as_gone(house: SupervisorFixture) -> None:
    """The name under which a session was shown is needed after a reboot: it is brought back by it."""
    agent, _, kept = working_in_a_pane(house, "garden")
    after = SupervisorFixture()
    assert not after.supervisor.restore(subject("a"), kept.replace(agent.boot_id.encode(), b"another boot"))
    after.work("a")
    recalled = after.registry.sessions[subject("a").id].presence.pane
    assert recalled is not None
    seen = (recalled.session, recalled.sight, recalled.runtime)
    assert seen == ("garden", ProcessState.DEAD, ProcessState.DEAD)
    assert codes(after, "a") == [FindingCode.SESSION_DEAD]
    assert after.searched == []


def test_a_session_names_the_agent_that_hosts_it(house: SupervisorFixture) -> None:
    """Known before or after its log was read, and no longer once another conversation began there."""
    house.supervisor.set_agent(subject("a").id, "bot")
    for name in ("a", "b"):
        house.start(name)
    house.supervisor.set_agent(subject("b").id, "other")
    house.settle()
    assert [record(house, name).agent for name in ("a", "b")] == ["bot", "other"]
    house.supervisor.set_agent(subject("a").id, None)
    house.settle()
    assert record(house, "a").agent is None


def test_what_an_agent_of_the_hub_hosts_is_managed_and_treated_by_its_agent(house: SupervisorFixture) -> None:
    """Counted as managed; its actions are its agent's, and its conversation is not offered."""
    agent = house.start("a")
    house.supervisor.set_agent(subject("a").id, "bot")
    house.settle()
    assert record(house, "a").managed
    assert house.registry.counts(house.clock.now())["total"]["managed"] == 1
    assert offered(house) == {
        "wait": ("wakeful", "session", "wait", "claude-a", "--until", "idle"),
        "attach": ("wakeful", "attach", "bot"),
        "stop": ("wakeful", "agent", "stop", "bot"),
    }
    house.end(agent)
    house.settle()
    assert offered(house)["restart"] == ("wakeful", "agent", "restart-session", "bot")
    assert offered(house).keys() == {"wait", "attach", "restart"}


def offered(house: SupervisorFixture) -> dict[str, tuple[str, ...]]:
    return {each.name: each.argv for each in record(house, "a").actions if each.allowed}


async def test_a_session_asked_for_before_its_first_judgement_is_judged_at_once(
    house: SupervisorFixture,
) -> None:
    """Seen a moment ago: a query gets its record, and its transition is still stored."""
    house.supervisor.on_events(subject("a"), [Prompted(house.clock.now().wall)], live=True)
    answer = msgspec.json.decode(house.desk.record(subject("a").id).body)
    assert (answer["id"], answer["active_prompt"]) == (subject("a").id, True)
    house.settle()
    assert [each.session_id for each in await house.store.transitions(subject("a").id)] == [subject("a").id]


def test_a_session_that_cannot_be_judged_is_unknown_to_whoever_asks_first(
    house: SupervisorFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failing rule affects only that session, and no request fails."""

    def fail_on_work(activity: Activity, *rest: Any) -> Verdict:
        if activity.drifted:
            return judge(activity, *rest)
        raise ZeroDivisionError

    monkeypatch.setattr("wakeful.sessions.session_judge.judge", fail_on_work)
    house.supervisor.on_events(subject("a"), [Prompted(house.clock.now().wall)], live=True)
    assert msgspec.json.decode(house.desk.record(subject("a").id).body)["health"] == Health.UNKNOWN


@pytest.mark.parametrize("first", ["log", "hosting"])
def test_a_managed_session_is_read_also_where_no_process_of_it_is_left(
    house: SupervisorFixture, first: str
) -> None:
    """A client that ended with the daemon away leaves its log: what it did is read, and its folder is known."""
    known = subject("codex-019a")
    managed = ManagedSession(known.id, ConversationId("019a"), "codex", "/home/me/shop", (), 1, 0.0)
    at = house.clock.now().wall
    read: list[str] = []

    def read_log(session_id: str) -> None:
        read.append(session_id)
        house.supervisor.on_events(known, [Prompted(at), TurnEnded(at)], live=False)

    house.catch_up = read_log  # type: ignore[method-assign]
    if first == "hosting":
        house.supervisor.manage(known.id, managed)
    house.supervisor.on_recent_log(known, at, None)
    house.supervisor.manage(known.id, managed)
    house.settle()
    assert read == [known.id]
    assert record(house, "codex-019a").project == "shop"
    assert record(house, "codex-019a").state is not State.PROMPTING


def _found(house: SupervisorFixture, name: str) -> list[str]:
    return [each["id"] for each in msgspec.json.decode(house.desk.find(name).body)["sessions"]]


def test_a_folded_session_is_found_by_what_it_is_called(house: SupervisorFixture) -> None:
    """Reports and alerts still name it so; a session that lists show comes first."""
    house.end(house.start("old", project="shop"))
    pass_time(house, 25 * HOUR)
    assert msgspec.json.decode(house.desk.sessions(Query()).body)["older"] == 1
    assert [_found(house, each) for each in ("shop", "sho", "bank")] == [["claude-old"], ["claude-old"], []]
    house.start("new", project="shop")
    assert (_found(house, "shop"), _found(house, "sho")) == (["claude-new"], ["claude-new"])


def test_a_session_that_ended_before_its_log_began_is_not_old(house: SupervisorFixture) -> None:
    """It was seen to end a moment ago: lists show it for as long as any other."""
    process = come_up(house, 5)
    house.end(process)
    assert msgspec.json.decode(house.desk.sessions(Query()).body)["older"] == 0
    pass_time(house, 25 * HOUR)
    assert msgspec.json.decode(house.desk.sessions(Query()).body)["older"] == 1
