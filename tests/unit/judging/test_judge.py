"""The rules of liveness, one test per sentence."""

import pytest

from support.judging_helpers import at, codes, folded, held, hold_by, judged, told
from wakeful.core.process import Process, ProcessState
from wakeful.judging import events as e
from wakeful.judging.activity import Activity
from wakeful.judging.evidence import ClientStatus, LivenessLevel, Orphan, Pane, RuntimeState
from wakeful.judging.findings import Attention, FindingCode, Health, State, WaitKind
from wakeful.judging.folding import fold
from wakeful.judging.judge import judge
from wakeful.judging.thresholds import Dollars, Policy
from wakeful.testing.virtual_clock import VirtualClock

PROMPT = e.Prompted(1.0)
WORKING = [PROMPT, e.CallStarted(2.0, "a", "Bash", input=b'{"command":"make"}')]
DONE = [PROMPT, e.TurnEnded(5.0)]
GONE = held(ProcessState.DEAD, ended_at=at(9.0))


def pane(sight: ProcessState) -> Pane:
    return Pane("/run/tmux", "work", "work:0.0", Process(50, 1, "boot"), sight, ProcessState.ALIVE)


def test_gone_after_a_finished_turn_is_stopped_and_healthy() -> None:
    """A program that ended after its work simply stopped."""
    verdict = judged(DONE, 10.0, GONE)
    assert (verdict.state, verdict.health, verdict.findings) == (State.STOPPED, Health.HEALTHY, ())


@pytest.mark.parametrize("events", [WORKING, [PROMPT], [PROMPT, e.QuestionAsked(2.0, "Bash")]])
def test_gone_inside_a_turn_is_dead(events: list[e.Event]) -> None:
    """Seen alive before and gone while it owed an answer: dead, since the moment it ended."""
    verdict = judged(events, 10.0, GONE)
    assert (verdict.state, verdict.health, codes(verdict)) == (
        State.STOPPED,
        Health.DEAD,
        [FindingCode.SESSION_DEAD],
    )
    assert verdict.findings[0].since == at(9.0)
    assert verdict.broken_at is LivenessLevel.AGENT_PROCESS


TEXT = e.TextWritten(5.0, 7)
STATED = e.Progressed(2.0, 6)


@pytest.mark.parametrize(
    ("before", "state", "found"),
    [
        ([PROMPT], State.IDLE, []),
        ([PROMPT, STATED], State.PROMPTING, [FindingCode.SILENT]),
        ([PROMPT, e.TurnEnded(1.5, words=6), e.Prompted(1.6)], State.PROMPTING, [FindingCode.SILENT]),
        # What the client itself says ends with a reason in every dialect.
        ([PROMPT, e.TurnEnded(1.5), e.Prompted(1.6)], State.IDLE, []),
    ],
)
def test_a_text_without_a_stop_reason_is_no_end_where_texts_state_theirs(
    before: list[e.Event], state: State, found: list[FindingCode]
) -> None:
    """A model that hung behind its first words is silent, not idle, and dead when it is killed."""
    hung = judged([*before, TEXT], 5.0 + 22 * 60)
    assert (hung.state, codes(hung)) == (state, found)
    assert bool(codes(judged([*before, TEXT], 10.0, GONE))) is bool(found)


def test_a_death_names_the_call_and_the_tool_it_left_behind() -> None:
    """What was interrupted, and what still runs, is part of the evidence."""
    runtime = held(ProcessState.DEAD)
    runtime.orphans = (Orphan(Process(77, 2, "boot"), "make all"),)
    (death,) = judged(WORKING, 10.0, runtime).findings
    assert death.untrusted == ('Bash {"command":"make"}', "make all")
    assert "its tool still runs as process 77" in death.evidence


def test_gone_to_a_shell_in_a_live_pane_has_exited() -> None:
    """tmux alive is not agent alive."""
    runtime = held(ProcessState.DEAD)
    runtime.pane = pane(ProcessState.ALIVE)
    verdict = judged(WORKING, 10.0, runtime)
    assert codes(verdict) == [FindingCode.AGENT_EXITED]
    assert (verdict.alive_to, verdict.broken_at) == (LivenessLevel.PANE_PROCESS, LivenessLevel.AGENT_PROCESS)


def test_gone_after_text_that_may_have_been_the_last_is_not_dead() -> None:
    """If the log does not say that a turn ended, the session is not called dead."""
    assert judged([PROMPT, e.TextWritten(2.0)], 10.0, GONE).health is Health.HEALTHY


