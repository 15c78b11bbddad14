"""A state and its traces: whatever part of a session a state knows, its traces bring it to the same end."""

from itertools import count
from typing import Any

from hypothesis import given, strategies as st

from wakeful.journal.model import SessionState, StepEffects, StepStatus, Trace, reconcile

EMPTY = SessionState(None, (), None, "2027-01-15T08:00:00.000Z", "session", {}, 0)
# What may follow what, within one attempt; each way ends where the next attempt begins or none ever does.
COURSES = (
    ("action.started",),
    ("action.started", "action.failed"),
    ("action.started", "action.failed", "recovery.cleared"),
    ("action.started", "recovery.cleared"),
    ("action.started", "recovery.undo_started"),
    ("action.started", "recovery.undo_started", "recovery.cleared"),
    ("action.started", "checkpoint.aborted"),
    ("action.started", "action.completed"),
)


def trace(event: str, step: str, **details: Any) -> Trace:
    return Trace("2027-01-15T08:00:00.000Z", event, "session", step, f"{event} {step}", details)


@st.composite
def sessions(draw: st.DrawFn) -> list[Trace]:
    """The traces of a session with some steps, one after the other, each with some attempts."""
    told = []
    for step in draw(st.lists(st.sampled_from("abc"), unique=True, min_size=1)):
        for attempt in count(1):
            course = draw(st.sampled_from(COURSES))
            told += [trace(event, step, attempt=attempt, effects="remote") for event in course]
            if course[-1] != "recovery.cleared":
                break
    return told


def outline(state: SessionState) -> tuple[set[str], dict[str, tuple[int, StepStatus]]]:
    return set(state.steps_completed), {
        step: (entry.attempt, entry.last) for step, entry in state.process_map.items()
    }


@given(sessions(), st.data())
def test_a_state_of_any_moment_is_brought_to_the_same_end(told: list[Trace], data: st.DataObject) -> None:
    """From any moment of its session, with all traces or twice or in another order: what happened is known."""
    at = data.draw(st.integers(0, len(told)))
    older = reconcile(EMPTY, told[:at])
    end = outline(reconcile(EMPTY, told))
    assert outline(reconcile(older, told)) == end
    assert outline(reconcile(older, (*told, *told))) == end
    assert outline(reconcile(older, data.draw(st.permutations(told)))) == end


@given(sessions(), st.data())
def test_traces_of_an_earlier_moment_take_nothing_back(told: list[Trace], data: st.DataObject) -> None:
    """Events and database were put back: the state knows more, and keeps it."""
    state = reconcile(EMPTY, told)
    assert reconcile(state, told[: data.draw(st.integers(0, len(told)))]) == state


def test_what_another_session_did_does_not_count() -> None:
    """Its steps have the same names and are not the same."""
    other = Trace("2027-01-15T08:00:00.000Z", "action.completed", "another", "ship", "1", {"attempt": 1})
    assert reconcile(EMPTY, [other]) == EMPTY


def test_a_trace_of_an_earlier_version_is_about_the_attempt_before_it() -> None:
    """An undo and an abort were recorded without their attempt: neither is lost, and neither belongs to the
    next attempt."""
    first = trace("action.started", "ship", attempt=1, effects="remote")
    undoing = trace("recovery.undo_started", "ship", command="undo", log=".tmp/logs/ship-undo-1.out")
    assert outline(reconcile(EMPTY, [first, undoing]))[1] == {"ship": (1, StepStatus.UNDOING)}
    aborted = trace("checkpoint.aborted", "ship", number=1, by="you")
    assert outline(reconcile(EMPTY, [first, aborted]))[1] == {"ship": (1, StepStatus.ABORTED)}
    second = reconcile(
        EMPTY,
        [first, trace("recovery.cleared", "ship", attempt=1), trace("action.started", "ship", attempt=2)],
    )
    assert outline(reconcile(second, [first, undoing]))[1] == {"ship": (2, StepStatus.STARTED)}


def test_a_step_whose_beginning_is_not_told_counts_as_remote() -> None:
    """What it says about itself is lost: nothing is run again on a guess."""
    state = reconcile(EMPTY, [trace("action.failed", "ship", attempt=3)])
    entry = state.process_map["ship"]
    assert (entry.attempt, entry.last, entry.effects) == (3, StepStatus.FAILED, StepEffects.UNKNOWN)
