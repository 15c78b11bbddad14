"""The head: what evidence leads to, and when; with a clock that only the test moves."""

import msgspec
import pytest
from msgspec.structs import replace

from desks import House, subject
from wakeful.domain.events import CallEnded, CallStarted, Progressed, Prompted
from wakeful.domain.evidence import Orphan, Pane, Status
from wakeful.domain.findings import Code, Health, State
from wakeful.domain.process import Process, Sight
from wakeful.domain.record import SessionRecord

HOUR = 3600.0


@pytest.fixture
def house() -> House:
    return House()


def record(house: House, name: str) -> SessionRecord:
    found = house.roster.watched[subject(name).id].record
    assert found is not None
    return found


def codes(house: House, name: str) -> list[Code]:
    return [finding.code for finding in record(house, name).findings]


def pass_time(house: House, seconds: float) -> None:
    house.clock.advance(seconds)
    house.supervisor.ring()
    house.settle()


def test_a_pending_answer_is_silent_after_its_limit_and_not_before(house: House) -> None:
    """The deadline alone changes the verdict: nobody has to look."""
    house.start("a")
    house.hear("a", Prompted(house.clock.now().wall))
    pass_time(house, house.policy.silence_seconds - 1)
    assert codes(house, "a") == []
    pass_time(house, 2)
    assert codes(house, "a") == [Code.SILENT]
    assert record(house, "a").health is Health.DEGRADED


def test_a_silence_that_ended_is_over(house: House) -> None:
    """One sign of progress and the session is healthy again."""
    house.start("a")
    house.hear("a", Prompted(house.clock.now().wall))
    pass_time(house, HOUR)
    assert codes(house, "a") == [Code.SILENT]
    house.hear("a", Progressed(house.clock.now().wall))
    assert codes(house, "a") == []


def test_a_host_that_slept_accuses_nobody(house: House) -> None:
    """Eight hours of suspend inside a turn are not silence."""
    house.start("a")
    house.hear("a", Prompted(house.clock.now().wall))
    house.clock.suspend(8 * HOUR)
    pass_time(house, 1)
    assert codes(house, "a") == []


def test_a_clock_set_forth_and_back_accuses_nobody(house: House) -> None:
    """A wall clock that jumps is not time that passed."""
    house.start("a")
    house.hear("a", Prompted(house.clock.now().wall))
    house.clock.set_wall(house.clock.now().wall + 24 * HOUR)
    pass_time(house, 1)
    assert codes(house, "a") == []
    house.clock.set_wall(house.clock.now().wall - 48 * HOUR)
    pass_time(house, 1)
    assert codes(house, "a") == []


def test_a_tool_with_its_own_timeout_is_waited_for(house: House) -> None:
    """Half an hour was declared: silent for twenty minutes is expected, silent for forty is not."""
    house.start("a")
    now = house.clock.now().wall
    house.hear("a", Prompted(now), CallStarted(now, "1", "Bash", timeout_seconds=1800))
    pass_time(house, 20 * 60)
    assert codes(house, "a") == []
    assert [wait.kind for wait in record(house, "a").expected_waits] == ["tool"]
    pass_time(house, 20 * 60)
    assert codes(house, "a") == [Code.SILENT, Code.TOOL_WEDGED]


def test_a_question_is_waited_for_without_end(house: House) -> None:
    """A person may take all night."""
    house.start("a")
    house.ask("a")
    pass_time(house, 12 * HOUR)
    assert (record(house, "a").state, codes(house, "a")) == (State.WAITING, [])


def test_the_same_call_with_the_same_result_is_a_loop(house: House) -> None:
    """Four in a row; a different result would have ended the streak."""
    house.start("a")
    for number in range(4):
        assert codes(house, "a") == []
        at = house.clock.now().wall
        call = str(number)
        house.hear(
            "a", CallStarted(at, call, "Bash", input=b'{"command":"ls"}'), CallEnded(at, call, result=b'"x"')
        )
    assert codes(house, "a") == [Code.LOOP]


def test_six_errors_in_a_row_are_a_cascade(house: House) -> None:
    """Five occurred in a healthy recording, six in none."""
    house.start("a")
    for number in range(6):
        assert codes(house, "a") == []
        at, call = house.clock.now().wall, str(number)
        given = f'{{"command":"{number}"}}'.encode()
        house.hear(
            "a", CallStarted(at, call, "Bash", input=given), CallEnded(at, call, is_error=True, result=given)
        )
    assert codes(house, "a") == [Code.ERROR_CASCADE]


