"""Expected waits: each is named, says what it rests on, and runs out."""

import pytest
from msgspec.structs import replace

from support.judging_helpers import POLICY, at, codes, folded, held, judged, told
from support.supervisor_fixture import SupervisorFixture, subject
from wakeful.core.clock import Instant
from wakeful.core.process import Process, ProcessState
from wakeful.judging import events as e
from wakeful.judging.activity import Activity
from wakeful.judging.evidence import ClientStatus, RuntimeState
from wakeful.judging.findings import FindingCode, Health, State, Verdict, WaitKind
from wakeful.judging.folding import BACKGROUND_MAX, fold
from wakeful.judging.judge import judge
from wakeful.judging.session_record import SessionRecord
from wakeful.testing.virtual_clock import VirtualClock

PROMPT = e.Prompted(1.0)
DONE = [PROMPT, e.TurnEnded(5.0)]
LEFT_RUNNING = [
    PROMPT,
    e.CallStarted(2.0, "a", "Bash", input=b'{"command":"make all"}', timeout_seconds=120.0),
    e.CallEnded(3.0, "a", result=b'"Command running"', background="b7"),
]
HOUR = 3600.0


def kinds(verdict: Verdict) -> list[WaitKind]:
    return [wait.kind for wait in verdict.waits]


class TestCompaction:
    """A client summarises its conversation and writes nothing meanwhile."""

    def test_within_a_turn_it_is_named_and_runs_out(self) -> None:
        """Its own time, counted from the hook's word; then the session is silent and says for what it waited."""
        events = [PROMPT, e.CompactionStarted(100.0)]
        verdict = judged(events, 699.0)
        (wait,) = verdict.waits
        assert (wait.kind, wait.since, wait.until) == (WaitKind.COMPACTION, at(100.0), at(700.0))
        assert "hook" in wait.evidence
        late = judged(events, 700.0)
        assert (codes(late), late.findings[0].evidence) == ([FindingCode.SILENT], (wait.evidence,))

    @pytest.mark.parametrize(
        "after",
        [
            e.CompactionEnded(120.0),
            e.Prompted(120.0),
            e.CallStarted(120.0, "a", "Bash"),
            e.TurnInterrupted(120.0),
        ],
    )
    def test_what_comes_after_ends_it(self, after: e.Event) -> None:
        """Its end, a prompt, a call, an interruption: none of them happens while it lasts."""
        assert WaitKind.COMPACTION not in kinds(judged([PROMPT, e.CompactionStarted(100.0), after], 130.0))

    def test_between_turns_the_session_is_at_work(self) -> None:
        """Asked for by a person after a turn: at work until it is done, then idle as before."""
        verdict = judged([*DONE, e.CompactionStarted(100.0)], 130.0)
        assert (verdict.state, kinds(verdict)) == (State.PROMPTING, [WaitKind.COMPACTION])
        assert (
            judged([*DONE, e.CompactionStarted(100.0), e.CompactionEnded(120.0)], 130.0).state is State.IDLE
        )

    def test_cut_short_between_turns_it_accuses_nobody(self) -> None:
        """No hook tells of an Escape: its time over, the session is idle, unless its client still says busy."""
        events = [*DONE, e.CompactionStarted(100.0)]
        assert (judged(events, 9999.0).state, codes(judged(events, 9999.0))) == (State.IDLE, [])
        assert judged(events, 300.0, told(ClientStatus.IDLE, 200.0)).state is State.IDLE
        assert codes(judged(events, 9999.0, told(ClientStatus.BUSY, 99.0))) == [FindingCode.SILENT]


