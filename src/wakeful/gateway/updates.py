"""Telegram's updates, read. What is not a person's message or press is ignored, and so is what has another shape: every
update has a number and is done with.
"""

from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct, field

from wakeful.gateway.rules.messages import Ignored, Incoming, Place, Pressed, Quoted, Update

ASKED_KINDS: Final = ("message", "edited_message", "callback_query")
# What a person can send instead of words. A message with none of them is Telegram's own: a pin, a new title, a move.
_MEDIA: Final = frozenset(
    [
        "animation",
        "audio",
        "checklist",
        "contact",
        "dice",
        "document",
        "game",
        "live_photo",
        "location",
        "paid_media",
        "photo",
        "poll",
        "sticker",
        "story",
        "venue",
        "video",
        "video_note",
        "voice",
    ]
)
_FORWARDED: Final = ("forward_origin", "forward_date", "forward_from", "forward_sender_name")
# Telegram promises 52 bits at most; what is kept has to be written as JSON.
NUMBER_MAX: Final = 2**53
_Number = Annotated[int, Meta(ge=-NUMBER_MAX, le=NUMBER_MAX)]


class _User(Struct):
    id: _Number
    is_bot: bool = False
    first_name: str = ""
    last_name: str = ""
    username: str = ""


class _Chat(Struct):
    id: _Number
    type: str = ""
    title: str = ""


class _Replied(Struct):
    sender: _User | None = field(name="from", default=None)
    sender_chat: _Chat | None = None
    text: str = ""
    caption: str = ""


class _Message(Struct):
    message_id: _Number
    chat: _Chat
    date: _Number = 0
    edit_date: _Number = 0
    sender: _User | None = field(name="from", default=None)
    text: str = ""
    caption: str = ""
    message_thread_id: _Number | None = None
    is_topic_message: bool = False
    reply_to_message: _Replied | None = None


class _Press(Struct):
    id: str
    sender: _User = field(name="from")
    message: _Message | None = None
    data: str = ""


def number_of(raw: Any) -> int | None:
    """An update's number; None if it has none, and then it is no update."""
    number = raw.get("update_id") if isinstance(raw, dict) else None
    is_number = isinstance(number, int) and not isinstance(number, bool) and 0 <= number <= NUMBER_MAX
    return number if is_number else None


def read_update(raw: dict[str, Any], update_id: int, now_wall: float) -> Update:
    """The update as one of ours. `now_wall` is when it arrived: presses carry no time."""
    try:
        if "callback_query" in raw:
            return _pressed(raw["callback_query"], update_id, now_wall)
        for kind in ("message", "edited_message"):
            if kind in raw:
                return _incoming(raw[kind], update_id, edited=kind == "edited_message")
    except (msgspec.ValidationError, RecursionError, UnicodeEncodeError):
        # The last one: half of a surrogate pair where there should be an object.
        pass
    return Ignored(update_id)


def _incoming(raw: Any, update_id: int, *, edited: bool) -> Update:
    message = msgspec.convert(raw, _Message)
    text = _whole(message.text or message.caption)
    if message.sender is None or message.sender.is_bot or not (text or _MEDIA & raw.keys()):
        return Ignored(update_id)
    return Incoming(
        update_id,
        _place(message),
        message.message_id,
        message.sender.id,
        (edited and message.edit_date) or message.date,
        text,
        quoted=_quoted(message.reply_to_message),
        edited=edited,
        forwarded=any(name in raw for name in _FORWARDED),
    )


def _pressed(raw: Any, update_id: int, now_wall: float) -> Update:
    press = msgspec.convert(raw, _Press)
    # Without one it was pressed under a message that is not in any chat of ours.
    if press.message is None:
        return Ignored(update_id)
    place, message_id = _place(press.message), press.message.message_id
    return Pressed(
        update_id, place, message_id, press.sender.id, now_wall, _whole(press.id), _whole(press.data)
    )


def _place(message: _Message) -> Place:
    # In groups without topics this number only says which message a reply goes back to.
    thread_id = message.message_thread_id if message.is_topic_message else None
    return Place(message.chat.id, thread_id or None, message.chat.type == "private")


def _quoted(replied: _Replied | None) -> Quoted | None:
    """In a topic every message replies to the one that opened it, which says nothing."""
    text = (replied.text or replied.caption) if replied is not None else ""
    if replied is None or not text:
        return None
    return Quoted(_whole(_name(replied)), _whole(text))


def _name(replied: _Replied) -> str:
    if replied.sender is None:
        return replied.sender_chat.title if replied.sender_chat is not None else ""
    full = f"{replied.sender.first_name} {replied.sender.last_name}".strip()
    return full or replied.sender.username


def _whole(text: str) -> str:
    """JSON can hold half a character, and nothing that keeps text can."""
    return text.encode("utf-8", "replace").decode()