def test_gone_after_a_finished_turn_is_stopped(house: House) -> None:
    """A normal exit is healthy."""
    process = house.start("a")
    house.finish("a")
    house.end(process)
    assert (record(house, "a").state, record(house, "a").health) == (State.STOPPED, Health.HEALTHY)


def test_gone_inside_a_turn_is_dead(house: House) -> None:
    """With the call that was open named as untrusted text."""
    process = house.start("a")
    house.work("a", "make deploy")
    house.end(process)
    assert (record(house, "a").health, codes(house, "a")) == (Health.DEAD, [Code.SESSION_DEAD])
    assert "make deploy" in record(house, "a").findings[0].untrusted[0]


def test_another_process_with_the_same_pid_changes_nothing(house: House) -> None:
    """A pid is not an identity."""
    process = house.start("a")
    house.work("a")
    house.end(msgspec.structs.replace(process, started=process.started + 1))
    assert record(house, "a").session_alive is True


def test_a_resumed_conversation_forgets_its_death(house: House) -> None:
    """Every field is valid for the current attempt only."""
    process = house.start("a")
    house.work("a")
    house.end(process)
    house.supervisor.held(subject("a"), Process(9, 9, process.boot_id), Sight.ALIVE, source="a test")
    house.hear("a", Prompted(house.clock.now().wall))
    assert (record(house, "a").health, codes(house, "a")) == (Health.HEALTHY, [])


def test_the_clients_own_word_counts_where_it_is_newer(house: House) -> None:
    """The registry says idle after the last record: the turn is over, whatever the log left open."""
    process = house.start("a")
    house.work("a")
    house.clock.advance(5)
    wall = house.clock.now().wall
    house.supervisor.held(
        subject("a"), process, Sight.ALIVE, source="registry", status=Status.IDLE, status_wall=wall
    )
    house.settle()
    assert record(house, "a").state is State.IDLE


@pytest.mark.anyio
async def test_only_transitions_are_stored(house: House) -> None:
    """A hundred lines of work are one row."""
    house.start("a")
    house.hear("a", Prompted(house.clock.now().wall))
    before = len(await house.store.transitions(subject("a").id))
    for _ in range(100):
        house.clock.advance(1)
        house.hear("a", Progressed(house.clock.now().wall))
    assert len(await house.store.transitions(subject("a").id)) == before


def test_a_secret_in_an_error_does_not_reach_the_record(house: House) -> None:
    """`last_error` is redacted."""
    house.start("a")
    house.fail("a", "401 for key sk-ant-REDACTED at https://me:hunter2@example.org")
    body = house.roster.watched[subject("a").id].body()
    assert b"abcdefghijklmnop" not in body
    assert b"hunter2" not in body


def test_nothing_is_kept_of_a_session_nobody_heard_of(house: House) -> None:
    """An empty log is followed before it is a session; asking about it is no error."""
    assert house.supervisor.kept(subject("empty").id) is None


def killed_with_tools(house: House, *pids: int) -> list[Process]:
    """An agent that died and left these tools running."""
    process = house.start("a")
    house.work("a")
    house.end(process)
    tools = [Process(pid, 1, process.boot_id) for pid in pids]
    house.supervisor.left_behind(subject("a").id, tuple(Orphan(each, "make") for each in tools))
    house.settle()
    return tools


def still_running(house: House) -> list[str]:
    return [line for line in record(house, "a").findings[0].evidence if "still runs" in line]


def test_an_orphan_that_ended_is_named_no_more(house: House) -> None:
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


def test_an_orphan_that_ended_before_it_was_reported_is_not_named(house: House) -> None:
    """Looking for orphans takes a while; whoever is gone by then is none."""
    house.end(Process(71, 1, "a-boot-of-a-test"))
    killed_with_tools(house, 71)
    assert still_running(house) == []


def test_a_restart_says_the_same_of_an_agent_that_left_its_pane(house: House) -> None:
    """The pane is remembered with the rest, and its tools are looked for again."""
    agent = house.start("a")
    house.work("a")
    pane = Pane("/run/tmux", "work", "%0", Process(70, 1, agent.boot_id), Sight.ALIVE, Sight.ALIVE)
    house.supervisor.shown(subject("a").id, pane)
    kept = house.supervisor.kept(subject("a").id)
    assert kept is not None

    after = House()
    after.end(agent)
    assert after.supervisor.recalled(subject("a"), kept)
    after.settle()
    assert codes(after, "a") == [Code.AGENT_EXITED]
    assert after.searched == [subject("a").id]


