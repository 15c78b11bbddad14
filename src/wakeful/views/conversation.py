"""The conversation of a session for people: its texts and calls in the order of the log. Pure."""

from collections.abc import Iterator
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
from wakeful.views.calls import OpenCallEnd, ended_call, join_calls, left_open
from wakeful.views.records import ConversationPart, MessageRecord, MessageText

MESSAGES_MAX: Final = 500
# Some screens of a terminal.
TEXT_CHARS_MAX: Final = 4000
_INTERRUPTED: Final = "The turn was interrupted."


def conversation_of(
    excerpt: LogExcerpt | None, limit: int, still_open: OpenCallEnd = left_open
) -> ConversationPart:
    """The newest `limit` texts and calls of an excerpt."""
    if excerpt is None:
        return ConversationPart((), "", False)
    messages = [*_messages(excerpt.events, still_open)]
    return ConversationPart(tuple(messages[-limit:]), excerpt.cursor, excerpt.is_continued)


def _messages(events: list[Event], still_open: OpenCallEnd) -> Iterator[MessageRecord]:
    calls = join_calls(events, still_open)
    begun = {event.call for event in events if isinstance(event, CallStarted)}
    for place, event in enumerate(events):
        match event:
            case Said(by=by, text=text):
                yield _text(event.at, by, text.decode("utf-8", "replace"))
            case TurnFailed(message=message, failure=failure):
                yield _text(event.at, Speaker.CLIENT, message or f"The turn failed: {failure}.")
            case TurnInterrupted():
                yield _text(event.at, Speaker.CLIENT, _INTERRUPTED)
            case CallStarted(call=call):
                yield MessageRecord(iso(event.at), Speaker.AGENT, MessageText(""), call, calls[place])
            case CallEnded(call=call) if call and call not in begun:
                ended = ended_call(CallStarted(event.at, call, ""), event)
                yield MessageRecord(iso(event.at), Speaker.AGENT, MessageText(""), call, ended)


def _text(at: float, by: Speaker, text: str) -> MessageRecord:
    return MessageRecord(iso(at), by, MessageText(plain_lines(redact(text), TEXT_CHARS_MAX)))
