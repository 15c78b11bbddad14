"""The newest calls of a session, joined from its log's events: when each began and ended, and how. Pure.

Everything an agent or a tool wrote in them stands under `untrusted`, redacted, plain and cut.
"""

from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from wakeful.core.moment import iso
from wakeful.core.process import Sight
from wakeful.judging.activity import LATE_SECONDS_MAX, Activity
from wakeful.judging.events import (
    CallEnded,
    CallStarted,
    Event,
    Prompted,
    TurnEnded,
    TurnFailed,
    TurnInterrupted,
)
from wakeful.judging.findings import State
from wakeful.judging.session_record import safe
from wakeful.judging.verdict import Verdict

# A page shows fewer; a timeline of an hour's work needs some hundred.
CALLS_MAX: Final = 500
_TURN_MARKS: Final = (Prompted, TurnEnded, TurnFailed, TurnInterrupted)


class CallEnd(StrEnum):
    """How a call ended. `cut_off`: its turn or its agent was over before it came back. `waiting`: for a person."""

    OK = "ok"
    ERROR = "error"
    REFUSED = "refused"
    OPEN = "open"
    WAITING = "waiting"
    CUT_OFF = "cut_off"


class CallWords(Struct, frozen=True):
    """What an agent and its tool wrote."""

    tool: str
    input: str
    result: str


class CallRecord(Struct, frozen=True):
    """One call. Without `ended_at` nobody saw it come back."""

    at: str
    ended_at: str | None
    end: CallEnd
    untrusted: CallWords


class CallList(Struct, frozen=True):
    """The newest calls, oldest first. `since` is where the part of the log begins that was read for it."""

    calls: tuple[CallRecord, ...]
    since: str | None


def recent_calls(
    events: Iterable[Event], limit: int, still_open: Callable[[str], CallEnd] = lambda _tool: CallEnd.OPEN
) -> CallList:
    """The newest `limit` calls of these events, which are in the order of the log.

    `still_open` says how a call of this tool stands that the log leaves open.
    """
    known = list(events)
    joined = [
        replace(call, end=still_open(call.untrusted.tool)) if call.end is CallEnd.OPEN else call
        for call in _joined(known)
    ]
    # A record that cannot be placed in time stands at the epoch.
    times = [event.at for event in known if event.at > 0]
    return CallList(tuple(joined[-limit:]), iso(min(times)) if times else None)


def _joined(events: Iterable[Event]) -> Iterator[CallRecord]:
    """Calls in the order in which they began."""
    records: dict[int, CallRecord] = {}
    begun: dict[str, tuple[int, CallStarted]] = {}
    newest_at = 0.0
    for number, event in enumerate(events):
        if isinstance(event, CallStarted):
            begun[event.call] = (number, event)
            records[number] = _record(event, CallEnd.OPEN)
        elif isinstance(event, CallEnded):
            if (found := _begun(begun, event)) is not None:
                place, call = begun.pop(found)
                records[place] = _record(call, _end(event), event)
        elif isinstance(event, _TURN_MARKS) and not _is_late(event, newest_at):
            for place, call in begun.values():
                records[place] = _record(call, CallEnd.CUT_OFF)
            begun.clear()
        newest_at = max(newest_at, event.at)
    return iter(records.values())


def _is_late(event: Event, newest_at: float) -> bool:
    """A client may write its first batch out of order: the calls of a prompt then stand before it."""
    return isinstance(event, Prompted) and 0 < newest_at - event.at <= LATE_SECONDS_MAX


def still_open(activity: Activity, verdict: Verdict, tool: str) -> CallEnd:
    """How a call stands that has not come back: cut off only where its agent is gone, or goes on with nothing."""
    if verdict.agent is Sight.DEAD or activity.is_out_of_budget:
        return CallEnd.CUT_OFF
    if verdict.state is not State.WAITING:
        return CallEnd.OPEN
    others = activity.asked_about not in {None, tool}
    runs = others and any(call.tool == activity.asked_about for call in activity.calls.values())
    return CallEnd.OPEN if runs else CallEnd.WAITING


def _begun(begun: dict[str, tuple[int, CallStarted]], end: CallEnded) -> str | None:
    """The open call that came back; logs without ids mean the newest of its tool."""
    if end.call:
        return end.call if end.call in begun else None
    return next((key for key, (_, call) in reversed(begun.items()) if call.tool == end.tool), None)


def _end(event: CallEnded) -> CallEnd:
    if event.refused:
        return CallEnd.REFUSED
    return CallEnd.ERROR if event.is_error else CallEnd.OK


def _record(call: CallStarted, end: CallEnd, ended: CallEnded | None = None) -> CallRecord:
    result = ended.result if ended is not None else b""
    words = CallWords(safe(call.tool), safe(_text(call.input)), safe(_text(result)))
    return CallRecord(iso(call.at), iso(ended.at) if ended is not None else None, end, words)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")
