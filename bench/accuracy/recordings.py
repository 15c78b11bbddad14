"""Recorded sessions as the stream of events their reader tells, and where in it a fault could begin.

Reads only; nothing of a recording is ever written into the repository.
"""

import gzip
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from wakeful.integrations.claude_code.transcript import TranscriptReader
from wakeful.integrations.codex.rollout import RolloutReader
from wakeful.judging import events as e
from wakeful.sources.base import LogReader

SMALL: Final = Path(__file__).parents[2] / "tests" / "corpus"
READERS: Final[Mapping[str, Callable[[], LogReader]]] = {"claude": TranscriptReader, "codex": RolloutReader}
# Some healthy work first; the shortest recordings have a handful of calls in all.
HEALTHY_CALLS_MIN: Final = 2
_OVER: Final = (e.TurnEnded, e.TurnFailed, e.TurnInterrupted)


class Exchange(Struct, frozen=True):
    """A call of the recording and what came back."""

    started: e.CallStarted
    ended: e.CallEnded


class Recording(Struct, frozen=True):
    """One session. `places`: indices inside a turn after which the model's answer is pending."""

    id: str
    dialect: str
    events: Sequence[e.Event]
    places: Sequence[int]
    exchanges: Sequence[Exchange]


def load(folder: Path) -> list[Recording]:
    """Every recording below `claude/` and `codex/`, in the order of their names."""
    paths = [path for dialect in READERS for path in sorted((folder / dialect).glob("*.jsonl*"))]
    return [_recording(path) for path in paths]


def _recording(path: Path) -> Recording:
    reader = READERS[path.parent.name]()
    events = [event for line in content_of(path).split(b"\n") if line for event in reader.read(line)]
    return recording_of(path.name.partition(".jsonl")[0], path.parent.name, events)


def content_of(path: Path) -> bytes:
    content = path.read_bytes()
    return gzip.decompress(content) if path.suffix == ".gz" else content


def recording_of(name: str, dialect: str, events: Iterable[e.Event]) -> Recording:
    """A recording of these events; bytes that have no time say nothing here."""
    timed = [event for event in events if event.at]
    return Recording(name, dialect, timed, _places(timed), _exchanges(timed))


def _places(events: Sequence[e.Event]) -> list[int]:
    found, calls_done, in_turn = [], 0, False
    calls_open: set[str] = set()
    for index, event in enumerate(events):
        match event:
            case e.Prompted():
                in_turn = True
                calls_open.clear()
            case e.CallStarted():
                calls_open.add(event.call)
            case e.CallEnded():
                calls_open.discard(event.call)
                calls_done += 1
        in_turn = in_turn and not isinstance(event, _OVER)
        # A turn that is merely opened has asked nothing of the model yet.
        asks = isinstance(event, e.CallEnded) or (isinstance(event, e.Prompted) and not event.unasked)
        if asks and in_turn and not calls_open and calls_done >= HEALTHY_CALLS_MIN:
            found.append(index)
    return found


def _exchanges(events: Sequence[e.Event]) -> list[Exchange]:
    calls_open: dict[str, e.CallStarted] = {}
    found = []
    for event in events:
        if isinstance(event, e.CallStarted):
            calls_open[event.call] = event
        elif isinstance(event, e.CallEnded) and not event.refused:
            started = calls_open.pop(event.call, None)
            if started is not None and started.kind is e.CallKind.TOOL:
                found.append(Exchange(started, event))
    return found
