"""When a session did what, as a strip of cells: its transitions over the last hours. Pure: values in, styled pieces out.

Heights tell kinds apart where colours do not. What was before the first transition is left blank: nobody knows.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

from wakeful.domain.durations import age
from wakeful.interfaces.why_words import Line
from wakeful.services.session_events import EventRecord

CELLS: Final = 48
# The shortest of these that shows everything; the last one where nothing does.
HOURS: Final = (1, 3, 6, 12, 24, 72, 168)
_SILENT: Final = frozenset({"silent", "tool_wedged", "never_started"})


class Kind(StrEnum):
    """What a person would call it, in the order of the legend."""

    WORKING = "working"
    PERSON = "waiting for you"
    IDLE = "idle"
    TROUBLE = "in trouble"
    SILENT = "silent"
    DEAD = "dead"
    UNKNOWN = "not known"
    STOPPED = "stopped"


_LOOKS: Final = {
    Kind.WORKING: ("▅", "success"),
    Kind.PERSON: ("▇", "needs-you"),
    Kind.IDLE: ("▂", "accent"),
    Kind.TROUBLE: ("▆", "error"),
    Kind.SILENT: ("▒", "warning"),
    Kind.DEAD: ("█", "error"),
    Kind.UNKNOWN: ("░", "warning"),
    Kind.STOPPED: ("▁", "quiet"),
}
_BLANK: Final = (" ", "quiet")
Span = tuple[float, float, Kind]


def timeline_lines(events: Sequence[EventRecord], now_wall: float) -> list[Line]:
    """The strip with the time it begins at, and below it how long each kind lasted; nothing without a transition."""
    if not events:
        return []
    spans = list(_spans(events, now_wall))
    seconds = 3600.0 * next((each for each in HOURS if now_wall - spans[0][0] <= 3600 * each), HOURS[-1])
    began = now_wall - seconds
    looks = [_look_at(spans, began + (number + 0.5) * seconds / CELLS) for number in range(CELLS)]
    lasted: Counter[Kind] = Counter()
    for start, end, kind in spans:
        lasted[kind] += max(0, int(end - max(start, began)))
    legend = [
        (f"{_LOOKS[kind][0]} {kind} {age(lasted[kind])}  ", _LOOKS[kind][1]) for kind in Kind if lasted[kind]
    ]
    when = f"{datetime.fromtimestamp(began, UTC).astimezone():%H:%M} "
    return [((f"  {when}", "quiet"), *looks), (("  ", "quiet"), *legend)]


def _spans(events: Sequence[EventRecord], now_wall: float) -> Iterator[Span]:
    starts = [datetime.fromisoformat(each.at).timestamp() for each in events]
    for event, start, end in zip(events, starts, [*starts[1:], now_wall], strict=True):
        yield start, end, kind_of(event)


def kind_of(event: EventRecord) -> Kind:
    """The same words as on the page."""
    if event.health == "dead":
        return Kind.DEAD
    if event.reason in _SILENT:
        return Kind.SILENT
    if event.state == "waiting":
        return Kind.PERSON
    by_health = {"degraded": Kind.TROUBLE, "unknown": Kind.UNKNOWN}
    by_state = {"stopped": Kind.STOPPED, "idle": Kind.IDLE, "detached": Kind.IDLE}
    return by_health.get(event.health) or by_state.get(event.state, Kind.WORKING)


def _look_at(spans: Sequence[Span], wall: float) -> tuple[str, str]:
    # What is short is seen where something follows it; the newest of a cell wins.
    found = next((kind for start, end, kind in reversed(spans) if start <= wall < end), None)
    return _LOOKS[found] if found is not None else _BLANK
