"""Tool calls of a session, joined from the events of its log: when each began and ended, and how. Pure."""

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from wakeful.core.clock import iso
from wakeful.core.process import ProcessState
from wakeful.judging.activity import Activity
from wakeful.judging.events import (
    CallEnded,
    CallStarted,
    Event,
    Prompted,
    TurnEnded,
    TurnFailed,
    TurnInterrupted,
)
from wakeful.judging.findings import State, Verdict
from wakeful.judging.folding import LATE_SECONDS_MAX
from wakeful.judging.session_record import safe
from wakeful.views.records import CallEnd, CallList, CallRecord, CallText

# A page shows fewer; a timeline of an hour's work needs some hundred.
CALLS_MAX: Final = 500
_TURN_MARKS: Final = (Prompted, TurnEnded, TurnFailed, TurnInterrupted)


OpenCallEnd = Callable[[str], CallEnd]


def left_open(_tool: str) -> CallEnd:
    """The end of a call of which only its log is known."""
    return CallEnd.OPEN


class JoinedCall(NamedTuple):
    """A call with its end. `OPEN` if the log has none."""

    begun: CallStarted
    end: CallEnd
    ended: CallEnded | None = None


def recent_calls(events: Iterable[Event], limit: int, still_open: OpenCallEnd = left_open) -> CallList:
    """The newest `limit` calls of these events, which are in the order of the log."""
    known = list(events)
    newest = list(join_calls(known).values())[-limit:]
    # A record without a time has the epoch.
    times = [event.at for event in known if event.at > 0]
    records = tuple(call_record(each, still_open) for each in newest)
    return CallList(records, iso(min(times)) if times else None)


def join_calls(events: Iterable[Event]) -> dict[int, JoinedCall]:
    """Calls by the places of the events that began them, in order."""
    joined: dict[int, JoinedCall] = {}
    begun: dict[str, tuple[int, CallStarted]] = {}
    newest_at = 0.0
    for number, event in enumerate(events):
        if isinstance(event, CallStarted):
            begun[event.call] = (number, event)
            joined[number] = JoinedCall(event, CallEnd.OPEN)
        elif isinstance(event, CallEnded):
            if (found := _find_open_call(begun, event)) is not None:
                place, call = begun.pop(found)
                joined[place] = ended_call(call, event)
        elif isinstance(event, _TURN_MARKS):
            # A client may write its first batch out of order: a prompt then follows its calls.
            if isinstance(event, Prompted) and 0 < newest_at - event.at <= LATE_SECONDS_MAX:
                continue
            for place, call in begun.values():
                joined[place] = JoinedCall(call, CallEnd.CUT_OFF)
            begun.clear()
        newest_at = max(newest_at, event.at)
    return joined


def open_call_end(activity: Activity, verdict: Verdict, tool: str) -> CallEnd:
    """The end of a call that has not returned: cut off only if its agent is gone, or goes on with other work."""
    if verdict.agent is ProcessState.DEAD or activity.is_out_of_budget:
        return CallEnd.CUT_OFF
    if verdict.state is not State.WAITING:
        return CallEnd.OPEN
    others = activity.asked_tool not in {None, tool}
    runs = others and any(call.tool == activity.asked_tool for call in activity.calls.values())
    return CallEnd.OPEN if runs else CallEnd.WAITING


def _find_open_call(begun: dict[str, tuple[int, CallStarted]], end: CallEnded) -> str | None:
    """The open call that returned; in a log without ids, the newest of its tool."""
    if end.call:
        return end.call if end.call in begun else None
    return next((key for key, (_, call) in reversed(begun.items()) if call.tool == end.tool), None)


def ended_call(call: CallStarted, event: CallEnded) -> JoinedCall:
    """A call that returned."""
    end = CallEnd.ERROR if event.is_error else CallEnd.OK
    return JoinedCall(call, CallEnd.REFUSED if event.refused else end, event)


def call_record(joined: JoinedCall, still_open: OpenCallEnd) -> CallRecord:
    """What is shown of a call. `still_open` gives the end of a call of this tool that the log leaves open."""
    call, end, ended = joined
    result = ended.result if ended is not None else b""
    given, returned = (safe(raw.decode("utf-8", "replace")) for raw in (call.input, result))
    words = CallText(safe(call.tool), given, returned)
    shown_end = still_open(words.tool) if end is CallEnd.OPEN else end
    return CallRecord(iso(call.at), iso(ended.at) if ended is not None else None, shown_end, words)
