"""Carries out the tags of an answer before its text is shown, and adds the buttons under it.

Calls of chat methods come before files; an answer too long for messages is sent as a file. Each step is
stored as begun before it is sent and with its result after. A step whose result was lost is reported as
unverified and is never repeated.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Final, Protocol

import msgspec
from msgspec import Struct

from wakeful.core.decoding import json_decoder
from wakeful.core.redaction import redact
from wakeful.core.text import plain
from wakeful.gateway.answer import ChatAnswers, SendPriority
from wakeful.gateway.ports import ChatFailed, ChatRefused
from wakeful.gateway.rules.chat_methods import MethodRefused, check_call
from wakeful.gateway.rules.errors import Fault
from wakeful.gateway.rules.messages import Buttons, Place
from wakeful.gateway.rules.shown_text import display_text, full_display_text, is_long, text_beginning
from wakeful.gateway.rules.tags import ApiCall, FileToSend, Tagged, read_tags
from wakeful.gateway.rules.turn import Turn
from wakeful.storage.base import Note, Store
from wakeful.storage.note_decoding import decode_note_values

BEGUN: Final = "begun"
DONE: Final = "done"
UNVERIFIED: Final = "unverified"
FILE_NAME: Final = "answer.md"
NAME_CHARS_MAX: Final = 60
REASON_CHARS_MAX: Final = 120

log = logging.getLogger("wakeful.gateway")


class WholeAnswer(Struct, frozen=True):
    """An answer that is too long for messages, without its tags."""

    text: str


Tag = ApiCall | FileToSend | WholeAnswer
SaveTag = Callable[[int, str], Awaitable[None]]
"""Keeps how the tag of this number, from 0, stands."""


class Rights(Struct, frozen=True):
    """What the requester may have done, and the folder of which files may be sent; None: none."""

    is_admin: bool
    send_from: Path | None = None


class TagResult(Struct, frozen=True):
    """The text to send, and a line about tags that were not carried out: empty if all were."""

    text: str
    line: str


class TagRunner:
    def __init__(self, answers: ChatAnswers, place: Place, rights: Rights, keep: SaveTag) -> None:
        self._answers = answers
        self._place = place
        self._rights = rights
        self._save = keep

    async def run(self, tagged: Tagged, known: Mapping[int, str] | None = None) -> TagResult:
        """Do what the tags ask for. `known`: how they stand, if this was begun before."""
        stands = dict(known or {})
        filed = (WholeAnswer(tagged.text),) if is_long(tagged.text) else ()
        tags: tuple[Tag, ...] = (*tagged.calls, *tagged.files, *filed)
        for number, tag in enumerate(tags):
            if stands.get(number) == BEGUN:
                stands[number] = UNVERIFIED
            elif number not in stands:
                stands[number] = await self._run_tag(number, tag)
        is_filed = bool(filed) and stands[len(tags) - 1] == DONE
        text = text_beginning(tagged.text, _filed_note(tagged.text)) if is_filed else tagged.text
        return TagResult(text, "; ".join(_lines(tags, stands, tagged.left_out)))

    async def _run_tag(self, number: int, tag: Tag) -> str:
        try:
            say = await self._sender_of(tag)
            await self._save(number, BEGUN)
            await self._answers.send_reliably(self._place, say, SendPriority.NEW, is_repeatable=False)
            end = DONE
        except (MethodRefused, ChatRefused) as refusal:
            end = str(refusal.facts["reason"])
        except ChatFailed as problem:
            log.warning("%s: %s may have been done: %s", self._place.key, _name(tag), problem)
            end = UNVERIFIED
        await self._save(number, end)
        return end

    async def _sender_of(self, tag: Tag) -> Callable[[], Awaitable[object]]:
        if isinstance(tag, ApiCall):
            return self._call(tag)
        if isinstance(tag, FileToSend):
            return self._file(tag)
        content = await asyncio.to_thread(full_display_text, tag.text)
        return partial(self._answers.chat.send_as_file, self._place, FILE_NAME, content)

    def _call(self, tag: ApiCall) -> Callable[[], Awaitable[object]]:
        if not self._rights.is_admin:
            raise MethodRefused(reason="only admins' answers call methods")
        method, parameters = check_call(tag.method, tag.parameters, self._place)
        return partial(self._answers.chat.call, method, parameters)

    def _file(self, tag: FileToSend) -> Callable[[], Awaitable[object]]:
        if self._rights.send_from is None:
            raise MethodRefused(reason="no folder is open to this chat")
        send = self._answers.chat.send_file
        return partial(
            send, self._place, Path(tag.path), display_text(tag.caption), within=self._rights.send_from
        )


def with_line(text: str, line: str) -> str:
    """The answer with what was not done below it; above it, where its end will not be seen."""
    if line and is_long(text):
        return f"({line})\n\n{text}"
    return f"{text}\n\n({line})".strip() if line else text


def _lines(tags: tuple[Tag, ...], stands: Mapping[int, str], left_out: int) -> Iterator[str]:
    for number, tag in enumerate(tags):
        if stands[number] == UNVERIFIED:
            yield f"perhaps not done: {_name(tag)} (Telegram's answer was lost)"
        elif stands[number] != DONE:
            yield f"not done: {_name(tag)} ({plain(stands[number], REASON_CHARS_MAX)})"
    if left_out:
        yield f"not done: {left_out} more, beyond what one answer may ask for"


def _name(tag: Tag) -> str:
    if isinstance(tag, WholeAnswer):
        return "sending the whole answer as a file"
    return plain(redact(tag.method if isinstance(tag, ApiCall) else tag.path), NAME_CHARS_MAX)


def _filed_note(text: str) -> str:
    return f"[The answer has {len(text):,} characters. All of it is in the file {FILE_NAME} below.]"


KIND: Final = "gateway.tags"
_decode: Final = json_decoder(dict[int, str])

TurnEndHandler = Callable[[Turn, Fault | None, float], Awaitable[None]]


class AnswerContext(Protocol):
    """What finishing an answer asks about its turn."""

    def rights_of(self, turn: Turn) -> Rights:
        """The rights of the person who wrote the prompt."""

    def buttons(self, turn: Turn, text: str) -> Buttons:
        """The buttons below the answer."""

    def key_of(self, turn: Turn) -> str:
        """The key of the turn in the store."""


class AnswerFinisher:
    """Implements needs.Finish. How far an answer's tags have come is a note until its turn is over."""

    def __init__(
        self,
        *,
        store: Store,
        answers: ChatAnswers,
        context: AnswerContext,
    ) -> None:
        self._store = store
        self._answers = answers
        self._context = context

    async def carry_out(self, turn: Turn) -> tuple[str, Buttons]:
        tagged = read_tags(turn.text)
        text = tagged.text
        if tagged.calls or tagged.files or tagged.left_out or is_long(text):
            stands = await self._stored_tags(turn)

            async def keep(number: int, how: str) -> None:
                stands[number] = how
                note = Note(KIND, self._context.key_of(turn), msgspec.json.encode(stands))
                await self._store.save_note(note)

            run = TagRunner(self._answers, turn.place, self._context.rights_of(turn), keep)
            told = await run.run(tagged, dict(stands))
            text = with_line(told.text, told.line)
        return text, self._context.buttons(turn, text)

    async def on_turn_end(self, turn: Turn, _fault: Fault | None, _seconds: float) -> None:
        """Nothing of it will be done again."""
        if "<" in turn.text or is_long(turn.text):
            await self._store.drop_note(KIND, self._context.key_of(turn))

    async def _stored_tags(self, turn: Turn) -> dict[int, str]:
        note = await self._store.note(KIND, self._context.key_of(turn))
        return {} if note is None else next(iter(decode_note_values([note], _decode)), {})


class TurnObservers:
    """Hears how turns end, and passes it on. Handlers join once they are built."""

    def __init__(self) -> None:
        self._handlers: list[TurnEndHandler] = []

    def add(self, handler: TurnEndHandler) -> None:
        self._handlers.append(handler)

    async def on_turn_end(self, turn: Turn, fault: Fault | None, seconds: float) -> None:
        for each in self._handlers:
            await each(turn, fault, seconds)
