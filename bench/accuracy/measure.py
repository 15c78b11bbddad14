"""Steps a watcher through a session: after every event, and whenever its answer can change by time alone.

Found is what a watcher says after the onset and did not say before. Figures only; pages are made elsewhere.
"""

from collections.abc import Callable, Iterator, Sequence
from statistics import median
from typing import Final

from msgspec import Struct

from bench.accuracy.peers import FLAGGED
from bench.accuracy.pen import GUESSED, Planted
from bench.accuracy.recordings import Recording
from bench.accuracy.watchers import Look, Watcher
from wakeful.judging import events as e

EVENTS_LATE_MAX: Final = 3
SECONDS_LATE_MAX: Final = 1.0


class Moment(Struct, frozen=True):
    """One look: how many events had been seen, when, and what was said."""

    index: int
    at: float
    look: Look


class Outcome(Struct, frozen=True):
    """What became of one planted session. `late` is in events, or in seconds where only time passes."""

    planted: Planted
    found: bool
    late: float = 0.0
    why: str = ""
    # Told as a call that probably asks for permission.
    guessed: bool = False

    @property
    def in_time(self) -> bool:
        late_max = EVENTS_LATE_MAX if self.planted.due_at is None else SECONDS_LATE_MAX
        return self.found and self.late <= late_max

    @property
    def right(self) -> bool:
        """A fault found in time, or a healthy session left alone."""
        return self.in_time if self.planted.expected else not self.found


class Recall(Struct, frozen=True):
    """How one kind of fault fared."""

    kind: str
    outcomes: Sequence[Outcome]

    @property
    def share(self) -> float:
        return sum(each.found for each in self.outcomes) / len(self.outcomes)

    @property
    def share_in_time(self) -> float:
        return sum(each.in_time for each in self.outcomes) / len(self.outcomes)

    @property
    def guessed(self) -> int:
        return sum(each.guessed for each in self.outcomes)

    @property
    def late_median(self) -> float:
        return median([each.late for each in self.outcomes if each.found] or [0.0])

    @property
    def late_max(self) -> float:
        return max([each.late for each in self.outcomes if each.found], default=0.0)


class Episode(Struct, frozen=True):
    """Something said of a recording nothing was planted into."""

    recording: str
    code: str
    from_at: float
    to_at: float
    why: str


def moments(watcher: Watcher, events: Sequence[e.Event], first: int, until_at: float) -> Iterator[Moment]:
    """Every look from the event `first` on; what is before it is seen without looking."""
    at = 0.0
    for index, event in enumerate(events):
        watcher.see(event)
        at = max(at, event.at)
        if index >= first:
            next_at = events[index + 1].at if index + 1 < len(events) else until_at
            yield from _looks(watcher, index, at, next_at)


def _looks(watcher: Watcher, index: int, now: float, end: float) -> Iterator[Moment]:
    while True:
        look = watcher.look(now)
        yield Moment(index, now, look)
        if look.next_at is None or look.next_at >= end:
            return
        now = look.next_at


def outcome(planted: Planted, watcher: Watcher) -> Outcome:
    """Follow a planted session to its end."""
    looks = _followed(planted, watcher)
    before = frozenset(next(looks).look.found)
    for moment in looks:
        found = {code: why for code, why in moment.look.found.items() if code not in before}
        before &= frozenset(moment.look.found)
        answer = _answer(planted, moment, found)
        if answer is not None:
            return answer
    return Outcome(planted, found=False, why="never")


def _answer(planted: Planted, moment: Moment, found: dict[str, str]) -> Outcome | None:
    said = ", ".join(f"{code}: {why}" for code, why in found.items())
    if not planted.expected:
        return Outcome(planted, found=True, why=said) if found else None
    if GUESSED in planted.expected and moment.look.guessed:
        # Nothing in the log tells a tool that hangs from a question: told as a guess, it waits for a person.
        late = max(0.0, moment.at - planted.due_at) if planted.due_at is not None else 0.0
        return Outcome(planted, found=True, late=late, guessed=True, why=moment.look.guessed)
    if not found.keys() & (planted.expected | {FLAGGED}):
        return None
    if moment.at < planted.not_before_at:
        return Outcome(planted, found=False, why=f"too early, {said}")
    late = moment.index - planted.minimum if planted.due_at is None else moment.at - planted.due_at
    return Outcome(planted, found=True, late=max(0.0, late), why=f"{late:.0f} late, {said}")


def _followed(planted: Planted, watcher: Watcher) -> Iterator[Moment]:
    first = planted.onset - 1
    died_at = planted.died_at
    if died_at is None:
        yield from moments(watcher, planted.events, first, planted.until_at)
        return
    yield from moments(watcher, planted.events, first, died_at)
    watcher.die(died_at)
    yield from _looks(watcher, len(planted.events) - 1, died_at, planted.until_at)


def recall(kind: str, planted: Sequence[Planted], watcher: Callable[[], Watcher]) -> Recall:
    return Recall(kind, [outcome(each, watcher()) for each in planted])


def episodes(recording: Recording, watcher: Watcher) -> list[Episode]:
    """Everything said of a recording as it stands; what its last record leaves open is not waited for."""
    told: list[Episode] = []
    going: dict[str, tuple[float, str]] = {}
    last_at = max(event.at for event in recording.events)
    for moment in moments(watcher, recording.events, 0, last_at):
        for code in going.keys() - moment.look.found.keys():
            from_at, why = going.pop(code)
            told.append(Episode(recording.id, code, from_at, moment.at, why))
        for code, why in moment.look.found.items():
            going.setdefault(code, (moment.at, why))
    told += [Episode(recording.id, code, at, last_at, why) for code, (at, why) in going.items()]
    return told
