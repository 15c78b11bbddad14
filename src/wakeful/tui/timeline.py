"""A session's time as a strip of cells, with incidents and acts below it. Pure: values in, styled pieces out.

Heights tell kinds apart where colours do not. What was before the first transition is left blank: nobody knows.
"""

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from msgspec import Struct

from wakeful.cli.format.why_words import Line
from wakeful.core.durations import age
from wakeful.tui.spans import Calls, Kind, Span, spans_of, wall
from wakeful.views.session_events import EventRecord

CELLS_MAX: Final = 48
CELLS_MIN: Final = 12
# The shortest of these that shows everything; the last one where nothing does.
MINUTES: Final = (5, 15, 30, 60, 180, 360, 720, 1440, 4320, 10080)
_LOOKS: Final = {
    Kind.WORKING: ("▄", "success"),
    Kind.MODEL: ("▃", "success"),
    Kind.TOOL: ("▅", "success"),
    Kind.PERSON: ("▇", "needs-you"),
    Kind.IDLE: ("▂", "accent"),
    Kind.TROUBLE: ("▆", "error"),
    Kind.SILENT: ("▒", "warning"),
    Kind.DEAD: ("█", "error"),
    Kind.UNKNOWN: ("░", "warning"),
    Kind.STOPPED: ("▁", "quiet"),
}
_BLANK: Final = (" ", "quiet")
_ACT: Final = ("◆", "accent")
_INCIDENT: Final = ("─", "error")
_MARGIN: Final = "        "


class Past(Struct, frozen=True):
    """What happened to a session: its transitions, its calls, incidents as (start, end), and when Wakeful acted."""

    events: Sequence[EventRecord] = ()
    calls: Calls = Calls()
    incidents: Sequence[tuple[float, float | None]] = ()
    acts: Sequence[float] = ()


def timeline_lines(past: Past, now_wall: float, cells: int = CELLS_MAX) -> list[Line]:
    """The strip with the time it begins at, below it incidents and acts, then how long each kind lasted.

    Nothing without a transition, or in its first second.
    """
    if not past.events or now_wall - wall(past.events[0].at) < 1:
        return []
    cells = max(CELLS_MIN, min(CELLS_MAX, cells))
    spans = spans_of(past.events, past.calls, now_wall)
    minutes = next((each for each in MINUTES if now_wall - spans[0].start <= 60 * each), MINUTES[-1])
    began, step = now_wall - 60 * minutes, 60 * minutes / cells
    edges = [(began + number * step, began + (number + 1) * step) for number in range(cells)]
    when = f"{datetime.fromtimestamp(began, UTC).astimezone():%H:%M} "
    # The last cell is now, however short that has been.
    looks = [*(_look_in(spans, *each) for each in edges[:-1]), _LOOKS[spans[-1].kind]]
    lines: list[Line] = [((f"  {when}", "quiet"), *looks)]
    marks = [_mark_in(past, *each, now_wall) for each in edges]
    if any(each is not _BLANK for each in marks):
        lines.append(((_MARGIN, "quiet"), *marks))
    return [*lines, _legend(spans, began)]


def _legend(spans: Sequence[Span], began: float) -> Line:
    lasted: Counter[Kind] = Counter()
    for start, end, kind in spans:
        lasted[kind] += max(0, int(end - max(start, began)))
    shown = [
        (f"{_LOOKS[kind][0]} {kind} {age(lasted[kind])}  ", _LOOKS[kind][1]) for kind in Kind if lasted[kind]
    ]
    return (("  ", "quiet"), *shown)


def _look_in(spans: Sequence[Span], start: float, end: float) -> tuple[str, str]:
    """What lasted longest in a cell."""
    lasted: Counter[Kind] = Counter()
    for span in spans:
        seconds = min(span.end, end) - max(span.start, start)
        if seconds > 0:
            lasted[span.kind] += int(seconds * 1000)
    return _LOOKS[lasted.most_common(1)[0][0]] if lasted else _BLANK


def _mark_in(past: Past, start: float, end: float, now_wall: float) -> tuple[str, str]:
    if any(start <= each < end for each in past.acts):
        return _ACT
    open_in = any(began < end and (over or now_wall) > start for began, over in past.incidents)
    return _INCIDENT if open_in else _BLANK
