"""Folding: the table is total, open calls are kept straight, and the last turn tells as much as the whole log."""

from collections.abc import Iterable, Sequence
from itertools import product
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given, settings, strategies as st

from support.judging_helpers import POLICY, at, codes, folded, held, judged, outline, told
from support.recordings import lines_of, reader_of, recordings
from wakeful.core.process import ProcessState
from wakeful.judging import events as e
from wakeful.judging.activity import Activity
from wakeful.judging.evidence import ClientStatus, RuntimeState
from wakeful.judging.findings import FindingCode, State
from wakeful.judging.folding import EARLY_RESULTS_MAX, NAME_CHARS_MAX, OPEN_CALLS_MAX, fold, is_boundary
from wakeful.judging.judge import judge
from wakeful.judging.thresholds import Policy
from wakeful.judging.turn_state import TRANSITIONS, TurnPhase, TurnStep
from wakeful.sources.base import LogReader

CALL, RESULT = e.CallStarted(2.0, "a", "Bash"), e.CallEnded(3.0, "a")
QUESTION = e.CallStarted(2.0, "q", "AskUserQuestion", e.CallKind.PERSON)


def phase_after(*events: e.Event) -> TurnPhase:
    return folded(events).phase


def test_the_table_has_an_answer_for_every_pair() -> None:
    """Logs begin anywhere and come out of order: no phase and step may surprise us."""
    assert set(TRANSITIONS) == {(phase, step) for phase in TurnPhase for step in TurnStep}


def test_a_question_may_come_before_the_lines_that_led_to_it() -> None:
    """A hook or a stream is quicker than the log: neither prompt nor call of before answers it."""
    asked = e.QuestionAsked(2.5, "Bash")
    assert phase_after(asked, e.Prompted(1.0), CALL) is TurnPhase.PERSON
    assert folded((asked, e.Prompted(1.0), CALL)).asked_about == "Bash"
    assert phase_after(asked, e.Prompted(1.0), CALL, e.QuestionAnswered(2.6)) is TurnPhase.TOOL
    assert phase_after(asked, e.Prompted(3.0), e.CallStarted(3.1, "b", "Read")) is TurnPhase.TOOL


def test_a_prompt_forgets_the_calls_of_a_killed_turn() -> None:
    """A client resumed after a kill leaves its calls dangling; they are not open in the new turn."""
    activity = folded([e.Prompted(1.0), CALL, e.Prompted(9.0)])
    assert (activity.phase, activity.calls) == (TurnPhase.MODEL, {})


def test_a_prompt_written_after_what_came_of_it_begins_nothing() -> None:
    """A client's first batch may be out of order: the open call stays open, the ended turn stays ended."""
    activity = folded([CALL, e.Prompted(1.9)])
    assert (activity.phase, list(activity.calls)) == (TurnPhase.TOOL, ["a"])
    assert phase_after(e.TextWritten(2.0), e.TurnEnded(2.1), e.Prompted(1.9)) is TurnPhase.ENDED
    assert phase_after(e.TextWritten(2.0), e.TurnEnded(2.1), e.Prompted(2.2)) is TurnPhase.MODEL


def test_a_turn_begins_with_its_prompt_whatever_was_heard_first() -> None:
    """A stream reported the turn before its log did: all sources name the same beginning, and not an earlier turn's."""
    late = folded([e.QuestionAnswered(2.0), e.Prompted(1.9)])
    assert late.turn_since is not None
    assert late.turn_since.wall == 1.9
    second = folded(
        [e.Prompted(1.0), e.TextWritten(1.5), e.TurnEnded(1.6), e.QuestionAnswered(9.0), e.Prompted(8.9)]
    )
    assert second.turn_since is not None
    assert second.turn_since.wall == 8.9


def test_parallel_calls_end_one_by_one() -> None:
    """The turn waits for tools until the last of them came back."""
    both = [e.Prompted(1.0), CALL, e.CallStarted(2.0, "b", "Read")]
    assert phase_after(*both, RESULT) is TurnPhase.TOOL
    assert phase_after(*both, RESULT, e.CallEnded(4.0, "b")) is TurnPhase.MODEL


@pytest.mark.parametrize(
    "end", [e.TurnEnded(5.0), e.TurnInterrupted(5.0), e.TurnFailed(5.0, e.Failure.PROVIDER)]
)
def test_a_late_result_opens_nothing(end: e.Event) -> None:
    """A background command may come back after its turn is over."""
    before = phase_after(e.Prompted(1.0), CALL, end)
    assert phase_after(e.Prompted(1.0), CALL, end, e.CallEnded(9.0, "a"), e.Progressed(9.5)) is before


