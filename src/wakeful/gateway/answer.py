"""Shows an answer in a chat: a placeholder, growing edits and the final text, at the pace the chat allows.

Answers and questions of one chat share its pace, whatever their topic: one message or edit at a time, final
texts before growing ones, and none while Telegram asks for a pause. Every message starts as a placeholder
whose number is stored before text goes in, so finishing again, after a crash or in doubt, fills the same
messages. A failed delivery is retried; only a definite refusal by Telegram ends it.
"""

import asyncio
import logging
from bisect import insort
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from enum import IntEnum
from itertools import count
from math import inf
from typing import Final, TypeVar

from wakeful.core.clock import Clock
from wakeful.gateway.ports import Chat, ChatFailed, ChatFlooded, ChatRefused, ChatUnreachable
from wakeful.gateway.rules.messages import Buttons, Place
from wakeful.gateway.rules.shown_text import messages_of, partial_view
from wakeful.gateway.turn_context import SavePart

# Beyond this many chats the pace of idle ones is forgotten.
CHATS_MAX: Final = 1000


class SendPriority(IntEnum):
    FINAL = 0
    NEW = 1
    GROWING = 2


class ChatPace:
    def __init__(self, clock: Clock, every_seconds: float) -> None:
        self._clock = clock
        self._every_seconds = every_seconds
        self._free_at = -inf
        self._paused_until = -inf
        self._waiting: list[tuple[SendPriority, int]] = []
        self._numbers = count()

    async def wait_turn(self, priority: SendPriority) -> None:
        """Return when this message may be sent."""
        place = (priority, next(self._numbers))
        insort(self._waiting, place)
        try:
            while self._waiting[0] != place or self._free_at > self._clock.now().awake:
                await self._clock.sleep_until(self._free_at)
            self._free_at = self._clock.now().awake + self._every_seconds
        finally:
            self._waiting.remove(place)

    def pause(self, seconds: float) -> None:
        """Send nothing for so long."""
        self._paused_until = max(self._paused_until, self._clock.now().awake + seconds)
        self._free_at = max(self._free_at, self._paused_until)

    @property
    def is_paused(self) -> bool:
        return self._paused_until > self._clock.now().awake

    @property
    def is_idle(self) -> bool:
        return not self._waiting and self._free_at <= self._clock.now().awake


class ChatPaces:
    def __init__(self, clock: Clock, every_seconds: float) -> None:
        self._clock = clock
        self._every_seconds = every_seconds
        self._paces: dict[int, ChatPace] = {}

    def pace_of(self, chat_id: int) -> ChatPace:
        if chat_id not in self._paces and len(self._paces) >= CHATS_MAX:
            self._paces = {each: pace for each, pace in self._paces.items() if not pace.is_idle}
        return self._paces.setdefault(chat_id, ChatPace(self._clock, self._every_seconds))


EDIT_SECONDS: Final = 1.0
# Telegram shows it for five seconds.
TYPING_SECONDS: Final = 4.0
# Each pause is twice the one before. A placeholder that may have arrived is sent again less often than other messages.
PAUSE_SECONDS_MIN: Final = 1.0
PAUSE_SECONDS_MAX: Final = 60.0
PLACEHOLDER_PAUSE_SECONDS_MAX: Final = 300.0
# How late an edit without an answer may still take effect: twice the time that Telegram has to answer.
LATE_SECONDS: Final = 20.0
# A person who deletes the same answer so often does not want it.
REPLACED_MAX: Final = 3
PLACEHOLDER: Final = "…"
EMPTY_ANSWER: Final = "(empty answer)"

log = logging.getLogger("wakeful.gateway")
_T = TypeVar("_T")


