"""Stepping through recorded time: when episodes begin and end, and that nothing is missed by not judging."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from support.recordings import lines_of, reader_of, recordings
from wakeful.judging import events as e
from wakeful.judging.findings import FindingCode, Health
from wakeful.judging.thresholds import Policy
from wakeful.judging.turn_state import TurnPhase
from wakeful.replay.cases import label_of
from wakeful.replay.engine import Replay, ReplayOutcome
from wakeful.replay.report import ReplayedSession, compare, make_replay_report
from wakeful.replay.tuning import TRIALS, propose, trial_policies

T0: Final = 1_770_000_000.0
POLICY: Final = Policy()


def call(at: float, number: int, *, command: str = "make", is_error: bool = False) -> list[e.Event]:
    """A call made at a time that comes back two seconds later, every one with a result of its own."""
    given_bytes = msgspec.json.encode({"command": command})
    return [
        e.CallStarted(T0 + at, f"c{number}", "Bash", input=given_bytes, timeout_seconds=120.0),
        e.CallEnded(T0 + at + 2, f"c{number}", is_error=is_error, result=b'"output %d"' % number),
    ]


def replayed(events: Sequence[e.Event], policy: Policy = POLICY, *, thorough: bool = False) -> Replay:
    replay = Replay([policy], thorough=thorough)
    replay.feed(events)
    return replay


def outline(outcome: ReplayOutcome) -> list[tuple[FindingCode, float, float | None]]:
    """Episodes in seconds since the beginning."""
    return [
        (each.code, each.began.wall - T0, None if each.ended is None else each.ended.wall - T0)
        for each in outcome.episodes
    ]


def test_silence_begins_at_its_deadline_and_ends_with_the_next_record() -> None:
    """An episode begins when its alert would have been sent, between two records."""
    replay = replayed([e.Prompted(T0), e.Progressed(T0 + 1000), e.TurnEnded(T0 + 1001)])
    (outcome,) = replay.finish()
    assert outline(outcome) == [(FindingCode.SILENT, 600.0, 1000.0)]
    assert outcome.episodes[0].waiting_for is TurnPhase.MODEL
    assert outcome.verdict.health is Health.HEALTHY


def test_time_passes_after_the_last_record_only_if_now_is_later() -> None:
    """By default a recording is judged at its last record."""
    assert outline(replayed([e.Prompted(T0)]).finish()[0]) == []
    (outcome,) = replayed([e.Prompted(T0)]).finish(T0 + 700)
    assert outline(outcome) == [(FindingCode.SILENT, 600.0, None)]
    assert outcome.now.wall == T0 + 700


def test_records_after_now_have_not_happened() -> None:
    """Looked at from an earlier time, a session is where it was then."""
    replay = Replay([POLICY], until=T0 + 700)
    replay.feed([e.Prompted(T0), e.Progressed(T0 + 1000)])
    assert outline(replay.finish(T0 + 700)[0]) == [(FindingCode.SILENT, 600.0, None)]


def test_a_process_that_is_gone_died_with_its_last_record() -> None:
    """Inside a turn that is a death; after one it is an end."""
    (inside,) = replayed([e.Prompted(T0), e.Progressed(T0 + 5)]).finish(T0 + 5000, gone=True)
    assert outline(inside) == [(FindingCode.SESSION_DEAD, 5.0, None)]
    (after,) = replayed([e.Prompted(T0), e.TurnEnded(T0 + 5)]).finish(T0 + 5000, gone=True)
    assert outline(after) == []


def test_a_turn_that_begins_unjudged_can_be_silent() -> None:
    """The last verdict saw no deadline at all; the prompt after it brought one."""
    over = [e.Prompted(T0), e.TurnEnded(T0 + 5), e.TurnEnded(T0 + 1000, by_mark=True)]
    events = [*over, e.Prompted(T0 + 1010), e.Progressed(T0 + 2000)]
    assert outline(replayed(events).finish()[0]) == [(FindingCode.SILENT, 1610.0, 2000.0)]


def test_a_loop_that_only_time_makes_one_is_seen_in_time() -> None:
    """Repeats with polls in between count once they have lasted; nothing has to happen then."""
    events = _repeated(["make", "sleep 9; cat log"] * 4, 20.0)
    # None of these comes so late that it would be judged for that.
    events += [e.Progressed(T0 + at) for at in (500, 900, 1300, 1700, 1850, 1900)]
    quick, thorough = (replayed(events, thorough=each).finish()[0] for each in (False, True))
    assert outline(quick) == outline(thorough) == [(FindingCode.LOOP, 1820.0, None)]


def test_a_cascade_is_over_when_a_call_succeeds() -> None:
    """The sixth error opens the episode, the next success closes it."""
    events: list[e.Event] = [e.Prompted(T0)]
    for number in range(7):
        events += call(10 + 10 * number, number, command=f"make {number}", is_error=number < 6)
    assert outline(replayed(events).finish()[0]) == [(FindingCode.ERROR_CASCADE, 62.0, 72.0)]


def test_a_mark_without_a_time_does_not_hide_the_beginning() -> None:
    """Bytes that are no record stand first; the session behind them is judged like any other."""
    (outcome,) = replayed([e.LineMalformed(0.0, "torn"), *QUIET]).finish()
    assert outline(outcome) == [(FindingCode.SILENT, 600.0, 700.0)]


def test_a_log_without_any_time_is_judged_when_it_was_written() -> None:
    """No drift is reported in 1970."""
    replay = Replay([Policy()])
    replay.feed([e.FormatDrifted(0.0, "timestamp")])
    (outcome,) = replay.finish(written=T0)
    assert [(each.code, each.began.wall, each.found.since.wall) for each in outcome.episodes] == [
        (FindingCode.READER_DRIFT, T0, T0)
    ]


def test_a_loop_or_a_cascade_is_over_with_its_turn() -> None:
    """Text came and nothing after it: where the log does not say so, some time does."""
    events = [*_repeated(["make"] * 8), e.TextWritten(T0 + 60, 1)]
    failed = [
        msgspec.structs.replace(each, is_error=True) if isinstance(each, e.CallEnded) else each
        for each in events
    ]
    for told, codes in (
        (events, [FindingCode.LOOP]),
        (failed, [FindingCode.LOOP, FindingCode.ERROR_CASCADE]),
    ):
        replay = Replay([Policy()])
        replay.feed(told)
        (outcome,) = replay.finish(T0 + 600)
        assert [each.code for each in outcome.episodes] == codes
        assert {each.ended.wall for each in outcome.episodes if each.ended} == {T0 + 120}
        assert outcome.verdict.findings == ()


def test_a_wedge_counts_against_the_time_of_tools() -> None:
    """A client that ends its calls itself is never silent in one: what it would have been accused of counts."""
    events = [e.Prompted(T0), e.CallStarted(T0, "a", "Edit", enforced=True), e.CallEnded(T0 + 700, "a")]
    (proposal,) = propose([stepped("x", events, trial_policies())])
    tools = next(each for each in proposal.lessons if each.key == "tool_seconds")
    assert (tools.value, [each.false_alarm_share for each in tools.tried[:3]]) == (900.0, [1.0, 1.0, 0.0])


def test_an_empty_recording_has_a_verdict() -> None:
    """No record: nothing is known, and nothing is reported."""
    (outcome,) = Replay([POLICY]).finish()
    assert outline(outcome) == []
    assert outcome.verdict.health is Health.UNKNOWN


@pytest.mark.parametrize("recording", recordings(), ids=lambda path: path.name[:20])
def test_every_recording_reads_the_same_thoroughly(recording: Path) -> None:
    """Judging after every event of a recorded session finds what judging where it matters finds."""
    reader = reader_of(recording)
    events = [event for line in lines_of(recording) for event in reader.read(line)]
    policy = Policy(silence_seconds=60.0, tool_seconds=60.0, repeats_max=1, cycles_max=1, duplicates_max=1)
    assert steps(events, policy, thorough=False) == steps(events, policy, thorough=True)


def steps(events: Sequence[e.Event], policy: Policy, *, thorough: bool) -> object:
    (outcome,) = replayed(events, policy, thorough=thorough).finish(gone=False)
    return outcome.verdict, outline(outcome)


GAPS: Final = st.sampled_from([0.0, 0.5, 1.0, 2.0, 5.0, 10.0, 11.0, 30.0, 61.0, 200.0, 700.0, 4000.0, -3.0])
# Small numbers, so that short sequences reach them; seconds that collide, so that order matters.
TIGHT: Final = Policy(
    silence_seconds=10.0,
    stale_seconds=20.0,
    settle_seconds=5.0,
    tool_seconds=12.0,
    tool_grace_seconds=2.0,
    errors_in_a_row_max=1,
    repeats_max=2,
    cycles_max=2,
    duplicates_max=2,
    poll_seconds=20.0,
    runaway_seconds=40.0,
    runaway_calls_max=6,
    runaway_tokens_max=50,
    failures_alike_max=1,
    drift_records_min=2,
)
LOOSE: Final = msgspec.structs.replace(TIGHT, silence_seconds=600.0, runaway_seconds=900.0, poll_seconds=60.0)


@st.composite
def sessions(draw: st.DrawFn) -> list[e.Event]:
    at, events = T0, list[e.Event]()
    for _ in range(draw(st.integers(1, 40))):
        at += draw(GAPS)
        events += draw(EVENTS)(at, draw(st.integers(0, 2)))
    return events


def _started(at: float, number: int) -> e.Event:
    command = ("make", "git status", "sleep 5; cat log")[number]
    given_bytes = msgspec.json.encode({"command": command})
    timeout = (None, 3.0, 100.0)[number]
    return e.CallStarted(at, f"c{number}", "Bash", input=given_bytes, timeout_seconds=timeout)


def _whole(at: float, number: int) -> list[e.Event]:
    return [_started(at, number), e.CallEnded(at + number, f"c{number}", result=b'"same"')]


def _failing(at: float, number: int) -> list[e.Event]:
    refused = number == 0
    return [
        e.CallStarted(at, "f", "Read", input=b'{"path":"%d"}' % number),
        e.CallEnded(at + 1, "f", is_error=True, refused=refused, result=b'"bad"'),
    ]


def _fresh(at: float, number: int) -> list[e.Event]:
    """Work that repeats nothing: after it only time can bring a finding."""
    given_bytes = msgspec.json.encode({"file_path": f"{at}"})
    return [e.CallStarted(at, "w", "Write", input=given_bytes), e.CallEnded(at + number / 2, "w")]


def _turn(at: float, number: int) -> list[e.Event]:
    return [e.Prompted(at, by_person=number > 0), e.Progressed(at + 1), e.TurnEnded(at + 2)][: number + 1]


MAKERS: Final[list[Callable[[float, int], list[e.Event]]]] = [
    *[_whole, _failing, _fresh] * 3,
    lambda at, number: [_started(at, number)],
    lambda at, number: [e.CallEnded(at, f"c{number}", result=b'"same"')],
    lambda at, number: [e.CallStarted(at, f"p{number}", "AskUserQuestion", e.CallKind.PERSON)],
    lambda at, number: [e.CallEnded(at, f"p{number}")],
    *[_turn] * 3,
    lambda at, number: [e.Prompted(at, by_person=number > 0)],
    lambda at, number: [e.Progressed(at, number)],
    lambda at, number: [e.TextWritten(at, number)],
    lambda at, number: [e.TextWritten(at, 10 + number, 8 + number)],
    lambda at, _: [e.CompactionEnded(at)] * 4,
    lambda at, number: [e.TurnEnded(at, by_mark=number == 0, words=number)],
    lambda at, number: [e.TurnFailed(at, tuple(e.Failure)[number], "no", until=at + 50 * number)],
    lambda at, _: [e.RequestRetried(at)],
    lambda at, _: [e.TurnInterrupted(at), e.ClientClosed(at)],
    lambda at, _: [e.CompactionEnded(at)],
    lambda at, _: [e.QuestionAsked(at, "Bash")],
    lambda at, _: [e.QuestionAnswered(at)],
    lambda at, number: [e.TokensSpent(at, 10 * number, number), e.LogOpened(at, cwd="/p")],
    lambda at, number: [
        e.BudgetReported(at, 0.1 * number, 0.3),
        e.TokensSpent(at, 1, 1, 1.0),
        e.LogClosed(0.0),
    ],
    lambda _at, number: [e.RecordSkipped(0.0, "new") if number else e.LineMalformed(0.0, "torn")],
]
EVENTS: Final = st.sampled_from(MAKERS)


@given(sessions(), st.sampled_from([TIGHT, LOOSE]), st.booleans(), st.sampled_from([None, 30.0, 2000.0]))
@settings(max_examples=600, deadline=None)
def test_nothing_is_missed_by_not_judging(
    events: list[e.Event], policy: Policy, gone: bool, later_seconds: float | None
) -> None:
    """Whatever happens in whichever order: the episodes are those of judging after every event."""
    outcomes = []
    for thorough in (False, True):
        replay = replayed(events, policy, thorough=thorough)
        now = None if later_seconds is None else replay.clock + later_seconds
        outcomes.append(replay.finish(now, gone=gone)[0])
    assert outline(outcomes[0]) == outline(outcomes[1])
    assert outcomes[0].verdict == outcomes[1].verdict


@given(sessions())
@settings(max_examples=100, deadline=None)
def test_policies_do_not_disturb_each_other(events: list[e.Event]) -> None:
    """Stepped together or each alone, policies say the same."""
    together = Replay([TIGHT, POLICY, LOOSE])
    together.feed(events)
    for outcome, policy in zip(together.finish(), (TIGHT, POLICY, LOOSE), strict=True):
        (alone,) = replayed(events, policy).finish()
        assert outline(outcome) == outline(alone)


def stepped(
    name: str, events: Sequence[e.Event], policies: Sequence[Policy], expect: str | None = None
) -> ReplayedSession:
    replay = Replay(policies)
    replay.feed(events)
    outcomes = tuple(replay.finish())
    return ReplayedSession(name, "events", name[0], replay.events, replay.began, outcomes, expect)


QUIET: Final = (e.Prompted(T0), e.Progressed(T0 + 700), e.TurnEnded(T0 + 701))
BUSY: Final = (e.Prompted(T0), e.TurnEnded(T0 + 5))


def test_a_report_counts_labels() -> None:
    """Precision is about what was said, recall about what was expected; a wrong case is named."""
    stuck = (e.Prompted(T0), e.Progressed(T0 + 1), e.Prompted(T0 + 700))
    told = make_replay_report(
        [
            stepped("right", BUSY, [POLICY], "ok"),
            stepped("wrong", stuck[:2], [POLICY], "silent"),
            stepped("unlabelled", BUSY, [POLICY]),
        ]
    )
    cases = told.summary.cases
    assert not isinstance(cases, msgspec.UnsetType)
    assert (cases.total, cases.right, cases.wrong) == (2, 1, ("wrong",))
    assert (cases.labels["ok"].precision, cases.labels["ok"].recall) == (0.5, 1.0)
    assert (cases.labels["silent"].precision, cases.labels["silent"].recall) == (None, 0.0)
    assert told.summary.sessions == 3


def test_both_ways_to_die_have_one_label() -> None:
    """A case says dead, whatever the code."""
    (outcome,) = replayed([e.Prompted(T0)]).finish(gone=True)
    assert label_of(outcome.verdict) == "dead"


def test_a_comparison_tells_only_what_differs() -> None:
    """The session both judge alike is counted and not shown."""
    policies = [POLICY, Policy(silence_seconds=900.0)]
    sessions_ = [stepped("quiet", QUIET, policies), stepped("busy", BUSY, policies)]
    told = compare(make_replay_report(sessions_, 0), make_replay_report(sessions_, 1))
    assert [each.id for each in told.differences] == ["quiet"]
    assert [each.code for each in told.differences[0].only_first] == [FindingCode.SILENT]
    assert told.differences[0].only_second == ()
    assert told.sessions == 2


def test_learning_proposes_the_smallest_limit_that_accuses_nobody() -> None:
    """A project that pauses for 700 s gets 900; one that never pauses keeps the default, for it is only one session."""
    policies = trial_policies()
    everything, busy, quiet = propose([stepped("quiet", QUIET, policies), stepped("busy", BUSY, policies)])
    values = {each.project: each.lessons[0].value for each in (everything, busy, quiet)}
    assert values == {"": 900.0, "b": 600.0, "q": 900.0}
    shares = {tried.value: tried.false_alarm_share for tried in everything.lessons[0].tried}
    assert (shares[600.0], shares[900.0]) == (0.5, 0.0)
    assert everything.lessons[1].false_alarm_share == 0.0


def test_many_sessions_may_make_a_limit_stricter_than_its_default() -> None:
    """A hundred sessions without a pause of five minutes are worth listening to; those labelled bad are left out."""
    policies = trial_policies()
    (proposal,) = propose(
        [stepped("b", BUSY, policies)] * 100 + [stepped("b", QUIET, policies, expect="silent")] * 50
    )
    assert (proposal.sessions, proposal.lessons[0].value) == (100, 300.0)


def test_every_trial_can_accuse() -> None:
    """A limit whose rule never fires alone would be proposed at its smallest for ever."""
    accused = set()
    for trial in TRIALS:
        events = ACCUSED[trial.key]
        (proposal,) = propose([stepped("x", events, trial_policies())])
        lesson = next(each for each in proposal.lessons if each.key == trial.key)
        if lesson.tried[0].false_alarm_share == 1.0:
            accused.add(trial.key)
    assert accused == {trial.key for trial in TRIALS}


def _repeated(commands: Sequence[str], gap_seconds: float = 5.0) -> list[e.Event]:
    events: list[e.Event] = [e.Prompted(T0)]
    for number, command in enumerate(commands):
        at = T0 + gap_seconds * (number + 1)
        given_bytes = msgspec.json.encode({"command": command})
        events.append(e.CallStarted(at, f"c{number}", "Bash", input=given_bytes))
        events.append(e.CallEnded(at + 1, f"c{number}", result=b'"same"'))
    return events


ACCUSED: Final[dict[str, Sequence[e.Event]]] = {
    "silence_seconds": QUIET,
    "tool_seconds": (
        e.Prompted(T0),
        e.CallStarted(T0, "c", "Bash"),
        e.CallEnded(T0 + 10_000, "c"),
        e.TurnEnded(T0 + 10_001),
    ),
    "errors_in_a_row_max": [
        event for number in range(6) for event in call(5 * number, number, is_error=True)
    ],
    "repeats_max": _repeated(["make"] * 6),
    "cycles_max": _repeated(["make a", "make b"] * 6),
    "duplicates_max": _repeated(["ls a", "cat b", "ls a", "cat c", "ls a", "cat b", "cat d"] * 4),
    "poll_seconds": _repeated(["sleep 60; cat log"] * 40, 60.0),
    "runaway_seconds": _repeated([f"make {number}" for number in range(100)], 60.0),
}