def test_a_result_told_twice_counts_once() -> None:
    """Some clients report a failed command in two records."""
    events = [
        e.Prompted(1.0),
        CALL,
        e.CallEnded(3.0, "a", is_error=True),
        e.CallEnded(3.1, "a", is_error=True),
    ]
    assert folded(events).errors_in_a_row == 1


def test_a_result_that_stands_before_its_call_ends_it() -> None:
    """Some clients write a message's last call behind its result; such a call is over when it is read."""
    early = [e.Prompted(0.0), e.CallEnded(1.0, "b"), e.CallStarted(2.0, "b", "Read")]
    activity = folded(early)
    assert (activity.phase, activity.calls, activity.turn_calls) == (TurnPhase.MODEL, {}, 1)
    assert codes(judged(early, now=601.0)) == []
    left = folded([e.CallEnded(1.0, "b", background="b7"), e.CallStarted(2.0, "b", "Bash")])
    assert list(left.background) == ["b7"]
    beside = folded([e.CallStarted(0.0, "a", "Bash"), *early[1:]])
    assert (beside.phase, list(beside.calls)) == (TurnPhase.TOOL, ["a"])
    flood = folded([e.CallEnded(1.0, f"c{number}") for number in range(1000)])
    assert len(flood.early_results or ()) == EARLY_RESULTS_MAX


def test_a_question_beside_other_calls_waits_for_a_person() -> None:
    """However the calls of a message are ordered, an open question is a question until it is answered."""
    for calls in ([QUESTION, CALL], [CALL, QUESTION]):
        asked = [e.Prompted(1.0), *calls]
        assert phase_after(*asked) is TurnPhase.PERSON
        assert phase_after(*asked, RESULT) is TurnPhase.PERSON
        assert phase_after(*asked, e.CallEnded(4.0, "q")) is TurnPhase.TOOL


def test_an_answer_to_something_else_leaves_the_question_open() -> None:
    """Hooks report the end of every call; only the one that asked was answered."""
    asked = [e.Prompted(1.0), CALL, e.QuestionAsked(2.1, "Bash")]
    assert phase_after(*asked, e.QuestionAnswered(3.0, "Read")) is TurnPhase.PERSON
    assert phase_after(*asked, e.QuestionAsked(8.0, ""), e.QuestionAnswered(9.0, "Bash")) is TurnPhase.TOOL
    assert phase_after(*asked, e.QuestionAnswered(3.0)) is TurnPhase.TOOL


def test_a_question_that_names_its_whole_call_is_answered_by_the_end_of_that_tool() -> None:
    asked = [e.Prompted(1.0), CALL, e.QuestionAsked(2.1, 'Bash {"command": "make"}')]
    assert phase_after(*asked, e.QuestionAnswered(3.0, "Read")) is TurnPhase.PERSON
    assert phase_after(*asked, e.QuestionAnswered(3.0, "Bash")) is TurnPhase.TOOL


def test_a_question_seen_before_its_call_stays_open() -> None:
    """A hook can be faster than the transcript: the call's line does not answer the question."""
    assert phase_after(e.Prompted(1.0), e.QuestionAsked(2.0, "Bash"), CALL) is TurnPhase.PERSON


def test_a_failure_survives_the_closing_of_the_books() -> None:
    """A client marks a failed turn as over too; only a real end or a prompt replaces the failure."""
    failed = [e.Prompted(1.0), e.TurnFailed(2.0, e.Failure.AUTH)]
    assert phase_after(*failed, e.TurnEnded(2.1, by_mark=True)) is TurnPhase.FAILED
    assert phase_after(*failed, e.TurnEnded(2.1)) is TurnPhase.ENDED
    assert phase_after(*failed, e.Prompted(3.0)) is TurnPhase.MODEL


def test_marks_without_a_time_move_no_clock() -> None:
    """A torn line at the head of a log is not an activity of 1970."""
    activity = folded([e.LineMalformed(0.0, "x"), e.RecordSkipped(0.0, "x"), e.Prompted(50.0)])
    assert activity.first_at == at(50.0) == activity.last_at


def test_a_flood_is_bounded() -> None:
    """Calls that never come back and names without end do not fill the memory; the newest are kept."""
    activity = folded(e.CallStarted(float(n), f"{n}" + "x" * 9999, "y" * 9999) for n in range(1, 999))
    assert len(activity.calls) == OPEN_CALLS_MAX
    assert all(len(name) == NAME_CHARS_MAX for name in activity.calls)
    assert "998" in next(reversed(activity.calls))
    activity = folded(
        [e.QuestionAsked(1.0, "x" * 9999), e.TurnFailed(2.0, e.Failure.AUTH, "m" * 99_999)], activity
    )
    assert len(activity.failure_message) == 2000


