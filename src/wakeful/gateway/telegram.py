"""Implements the gateway's chat with the Telegram Bot API.

It uses long polling, messages, edits, drafts, files and buttons. All text is sent as plain text. Updates are
decoded here: those that are not a person's message or press, or have an unknown shape, are ignored but still
confirmed by their number. The type of an error tells what it means for the call, and no error contains an
address.
"""

import asyncio
from collections.abc import Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct, field

from wakeful.core.clock import Clock
from wakeful.core.errors import WorldError
from wakeful.core.labels import without_mentions_of_all
from wakeful.core.text import plain
from wakeful.gateway.ports import (
    BotInUse,
    BotRejected,
    ChatFailed,
    ChatFlooded,
    ChatRefused,
    ChatUnreachable,
)
from wakeful.gateway.rules.messages import (
    ButtonPress,
    Buttons,
    IgnoredUpdate,
    IncomingMessage,
    Place,
    Quoted,
    Update,
)
from wakeful.integrations.telegram import (
    BotNotOpened,
    TelegramFailure,
    TelegramFailureKind,
    classify_failure,
    close_bot,
    open_bot,
)
from wakeful.linux.files import NotInside, read_inside

UPDATE_KINDS: Final = ("message", "edited_message", "callback_query")
# Kinds of messages without text. A message with neither is a service message: a pin, a new title, a move.
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
# Telegram promises 52 bits at most; stored numbers have to be exact in JSON.
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


class _RepliedMessage(Struct):
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
    reply_to_message: _RepliedMessage | None = None


class _Press(Struct):
    id: str
    sender: _User = field(name="from")
    message: _Message | None = None
    data: str = ""


def number_of(raw: Any) -> int | None:
    """The number of an update; None: it has none, and is no update."""
    number = raw.get("update_id") if isinstance(raw, dict) else None
    is_number = isinstance(number, int) and not isinstance(number, bool) and 0 <= number <= NUMBER_MAX
    return number if is_number else None


def read_update(raw: dict[str, Any], update_id: int, now_wall: float) -> Update:
    """The update as a record of the gateway. `now_wall` is when it arrived: presses carry no time."""
    try:
        if "callback_query" in raw:
            return _parse_press(raw["callback_query"], update_id, now_wall)
        for kind in ("message", "edited_message"):
            if kind in raw:
                return _parse_message(raw[kind], update_id, edited=kind == "edited_message")
    except (msgspec.ValidationError, RecursionError, UnicodeEncodeError):
        # The last one: half of a surrogate pair where there should be an object.
        pass
    return IgnoredUpdate(update_id)


def _parse_message(raw: Any, update_id: int, *, edited: bool) -> Update:
    message = msgspec.convert(raw, _Message)
    text = _valid_text(message.text or message.caption)
    if message.sender is None or message.sender.is_bot or not (text or _MEDIA & raw.keys()):
        return IgnoredUpdate(update_id)
    return IncomingMessage(
        update_id,
        _place_of(message),
        message.message_id,
        message.sender.id,
        (edited and message.edit_date) or message.date,
        text,
        quoted=_parse_quote(message.reply_to_message),
        edited=edited,
        forwarded=any(name in raw for name in _FORWARDED),
    )


def _parse_press(raw: Any, update_id: int, now_wall: float) -> Update:
    press = msgspec.convert(raw, _Press)
    # Without a message, the button was under one that is in no chat of the bot.
    if press.message is None:
        return IgnoredUpdate(update_id)
    place, message_id = _place_of(press.message), press.message.message_id
    return ButtonPress(
        update_id,
        place,
        message_id,
        press.sender.id,
        now_wall,
        _valid_text(press.id),
        _valid_text(press.data),
    )


def _place_of(message: _Message) -> Place:
    # In groups without topics this number only marks a thread of replies.
    thread_id = message.message_thread_id if message.is_topic_message else None
    return Place(message.chat.id, thread_id or None, message.chat.type == "private")


def _parse_quote(replied: _RepliedMessage | None) -> Quoted | None:
    """The quoted text. In a topic every message replies to the one that opened it, which has no text."""
    text = (replied.text or replied.caption) if replied is not None else ""
    if replied is None or not text:
        return None
    return Quoted(_valid_text(_name(replied)), _valid_text(text))


def _name(replied: _RepliedMessage) -> str:
    if replied.sender is None:
        return replied.sender_chat.title if replied.sender_chat is not None else ""
    full = f"{replied.sender.first_name} {replied.sender.last_name}".strip()
    return full or replied.sender.username


def _valid_text(text: str) -> str:
    """The text without lone surrogates: JSON can hold them, and UTF-8 cannot."""
    return text.encode("utf-8", "replace").decode()


if TYPE_CHECKING:
    from telegram import Bot

