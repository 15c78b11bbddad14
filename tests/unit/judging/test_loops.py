"""What counts as the same call with the same result, and how much of results is remembered for it."""

from typing import Final

import msgspec
import pytest
from hypothesis import example, given as given_any, settings, strategies as st

from support.judging_helpers import at
from wakeful.judging.call_identity import (
    GIVEN_BYTES_KEPT_MAX,
    RESULT_END_BYTES,
    call_of,
    identity_of,
    result_digest,
)
from wakeful.judging.loops import (
    CALLS_REMEMBERED_MAX,
    CYCLE_CALLS_MAX,
    LoopTracker,
    detect_loop,
    on_call_result,
    on_text,
)
from wakeful.judging.masking import mask_result, outline
from wakeful.judging.thresholds import Policy

POLICY: Final = Policy()
# What stands in results: volatile in every way there is, nearly so, and neither.
PIECES: Final = (
    b"2026-01-02T10:00:01Z", b"2026-01-02 11:30", b"10:20:30.5", b"0x1F", b"3fa2", b"abcd-12", b"beef", b"c0ffee1",
    b"1.5 s", b"20ms", b"3 seconds", b"pid 77", b"PID=8", b"process #9", b"tmp.Ab_12z", b"tmp-zzzzzz", b"tmp.a", b"77", b"1770281100", b"17702811001", b"AB12CD34", b"ABCDEF12G", b"tmpabcd_123", b"sess-4", b"session 5", b"tmp/run-7", b"tmp/ab-8",
    b"durationMs: 5", b"took 5", b'pid\\": 9', b"elapsed 1m2s", b"1h2m", b"0m1.2s", b"5 minutes", b"7\xc2\xb5s", b"request_id: ",
    b'runId\\": \\"run_7', b"10:20:30 host app[77]: ", b"\\t",
    b"line", b"gone", b"~", b" ", b"\\n", b"\n", b"/", b",", b"-", b"n", b"t", b"xs", b'"',
)  # fmt: skip
RESULTS: Final = st.lists(st.sampled_from(PIECES), max_size=6).map(b"".join)
LONG: Final = "x" * GIVEN_BYTES_KEPT_MAX
CALLS: Final = st.tuples(
    st.sampled_from(["Bash", "exec_command", "Read", "Edit"]),
    st.sampled_from(["command", "file_path"]),
    st.sampled_from(["make", "make  ", "cat a", "cd /b && cat a", "kill 9 # pid 3", "kill 9 # pid 4", LONG, "ls"]),
    st.sampled_from(["one", "two"]),
    st.sampled_from([b'"ok"', b'"ok in 2 s"', b'"ok in 3 s"', b'"tmp.abcdef"', b'"tmp.ghijkl"', b"0123", b"4567"]),
)  # fmt: skip


def called(
    circles: LoopTracker, second: float, given: dict[str, str], result: bytes, tool: str = "Bash"
) -> None:
    call = call_of(tool, msgspec.json.encode(given))
    on_call_result(circles, call, result, at(second), at(second))


def is_loop(results: list[bytes]) -> bool:
    tracker = LoopTracker()
    for second, result in enumerate(results, start=1):
        called(tracker, float(second), {"command": "make check"}, result)
    return detect_loop(tracker, POLICY, at(1000.0)) is not None


@pytest.mark.parametrize(
    "result",
    [
        b'"failed in %d.5s"',
        b'"pid %d is gone"',
        b'"2026-01-02T10:00:0%dZ error"',
        b'"lock a1b2c3%d is held"',
        b'"{\\"ok\\":false,\\"durationMs\\":12%d,\\"pid\\":40%d}"'.replace(b"40%d", b"401"),
        b'"timestamp=177028110%d.25 failed"',
        b'"RequestId 4442587FB7D0A2F%d: denied"',
        b'"still running (session sess-%d)"',
        b'"in /tmp/run-%d: no"',
        b'"{\\"ok\\":true,\\"messageId\\":\\"om_%d\\"}"',
        b'"denied, request_id: req_01aXk%dQz"',
        b'"fail\\nreal\\t0m%d.212s"',
        b'"queued, elapsed 1m%ds"',
        b'"Nov 16 10:20:3%d host app[104]: gone"',
        b'"no answer after %d minutes"',
        b'"/srv/tmpab1_x%d9z/a: gone"',
        b'"' + b"x" * 3 * RESULT_END_BYTES + b' done in %d ms"',
    ],
)
def test_results_that_differ_in_what_is_volatile_are_one(result: bytes) -> None:
    """The first is compared unmasked and masked only later; it still counts with the others."""
    assert is_loop([result % number for number in range(1, POLICY.repeats_max + 2)])
    assert not is_loop([result % number for number in range(1, POLICY.repeats_max + 1)])