def repeated(count: int, tool: str = "Bash", given: bytes = b"{}", result: bytes = b"same") -> list[e.Event]:
    events: list[e.Event] = [e.Prompted(1.0)]
    for number in range(count):
        events += [
            e.CallStarted(2.0 + number, f"c{number}", tool, input=given),
            e.CallEnded(2.5 + number, f"c{number}", result=result),
        ]
    return events


def test_the_same_call_with_the_same_result_is_a_loop() -> None:
    """Four times, for no recorded healthy session had four; a poll may go on for ever."""
    assert codes(judged(repeated(4), 9.0)) == [FindingCode.LOOP]
    assert codes(judged(repeated(3), 9.0)) == []
    for poll in (
        repeated(9, "write_stdin"),
        repeated(9, "exec", b"await tools.write_stdin({chars:''})"),
        repeated(9, given=b'{"command":"sleep 30; gh run view"}'),
    ):
        assert codes(judged(poll, 20.0)) == []


def test_long_results_differ_by_length_and_ends() -> None:
    """A result is looked at in constant time, and results of other lengths or ends are other results."""
    long = b"x" * 10_000
    assert codes(judged(repeated(4, result=long), 9.0)) == [FindingCode.LOOP]
    varied = repeated(4, result=long)
    varied[-1] = e.CallEnded(5.5, "c3", result=long + b"x")
    assert codes(judged(varied, 9.0)) == []


def test_the_same_answer_to_every_question_is_no_monologue() -> None:
    """The end of a task or a heartbeat asks again; a hook that merely continues does not."""
    told = [
        each for at in (1.0, 2.0, 3.0) for each in (e.Prompted(at, by_person=False), e.TurnEnded(at, words=7))
    ]
    assert folded(told).circles.words_repeats == 0
    assert folded([each for each in told if isinstance(each, e.TurnEnded)]).circles.words_repeats == 2


def test_a_prompt_by_a_person_ends_every_row() -> None:
    """Errors and repeats belong to what was asked for; a notification asks for nothing new."""
    failing = [
        event
        for number in range(6)
        for event in (
            e.CallStarted(float(number), f"{number}", "Bash", input=b"%d" % number),
            e.CallEnded(number + 0.5, f"{number}", is_error=True),
        )
    ]
    assert codes(judged([*failing, e.Prompted(9.0, by_person=False)], 10.0)) == [FindingCode.ERROR_CASCADE]
    assert codes(judged([*failing, e.Prompted(9.0)], 10.0)) == []


# From here on: a log read from its last boundary on is judged like the whole of it.

PRESENCES: Final[tuple[RuntimeState, ...]] = (
    held(),
    held(ProcessState.DEAD, ended_at=at(1e12)),
    RuntimeState(),
    RuntimeState(vouched=True),
    told(ClientStatus.IDLE, 30.0),
    told(ClientStatus.BUSY, 30.0),
)
# Before and after text settles, a silence is long, a declared timeout has passed, and a day later.
LATER_SECONDS: Final = (0.0, 59.0, 61.0, 599.0, 601.0, 1900.0, 86_400.0)
# A policy that speaks at the first error and the first repeat sees every difference in a row.
STRICT: Final = Policy(errors_in_a_row_max=0, repeats_max=1)


def assert_same_judgement(whole: Activity, part: Activity, where: object) -> None:
    last = whole.last_at.awake if whole.last_at is not None else 0.0
    for runtime, later, policy in product(PRESENCES, LATER_SECONDS, (POLICY, STRICT)):
        now = at(last + later)
        verdicts = [outline(judge(each, runtime, policy, now)) for each in (part, whole)]
        assert verdicts[0] == verdicts[1], (where, later, runtime)


def _timed(seconds: Sequence[float], makers: Sequence[e.Event]) -> list[e.Event]:
    clock, events = 10.0, []
    for step, event in zip(seconds, makers, strict=True):
        clock += step
        fields = {name: getattr(event, name) for name in event.__struct_fields__}
        events.append(type(event)(**(fields | ({"at": clock} if event.at else {}))))
    return events