ANSWER_SECONDS_MAX: Final = 10.0
CALL_SECONDS_MAX: Final = 20.0
# Fifty megabytes, Telegram's limit for a bot's files, over a line of a few Mbit/s.
FILE_SECONDS_MAX: Final = 180.0
FILE_BYTES_MAX: Final = 50 * 1024 * 1024
# Telegram's limits for a caption and for the answer to a press.
CAPTION_CHARS_MAX: Final = 1024
NOTICE_CHARS_MAX: Final = 200
FILE_NAME_CHARS_MAX: Final = 100
# More than Telegram ever asked for; after so long the message is sent again.
FLOOD_SECONDS_MAX: Final = 3600.0
_NOT_MODIFIED: Final = "not modified"
_TEXTS: Final = frozenset({"text", "caption"})
# Enough for the stream of one chat: edits, and the long poll. They are dropped after five idle seconds.
_KEPT_CONNECTIONS: Final = 8


class TelegramChat:
    """One bot. The first call opens it."""

    def __init__(self, token: str, api: str, clock: Clock) -> None:
        self._token = token
        self._api = api
        self._clock = clock
        # The bot's name; empty until `me` was called.
        self.name = ""
        self._bot: Bot | None = None
        self._opening = asyncio.Lock()

    async def me(self) -> str:
        try:
            answer = await self._ask("getMe", {}, CALL_SECONDS_MAX)
        except _Failure as failure:
            raise _startup_error(failure.problem) from None
        name = answer.get("username") if isinstance(answer, dict) else None
        self.name = plain(str(name or ""))
        return self.name or "a bot without a name"

    async def updates(self, after: int, wait_seconds: float) -> Sequence[Update]:
        parameters = {
            "offset": after + 1,
            "timeout": int(wait_seconds),
            "allowed_updates": list(UPDATE_KINDS),
        }
        try:
            answer = await self._ask("getUpdates", parameters, wait_seconds + CALL_SECONDS_MAX)
        except _Failure as failure:
            raise _startup_error(failure.problem) from None
        now_wall = self._clock.now().wall
        raws = answer if isinstance(answer, list) else [answer]
        numbered = [(number, raw) for raw in raws if (number := number_of(raw)) is not None]
        if raws and not numbered:
            raise ChatFailed(reason="updates without numbers")
        return [read_update(raw, number, now_wall) for number, raw in sorted(numbered, key=itemgetter(0))]

    async def send(
        self, place: Place, text: str, *, buttons: Buttons = (), reply_to: int | None = None
    ) -> int:
        reply = {"message_id": reply_to, "allow_sending_without_reply": True} if reply_to else None
        return await self._message(
            "sendMessage", place, _text_parameters(text, buttons) | {"reply_parameters": reply}
        )

    async def edit(self, place: Place, message_id: int, text: str, *, buttons: Buttons = ()) -> None:
        parameters = {"chat_id": place.chat_id, "message_id": message_id} | _text_parameters(text, buttons)
        try:
            await self.call("editMessageText", parameters)
        except ChatRefused as refusal:
            if _NOT_MODIFIED not in str(refusal):
                raise

    async def draft(self, place: Place, draft_id: int, text: str) -> None:
        await self.call("sendMessageDraft", _place_parameters(place) | {"draft_id": draft_id, "text": text})

    async def typing(self, place: Place) -> None:
        await self.call("sendChatAction", _place_parameters(place) | {"action": "typing"})

    async def send_file(
        self, place: Place, path: Path, caption: str = "", *, within: Path | None = None
    ) -> int:
        folder, inside = (path.parent, Path(path.name)) if within is None else (within, path)
        try:
            content = await asyncio.to_thread(read_inside, folder, inside, bytes_max=FILE_BYTES_MAX)
        except NotInside as problem:
            raise ChatRefused(reason=str(problem.facts["reason"])) from None
        return await self._document(place, plain(path.name, FILE_NAME_CHARS_MAX) or "file", content, caption)

    async def send_as_file(self, place: Place, name: str, text: str) -> int:
        content = text.replace(self._token, "[bot token]").encode()
        if len(content) > FILE_BYTES_MAX:
            raise ChatRefused(reason=f"it has more than {FILE_BYTES_MAX // 2**20} MB")
        return await self._document(place, name, content)

    async def answer_press(self, press_id: str, words: str = "") -> None:
        notice = words[:NOTICE_CHARS_MAX] or None
        await self.call("answerCallbackQuery", {"callback_query_id": press_id, "text": notice})

    async def call(self, method: str, parameters: Mapping[str, Any]) -> Any:
        return await self._call(method, parameters, CALL_SECONDS_MAX)

    async def close(self) -> None:
        if self._bot is not None:
            await close_bot(self._bot)

    async def _message(
        self, method: str, place: Place, parameters: dict[str, Any], seconds_max: float = CALL_SECONDS_MAX
    ) -> int:
        """Send a new message; returns its number."""
        answer = await self._call(method, _place_parameters(place) | parameters, seconds_max)
        number = answer.get("message_id") if isinstance(answer, dict) else None
        if not isinstance(number, int):
            raise ChatFailed(reason="an unknown answer: a message without a number")
        return number

    async def _document(self, place: Place, name: str, content: bytes, caption: str = "") -> int:
        from telegram import InputFile  # noqa: PLC0415 - a third of a second, needed for files only

        parameters = {
            "document": InputFile(content, filename=name),
            "caption": caption[:CAPTION_CHARS_MAX] or None,
        }
        return await self._message("sendDocument", place, parameters, FILE_SECONDS_MAX)

    async def _call(self, method: str, parameters: Mapping[str, Any], seconds_max: float) -> Any:
        try:
            return await self._ask(method, _without_mentions(parameters), seconds_max)
        except _Failure as failure:
            raise _chat_error(failure.problem) from None

    async def _ask(self, method: str, parameters: Mapping[str, Any], seconds_max: float) -> Any:
        """The method's own answer. Raises _Failure."""
        bot = self._bot or await self._open_bot()
        read_seconds_max = max(seconds_max - CALL_SECONDS_MAX + ANSWER_SECONDS_MAX, ANSWER_SECONDS_MAX)
        try:
            async with asyncio.timeout(seconds_max):
                return await bot.do_api_request(
                    method, api_kwargs=self._without_token(parameters), read_timeout=read_seconds_max
                )
        except TimeoutError:
            raise _Failure(
                TelegramFailure(TelegramFailureKind.DOUBT, f"no answer within {seconds_max:g} s")
            ) from None
        except Exception as problem:  # noqa: BLE001 - an unforeseen answer must not end the gateway
            raise _Failure(classify_failure(problem, self._token)) from None

    def _without_token(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """The parameters without the token, which gives control of the bot: no text may contain it."""
        return {
            name: value.replace(self._token, "[bot token]") if isinstance(value, str) else value
            for name, value in parameters.items()
        }

    async def _open_bot(self) -> "Bot":
        async with self._opening:
            if self._bot is None:
                self._bot = await asyncio.to_thread(_open, self._token, self._api)
            return self._bot


class _Failure(Exception):
    def __init__(self, failure: TelegramFailure) -> None:
        super().__init__(failure.reason)
        self.problem = failure


def _open(token: str, api: str) -> "Bot":
    try:
        return open_bot(token, api, answer_seconds_max=ANSWER_SECONDS_MAX, kept_connections=_KEPT_CONNECTIONS)
    except BotNotOpened as problem:
        raise _Failure(TelegramFailure(TelegramFailureKind.LOCKED, str(problem.facts["reason"]))) from None


def _startup_error(failure: TelegramFailure) -> WorldError:
    """A failure of `getMe` or `getUpdates`, which shows that the token is wrong or used elsewhere."""
    if failure.meaning is TelegramFailureKind.TAKEN:
        return BotInUse()
    # A token of no token's shape is an address that does not exist.
    if failure.meaning is TelegramFailureKind.LOCKED or "not found" in failure.reason.lower():
        return BotRejected(reason=failure.reason)
    return _chat_error(failure)


def _chat_error(failure: TelegramFailure) -> ChatFailed:
    if failure.meaning is TelegramFailureKind.FLOODED:
        seconds = min(max(failure.retry_after_seconds, 1.0), FLOOD_SECONDS_MAX)
        return ChatFlooded(reason=failure.reason, retry_after_seconds=seconds)
    # A new token takes minutes: the message is still worth sending then.
    if failure.meaning in {TelegramFailureKind.UNREACHED, TelegramFailureKind.LOCKED}:
        return ChatUnreachable(reason=failure.reason)
    if failure.meaning in {TelegramFailureKind.REFUSED, TelegramFailureKind.TAKEN}:
        return ChatRefused(reason=failure.reason)
    return ChatFailed(reason=failure.reason)


def _without_mentions(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Texts, which an agent may have written, without mentions of all members: bots in a group act on them."""
    return {
        name: without_mentions_of_all(value) if name in _TEXTS and isinstance(value, str) else value
        for name, value in parameters.items()
    }


def _place_parameters(place: Place) -> dict[str, Any]:
    return {"chat_id": place.chat_id, "message_thread_id": place.thread_id}


def _text_parameters(text: str, buttons: Buttons) -> dict[str, Any]:
    """Text and buttons, without a preview: Telegram's servers fetch no links."""
    rows = [[{"text": each.label, "callback_data": each.choice} for each in row] for row in buttons]
    keyboard = {"inline_keyboard": rows} if rows else None
    return {"text": text, "link_preview_options": {"is_disabled": True}, "reply_markup": keyboard}