@pytest.mark.parametrize(
    "events",
    [
        WORKING,
        [PROMPT, e.TurnFailed(2.0, e.Failure.AUTH)],
        [
            event
            for number in range(9)
            for event in (
                e.CallStarted(2.0, f"{number}", "Bash"),
                e.CallEnded(2.0, f"{number}", is_error=True),
            )
        ],
    ],
)
def test_never_seen_alive_is_stopped_and_unknown_without_alarm(events: list[e.Event]) -> None:
    """A transcript without a process we ever saw raises nothing, however it ends."""
    verdict = judged(events, 99_999.0, RuntimeState())
    assert (verdict.state, verdict.health, verdict.findings) == (State.STOPPED, Health.UNKNOWN, ())


def test_a_probe_that_failed_is_not_a_death() -> None:
    """Unknown is never dead."""
    verdict = judged(WORKING, 10.0, held(ProcessState.UNKNOWN))
    assert (verdict.health, codes(verdict)) == (Health.UNKNOWN, [])


def test_a_log_that_grows_has_a_living_writer() -> None:
    """A session whose log just grew is alive without a known process; later it is unknown."""
    runtime = RuntimeState(grown_at=at(100.0))
    assert judged(WORKING, 160.0, runtime).state is State.PROMPTING
    assert judged(WORKING, 701.0, runtime).health is Health.UNKNOWN


def test_a_vouched_log_lives_until_it_says_goodbye() -> None:
    """A log that speaks for its program: silent means silent, closed means stopped."""
    vouched = RuntimeState(vouched=True)
    assert codes(judged(WORKING, 9999.0, vouched)) == [FindingCode.SILENT]
    assert judged([*DONE, e.ClientClosed(6.0)], 10.0, vouched).state is State.STOPPED
    assert codes(judged([*WORKING, e.ClientClosed(6.0)], 10.0, vouched)) == [FindingCode.SESSION_DEAD]


def test_the_clients_own_word_makes_it_wait() -> None:
    """A permission prompt leaves no line in the log; the registry knows."""
    verdict = judged(WORKING, 3.0, told(ClientStatus.WAITING, 2.5, waiting_for="permission prompt"))
    assert (verdict.state, verdict.attention, verdict.active_prompt) == (
        State.WAITING,
        Attention.PERSON,
        True,
    )
    assert [(wait.kind, wait.until, wait.untrusted) for wait in verdict.waits] == [
        (WaitKind.PERSON, None, 'permission prompt: Bash {"command":"make"}')
    ]


def test_a_newer_idle_ends_a_turn_and_an_older_one_does_not() -> None:
    """The newer of log and registry is believed."""
    assert judged(WORKING, 9.0, told(ClientStatus.IDLE, 5.0)).state is State.IDLE
    assert judged(WORKING, 9.0, told(ClientStatus.IDLE, 1.5)).state is State.PROMPTING


def test_a_newer_busy_opens_a_turn_and_an_older_one_does_not() -> None:
    """A prompt is busy before its line is written; the busy of the last turn hides no failure and no question."""
    failed = [PROMPT, e.TurnFailed(5.0, e.Failure.AUTH)]
    assert judged(DONE, 9.0, told(ClientStatus.BUSY, 8.0)).state is State.PROMPTING
    assert judged(DONE, 9.0, told(ClientStatus.BUSY, 1.0)).state is State.IDLE
    assert codes(judged(failed, 9.0, told(ClientStatus.BUSY, 1.0))) == [FindingCode.AUTH_REQUIRED]
    asked = [*WORKING, e.QuestionAsked(3.0, "Bash")]
    assert judged(asked, 9.0, told(ClientStatus.BUSY, 1.0)).state is State.WAITING
    assert [wait.kind for wait in judged(asked, 9.0, told(ClientStatus.BUSY, 4.0)).waits] == [WaitKind.TOOL]


def test_a_wait_for_a_person_never_runs_out() -> None:
    """A session that waits for an answer is not silent."""
    verdict = judged([PROMPT, e.QuestionAsked(2.0, "Bash")], 1e6)
    assert (verdict.state, verdict.health, verdict.next_check_at) == (State.WAITING, Health.HEALTHY, None)