@pytest.mark.parametrize("command", ["make check", "make " + LONG, "make; sleep 5"])
def test_a_loop_names_what_it_goes_round_with(command: str) -> None:
    """A person who reads of a loop wants to know of which call; of a long one the beginning tells."""
    tracker = LoopTracker()
    for number in range(30):
        called(tracker, 900.0 * number, {"command": command}, b"no")
    found = detect_loop(tracker, POLICY, at(30_000.0))
    assert found is not None
    assert found.call is not None
    assert found.call.text.startswith(f'Bash {{"command":"{command[:9]}')
    assert len(found.call.text) <= len("Bash ") + GIVEN_BYTES_KEPT_MAX


def test_a_count_that_moves_is_progress() -> None:
    """Bare numbers are not masked."""
    assert not is_loop([b'"%d tests failed"' % number for number in range(20)])
    assert not is_loop([b'"done %d"' % (1_770_281_100 + number) for number in range(20)])


@pytest.mark.parametrize(
    "command",
    [
        "python /tmp/test-%d.py",
        "tmux attach session %d",
        "cat /tmp/run-%d/log",
        "cd packages/p%d && npm test",
        "git -C repos/r%d status",
        "SEED=%d ./simulate",
        "./bench --for %ds",
        "git show --stat 3fa9c1%d",
    ],
)
def test_commands_that_name_another_place_are_others(command: str) -> None:
    """What is volatile in a result is what a command is about."""
    tracker = LoopTracker()
    for number in range(20):
        called(tracker, float(number), {"command": command % number}, b'"ok"')
    assert detect_loop(tracker, POLICY, at(1000.0)) is None


def test_results_between_other_ones_are_the_same_again() -> None:
    """Two results in turn are a cycle of two, whichever of them came first."""
    assert is_loop([b'"red in %ds"' % number if number % 2 else b'"green"' for number in range(20)])


@settings(max_examples=300, deadline=None)
@example(
    b"2026-01-02T10:00:01ZdurationMs: 5PID=82026-01-02T10:00:01Z2026-01-02T10:00:01Ztmp/run-7",
    b"2026-01-02T10:00:01ZdurationMs: 5tmp/run-72026-01-02T10:00:01Z2026-01-02T10:00:01Ztmp/run-7",
)
@example(b'2026-01-02T10:00:01Z"2026-01-02T10:00:01Z\\t', b'2026-01-02T10:00:01Z"PID=8\\t')
@given_any(RESULTS, RESULTS)
def test_results_that_are_the_same_masked_have_one_outline(one: bytes, other: bytes) -> None:
    """Looking first at what masking leaves alone never changes the answer."""
    if mask_result(one) == mask_result(other):
        assert outline(one) == outline(other)


@settings(max_examples=150, deadline=None)
@given_any(st.lists(CALLS, max_size=40))
def test_looking_late_finds_what_looking_at_once_would(calls: list[tuple[str, str, str, str, bytes]]) -> None:
    """Every call looked at and every result masked in order: the same calls are the same, and counted alike."""
    tracker, made, counted = LoopTracker(), list[object](), dict[object, int]()
    for index, (tool, key, asked, described, result) in enumerate(calls, start=1):
        given = {key: asked, "description": described}
        called(tracker, float(index), given, result, tool)
        identity = identity_of(call_of(tool, msgspec.json.encode(given)))
        same = identity.key, mask_result(result_digest(result))
        if same not in counted and not identity.reads:
            counted.clear()
        counted[same] = counted.get(same, 0) + 1
        made = [*made[1 - CYCLE_CALLS_MAX :], same]
        assert [number == tracker.recent[-1] for number in tracker.recent] == [each == same for each in made]
        assert tracker.last_count == counted[same]


