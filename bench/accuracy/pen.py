"""Writes planted events behind the healthy part of a recording, at the pace of a working agent.

Knows time and call ids, and what is due when; what is written is for `faults` to say.
"""

import random
from collections.abc import Collection, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from bench.accuracy.recordings import Recording
from wakeful.judging import events as e

# How long after the fault is due it may still be found, late.
PATIENCE_SECONDS: Final = 3600.0

# Also right for a call that never comes back: that it probably asks for permission.
GUESSED: Final = "probably asks"


class Planted(Struct, frozen=True):
    """A session with a fault. With nothing `expected` it is healthy, and whatever is found is a false alarm.

    The rule's documented minimum is met by the event `minimum`, or by time alone at `due_at`.
    """

    kind: str
    recording: str
    seed: int
    events: Sequence[e.Event]
    onset: int
    expected: frozenset[str]
    minimum: int
    due_at: float | None
    not_before_at: float
    died_at: float | None
    until_at: float

    @property
    def name(self) -> str:
        return f"{self.recording} seed {self.seed} event {self.onset}"


class Pen:
    """One planting: the healthy part, then what is written."""

    def __init__(self, kind: str, recording: Recording, seed: int, onset: int, rng: random.Random) -> None:
        self.rng = rng
        self._kind = kind
        self._recording = recording
        self._seed = seed
        self._onset = onset
        self._events: list[e.Event] = list(recording.events[:onset])
        self._at = max(event.at for event in self._events)
        self._calls = 0
        self._minimum: int | None = None
        self._due_at: float | None = None
        self._not_before_at = self._at
        self._died_at: float | None = None

    def exchange(self, started: e.CallStarted, ended: e.CallEnded) -> None:
        """A call and its result; now and then with words before it, which change nothing."""
        if self.rng.random() < 0.5:
            self.wait(self.rng.uniform(1.0, 5.0))
            self.write(e.Progressed(0.0))
        self.start(started)
        self.wait(self.rng.uniform(0.1, 5.0))
        self.end(ended)

    def together(self, started: e.CallStarted, ended: e.CallEnded, count: int) -> None:
        """So many equal calls of one message, and then their results."""
        self.wait(self.rng.uniform(0.5, 5.0))
        message, calls = self._call, [f"{self._call}-{number}" for number in range(count)]
        for call in calls:
            self.write(msgspec.structs.replace(started, call=call, message=message))
        self.wait(self.rng.uniform(0.1, 5.0))
        for call in calls:
            self.write(msgspec.structs.replace(ended, call=call))

    def start(self, started: e.CallStarted) -> None:
        self._calls += 1
        self.wait(self.rng.uniform(0.5, 5.0))
        self.write(msgspec.structs.replace(started, call=self._call, message=self._call))

    def end(self, ended: e.CallEnded) -> None:
        self.write(msgspec.structs.replace(ended, call=self._call))

    def write(self, event: e.Event) -> None:
        self._events.append(msgspec.structs.replace(event, at=self._at))

    def wait(self, seconds: float) -> None:
        self._at += seconds

    def mark(self) -> None:
        """With the event just written the rule's documented minimum is met."""
        self._minimum = len(self._events) - 1

    def due(self, seconds: float, *, not_before_seconds: float = 0.0) -> None:
        """Nothing follows; by then it must be known, and not before."""
        self._due_at = self._at + seconds
        self._not_before_at = self._at + not_before_seconds

    def die(self, seconds: float) -> None:
        """The process is gone so much later."""
        self.wait(seconds)
        self._due_at = self._not_before_at = self._died_at = self._at

    def planted(self, expected: Collection[str]) -> Planted:
        last = len(self._events) - 1
        until_at = self._at
        if self._due_at is not None:
            until_at = self._due_at + PATIENCE_SECONDS
        return Planted(
            kind=self._kind,
            recording=self._recording.id,
            seed=self._seed,
            events=self._events,
            onset=self._onset,
            expected=frozenset(expected),
            minimum=self._minimum if self._minimum is not None else last,
            due_at=self._due_at,
            not_before_at=self._not_before_at,
            died_at=self._died_at,
            until_at=until_at,
        )

    @property
    def _call(self) -> str:
        return f"planted-{self._calls}"
