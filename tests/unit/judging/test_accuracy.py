"""The accuracy bench plants what it says, the same every time, and its peers' rules are the peers'."""

from collections.abc import Sequence

import msgspec
import pytest
from bench.accuracy.explained import explanation
from bench.accuracy.faults import FAULTS, HEALTHY, KINDS, POLICY, plant, plant_all
from bench.accuracy.measure import Outcome, Recall, episodes, outcome
from bench.accuracy.page import OURS, Measured, missed, page
from bench.accuracy.peers import (
    PEERS,
    CallAndResult,
    IdenticalCalls,
    InterleavedRepeat,
    Silence,
    Stagnation,
)
from bench.accuracy.pen import Planted
from bench.accuracy.recordings import SMALL, Recording, load, recording_of
from bench.accuracy.watchers import Wakeful, Watcher

from wakeful.judging import events as e


def call(number: int, at: float, command: str, result: str = "ok") -> tuple[e.Event, e.Event]:
    given = msgspec.json.encode({"command": command})
    return (
        e.CallStarted(at, f"c{number}", "Bash", input=given, timeout_seconds=120.0),
        e.CallEnded(at + 1, f"c{number}", result=result.encode()),
    )


def healthy_session() -> Recording:
    """One turn of twelve different calls, then its end."""
    events: list[e.Event] = [e.Prompted(1000.0)]
    for number in range(12):
        events += call(number, 1010.0 + 10 * number, f"go build ./part{number}", f"built {number}")
    return recording_of("made-up", "claude", [*events, e.TurnEnded(1200.0)])


RECORDING = healthy_session()


def planted(kind: str, seed: int = 0) -> Planted:
    found = plant(kind, RECORDING, seed)
    assert found is not None
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_seed_plants_the_same_events(kind: str) -> None:
    """Kind, recording and seed say everything; another seed says something else."""
    assert planted(kind) == planted(kind)
    assert any(planted(kind, seed) != planted(kind) for seed in range(1, 6))


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_planted_is_well_formed(kind: str) -> None:
    """The recording stands untouched before the onset; behind it time runs on and every end has its beginning."""
    for seed in range(5):
        session = planted(kind, seed)
        assert session.events[: session.onset] == RECORDING.events[: session.onset]
        assert session.onset - 1 in RECORDING.places
        times = [event.at for event in session.events]
        assert times == sorted(times)
        assert times[-1] <= session.until_at
        ends = [event.call for event in session.events if isinstance(event, e.CallEnded)]
        starts = [event.call for event in session.events if isinstance(event, e.CallStarted)]
        assert len(set(ends)) == len(ends)
        assert set(ends) <= set(starts)
        assert bool(session.expected) == (kind in FAULTS)


def test_a_repeated_step_is_due_with_the_fourth_equal_call() -> None:
    """The documented minimum is where the rule says it is."""
    session = planted("step repeated")
    ended = [
        event
        for event in session.events[session.onset : session.minimum + 1]
        if isinstance(event, e.CallEnded)
    ]
    assert len(ended) == 4
    assert len({event.result for event in ended}) == 1
    assert isinstance(session.events[session.minimum], e.CallEnded)


def test_errors_are_due_with_the_sixth_and_all_differ() -> None:
    """Six different commands fail in six different ways."""
    session = planted("errors in place of results")
    until_due = session.events[session.onset : session.minimum + 1]
    failed = [event for event in until_due if isinstance(event, e.CallEnded)]
    assert all(event.is_error for event in failed)
    assert len({event.result for event in failed}) == len(failed) == 6
    assert len({event.input for event in until_due if isinstance(event, e.CallStarted)}) == 6


def test_an_open_call_is_due_when_its_own_time_and_the_silence_have_passed() -> None:
    """A declared timeout counts with its grace, and never before it is over."""
    session = planted("tool never returns, timeout declared")
    started = session.events[-1]
    assert isinstance(started, e.CallStarted)
    assert started.timeout_seconds is not None
    assert session.due_at == started.at + started.timeout_seconds + POLICY.tool_grace_seconds
    assert session.not_before_at == started.at + started.timeout_seconds


def test_a_recording_without_room_is_left_out() -> None:
    """A cycle of five needs five different calls."""
    events = [e.Prompted(1.0), *call(0, 2.0, "make"), *call(1, 5.0, "make test")]
    short = recording_of("short", "claude", events)
    assert plant_all("cycle of five", [short], 3) == []
    assert len(plant_all("alternating pair", [short], 3)) == 3


def test_waiting_is_never_planted_as_if_it_were_work() -> None:
    """Polls have a rule of their own; only work is repeated."""
    events = [e.Prompted(1.0), *call(0, 2.0, "sleep 5; tail log"), *call(1, 5.0, "make")]
    recording = recording_of("waiting", "claude", events)
    for session in plant_all("step repeated", [recording], 8):
        starts = [event for event in session.events[session.onset :] if isinstance(event, e.CallStarted)]
        assert {event.input for event in starts} == {b'{"command":"make"}'}


def seen(rule: Watcher, events: Sequence[e.Event], now: float) -> bool:
    for event in events:
        rule.see(event)
    return bool(rule.look(now).found)


def calls(*commands: str, results: Sequence[str] | None = None) -> list[e.Event]:
    told = results or ["ok"] * len(commands)
    pairs = zip(commands, told, strict=True)
    return [
        event
        for number, (command, result) in enumerate(pairs)
        for event in call(number, 10.0 * number, command, result)
    ]


