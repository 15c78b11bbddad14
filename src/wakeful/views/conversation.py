"""The conversation of a session for people: its texts and calls in the order of the log. Pure."""

from hashlib import sha256
from itertools import accumulate
from typing import Final

from wakeful.core.clock import iso
from wakeful.core.redaction import redact
from wakeful.core.text import plain_lines
from wakeful.judging.events import (
    CallEnded,
    CallStarted,
    Event,
    Said,
    Speaker,
    TurnFailed,
    TurnInterrupted,
)
from wakeful.sources.log_source import LogExcerpt
from wakeful.views.calls import JoinedCall, OpenCallEnd, call_record, ended_call, join_calls, left_open
from wakeful.views.records import ConversationPart, MessageRecord, MessageText

MESSAGES_MAX: Final = 500
# Some screens of a terminal.
TEXT_CHARS_MAX: Final = 4000
# Of all texts and calls of one answer: redacting them takes a second at most, and other sessions wait for it.
CHARS_MAX: Final = 400_000
_INTERRUPTED: Final = "The turn was interrupted."
_CALL_ID_CHARS: Final = 16


def conversation_of(
    excerpt: LogExcerpt | None, limit: int, still_open: OpenCallEnd = left_open
) -> ConversationPart:
    """The newest texts and calls of an excerpt, at most `limit` and about CHARS_MAX characters."""
    if excerpt is None:
        return ConversationPart((), "", False)
    # Chosen first: an excerpt may have thousands, and redacting one takes up to a hundredth of a second.
    known = _texts_and_calls(excerpt.events)
    chosen = _newest(known, limit)
    messages = tuple(_message(each, still_open) for each in chosen)
    is_continued = excerpt.is_continued and len(chosen) == len(known)
    return ConversationPart(messages, excerpt.cursor, is_continued)


def _newest(known: list[Event | JoinedCall], limit: int) -> list[Event | JoinedCall]:
    sizes = accumulate(map(_chars, reversed(known[-limit:])))
    count = sum(1 for size in sizes if size <= CHARS_MAX)
    # One at least: it is shorter than all that are allowed.
    return known[-max(1, count) :]


def _chars(shown: Event | JoinedCall) -> int:
    """About how many characters of it are redacted."""
    match shown:
        case JoinedCall(begun=begun, ended=ended):
            result = len(ended.result) if ended is not None else 0
            return min(len(begun.input), TEXT_CHARS_MAX) + min(result, TEXT_CHARS_MAX)
        case Said(text=text):
            return min(len(text), TEXT_CHARS_MAX)
    return TEXT_CHARS_MAX if isinstance(shown, TurnFailed) else 0


def _texts_and_calls(events: list[Event]) -> list[Event | JoinedCall]:
    calls = join_calls(events)
    begun = {event.call for event in events if isinstance(event, CallStarted)}
    found: list[Event | JoinedCall] = []
    for place, event in enumerate(events):
        match event:
            case Said() | TurnFailed() | TurnInterrupted():
                found.append(event)
            case CallStarted():
                found.append(calls[place])
            case CallEnded(call=call) if call and call not in begun:
                found.append(ended_call(CallStarted(event.at, call, ""), event))
    return found


def _message(shown: Event | JoinedCall, still_open: OpenCallEnd) -> MessageRecord:
    match shown:
        case JoinedCall(begun=begun):
            record = call_record(shown, still_open)
            return MessageRecord(iso(begun.at), Speaker.AGENT, MessageText(""), _call_id(begun.call), record)
        case Said(by=by, text=text):
            return _text(shown.at, by, text.decode("utf-8", "replace"))
        case TurnFailed(message=message, failure=failure):
            return _text(shown.at, Speaker.CLIENT, message or f"The turn failed: {failure}.")
    return _text(shown.at, Speaker.CLIENT, _INTERRUPTED)


def _call_id(call: str) -> str:
    """An id of our own: the agent or its model chose the other one, of any text and length."""
    return sha256(call.encode("utf-8", "surrogatepass")).hexdigest()[:_CALL_ID_CHARS] if call else ""


def _text(at: float, by: Speaker, text: str) -> MessageRecord:
    shown = plain_lines(redact(text, TEXT_CHARS_MAX), TEXT_CHARS_MAX)
    is_cut = len(text) > TEXT_CHARS_MAX and not shown.endswith("…")
    return MessageRecord(iso(at), by, MessageText(f"{shown}…" if is_cut else shown))