class TestBackground:
    """A call came back and its command goes on."""

    def test_between_turns_it_is_named_with_its_command(self) -> None:
        """Idle, and its next turn begins when the task ends."""
        verdict = judged([*LEFT_RUNNING, e.TurnEnded(9.0)], 20.0)
        (wait,) = verdict.waits
        assert (verdict.state, verdict.health) == (State.IDLE, Health.HEALTHY)
        assert (wait.kind, wait.since, wait.until) == (WaitKind.BACKGROUND, at(2.0), at(602.0))
        assert wait.untrusted == 'Bash {"command":"make all"}'
        assert verdict.next_check_at == at(602.0)

    def test_its_end_and_its_time_end_it(self) -> None:
        """Reported as over, or unseen for too long, it is no longer waited for."""
        idle = [*LEFT_RUNNING, e.TurnEnded(9.0)]
        assert kinds(judged([*idle, e.TaskEnded(15.0, "b7")], 20.0)) == []
        assert kinds(judged([*idle, e.TaskEnded(15.0, "another")], 20.0)) == [WaitKind.BACKGROUND]
        late = judged(idle, 602.0)
        assert (kinds(late), codes(late), late.next_check_at) == ([], [], None)

    def test_a_process_seen_alive_extends_it(self) -> None:
        """As long as its process is there it goes on."""
        runtime = held()
        runtime.tool_seen_at = at(602.0)
        verdict = judged([*LEFT_RUNNING, e.TurnEnded(9.0)], 900.0, runtime)
        assert [(wait.kind, wait.until) for wait in verdict.waits] == [(WaitKind.BACKGROUND, at(1202.0))]
        assert "seen alive" in verdict.waits[0].evidence

    def test_an_agent_goes_on_while_its_log_grows(self) -> None:
        """It has no process of its own: half an hour of work is a wait, ten minutes without a line are none."""
        given = b'{"prompt":"look"}'
        left = [
            e.Prompted(1.0),
            e.CallStarted(2.0, "t1", "Agent", e.CallKind.SUBAGENT, given),
            e.CallEnded(3.0, "t1", background="a7"),
            e.TurnEnded(9.0),
        ]
        runtime = held()
        runtime.grown_at = at(1800.0)
        assert [wait.until for wait in judged(left, 1900.0, runtime).waits] == [at(2400.0)]
        assert judged(left, 2400.0, runtime).waits == ()
        assert kinds(judged([*LEFT_RUNNING, e.TurnEnded(9.0)], 1900.0, runtime)) == [], "a command has one"

    def test_within_a_turn_it_excuses_no_silence(self) -> None:
        """A server left running would excuse a hung model for ever."""
        runtime = held()
        runtime.tool_seen_at = at(600.0)
        assert kinds(judged(LEFT_RUNNING, 20.0, runtime)) == [WaitKind.MODEL]
        assert codes(judged(LEFT_RUNNING, 604.0, runtime)) == [FindingCode.SILENT]

    def test_few_are_remembered(self) -> None:
        """A session that leaves a thousand commands running fills no memory."""
        activity = Activity()
        for number in range(1000):
            call = str(number)
            folded([e.CallStarted(1.0, call, "Bash"), e.CallEnded(1.0, call, background=call)], activity)
        assert list(activity.background) == [str(number) for number in range(1000 - BACKGROUND_MAX, 1000)]

    def test_goodbye_ends_all(self) -> None:
        """A client that closes takes its tasks with it."""
        assert folded([*LEFT_RUNNING, e.ClientClosed(9.0)]).background == {}


class TestSleep:
    """The host slept in the middle of a turn."""

    @pytest.fixture
    def clock(self) -> VirtualClock:
        clock = VirtualClock()
        clock.now()
        return clock

    def verdict(self, clock: VirtualClock, activity: Activity) -> Verdict:
        now, runtime = clock.now(), held()
        runtime.slept = clock.last_sleep
        return judge(activity, runtime, POLICY, now)

    def prompted(self, clock: VirtualClock) -> Activity:
        now, activity = clock.now(), Activity()
        fold(activity, e.Prompted(now.wall), now)
        return activity

    def test_it_is_named_with_the_time_of_day_it_ends_at(self, clock: VirtualClock) -> None:
        """Both waits end at times that come, not at times that passed in sleep."""
        activity = self.prompted(clock)
        clock.advance(60.0)
        clock.now()
        clock.suspend(8 * HOUR)
        clock.advance(10.0)
        now = clock.now()
        verdict = self.verdict(clock, activity)
        assert kinds(verdict) == [WaitKind.MODEL, WaitKind.SLEEP]
        assert verdict.waits[1].evidence == "the host slept for 8 h 0 min"
        left_seconds = POLICY.silence_seconds - 70.0
        assert [wait.until for wait in verdict.waits] == [now.plus(left_seconds)] * 2
        assert verdict.next_check_at == now.plus(left_seconds)

    def test_waking_up_takes_a_while(self, clock: VirtualClock) -> None:
        """Due the moment the host woke: forgiven for a minute, then silent."""
        activity = self.prompted(clock)
        clock.advance(POLICY.silence_seconds - 1)
        clock.now()
        clock.suspend(8 * HOUR)
        clock.advance(2.0)
        verdict = self.verdict(clock, activity)
        assert (codes(verdict), kinds(verdict)) == ([], [WaitKind.SLEEP])
        clock.advance(POLICY.wake_grace_seconds)
        assert codes(self.verdict(clock, activity)) == [FindingCode.SILENT]

    def test_progress_since_then_ends_it(self, clock: VirtualClock) -> None:
        """Work after the sleep ends the wait."""
        clock.suspend(8 * HOUR)
        clock.now()
        clock.advance(1.0)
        assert kinds(self.verdict(clock, self.prompted(clock))) == [WaitKind.MODEL]

    def test_a_clock_that_was_set_is_no_sleep(self, clock: VirtualClock) -> None:
        """Only time that the host did not run is called sleep."""
        clock.set_wall(clock.now().wall + 8 * HOUR)
        clock.now()
        assert clock.last_sleep is None

    def test_a_limit_goes_on_while_the_host_sleeps(self, clock: VirtualClock) -> None:
        """The provider's hour is over after an hour, however much of it was slept."""
        now = clock.now()
        activity = self.prompted(clock)
        fold(activity, e.TurnFailed(now.wall, e.Failure.LIMIT, "limit", until=now.wall + HOUR), now)
        clock.suspend(HOUR / 2)
        verdict = self.verdict(clock, activity)
        assert [(wait.kind, wait.until) for wait in verdict.waits] == [
            (WaitKind.LIMIT, Instant(clock.now().awake + HOUR / 2, now.wall + HOUR))
        ]
        clock.suspend(HOUR)
        assert kinds(self.verdict(clock, activity)) == []


