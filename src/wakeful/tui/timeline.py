"""The timeline of a session: transitions and calls as spans of time, drawn as a strip of cells. Pure.

The kinds of span and their rules are the same as on the page (`spans.js`). Incidents and actions appear below
the strip. Cell heights distinguish kinds where colours cannot. The time before the first transition stays
blank, because it is unknown.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

from msgspec import Struct

from wakeful.cli.format.explanation import Line
from wakeful.core.durations import age
from wakeful.views.records import CallList, CallRecord, EventRecord
from wakeful.views.timeline import ActivityKind, activity_kind

_FINISHED_ENDS: Final = frozenset({"ok", "error", "refused"})


NO_CALLS: Final = CallList((), None)


class Span(NamedTuple):
    start: float
    end: float
    kind: ActivityKind


_ToolRun = tuple[float, float]


def spans_of(events: Sequence[EventRecord], calls: CallList, now_wall: float) -> list[Span]:
    """From the first transition to now; where calls are known, work is split into model and tool time."""
    since = wall_of(calls.since) if calls.since is not None else None
    runs = list(_tool_runs(calls.calls, now_wall))
    cuts = [wall_of(each.at) for each in calls.calls if not _end_of(each, now_wall)]
    starts = [wall_of(each.at) for each in events]
    found: list[Span] = []
    for event, start, end in zip(events, starts, [*starts[1:], now_wall], strict=True):
        span = Span(start, end, activity_kind(event.state, event.health, event.reason))
        is_work = span.kind is ActivityKind.WORKING and since is not None
        found += _split_by_calls(span, runs, cuts, since or 0.0) if is_work else [span]
    return found


def _tool_runs(calls: Sequence[CallRecord], now_wall: float) -> Iterator[_ToolRun]:
    """When tools ran: overlapping calls are one run."""
    runs = sorted((wall_of(call.at), _end_of(call, now_wall)) for call in calls)
    last: _ToolRun | None = None
    for start, end in runs:
        if end <= start:
            continue
        if last is not None and start <= last[1]:
            last = (last[0], max(last[1], end))
            continue
        if last is not None:
            yield last
        last = (start, end)
    if last is not None:
        yield last


def _end_of(call: CallRecord, now_wall: float) -> float:
    """The end of a call that was cut off is unknown: it is not drawn."""
    if call.end in _FINISHED_ENDS and call.ended_at is not None:
        return wall_of(call.ended_at)
    return now_wall if call.end in {"open", "waiting"} else 0.0


def _split_by_calls(
    span: Span, runs: Sequence[_ToolRun], cuts: Sequence[float], known: float
) -> Iterator[Span]:
    """Between calls a turn waits for its model.

    Before the part of the log that was read, and after a call that was cut off, it is only known to work.
    """
    cut = min((each for each in cuts if span.start <= each < span.end), default=span.end)
    marks = [(known, ActivityKind.WORKING)]
    for start, end in runs:
        if end > span.start and start < span.end:
            marks += [(start, ActivityKind.MODEL), (end, ActivityKind.TOOL)]
    at = span.start
    for mark, kind in [*marks, (cut, ActivityKind.MODEL), (span.end, ActivityKind.WORKING)]:
        end = min(mark, span.end)
        if end > at:
            yield Span(at, end, kind)
            at = end


def wall_of(stamp: str) -> float:
    return datetime.fromisoformat(stamp).timestamp()


CELLS_MAX: Final = 48
CELLS_MIN: Final = 12
# The shortest of these that shows everything, or the last one.
MINUTES: Final = (5, 15, 30, 60, 180, 360, 720, 1440, 4320, 10080)
_KIND_STYLES: Final = {
    ActivityKind.WORKING: ("▄", "success"),
    ActivityKind.MODEL: ("▃", "success"),
    ActivityKind.TOOL: ("▅", "success"),
    ActivityKind.PERSON: ("▇", "needs-you"),
    ActivityKind.IDLE: ("▂", "accent"),
    ActivityKind.PROBLEM: ("▆", "error"),
    ActivityKind.SILENT: ("▒", "warning"),
    ActivityKind.DEAD: ("█", "error"),
    ActivityKind.UNKNOWN: ("░", "warning"),
    ActivityKind.STOPPED: ("▁", "quiet"),
}
# The others are called as in JSON.
_KIND_WORDS: Final = {
    ActivityKind.WORKING: "running",
    ActivityKind.MODEL: "waiting for the model",
    ActivityKind.TOOL: "running a tool",
    ActivityKind.PERSON: "waiting for you",
    ActivityKind.PROBLEM: "stuck",
}
_BLANK: Final = (" ", "quiet")
_ACTION_MARK: Final = ("◆", "accent")
_INCIDENT_MARK: Final = ("─", "error")
_MARGIN: Final = "        "


class SessionHistory(Struct, frozen=True):
    """Transitions and calls of a session, its incidents as (start, end), and when Wakeful acted."""

    events: Sequence[EventRecord] = ()
    calls: CallList = NO_CALLS
    incidents: Sequence[tuple[float, float | None]] = ()
    acts: Sequence[float] = ()


def timeline_lines(past: SessionHistory, now_wall: float, cells: int = CELLS_MAX) -> list[Line]:
    """The strip after its start time, below it incidents and actions, then how long each kind lasted.

    Empty without a transition, and in the first second.
    """
    if not past.events or now_wall - wall_of(past.events[0].at) < 1:
        return []
    cells = max(CELLS_MIN, min(CELLS_MAX, cells))
    spans = spans_of(past.events, past.calls, now_wall)
    minutes = next((each for each in MINUTES if now_wall - spans[0].start <= 60 * each), MINUTES[-1])
    began, step = now_wall - 60 * minutes, 60 * minutes / cells
    edges = [(began + number * step, began + (number + 1) * step) for number in range(cells)]
    when = f"{datetime.fromtimestamp(began, UTC).astimezone():%H:%M} "
    # The last cell is the present state, however short.
    looks = [*(_kind_style_in(spans, *each) for each in edges[:-1]), _KIND_STYLES[spans[-1].kind]]
    lines: list[Line] = [((f"  {when}", "quiet"), *looks)]
    marks = [_mark_in(past, *each, now_wall) for each in edges]
    if any(each is not _BLANK for each in marks):
        lines.append(((_MARGIN, "quiet"), *marks))
    left_out = sum(each.left_out for each in past.events)
    return [*lines, _legend(spans, began, left_out)]


def _legend(spans: Sequence[Span], began: float, left_out: int) -> Line:
    lasted: Counter[ActivityKind] = Counter()
    for start, end, kind in spans:
        lasted[kind] += max(0, int(end - max(start, began)))
    shown = [
        (
            f"{_KIND_STYLES[kind][0]} {_KIND_WORDS.get(kind, kind)} {age(lasted[kind])}  ",
            _KIND_STYLES[kind][1],
        )
        for kind in ActivityKind
        if lasted[kind]
    ]
    more = [(f"{left_out:,} changes left out", "quiet")] if left_out else []
    return (("  ", "quiet"), *shown, *more)


def _kind_style_in(spans: Sequence[Span], start: float, end: float) -> tuple[str, str]:
    """The kind that lasted longest in a cell."""
    lasted: Counter[ActivityKind] = Counter()
    for span in spans:
        seconds = min(span.end, end) - max(span.start, start)
        if seconds > 0:
            lasted[span.kind] += int(seconds * 1000)
    return _KIND_STYLES[lasted.most_common(1)[0][0]] if lasted else _BLANK


def _mark_in(past: SessionHistory, start: float, end: float, now_wall: float) -> tuple[str, str]:
    if any(start <= each < end for each in past.acts):
        return _ACTION_MARK
    open_in = any(began < end and (over or now_wall) > start for began, over in past.incidents)
    return _INCIDENT_MARK if open_in else _BLANK
