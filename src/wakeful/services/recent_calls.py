"""The newest calls of a session, joined from its log's events: when each began and ended, and how. Pure.

Everything an agent or a tool wrote in them stands under `untrusted`, redacted, plain and cut.
"""

from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Final

from msgspec import Struct

from wakeful.domain.events import (
    CallEnded,
    CallStarted,
    Event,
    Prompted,
    TurnEnded,
    TurnFailed,
    TurnInterrupted,
)
from wakeful.domain.moment import iso
from wakeful.domain.record import safe

# A page shows fewer; a timeline of an hour's work needs some hundred.
CALLS_MAX: Final = 500
_TURN_MARKS: Final = (Prompted, TurnEnded, TurnFailed, TurnInterrupted)


class CallEnd(StrEnum):
    """How a call ended. `cut_off`: its turn was over before it came back."""

    OK = "ok"
    ERROR = "error"
    REFUSED = "refused"
    OPEN = "open"
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


def recent_calls(events: Iterable[Event], limit: int) -> CallList:
    """The newest `limit` calls of these events, which are in the order of the log."""
    known = list(events)
    joined = list(_joined(known))
    # A record that cannot be placed in time stands at the epoch.
    times = [event.at for event in known if event.at > 0]
    return CallList(tuple(joined[-limit:]), iso(min(times)) if times else None)


def _joined(events: Iterable[Event]) -> Iterator[CallRecord]:
    """Calls in the order in which they began."""
    records: dict[int, CallRecord] = {}
    begun: dict[str, tuple[int, CallStarted]] = {}
    for number, event in enumerate(events):
        if isinstance(event, CallStarted):
            begun[event.call] = (number, event)
            records[number] = _record(event, CallEnd.OPEN)
        elif isinstance(event, CallEnded):
            if (found := _begun(begun, event)) is not None:
                place, call = begun.pop(found)
                records[place] = _record(call, _end(event), event)
        elif isinstance(event, _TURN_MARKS):
            for place, call in begun.values():
                records[place] = _record(call, CallEnd.CUT_OFF)
            begun.clear()
    return iter(records.values())


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