def test_a_pane_that_ended_with_the_daemon_away_is_not_remembered(house: House) -> None:
    """Whose pane is gone too has not left for a shell: it is dead."""
    agent = house.start("a")
    house.work("a")
    pane = Pane("/run/tmux", "work", "%0", Process(70, 1, agent.boot_id), Sight.ALIVE, Sight.ALIVE)
    house.supervisor.shown(subject("a").id, pane)
    kept = house.supervisor.kept(subject("a").id)
    assert kept is not None

    after = House()
    after.end(agent)
    after.end(pane.process)
    assert after.supervisor.recalled(subject("a"), kept)
    after.settle()
    assert codes(after, "a") == [Code.SESSION_DEAD]


def test_a_server_that_ended_with_the_daemon_away_is_named(house: House) -> None:
    """It took the session along: nobody left it."""
    agent = house.start("a")
    server = Process(60, 1, agent.boot_id)
    pane = Pane("/run/tmux", "work", "%0", Process(70, 1, agent.boot_id), Sight.ALIVE, Sight.ALIVE, server)
    house.work("a")
    house.supervisor.shown(subject("a").id, pane)
    kept = house.supervisor.kept(subject("a").id)
    assert kept is not None

    after = House()
    for process in (agent, pane.process, server):
        after.end(process)
    after.supervisor.recalled(subject("a"), kept)
    assert after.roster.watched[subject("a").id].presence.pane == replace(
        pane, sight=Sight.DEAD, runtime=Sight.DEAD
    )


def test_a_pane_of_another_boot_is_remembered_as_gone(house: House) -> None:
    """Under which name a session was shown is asked after a reboot: it is brought back by it."""
    agent = house.start("a")
    house.work("a")
    pane = Pane("/run/tmux", "garden", "%0", Process(70, 1, agent.boot_id), Sight.ALIVE, Sight.ALIVE)
    house.supervisor.shown(subject("a").id, pane)
    kept = house.supervisor.kept(subject("a").id)
    assert kept is not None

    after = House()
    assert not after.supervisor.recalled(subject("a"), kept.replace(agent.boot_id.encode(), b"another boot"))
    after.work("a")
    recalled = after.roster.watched[subject("a").id].presence.pane
    assert recalled is not None
    assert (recalled.session, recalled.sight, recalled.runtime) == ("garden", Sight.DEAD, Sight.DEAD)
    assert codes(after, "a") == [Code.SESSION_DEAD]
    assert after.searched == []


def test_a_session_names_the_agent_that_hosts_it(house: House) -> None:
    """Known before or after its log was read, and no longer once another conversation began there."""
    house.supervisor.lodge(subject("a").id, "bot")
    for name in ("a", "b"):
        house.start(name)
    house.supervisor.lodge(subject("b").id, "other")
    house.settle()
    assert [record(house, name).agent for name in ("a", "b")] == ["bot", "other"]
    house.supervisor.lodge(subject("a").id, None)
    house.settle()
    assert record(house, "a").agent is None


def test_what_an_agent_of_the_hub_hosts_is_managed_and_treated_by_its_agent(house: House) -> None:
    """Counted as managed; its actions are its agent's, and nobody is offered its conversation."""
    agent = house.start("a")
    house.supervisor.lodge(subject("a").id, "bot")
    house.settle()
    assert record(house, "a").managed
    assert house.roster.counts(house.clock.now())["total"]["managed"] == 1
    assert offered(house) == {
        "wait": ("wakeful", "session", "wait", "claude-a", "--until", "idle"),
        "attach": ("wakeful", "attach", "bot"),
        "stop": ("wakeful", "agent", "stop", "bot"),
    }
    house.end(agent)
    house.settle()
    assert offered(house)["restart"] == ("wakeful", "agent", "restart-session", "bot")
    assert offered(house).keys() == {"wait", "attach", "restart"}


def offered(house: House) -> dict[str, tuple[str, ...]]:
    return {each.name: each.argv for each in record(house, "a").actions if each.allowed}