class ChatAnswers:
    """The chat service and the pace of each chat; all answers share them."""

    def __init__(self, chat: Chat, clock: Clock, *, edit_seconds: float = EDIT_SECONDS) -> None:
        self.chat = chat
        self.clock = clock
        self._paces = ChatPaces(clock, edit_seconds)

    def answer_for(
        self, place: Place, save_part: SavePart, parts: Mapping[int, int] | None = None
    ) -> "ChatAnswer":
        """The answer to one turn. `parts`: its messages, if it was begun before."""
        return ChatAnswer(self, place, save_part, parts or {})

    def pace_of(self, place: Place) -> ChatPace:
        return self._paces.pace_of(place.chat_id)

    async def send_reliably(
        self,
        place: Place,
        send: Callable[[], Awaitable[_T]],
        priority: SendPriority,
        pause_seconds_max: float = PAUSE_SECONDS_MAX,
        *,
        is_repeatable: bool = True,
    ) -> _T:
        """Retry until it is sent.

        Raises ChatRefused if a retry would not help, and ChatFailed in doubt if it must not be sent twice.
        """
        for pause_seconds in _pauses(pause_seconds_max):
            await self.pace_of(place).wait_turn(priority)
            try:
                return await send()
            except ChatFlooded as flood:
                self.pace_of(place).pause(flood.retry_after_seconds)
                continue
            except ChatFailed as problem:
                has_not_arrived = isinstance(problem, ChatUnreachable)
                if not has_not_arrived and (isinstance(problem, ChatRefused) or not is_repeatable):
                    raise
                # A message that never arrived leaves no empty one behind, however often it is sent again.
                wait_seconds = min(pause_seconds, PAUSE_SECONDS_MAX) if has_not_arrived else pause_seconds
                log.info("%s: %s, again in %g s", place.key, problem, wait_seconds)
            await self.clock.sleep(wait_seconds)
        raise AssertionError("pauses do not end")


