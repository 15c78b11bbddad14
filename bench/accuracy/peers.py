"""The rules other supervisors publish, written again as plainly as they state them. No Wakeful judgement here.

None of them says what it found: each knows only that something is `flagged`. None of them sees a process.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

from bench.accuracy.watchers import Look, Watcher
from wakeful.judging import events as e

FLAGGED: Final = "flagged"
SILENCE_SECONDS: Final = 600.0
_NOTHING: Final = Look({})
_FLAG: Final = Look({FLAGGED: ""})


class IdenticalCalls:
    """So many calls in a row with the same tool and the same input, whatever came back."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._last: tuple[str, bytes] | None = None
        self._run = 0

    def see(self, event: e.Event) -> None:
        if isinstance(event, e.Prompted) and event.by_person:
            self._last, self._run = None, 0
        if isinstance(event, e.CallStarted):
            call = (event.tool, event.input)
            self._run = self._run + 1 if call == self._last else 1
            self._last = call

    def die(self, at: float) -> None:
        """Not seen."""

    def look(self, now: float) -> Look:
        del now
        return _FLAG if self._run >= self._count else _NOTHING


class CallAndResult:
    """So many calls in a row with the same tool, the same input and the same result."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._open: dict[str, tuple[str, bytes]] = {}
        self._last: tuple[str, bytes, bytes] | None = None
        self._run = 0

    def see(self, event: e.Event) -> None:
        match event:
            case e.Prompted(by_person=True):
                self._last, self._run = None, 0
            case e.CallStarted():
                self._open[event.call] = (event.tool, event.input)
            case e.CallEnded():
                self._ended((*self._open.pop(event.call, ("", b"")), event.result))

    def _ended(self, exchange: tuple[str, bytes, bytes]) -> None:
        self._run = self._run + 1 if exchange == self._last else 1
        self._last = exchange

    def die(self, at: float) -> None:
        """Not seen."""

    def look(self, now: float) -> Look:
        del now
        return _FLAG if self._run >= self._count else _NOTHING


class Stagnation:
    """So many equal results in a row of one tool, each time for another input."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._open: dict[str, tuple[str, bytes]] = {}
        self._last: tuple[str, bytes] | None = None
        self._asked: set[bytes] = set()

    def see(self, event: e.Event) -> None:
        match event:
            case e.Prompted(by_person=True):
                self._last = None
            case e.CallStarted():
                self._open[event.call] = (event.tool, event.input)
            case e.CallEnded():
                tool, given = self._open.pop(event.call, ("", b""))
                self._asked = {*self._asked, given} if self._last == (tool, event.result) else {given}
                self._last = (tool, event.result)

    def die(self, at: float) -> None:
        """Not seen."""

    def look(self, now: float) -> Look:
        del now
        return _FLAG if len(self._asked) >= self._count else _NOTHING


class InterleavedRepeat:
    """One call with one result so many times since a person spoke, whatever was done in between."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._open: dict[str, tuple[str, bytes]] = {}
        self._times: Counter[tuple[str, bytes, bytes]] = Counter()
        self._most = 0

    def see(self, event: e.Event) -> None:
        match event:
            case e.Prompted(by_person=True):
                self._times.clear()
                self._most = 0
            case e.CallStarted():
                self._open[event.call] = (event.tool, event.input)
            case e.CallEnded():
                exchange = (*self._open.pop(event.call, ("", b"")), event.result)
                self._times[exchange] += 1
                self._most = max(self._most, self._times[exchange])

    def die(self, at: float) -> None:
        """Not seen."""

    def look(self, now: float) -> Look:
        del now
        return _FLAG if self._most >= self._count else _NOTHING


class Silence:
    """Ten minutes without any record, whatever is waited for."""

    def __init__(self) -> None:
        self._last_at = 0.0

    def see(self, event: e.Event) -> None:
        self._last_at = max(self._last_at, event.at)

    def die(self, at: float) -> None:
        """Not seen."""

    def look(self, now: float) -> Look:
        due_at = self._last_at + SILENCE_SECONDS
        return _FLAG if now >= due_at else Look({}, due_at)


PEERS: Final[Mapping[str, Callable[[], Watcher]]] = {
    "3 identical calls": lambda: IdenticalCalls(3),
    "5 identical calls": lambda: IdenticalCalls(5),
    "call and result of 4": lambda: CallAndResult(4),
    # Their numbers are not published: as many as the others ask for.
    "one answer to 4 inputs": lambda: Stagnation(4),
    "call and result of 4, others between": lambda: InterleavedRepeat(4),
    "10 min silence": Silence,
}