@pytest.mark.parametrize(
    ("events", "ends"),
    [
        ([PROMPT], 601.0),
        (WORKING, 602.0),
        ([PROMPT, e.CallStarted(2.0, "a", "Bash", timeout_seconds=30.0)], 602.0),
        ([PROMPT, e.CallStarted(2.0, "a", "Bash", timeout_seconds=1800.0)], 1832.0),
        ([*WORKING, e.Progressed(300.0)], 900.0),
        ([*WORKING, e.CallStarted(2.0, "b", "Bash", timeout_seconds=1800.0)], 1832.0),
    ],
)
def test_silence_begins_when_every_wait_has_run_out(events: list[e.Event], ends: float) -> None:
    """Never before ten quiet minutes, and never while a call is within the time it declared."""
    early = judged(events, ends - 0.1)
    assert codes(early) == []
    assert early.next_check_at is not None
    assert early.next_check_at <= at(ends)
    late = judged(events, ends)
    assert (codes(late)[0], late.health, late.state) == (FindingCode.SILENT, Health.DEGRADED, State.PROMPTING)
    declared = any(isinstance(event, e.CallStarted) and event.timeout_seconds for event in events)
    assert (FindingCode.TOOL_WEDGED in codes(late)) is declared
    assert late.waits == ()


def test_a_tool_seen_alive_may_go_on() -> None:
    """A live process of the call is progress enough, whatever the log says."""
    runtime = held()
    runtime.tool_seen_at = at(3000.0)
    assert codes(judged(WORKING, 3500.0, runtime)) == []
    assert codes(judged(WORKING, 3601.0, runtime)) == [FindingCode.SILENT]


def test_a_subagent_whose_log_grows_keeps_its_session_awake() -> None:
    """The main log is silent while a subagent works."""
    runtime = held()
    runtime.grown_at = at(3000.0)
    events = [PROMPT, e.CallStarted(2.0, "a", "Task", e.CallKind.SUBAGENT)]
    assert codes(judged(events, 3500.0, runtime)) == []
    assert codes(judged(events, 3601.0, runtime)) == [FindingCode.SILENT]


def test_text_settles_into_an_idle_session() -> None:
    """Where the log does not tell, a minute without more is an end, said by `next_check_at` beforehand."""
    spoken = [PROMPT, e.TextWritten(2.0)]
    assert judged(spoken, 61.9).state is State.PROMPTING
    assert judged(spoken, 61.9).next_check_at == at(62.0)
    assert (judged(spoken, 62.0).state, judged(spoken, 9e5).health) == (State.IDLE, Health.HEALTHY)


def test_a_host_that_slept_accuses_nobody() -> None:
    """Eight hours of a closed lid are no silence; ten waking minutes are."""
    clock = VirtualClock()
    clock.now()
    activity = Activity()
    for event in (e.Prompted(clock.now().wall), e.CallStarted(clock.now().wall, "a", "Bash")):
        fold(activity, event, clock.instant(event.at))
    clock.advance(60.0)
    clock.now()
    clock.suspend(8 * 3600.0)
    clock.advance(10.0)
    assert codes(judge(activity, held(), Policy(), clock.now())) == []
    clock.advance(531.0)
    assert codes(judge(activity, held(), Policy(), clock.now())) == [FindingCode.SILENT]


def test_two_living_processes_are_twins() -> None:
    """One conversation has one owner; both are named."""
    runtime = held(pid=100)
    hold_by(runtime, ProcessState.ALIVE, 200)
    verdict = judged(DONE, 9.0, runtime)
    assert codes(verdict) == [FindingCode.TWIN_PROCESSES]
    assert verdict.findings[0].evidence == ("pids 100, 200",)
    hold_by(runtime, ProcessState.DEAD, 200)
    assert codes(judged(DONE, 9.0, runtime)) == []


def test_a_resume_that_fails_at_once_is_no_twin() -> None:
    """It holds the conversation for a moment; who stays longer is judged again when that time is over."""
    runtime = held(pid=100)
    hold_by(runtime, ProcessState.ALIVE, 200)
    early = judged(DONE, 2.9, runtime)
    assert codes(early) == []
    assert early.next_check_at is not None
    assert early.next_check_at.wall == 3.0
    assert codes(judged(DONE, 3.0, runtime)) == [FindingCode.TWIN_PROCESSES]