@pytest.mark.parametrize(
    "presence", [held(), held(ProcessState.DEAD, ended_at=at(9.0))], ids=["alive", "gone"]
)
def test_a_usage_limit_is_named_with_its_end(presence: RuntimeState) -> None:
    """Also when its program is gone; once it is over the session is not silent, a person has to prompt it."""
    events = [PROMPT, e.TurnFailed(2.0, e.Failure.LIMIT, "limit", until=3602.0)]
    verdict = judged(events, 10.0, presence)
    assert [(wait.kind, wait.until) for wait in verdict.waits] == [(WaitKind.LIMIT, at(3602.0))]
    assert verdict.findings[0].evidence == ("the limit ends at 1970-01-01T01:00:02.000Z",)
    assert verdict.next_check_at == at(3602.0)
    over = judged(events, 3602.0, presence)
    assert (codes(over), kinds(over)) == ([FindingCode.USAGE_LIMITED], [])
    assert "has ended" in over.findings[0].summary


def test_a_refused_request_does_not_excuse_silence_for_ever() -> None:
    """One retry and then nothing: the wait for it has a name and an end."""
    events = [PROMPT, e.RequestRetried(2.0)]
    assert kinds(judged(events, 600.0)) == [WaitKind.RETRY]
    assert codes(judged(events, 602.0)) == [FindingCode.SILENT]


def test_a_cycle_with_polls_becomes_a_loop_in_time() -> None:
    """Nothing more happens: the deadline says when the verdict changes, and it does."""
    events: list[e.Event] = [PROMPT]
    for number in range(8):
        made = 10.0 + 20.0 * number
        command = b'{"command":"make"}' if number % 2 == 0 else b'{"command":"sleep 9; cat log"}'
        events += [
            e.CallStarted(made, str(number), "Bash", input=command),
            e.CallEnded(made + 1, str(number), result=b'"same"'),
        ]
    waiting = [*events, e.CallStarted(200.0, "x", "Bash", timeout_seconds=7200.0)]
    due = 10.0 + POLICY.poll_seconds
    early = judged(waiting, 900.0)
    assert (codes(early), early.next_check_at) == ([], at(due))
    assert codes(judged(waiting, due)) == [FindingCode.LOOP]
    assert codes(judged(events, due, held(ProcessState.DEAD, ended_at=at(200.0)))) == [
        FindingCode.SESSION_DEAD
    ]


class FixtureWithTasks(SupervisorFixture):
    """Its agents have a process for every call."""

    alive = True

    def has_live_tool(self, agent: Process, within_seconds: float) -> bool:
        del agent
        return self.alive and within_seconds > 0


def shown(house: SupervisorFixture) -> SessionRecord:
    record = house.registry.sessions[subject("a").id].record
    assert record is not None
    return record


def pass_time(house: SupervisorFixture, seconds: float) -> None:
    house.clock.advance(seconds)
    house.supervisor.on_timer()
    house.settle()


def test_a_task_left_running_is_looked_for_when_its_time_is_over() -> None:
    """Its process there: it goes on. Gone: it is waited for no more."""
    house = FixtureWithTasks()
    house.start("a")
    now = house.clock.now().wall
    house.hear("a", *(replace(event, at=now + event.at) for event in LEFT_RUNNING), e.TurnEnded(now + 9))
    pass_time(house, POLICY.tool_seconds + 3)
    assert [wait.kind for wait in shown(house).expected_waits] == [WaitKind.BACKGROUND]
    house.alive = False
    pass_time(house, POLICY.silence_seconds)
    assert shown(house).expected_waits == ()
    assert shown(house).state is State.IDLE


def test_everybody_at_work_is_told_of_the_hosts_sleep(house: SupervisorFixture) -> None:
    """Without a line and without a deadline of its own, the next look names the sleep."""
    house.start("a")
    house.hear("a", e.Prompted(house.clock.now().wall))
    house.clock.suspend(8 * HOUR)
    pass_time(house, 1.0)
    assert [wait.kind for wait in shown(house).expected_waits] == [WaitKind.MODEL, WaitKind.SLEEP]


@pytest.mark.parametrize("others", [(), (e.CallStarted(2.0, "r", "Read", input=b'{"file_path":"a.py"}'),)])
def test_a_question_that_names_its_call_reads_the_same_before_and_after_its_log(
    others: tuple[e.Event, ...],
) -> None:
    """A stream or hook reports it with its call, often before the log has that; other calls run beside it."""
    before = [PROMPT, *others, e.QuestionAsked(3.0, 'Bash {"command":"touch made"}')]
    after = [*before, e.CallStarted(2.9, "b", "Bash", input=b'{"command":"touch made"}')]
    abouts = {wait.untrusted for events in (before, after) for wait in judged(events, 4.0).waits}
    assert abouts == {'Bash {"command":"touch made"}'}
