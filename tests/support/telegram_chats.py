"""The chats of a scripted Bot API: members, every message with its edits, and what Telegram would refuse.

Tests assert on these. No socket and no clock: the server and the in-process chat share it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final

TEXT_UNITS_MAX: Final = 4096
CHOICE_BYTES_MAX: Final = 64
BOT_ID: Final = 700001
BOT: Final = {"id": BOT_ID, "is_bot": True, "first_name": "Wakeful", "username": "scripted_bot"}
_START: Final = 1_800_000_000
_TYPES: Final = {True: "private", False: "supergroup"}
_NOT_MODIFIED: Final = (
    "Bad Request: message is not modified: specified new message content and reply markup are exactly the same as a"
    " current content and reply markup of the message"
)


class Refusal(Exception):
    """Telegram's answer instead of a result."""

    def __init__(self, status: int, description: str, **parameters: int) -> None:
        super().__init__(description)
        self.status = status
        self.description = description
        self.parameters = parameters

    def body(self) -> dict[str, Any]:
        said: dict[str, Any] = {"ok": False, "error_code": self.status, "description": self.description}
        return said | ({"parameters": self.parameters} if self.parameters else {})


@dataclass
class ChatMessage:
    """A message. `history` is every text it had, the newest last."""

    message_id: int
    chat_id: int
    author_id: int
    thread_id: int | None
    history: list[str]
    buttons: list[list[dict[str, str]]] = field(default_factory=list)
    reply_to: int | None = None
    file: tuple[str, bytes] | None = None
    is_deleted: bool = False

    @property
    def text(self) -> str:
        return self.history[-1]

    @property
    def is_ours(self) -> bool:
        return self.author_id == BOT_ID

    @property
    def labels(self) -> list[str]:
        return [button["text"] for row in self.buttons for button in row]


@dataclass
class ChatRoom:
    """A chat: positive ids are private. `threads` are its open topics, None: it takes any."""

    chat_id: int
    messages: list[ChatMessage] = field(default_factory=list)
    drafts: list[str] = field(default_factory=list)
    actions: int = 0
    threads: set[int] | None = None
    refusal: Refusal | None = None
    ids: Callable[[], int] = field(default_factory=lambda: count(1).__next__)

    @property
    def shape(self) -> dict[str, Any]:
        return {"id": self.chat_id, "type": _TYPES[self.chat_id > 0], "title": f"room {self.chat_id}"}

    def find(self, message_id: int) -> ChatMessage | None:
        return next((each for each in self.messages if each.message_id == message_id), None)


