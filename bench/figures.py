"""What a row says: figures, the target of each, and whether the gate lets it pass. Pure: nothing here measures.

A target is what speed.md promises; the gate is wider, for the machines it runs on are shared and noisy.
"""

from collections.abc import Iterable, Sequence
from math import ceil
from typing import Final

from msgspec import Struct

GATE_SLACK: Final = 1.25


class Figure(Struct, frozen=True):
    """One figure of a row. `measured` says in words what ran, Wakeful and whatever ran beside it."""

    row: str
    measured: str
    value: float
    target: float
    unit: str = "x"
    at_least: bool = False

    @property
    def reached(self) -> bool:
        return self.value >= self.target if self.at_least else self.value <= self.target

    @property
    def passes(self) -> bool:
        """Whether the gate lets it through: the target with a quarter of room for noise."""
        if self.at_least:
            return self.value >= self.target / GATE_SLACK
        return self.value <= self.target * GATE_SLACK

    @property
    def verdict(self) -> str:
        if self.reached:
            return "reached"
        return "missed, inside the gate" if self.passes else "FAILED"


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that `share` of all do not exceed."""
    assert values, "of nothing there is no percentile"
    assert 0 < share <= 1, "a share is a part of the whole"
    return sorted(values)[ceil(share * len(values)) - 1]


def milliseconds(seconds: float) -> str:
    """A duration as a person compares it: three digits that count."""
    value = seconds * 1000
    return f"{value:,.0f} ms" if value >= 100 else f"{value:.3g} ms"


def table(figures: Iterable[Figure]) -> str:
    """One line per figure, for a terminal."""
    return "\n".join(
        f"{each.row:<14} {shown(each, each.value):>10}  {_target(each):>12}  {each.verdict:<24} {each.measured}"
        for each in figures
    )


def markdown(figures: Iterable[Figure]) -> str:
    """The same lines as a table of a page."""
    lines = ["| row | figure | to reach | | measured in the same run |", "|---|---|---|---|---|"]
    lines += [
        f"| {each.row} | {shown(each, each.value)} | {_target(each)} | {each.verdict} | {each.measured} |"
        for each in figures
    ]
    return "\n".join(lines)


def shown(figure: Figure, value: float) -> str:
    """A value in the figure's unit; ratios far below one read better as a part."""
    if figure.unit == "x" and 0 < value < 0.2:
        return f"1/{1 / value:.3g}"
    return f"{value:.3g} {figure.unit}"


def _target(figure: Figure) -> str:
    return f"{'≥' if figure.at_least else '≤'} {shown(figure, figure.target)}"