NAMES: Final = st.sampled_from(("a", "b", "c"))
TOOLS: Final = st.sampled_from(("Bash", "Read", "wait"))
EVENTS: Final[st.SearchStrategy[e.Event]] = st.one_of(
    st.builds(e.Prompted, st.just(1.0), st.booleans()),
    st.builds(e.Progressed, st.just(1.0)),
    st.builds(e.TextWritten, st.just(1.0)),
    st.builds(e.CompactionStarted, st.just(1.0)),
    st.builds(e.CompactionEnded, st.just(1.0)),
    st.builds(e.TaskEnded, st.just(1.0), NAMES),
    st.builds(
        e.CallStarted,
        st.just(1.0),
        NAMES,
        TOOLS,
        st.sampled_from(e.CallKind),
        st.just(b"{}"),
        st.sampled_from((None, 5.0, 1800.0)),
    ),
    st.builds(e.CallEnded, st.just(1.0), NAMES, st.booleans(), st.booleans(), st.just(b"r")),
    st.builds(e.CallEnded, st.just(1.0), st.just(""), st.booleans(), tool=TOOLS),
    st.builds(e.QuestionAsked, st.just(1.0), st.sampled_from(("", "Bash"))),
    st.builds(e.QuestionAnswered, st.just(1.0), st.sampled_from((None, "Bash", "Read"))),
    st.builds(e.TurnEnded, st.just(1.0), st.booleans()),
    st.builds(e.TurnFailed, st.just(1.0), st.sampled_from(e.Failure)),
    st.builds(e.TurnInterrupted, st.just(1.0)),
    st.builds(e.ClientClosed, st.just(1.0)),
    st.builds(e.LogClosed, st.just(0.0)),
    st.builds(e.BudgetReported, st.just(1.0), st.sampled_from((0.0, 0.2, 0.4, 0.5)), st.just(0.5)),
    st.builds(e.TokensSpent, st.just(1.0), st.just(1), st.just(1), st.sampled_from((0.0, 1.0, 5.0))),
    st.builds(e.LogOpened, st.just(1.0)),
    st.builds(e.RecordSkipped, st.just(0.0), st.just("x")),
    st.builds(e.LineMalformed, st.just(0.0), st.just("x")),
)


@st.composite
def histories(draw: st.DrawFn) -> list[e.Event]:
    """Events in the order of their times, mostly of a few long turns."""
    makers = draw(st.lists(EVENTS, min_size=1, max_size=60))
    seconds = draw(st.lists(st.sampled_from((0.0, 0.5, 30.0)), min_size=len(makers), max_size=len(makers)))
    return _timed(seconds, makers)


@settings(max_examples=600, deadline=None)
@given(histories())
def test_the_last_turn_is_judged_like_the_whole(events: list[e.Event]) -> None:
    """Whatever happened before the last boundary, the verdict is the same without it."""
    starts = [number for number, event in enumerate(events) if is_boundary(event)]
    if starts:
        assert_same_judgement(folded(events), folded(events[starts[-1] :]), events)


def _tail(reader: LogReader, lines: Sequence[bytes]) -> Activity:
    """What a log source reads at start: backwards to the last boundary, then forwards."""
    start = next((n for n in reversed(range(len(lines))) if reader.is_boundary(lines[n])), 0)
    return folded(event for line in lines[start:] for event in reader.read(line))


def _cuts(lines: Sequence[bytes]) -> Iterable[int]:
    """Some forty moments of a long recording, every moment of a short one."""
    return range(1, len(lines) + 1, max(1, len(lines) // 40))


@pytest.mark.parametrize("recording", recordings(), ids=lambda path: path.name[:20])
def test_a_recording_cut_anywhere_is_judged_like_the_whole(recording: Path) -> None:
    """At any moment of a real session its last turn tells as much as everything since its start."""
    lines, reader, whole = lines_of(recording), reader_of(recording), Activity()
    done = 0
    for cut in _cuts(lines):
        for line in lines[done:cut]:
            for event in reader.read(line):
                fold(whole, event, at(event.at))
        done = cut
        assert_same_judgement(whole, _tail(reader_of(recording), lines[:cut]), cut)


def test_recordings_have_boundaries_in_their_middle() -> None:
    """The claim above would be empty if every tail were the whole."""
    starts = [
        sum(reader_of(recording).is_boundary(line) for line in lines_of(recording)[1:])
        for recording in recordings()
    ]
    assert sum(map(bool, starts)) >= len(starts) // 3


def test_a_recording_is_never_idle_inside_a_call() -> None:
    """An open call is work: alive, it is `prompting` or `waiting`, never `idle`."""
    for recording in recordings():
        activity, reader = Activity(), reader_of(recording)
        for line in lines_of(recording):
            for event in reader.read(line):
                fold(activity, event, at(event.at))
                if activity.calls:
                    assert judge(activity, held(), POLICY, at(event.at)).state is not State.IDLE


def test_a_prompt_that_a_quicker_source_overtook_begins_a_turn() -> None:
    """The stream of a resumed client reported busy before its log had the prompt: the turn has begun."""
    cut_short = (e.Prompted(10.0), e.TurnInterrupted(20.0))
    activity = folded([*cut_short, e.QuestionAnswered(30.5), e.Prompted(30.2, by_wakeful=True)])
    assert activity.in_turn