class ChatRooms:
    """Every chat of one bot. A chat exists as soon as it is mentioned, unless `is_strict`."""

    def __init__(self) -> None:
        self.rooms: dict[int, ChatRoom] = {}
        self.presses: dict[str, str] = {}
        self.called: list[tuple[str, dict[str, Any]]] = []
        self.is_strict = False
        self.methods: Mapping[str, Callable[[dict[str, Any]], Any]] = {
            "getme": lambda _: BOT,
            "sendmessage": self._send,
            "editmessagetext": self._edit,
            "senddocument": self._document,
            "sendmessagedraft": self._draft,
            "sendchataction": self._action,
            "answercallbackquery": self._settle,
            "deletemessage": self._delete,
        }

    def room(self, chat_id: int) -> ChatRoom:
        return self.rooms.setdefault(chat_id, ChatRoom(chat_id))

    def answer(self, method: str, given: dict[str, Any]) -> Any:
        """The result of a call. Raises Refusal. Methods without special handling answer true."""
        self.called.append((method, given))
        known = self.methods.get(method.lower())
        if known is not None:
            return known(given)
        if not method.isalpha():
            raise Refusal(404, "Not Found")
        if "chat_id" in given:
            self._entered(given)
        return True

    def seen(self, chat_id: int, thread_id: int | None = None) -> list[str]:
        """The bot's messages that a person sees there now, in order."""
        return [each.text for each in self.ours(chat_id, thread_id)]

    def ours(self, chat_id: int, thread_id: int | None = None) -> list[ChatMessage]:
        there = [each for each in self.room(chat_id).messages if each.is_ours and not each.is_deleted]
        return [each for each in there if each.thread_id == thread_id]

    def shape(self, said: ChatMessage) -> dict[str, Any]:
        """The message as Telegram writes it."""
        shape: dict[str, Any] = {
            "message_id": said.message_id,
            "date": _START + said.message_id,
            "chat": self.room(said.chat_id).shape,
        }
        shape |= {"from": BOT} if said.is_ours else {}
        if said.thread_id is not None:
            shape |= {"message_thread_id": said.thread_id, "is_topic_message": True}
        if said.buttons:
            shape["reply_markup"] = {"inline_keyboard": said.buttons}
        return shape | ({"document": {"file_name": said.file[0]}} if said.file else {"text": said.text})

    def _entered(self, given: dict[str, Any]) -> tuple[ChatRoom, int | None]:
        """The chat and topic, if the bot may write there."""
        chat_id, thread_id = int(given["chat_id"]), _number(given.get("message_thread_id"))
        if self.is_strict and chat_id not in self.rooms:
            raise Refusal(400, "Bad Request: chat not found")
        room = self.room(chat_id)
        if room.refusal is not None:
            raise room.refusal
        if thread_id is not None and room.threads is not None and thread_id not in room.threads:
            raise Refusal(400, "Bad Request: message thread not found")
        return room, thread_id

    def _send(self, given: dict[str, Any]) -> dict[str, Any]:
        room, thread_id = self._entered(given)
        text, buttons = _text(given), _buttons(given)
        reply = given.get("reply_parameters") or {}
        said = ChatMessage(
            room.ids(), room.chat_id, BOT_ID, thread_id, [text], buttons, reply.get("message_id")
        )
        room.messages.append(said)
        return self.shape(said)

    def _edit(self, given: dict[str, Any]) -> dict[str, Any]:
        room, _ = self._entered(given)
        said = room.find(int(given["message_id"]))
        if said is None or said.is_deleted:
            raise Refusal(400, "Bad Request: message to edit not found")
        if not said.is_ours or said.file is not None:
            raise Refusal(400, "Bad Request: message can't be edited")
        text, buttons = _text(given), _buttons(given)
        if (text, buttons) == (said.text, said.buttons):
            raise Refusal(400, _NOT_MODIFIED)
        said.history.append(text)
        said.buttons = buttons
        return self.shape(said)

    def _document(self, given: dict[str, Any]) -> dict[str, Any]:
        room, thread_id = self._entered(given)
        if not isinstance(given.get("document"), tuple):
            raise Refusal(400, "Bad Request: there is no document in the request")
        said = ChatMessage(room.ids(), room.chat_id, BOT_ID, thread_id, [str(given.get("caption", ""))])
        said.file = given["document"]
        room.messages.append(said)
        return self.shape(said)

    def _draft(self, given: dict[str, Any]) -> bool:
        room, _ = self._entered(given)
        if room.chat_id < 0 or not _number(given.get("draft_id")):
            raise Refusal(400, "Bad Request: TEXTDRAFT_PEER_INVALID")
        room.drafts.append(_text(given))
        return True

    def _action(self, given: dict[str, Any]) -> bool:
        self._entered(given)[0].actions += 1
        return True

    def _settle(self, given: dict[str, Any]) -> bool:
        press_id = str(given.get("callback_query_id"))
        if press_id not in self.presses:
            raise Refusal(
                400,
                "Bad Request: query is too old and response timeout expired or query ID is invalid",
            )
        self.presses[press_id] = str(given.get("text", ""))
        return True

    def _delete(self, given: dict[str, Any]) -> bool:
        said = self._entered(given)[0].find(int(given["message_id"]))
        if said is None or said.is_deleted:
            raise Refusal(400, "Bad Request: message to delete not found")
        said.is_deleted = True
        return True


def _text(given: dict[str, Any]) -> str:
    """Telegram cuts white space off both ends, and counts as UTF-16 does."""
    text = str(given.get("text", "")).strip()
    if not text:
        raise Refusal(400, "Bad Request: message text is empty")
    if len(text.encode("utf-16-le")) // 2 > TEXT_UNITS_MAX:
        raise Refusal(400, "Bad Request: message is too long")
    return text


def _buttons(given: dict[str, Any]) -> list[list[dict[str, str]]]:
    rows: list[list[dict[str, str]]] = (given.get("reply_markup") or {}).get("inline_keyboard", [])
    for button in (button for row in rows for button in row):
        if not 0 < len(button["callback_data"].encode()) <= CHOICE_BYTES_MAX:
            raise Refusal(400, "Bad Request: BUTTON_DATA_INVALID")
    return rows


def _number(given: Any) -> int | None:
    return int(given) if given not in {None, ""} else None
