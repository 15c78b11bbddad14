"""What counts as the same call with the same result, and how much of results is remembered for it."""

from typing import Final

import msgspec
import pytest

from folding import at
from wakeful.domain.loops import CYCLE_CALLS_MAX, SEEN_MAX, Circles, came_back, circle
from wakeful.domain.policy import Policy
from wakeful.domain.signature import RESULT_END_BYTES, call_of

POLICY: Final = Policy()


def called(circles: Circles, second: float, given: dict[str, str], result: bytes, tool: str = "Bash") -> None:
    call = call_of(tool, msgspec.json.encode(given))
    came_back(circles, call, result, at(second), at(second))


def is_loop(results: list[bytes]) -> bool:
    circles = Circles()
    for second, result in enumerate(results, start=1):
        called(circles, float(second), {"command": "make check"}, result)
    return circle(circles, POLICY, at(1000.0)) is not None


@pytest.mark.parametrize(
    "result",
    [
        b'"failed in %d.5s"',
        b'"pid %d is gone"',
        b'"2026-01-02T10:00:0%dZ error"',
        b'"lock a1b2c3%d is held"',
        b'"' + b"x" * 3 * RESULT_END_BYTES + b' done in %d ms"',
    ],
)
def test_results_that_differ_in_what_is_volatile_are_one(result: bytes) -> None:
    """The first is compared as it came and masked only later; it counts with the others all the same."""
    assert is_loop([result % number for number in range(1, POLICY.repeats_max + 2)])
    assert not is_loop([result % number for number in range(1, POLICY.repeats_max + 1)])


def test_a_count_that_moves_is_progress() -> None:
    """Bare numbers are not masked."""
    assert not is_loop([b'"%d tests failed"' % number for number in range(20)])


def test_results_between_other_ones_are_the_same_again() -> None:
    """Two results in turn are a cycle of two, whichever of them came first."""
    assert is_loop([b'"red in %ds"' % number if number % 2 else b'"green"' for number in range(20)])


def test_what_is_remembered_of_results_is_bounded() -> None:
    """Reads are remembered up to their limit, and a new write forgets all but the last few."""
    circles = Circles()
    for number in range(5 * SEEN_MAX):
        called(circles, float(number), {"file_path": f"f{number}"}, b"x" * 99_999, "Read")
        assert len(circles.results) <= SEEN_MAX + CYCLE_CALLS_MAX
    assert sum(map(len, circles.results.values())) < 3 * RESULT_END_BYTES * (SEEN_MAX + CYCLE_CALLS_MAX)
    called(circles, 9999.0, {"command": "make"}, b"made")
    assert len(circles.results) <= CYCLE_CALLS_MAX


def test_polls_are_not_remembered_among_the_results() -> None:
    """However many things are polled, a turn that only waits does not grow."""
    circles = Circles()
    for number in range(1000):
        called(circles, float(number), {"session_id": str(number)}, b"running", "write_stdin")
    assert circles.results == {}


def test_words_in_a_description_do_not_make_a_poll() -> None:
    """A command is a poll by what it does, not by what is said about it."""
    given = {"command": "make", "description": "then sleep 5 and look again"}
    assert not call_of("Bash", msgspec.json.encode(given)).polls
    assert call_of("Bash", b'{"command": "sleep 5; cat log"}').polls
    assert call_of("script", b'{"code": "await tools.wait(5)"}').polls
