"""What the attacks share: every one is counted for the way in that it tried, and all of them must have been held off."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.telegram_sink import Webhook

# `make redteam` sets both: the long form of every attack, and the file in which the counts are gathered.
IS_FULL = os.environ.get("WAKEFUL_REDTEAM") == "full"
COUNTS = os.environ.get("WAKEFUL_REDTEAM_COUNTS")


class Redteam:
    """Counts attacks on one way in: how many were tried, which got through."""

    def __init__(self) -> None:
        self._tried: dict[str, int] = {}
        self._not_held: dict[str, list[str]] = {}
        self._figures: list[tuple[str, str]] = []

    def attack(self, way_in: str, what: str, *, held: bool) -> None:
        """Count one attack; `what` is shown if it got through."""
        self._tried[way_in] = self._tried.get(way_in, 0) + 1
        if not held:
            self._not_held.setdefault(way_in, []).append(what)

    def figure(self, what: str, value: str) -> None:
        """A measured value for the page, such as memory under load; its limit is asserted by the test."""
        self._figures.append((what, value))

    @staticmethod
    def rounds(short: int, full: int) -> int:
        """How often to try: `short` in the test suite, `full` in `make redteam`."""
        return full if IS_FULL else short

    def lines(self) -> list[str]:
        """One JSON object for each way in, then one for each figure."""
        counts = [
            {"way_in": way_in, "tried": tried, "held": tried - len(self._not_held.get(way_in, []))}
            for way_in, tried in self._tried.items()
        ]
        figures = [{"figure": what, "value": value} for what, value in self._figures]
        return [json.dumps(each) for each in (*counts, *figures)]

    def got_through(self) -> list[str]:
        return [f"{way_in}: {what}" for way_in, whats in self._not_held.items() for what in whats]


@pytest.fixture
def redteam() -> Iterator[Redteam]:
    """Counts for one test; the test fails if any attack got through or if it tried none."""
    counting = Redteam()
    yield counting
    lines = counting.lines()
    assert lines, "an attack test counts at least one attack or figure"
    if COUNTS is not None:
        with Path(COUNTS).open("a") as counts:
            counts.write("".join(f"{line}\n" for line in lines))
    got_through = counting.got_through()
    assert not got_through, "\n".join(["attacks that got through:", *got_through[:50]])


@pytest.fixture
def webhook() -> Iterator[Webhook]:
    webhook = Webhook()
    yield webhook
    webhook.end()