class ChatAnswer:
    """The answer to one turn, in its place. Its messages are `parts`, by number from 0."""

    def __init__(
        self, answers: ChatAnswers, place: Place, save_part: SavePart, parts: Mapping[int, int]
    ) -> None:
        self.parts = dict(parts)
        self._answers = answers
        self._chat = answers.chat
        self._place = place
        self._save_part = save_part
        self._reply_to: int | None = None
        self._text = ""
        self._text_changed = asyncio.Event()
        self._shown_text = ""
        self._can_draft = place.is_private and place.thread_id is not None
        # Held while an edit of the growing text is sent: one that is cancelled might take effect after the final one.
        self._editing = asyncio.Lock()
        self._is_late_possible = False
        self._tasks: tuple[asyncio.Task[None], ...] = ()

    async def send_placeholder(self, reply_to: int | None = None) -> int:
        """Send the placeholder, unless it is there; returns the number of its message, which is stored by then.

        Raises ChatRefused if the chat will not have it.
        """
        self._reply_to = reply_to
        return self.parts.get(0) or await self._new_message(0, SendPriority.NEW)

    def grow(self, text: str) -> None:
        """Take the whole answer so far. It is shown at the chat's pace; only the newest one counts."""
        self._text = text
        self._text_changed.set()

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[None]:
        """While inside, the chat shows the typing sign and the growing answer."""
        self._tasks = (asyncio.create_task(self._show_typing()), asyncio.create_task(self._stream()))
        try:
            yield
        except asyncio.CancelledError:
            # The process is ending: nothing comes after this.
            self._cancel()
            raise
        finally:
            await self._stop_writing()

    async def finish(self, text: str, buttons: Buttons = ()) -> None:
        """Show the final text, once, however often this is called with it.

        Returns when it is shown, even if that takes an hour. Raises ChatRefused if the chat will not have it.
        """
        await self._stop_writing()
        *others, last = messages_of(text) or (EMPTY_ANSWER,)
        for number, part in enumerate(others):
            await self._fill(number, part, ())
        await self._fill(len(others), last, buttons)
        if self._is_late_possible:
            await self._answers.clock.sleep(LATE_SECONDS)
            await self._fill(0, others[0] if others else last, () if others else buttons)
            self._is_late_possible = False

    async def _fill(self, number: int, text: str, buttons: Buttons) -> None:
        """Show the text of this part in its message, or in a new one if that is gone."""
        for replaced in range(REPLACED_MAX + 1):
            message_id = self.parts.get(number) or await self._new_message(number, SendPriority.FINAL)
            try:
                await self._answers.send_reliably(
                    self._place,
                    lambda: self._chat.edit(self._place, message_id, text, buttons=buttons),  # noqa: B023 - called here
                    SendPriority.FINAL,
                )
            except ChatRefused as refusal:
                log.info("%s: a message cannot be edited: %s", self._place.key, refusal)
                del self.parts[number]
                if replaced == REPLACED_MAX:
                    raise
            else:
                return

    async def _new_message(self, number: int, priority: SendPriority) -> int:
        """Send and store a new message for this part. In doubt it is sent again: at worst an empty one is left."""
        message_id = await self._answers.send_reliably(
            self._place,
            lambda: self._chat.send(
                self._place, PLACEHOLDER, reply_to=self._reply_to if number == 0 else None
            ),
            priority,
            PLACEHOLDER_PAUSE_SECONDS_MAX,
        )
        await self._save_part(number, message_id)
        self.parts[number] = message_id
        return message_id

    async def _show_typing(self) -> None:
        clock, pace = self._answers.clock, self._answers.pace_of(self._place)
        while True:
            if not pace.is_paused:
                try:
                    await self._chat.typing(self._place)
                except ChatFlooded as flood:
                    pace.pause(flood.retry_after_seconds)
                except ChatFailed as problem:
                    log.debug("%s: typing is not shown: %s", self._place.key, problem)
            await clock.sleep(TYPING_SECONDS)

    async def _stream(self) -> None:
        """Show the growing text, as often as the pace allows, until its message is gone."""
        pauses = _pauses(PAUSE_SECONDS_MAX)
        clock = self._answers.clock
        while 0 in self.parts:
            await self._text_changed.wait()
            await self._answers.pace_of(self._place).wait_turn(SendPriority.GROWING)
            self._text_changed.clear()
            try:
                await self._show_growth()
                pauses = _pauses(PAUSE_SECONDS_MAX)
            except ChatFlooded as flood:
                self._text_changed.set()
                self._answers.pace_of(self._place).pause(flood.retry_after_seconds)
            except ChatFailed as problem:
                if self._is_final(problem):
                    return
                self._text_changed.set()
                await clock.sleep(next(pauses))

    def _is_final(self, problem: ChatFailed) -> bool:
        """Whether this message can show no more growth."""
        if isinstance(problem, ChatUnreachable):
            return False
        if isinstance(problem, ChatRefused):
            log.info("%s: the partial answer is not shown: %s", self._place.key, problem)
            return True
        self._is_late_possible = True
        return False

    async def _show_growth(self) -> None:
        text = partial_view(self._text)
        if not text or text == self._shown_text:
            return
        async with self._editing:
            await self._draft(text)
            await self._chat.edit(self._place, self.parts[0], text)
            self._shown_text = text

    async def _draft(self, text: str) -> None:
        """Show the text as a draft. After one failure this answer shows no more drafts."""
        if not self._can_draft:
            return
        try:
            await self._chat.draft(self._place, self.parts[0], text)
        except ChatFailed as problem:
            self._can_draft = False
            log.info("%s: no drafts for this answer: %s", self._place.key, problem)

    async def _stop_writing(self) -> None:
        async with self._editing:
            self._cancel()
        for ended in await asyncio.gather(*self._tasks, return_exceptions=True):
            if isinstance(ended, Exception):
                log.error("%s: writing the answer failed", self._place.key, exc_info=ended)
        self._tasks = ()

    def _cancel(self) -> None:
        for task in self._tasks:
            task.cancel()


def _pauses(seconds_max: float) -> Iterator[float]:
    pause_seconds = PAUSE_SECONDS_MIN
    while True:
        yield pause_seconds
        pause_seconds = min(2 * pause_seconds, seconds_max)
