"""Puts the parts of a conversation together, for clients that follow it. Pure."""

from collections.abc import Sequence

from msgspec.structs import replace

from wakeful.views.records import ConversationPart, MessageRecord


def join_messages(
    known: Sequence[MessageRecord], part: ConversationPart, count_max: int
) -> tuple[MessageRecord, ...]:
    """The newest messages after the next part was read; the end of a call is added to its beginning."""
    messages = list(known) if part.continued else []
    places = {message.call_id: place for place, message in enumerate(messages) if message.call_id}
    for message in part.messages:
        place = places.get(message.call_id)
        begun = messages[place].call if place is not None else None
        if message.call is None or message.call.untrusted.tool or begun is None or place is None:
            messages.append(message)
            continue
        words = replace(begun.untrusted, result=message.call.untrusted.result)
        ended = replace(begun, ended_at=message.call.ended_at, end=message.call.end, untrusted=words)
        messages[place] = replace(messages[place], call=ended)
    return tuple(messages[-count_max:])