def test_what_was_made_just_now_outlasts_a_write() -> None:
    """However long ago it was made first: the two may be a cycle."""
    tracker = LoopTracker()
    for second, path in enumerate("abcdefa", start=1):
        called(tracker, float(second), {"file_path": path}, path.encode(), "Read")
    number = tracker.recent[-1]
    called(tracker, 8.0, {"file_path": "a", "new": "1"}, b"written", "Edit")
    called(tracker, 9.0, {"file_path": "a"}, b"a", "Read")
    assert tracker.recent[-1] == number


def test_what_is_remembered_of_calls_is_bounded() -> None:
    """However long inputs and results are, and however many."""
    tracker = LoopTracker()
    for number in range(5 * CALLS_REMEMBERED_MAX):
        called(tracker, float(number), {"file_path": f"f{number}" * 999}, b"x" * 99_999, "Read")
        assert len(tracker.made) == len(tracker.outlines) <= CALLS_REMEMBERED_MAX
    kept = sum(len(made.result) + len(made.call.given) for made in tracker.made)
    assert kept < (3 * RESULT_END_BYTES + GIVEN_BYTES_KEPT_MAX) * CALLS_REMEMBERED_MAX
    assert len(tracker.recent) == CYCLE_CALLS_MAX


def test_polls_are_not_remembered_among_the_calls() -> None:
    """However many things are polled, a turn that only waits does not grow."""
    tracker = LoopTracker()
    for number in range(1000):
        called(tracker, float(number), {"session_id": str(number)}, b"running", "write_stdin")
    assert tracker.made == []


def test_words_in_a_description_do_not_make_a_poll() -> None:
    """A command is a poll by what it does, not by its description."""
    given = {"command": "make", "description": "then sleep 5 and look again"}
    assert not call_of("Bash", msgspec.json.encode(given)).polls
    assert call_of("Bash", b'{"command": "sleep 5; cat log"}').polls
    assert call_of("script", b'{"code": "await tools.wait(5)"}').polls


def test_a_call_that_fails_again_and_again_is_a_loop_whatever_it_says() -> None:
    """Four times in a row; one that succeeds, and another one, begin afresh."""
    tracker = LoopTracker()
    for number, command in enumerate(("a", "a", "a", "b", "a", "a", "a", "a")):
        call = call_of("Bash", b'{"command":"%s"}' % command.encode())
        on_call_result(tracker, call, b'"error %d"' % number, at(number), at(number), failed=True)
        assert (detect_loop(tracker, POLICY, at(number)) is not None) is (number == 7)
    called(tracker, 9.0, {"command": "a"}, b'"fine"')
    assert detect_loop(tracker, POLICY, at(9.0)) is None


@pytest.mark.parametrize(
    ("command", "result"),
    [
        ("gh run view 7", b'"build running"'),
        ("kubectl get pods", b'"web 0/1 ContainerCreating"'),
        ("./state", b'"deploy: in_progress"'),
        ("ps -C make", b'"77 make"'),
        ("tail -20 build.log", b'"[7/90] link"'),
        ("cat /tmp/x/tasks/b2ed671.output", b'""'),
    ],
)
def test_a_look_taken_again_after_a_pause_waits(command: str, result: bytes) -> None:
    """Status checks of remote work repeat: they count by time, unless there is no wait in between."""
    patient, hasty = LoopTracker(), LoopTracker()
    for number in range(40):
        called(patient, 60.0 * number, {"command": command}, result)
        called(hasty, 6.0 * number, {"command": command}, result)
        late = 60.0 * number >= POLICY.poll_seconds
        assert (detect_loop(patient, POLICY, at(60.0 * number)) is not None) is late
        assert (detect_loop(hasty, POLICY, at(6.0 * number)) is not None) is (number >= POLICY.repeats_max)


