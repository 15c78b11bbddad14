"""The figures of the bench: what counts as reached, what the gate lets pass, how a row reads."""

from pathlib import Path

import pytest
from bench import redteam
from bench.figures import GATE_SLACK, Figure, markdown, milliseconds, percentile, shown, table


def at_most(value: float, target: float = 4.0) -> Figure:
    return Figure("row", "ours and theirs", value, target)


def at_least(value: float, target: float = 4.0) -> Figure:
    return Figure("row", "ours and theirs", value, target, at_least=True)


@pytest.mark.parametrize(
    ("figure", "verdict"),
    [
        (at_most(4.0), "reached"),
        (at_most(4.1), "missed, inside the gate"),
        (at_most(4.0 * GATE_SLACK), "missed, inside the gate"),
        (at_most(5.1), "FAILED"),
        (at_least(4.0), "reached"),
        (at_least(3.9), "missed, inside the gate"),
        (at_least(4.0 / GATE_SLACK), "missed, inside the gate"),
        (at_least(3.1), "FAILED"),
    ],
)
def test_the_gate_is_a_quarter_wider_than_the_target_on_the_bad_side(figure: Figure, verdict: str) -> None:
    """A target missed by noise is reported as missed, and fails only beyond the gate."""
    assert figure.verdict == verdict
    assert figure.passes == (verdict != "FAILED")


@pytest.mark.parametrize(("share", "expected"), [(0.5, 50.0), (0.99, 99.0), (0.991, 100.0), (1.0, 100.0)])
def test_a_percentile_is_a_value_that_was_measured(share: float, expected: float) -> None:
    """Nearest rank: nothing is invented between two measurements."""
    assert percentile([float(value) for value in range(100, 0, -1)], share) == expected


def test_the_highest_percentile_of_few_values_is_the_worst_of_them() -> None:
    """Forty kills have no p99 but their slowest."""
    assert percentile([1.0] * 39 + [7.0], 0.99) == 7.0


@pytest.mark.parametrize(("value", "text"), [(0.01, "1/100"), (0.5, "0.5 x"), (3.14159, "3.14 x")])
def test_a_ratio_far_below_one_is_shown_as_a_part(value: float, text: str) -> None:
    """One hundredth reads better than 0.01 x."""
    assert shown(at_most(value), value) == text


@pytest.mark.parametrize(("seconds", "text"), [(0.00123, "1.23 ms"), (0.0999, "99.9 ms"), (5.4, "5,400 ms")])
def test_a_duration_has_three_digits_that_count(seconds: float, text: str) -> None:
    """More would be noise."""
    assert milliseconds(seconds) == text


def test_a_row_shows_figure_target_verdict_and_what_ran() -> None:
    """On the terminal and on the page alike."""
    figure = Figure("HTTP", "ours 10 ms, theirs 50 ms", 5.0, 4.0, at_least=True)
    for text in (table([figure]), markdown([figure])):
        assert all(part in text for part in ("HTTP", "5 x", "≥ 4 x", "reached", "ours 10 ms, theirs 50 ms"))


def test_every_file_of_attacks_runs_and_the_longest_start_first() -> None:
    found = [Path(each).name for each in redteam.files()]
    assert sorted(found) == sorted(path.name for path in (redteam.ROOT / "tests/redteam").glob("test_*.py"))
    assert tuple(found[: len(redteam.LONGEST)]) == redteam.LONGEST
