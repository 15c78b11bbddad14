"""A chat without a network, in virtual time: the rooms of the scripted Bot API behind the interface, with
failures on demand."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from support.telegram_chats import ChatRooms, Refusal
from wakeful.core.clock import Clock
from wakeful.gateway.ports import ChatFailed, ChatFlooded, ChatRefused, ChatUnreachable
from wakeful.gateway.rules.messages import Buttons, Place, Update

LOST = ChatFailed(reason="the answer was lost")
"""It arrives, and nobody hears of it."""


class RoomChat:
    """Implements gateway.ports.Chat. `spoken` lists time, place and text of each message or edit; `script`
    fails the next calls."""

    def __init__(self, clock: Clock) -> None:
        self.rooms = ChatRooms()
        self.is_down = False
        self.spoken: list[tuple[float, str, int]] = []
        self.script: dict[str, list[ChatFailed]] = {}
        self.sent_files: list[tuple[Path, Path | None, str]] = []
        # Called before each call is carried out.
        self.before: Callable[[str], None] = lambda _: None
        self._clock = clock

    def fail(self, method: str, *problems: ChatFailed, chat: int | None = None) -> None:
        """Let the next calls fail like this, in this chat or in any."""
        self.script.setdefault(f"{method}{chat or ''}", []).extend(problems)

    async def me(self) -> str:
        return str((await self.call("getMe", {}))["username"])

    async def updates(self, after: int, wait_seconds: float) -> Sequence[Update]:
        del after
        await self._clock.sleep(wait_seconds)
        return []

    async def send(
        self, place: Place, text: str, *, buttons: Buttons = (), reply_to: int | None = None
    ) -> int:
        reply = {"message_id": reply_to} if reply_to else None
        said = await self.call(
            "sendMessage", _there(place) | _said(text, buttons) | {"reply_parameters": reply}
        )
        return int(said["message_id"])

    async def edit(self, place: Place, message_id: int, text: str, *, buttons: Buttons = ()) -> None:
        given = {"chat_id": place.chat_id, "message_id": message_id} | _said(text, buttons)
        try:
            await self.call("editMessageText", given)
        except ChatRefused as refusal:
            if "not modified" not in str(refusal):
                raise

    async def draft(self, place: Place, draft_id: int, text: str) -> None:
        await self.call("sendMessageDraft", _there(place) | {"draft_id": draft_id, "text": text})

    async def typing(self, place: Place) -> None:
        await self.call("sendChatAction", _there(place))

    async def send_file(
        self, place: Place, path: Path, caption: str = "", *, within: Path | None = None
    ) -> int:
        said = await self.call(
            "sendDocument", _there(place) | {"document": (path.name, b""), "caption": caption}
        )
        self.sent_files.append((path, within, caption))
        return int(said["message_id"])

    async def send_as_file(self, place: Place, name: str, text: str) -> int:
        said = await self.call("sendDocument", _there(place) | {"document": (name, text.encode())})
        return int(said["message_id"])

    async def answer_press(self, press_id: str, words: str = "") -> None:
        await self.call("answerCallbackQuery", {"callback_query_id": press_id, "text": words})

    async def call(self, method: str, parameters: Mapping[str, Any]) -> Any:
        self.before(method)
        # A request takes a moment, in which other tasks run.
        await self._clock.sleep(0.01)
        if "chat_id" in parameters and method in {"sendMessage", "editMessageText"}:
            self.spoken.append((self._clock.now().awake, method, int(parameters["chat_id"])))
        if self.is_down:
            raise ChatUnreachable(reason="down")
        problem = self._scripted(method) or self._scripted(f"{method}{parameters.get('chat_id')}")
        if problem is not None and problem is not LOST:
            raise problem
        result = self._carried_out(method, dict(parameters))
        if problem is LOST:
            raise problem
        return result

    async def close(self) -> None: ...

    def _scripted(self, which: str) -> ChatFailed | None:
        return self.script[which].pop(0) if self.script.get(which) else None

    def _carried_out(self, method: str, given: dict[str, Any]) -> Any:
        try:
            return self.rooms.answer(method, given)
        except Refusal as refusal:
            if refusal.status == 429:
                seconds = refusal.parameters["retry_after"]
                raise ChatFlooded(reason=refusal.description, retry_after_seconds=seconds) from None
            raise ChatRefused(reason=refusal.description) from None


def _there(place: Place) -> dict[str, Any]:
    return {"chat_id": place.chat_id, "message_thread_id": place.thread_id}


def _said(text: str, buttons: Buttons) -> dict[str, Any]:
    rows = [[{"text": each.label, "callback_data": each.choice} for each in row] for row in buttons]
    return {"text": text, "reply_markup": {"inline_keyboard": rows}}