@pytest.mark.parametrize(
    ("command", "result"),
    [("make", b'"1 pending, 2 failed"'), ("gh pr view 7", b'"Fix the reader"'), ("make", b'"running"')],
)
def test_whatever_says_that_it_is_over_is_no_wait(command: str, result: bytes) -> None:
    """A build that is started again after a pause does not wait, nor does a second read of the same page so soon."""
    tracker = LoopTracker()
    for number in range(4):
        called(tracker, 50.0 * number, {"command": command}, result)
    assert detect_loop(tracker, POLICY, at(300.0)) is not None


def test_several_things_may_be_waited_for_at_once() -> None:
    """Two tasks asked in turn stand still together; news of one is news."""
    still, moving = LoopTracker(), LoopTracker()
    for number in range(40):
        for task in ("one", "two"):
            called(still, 60.0 * number, {"task": task}, b'"running"', "TaskOutput")
            news = b'"line %d"' % number if task == "two" else b'"running"'
            called(moving, 60.0 * number, {"task": task}, news, "TaskOutput")
    assert detect_loop(still, POLICY, at(2400.0)) is not None
    assert detect_loop(moving, POLICY, at(2400.0)) is None


def test_a_wait_of_another_length_is_the_same_wait() -> None:
    """How long a poll sleeps this time is no part of what it asks."""
    tracker = LoopTracker()
    for number in range(20):
        called(tracker, 120.0 * number, {"command": f"sleep {30 + number}; cat state"}, b'"no"')
    assert detect_loop(tracker, POLICY, at(2400.0)) is not None


@pytest.mark.parametrize(
    "between",
    [
        "cat > a%d <<'E'\nx\nE",
        "echo %d > a",
        "cat p%d.diff | patch -p1",
        "find . -name %d -delete",
        "git branch b%d",
    ],
)
def test_whatever_writes_is_no_read(between: str) -> None:
    """A command that begins like a read and changes something lets the next one count afresh."""
    tracker = LoopTracker()
    for number in range(12):
        called(tracker, 2.0 * number, {"command": "make check"}, b'"1 failed"')
        called(tracker, 2.0 * number + 1, {"command": between % number}, b'""')
    assert detect_loop(tracker, POLICY, at(30.0)) is None


def test_words_count_from_the_last_call_on() -> None:
    """Equal texts with a call between them are no monologue, however often they occurred before."""
    tracker = LoopTracker()
    for second in range(3):
        on_text(tracker, 77, 0, at(second))
    called(tracker, 3.0, {"command": "make"}, b'"ok"')
    for second in (4, 5):
        on_text(tracker, 77, 0, at(second))
    assert detect_loop(tracker, POLICY, at(6.0)) is None
    on_text(tracker, 77, 0, at(6.0))
    assert detect_loop(tracker, POLICY, at(7.0)) is not None


def test_agents_sent_out_under_other_names_are_others() -> None:
    """Several may be sent with the same words and bring the same answer; one that is sent over and over goes round."""
    several, one = LoopTracker(), LoopTracker()
    for number in range(4):
        asked = {"prompt": "Review the diff", "description": f"Reviewer {number}"}
        called(several, float(number), asked, b'"No issues"', "Task")
        called(one, float(number), asked | {"description": "Review"}, b'"No issues"', "Task")
    assert detect_loop(several, POLICY, at(9.0)) is None
    assert detect_loop(one, POLICY, at(9.0)) is not None


def test_the_description_of_a_long_call_is_no_part_of_it() -> None:
    """Also of one that is too long to be decoded; what it asks for still is."""
    same, other = LoopTracker(), LoopTracker()
    for number in range(4):
        script = "python - <<'E'\n" + "x = 1\n" * 1000
        called(same, float(number), {"command": script, "description": f"try {number}"}, b'"no"')
        called(other, float(number), {"command": f"{script}{number}", "description": "try"}, b'"no"')
    assert detect_loop(same, POLICY, at(9.0)) is not None
    assert detect_loop(other, POLICY, at(9.0)) is None