@pytest.mark.parametrize(
    ("failure", "code", "attention"),
    [
        (e.Failure.AUTH, FindingCode.AUTH_REQUIRED, Attention.LOGIN),
        (e.Failure.LIMIT, FindingCode.USAGE_LIMITED, Attention.TIME),
        (e.Failure.PROVIDER, FindingCode.TURN_FAILED, Attention.OPERATOR),
        (e.Failure.UNKNOWN, FindingCode.TURN_FAILED, Attention.OPERATOR),
    ],
)
@pytest.mark.parametrize("presence", [held(), GONE], ids=["alive", "gone"])
def test_a_failed_turn_is_not_a_crash(
    failure: e.Failure, code: FindingCode, attention: Attention, presence: RuntimeState
) -> None:
    """A 401 or a limit says who has to move, and is never `dead`, also when the program then ended."""
    verdict = judged([PROMPT, e.TurnFailed(2.0, failure, "sorry")], 10.0, presence)
    assert (codes(verdict), verdict.health, verdict.attention) == ([code], Health.DEGRADED, attention)
    assert verdict.findings[0].untrusted == ("sorry",)


def test_a_changed_format_is_said_and_judged_unknown() -> None:
    """A needed field gone: one finding, health unknown, whatever else looks fine."""
    verdict = judged([*DONE, e.FormatDrifted(6.0, "user.message"), e.FormatDrifted(7.0, "timestamp")], 9.0)
    assert (codes(verdict), verdict.health) == ([FindingCode.READER_DRIFT], Health.UNKNOWN)
    assert "user.message" in verdict.findings[0].summary


def test_many_unknown_records_and_no_known_one_are_drift() -> None:
    """A log of which nothing is understood is not a quiet session; a few new records in a known one are nothing."""
    strange = [e.RecordSkipped(0.0, "x")] * 20
    assert codes(judged(strange, 9.0)) == [FindingCode.READER_DRIFT]
    assert codes(judged(strange[:-1], 9.0)) == []
    assert codes(judged([*strange, *DONE], 9.0)) == []


@pytest.mark.parametrize(
    ("turn", "is_drift"), [((), True), ((e.Prompted(1.0),), False), ((e.TextWritten(1.0, words=7),), False)]
)
def test_marks_of_a_turn_are_none(turn: tuple[e.Event, ...], is_drift: bool) -> None:
    """Progress and a closed book beside many unknown records: the words and calls themselves are what is missing."""
    marks = [e.Progressed(2.0), e.Progressed(3.0), e.TurnEnded(4.0, by_mark=True)]
    unknown = [e.RecordSkipped(0.0, "turn_assistant")] * 20
    assert (FindingCode.READER_DRIFT in codes(judged([*turn, *marks, *unknown], 5.0))) is is_drift


def test_the_worst_finding_speaks_first() -> None:
    """Several things can be wrong at once; the gravest is named first."""
    verdict = judged([*WORKING, e.FormatDrifted(3.0, "x")], 10.0, GONE)
    assert codes(verdict) == [FindingCode.SESSION_DEAD, FindingCode.READER_DRIFT]
    assert verdict.health is Health.DEAD


def test_a_log_whose_writer_nobody_knows_is_never_silent() -> None:
    """A folder of tool logs that no record calls active just ends."""
    assert codes(judged(WORKING, 1100.0, RuntimeState(grown_at=at(600.0)))) == []


def test_an_idle_session_that_only_its_log_shows_goes_stale() -> None:
    """Two minutes after the last proof of presence, by age alone: no finding; with a process seen, never."""
    vouched = RuntimeState(vouched=True)
    assert judged(DONE, 124.0, vouched).next_check_at == at(125.0)
    stale = judged(DONE, 125.0, vouched)
    assert (stale.health, stale.state, codes(stale)) == (Health.STALE, State.IDLE, [])
    assert judged(DONE, 99_999.0).health is Health.HEALTHY


def test_a_turn_may_cost_too_much() -> None:
    """In money only if prices are configured; output tokens cost more than input tokens."""
    spent = [e.Prompted(1.0), e.TokensSpent(2.0, 1_000_000, 500_000)]
    priced = Policy(
        runaway_cost_usd=Dollars(10.0),
        input_usd_per_million=Dollars(3.0),
        output_usd_per_million=Dollars(15.0),
    )
    dear = judge(folded(spent), held(), priced, at(3.0))
    assert (codes(dear), "$10.50" in dear.findings[0].summary) == ([FindingCode.RUNAWAY], True)
    assert codes(judge(folded([*spent, e.Prompted(2.5)]), held(), priced, at(3.0))) == []
    assert codes(judged(spent, 3.0)) == []