def test_identical_calls_count_whatever_came_back() -> None:
    """Three in a row flag; a result that differs changes nothing, another call and a prompt begin afresh."""
    assert seen(IdenticalCalls(3), calls("a", "a", "a", results=["1", "2", "3"]), 30.0)
    assert not seen(IdenticalCalls(3), calls("a", "a", "b", "a"), 40.0)
    assert not seen(IdenticalCalls(3), [*calls("a", "a"), e.Prompted(25.0), *calls("a")], 40.0)
    assert not seen(IdenticalCalls(5), calls("a", "a", "a", "a"), 40.0)


def test_call_and_result_needs_both_to_be_equal() -> None:
    """Four equal pairs in a row flag; one result that differs does not."""
    assert seen(CallAndResult(4), calls("a", "a", "a", "a"), 40.0)
    assert not seen(CallAndResult(4), calls("a", "a", "a", "a", results=["1", "1", "2", "1"]), 40.0)
    assert not seen(CallAndResult(4), calls("a", "b", "a", "b", "a", "b"), 60.0)


def test_silence_knows_nothing_but_the_clock() -> None:
    """Ten minutes after any record, whatever is waited for, and it says when."""
    rule = Silence()
    rule.see(e.TurnEnded(100.0))
    assert rule.look(699.0).next_at == 700.0
    assert not rule.look(699.0).found
    assert rule.look(700.0).found


@pytest.mark.parametrize("kind", FAULTS)
def test_every_planted_fault_of_a_made_up_session_is_found_in_time(kind: str) -> None:
    """Recall is one where nothing is unclear."""
    late = [each for each in outcomes(kind) if not each.right]
    assert late == []


QUIET = list(HEALTHY)


@pytest.mark.parametrize("kind", QUIET)
def test_no_planted_wait_of_a_made_up_session_is_accused(kind: str) -> None:
    """What only looks like a fault stays quiet."""
    accused = [each.why for each in outcomes(kind) if not each.right]
    assert accused == []


def outcomes(kind: str) -> list[Outcome]:
    return [outcome(each, Wakeful(POLICY)) for each in plant_all(kind, [RECORDING], 4)]


def test_a_rule_that_finds_nothing_has_no_recall() -> None:
    """The measure can fail: a rule about calls never finds a cut stream."""
    session = planted("stream cut")
    assert not outcome(session, IdenticalCalls(3)).found
    found = outcome(session, Silence())
    assert found.in_time
    assert found.late == 0.0


def test_a_flag_before_the_declared_time_is_a_miss() -> None:
    """Ten minutes of silence accuse a tool that said it may take longer."""
    told = outcome(planted("tool never returns, timeout declared"), Silence())
    assert not told.found
    assert told.why.startswith("too early")


def test_the_small_recordings_are_read_and_accused_of_nothing_they_did_not_say() -> None:
    """Without $WAKEFUL_CORPUS the bench still runs, on the repository's own recordings."""
    recordings = load(SMALL)
    assert {each.dialect for each in recordings} == {"claude", "codex"}
    told = {each.code for recording in recordings for each in episodes(recording, Wakeful(POLICY))}
    assert told <= {"auth_required", "usage_limited", "turn_failed", "silent"}


def test_the_page_names_every_watcher_and_every_miss() -> None:
    """The page and the command's output name a figure that is not reached."""
    session = planted("step repeated")
    blind = {
        name: [Recall(session.kind, [Outcome(session, found=False, why="never")])] for name in [OURS, *PEERS]
    }
    calm = {
        name: [Recall("poll with news", [Outcome(planted("poll with news"), found=False)])] for name in blind
    }
    measured = Measured("today", {"claude": 1}, blind, calm, {name: [] for name in blind})
    assert missed(measured) == ["step repeated: recall 0.000, in time 0.000"]
    text = page(measured)
    assert all(name in text for name in blind)
    assert f"- step repeated, {session.name}: never" in text


def test_nothing_is_planted_where_no_model_was_asked() -> None:
    """A turn that is merely opened may be a command that a person typed."""
    worked = calls(*(f"c{number}" for number in range(30)))
    opened = [*worked, e.TurnEnded(900.0), e.Prompted(901.0, by_person=False, unasked=True)]
    asked = e.Prompted(902.0)
    recording = recording_of("x", "codex", [*opened, asked])
    assert [recording.events[place] for place in recording.places] == [asked]


def test_one_answer_counts_for_other_inputs_only() -> None:
    """Four different commands with one result flag; the same one again adds nothing, another result begins afresh."""
    assert seen(Stagnation(4), calls("a", "b", "c", "d"), 40.0)
    assert not seen(Stagnation(4), calls("a", "b", "a", "b", "c"), 50.0)
    assert not seen(Stagnation(4), calls("a", "b", "c", "d", results=["ok", "ok", "no", "ok"]), 40.0)


def test_a_repeat_counts_with_others_between() -> None:
    """One call with one result, wherever it stands; a person's prompt begins afresh."""
    assert seen(InterleavedRepeat(3), calls("a", "b", "a", "c", "a"), 50.0)
    assert not seen(InterleavedRepeat(3), calls("a", "a", "a", results=["1", "2", "3"]), 30.0)
    assert not seen(InterleavedRepeat(3), [*calls("a", "b", "a"), e.Prompted(35.0), *calls("a")], 50.0)


def test_an_accusation_is_shown_with_what_the_recording_says_of_it() -> None:
    """An unread recording is marked as unread."""
    assert "the host slept" in explanation("019f43d1-80f7", 1783556132.0, 1783556279.0)
    assert explanation("019f43d1-80f7", 1.0, 2.0) == ""
    assert explanation("nobody", 1783556132.0, 1783556279.0) == ""
