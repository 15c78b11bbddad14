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
from typing import Final

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
from wakeful.gateway.turn_store import TurnStore
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
"""Stores the state of a tag: BEGUN, DONE, UNVERIFIED or why it was refused. Tags are numbered from 0."""


class Rights(Struct, frozen=True):
    """The rights of the person who asked. `send_from`: the folder whose files may be sent; None: no file."""

    is_admin: bool
    send_from: Path | None = None


class TagResult(Struct, frozen=True):
    """The text to send, and a line about tags that were not carried out: empty if all were."""

    text: str
    line: str


class TagRunner:
    def __init__(self, answers: ChatAnswers, place: Place, rights: Rights, save_tag: SaveTag) -> None:
        self._answers = answers
        self._place = place
        self._rights = rights
        self._save_tag = save_tag

    async def run(self, tagged: Tagged, known: Mapping[int, str] | None = None) -> TagResult:
        """Carry out the tags. `known`: their states, if this was begun before."""
        states = dict(known or {})
        whole = (WholeAnswer(tagged.text),) if is_long(tagged.text) else ()
        tags: tuple[Tag, ...] = (*tagged.calls, *tagged.files, *whole)
        for number, tag in enumerate(tags):
            if states.get(number) == BEGUN:
                states[number] = UNVERIFIED
            elif number not in states:
                states[number] = await self._run_tag(number, tag)
        text = tagged.text
        if whole and states[len(tags) - 1] == DONE:
            note = f"[The answer has {len(text):,} characters. The file {FILE_NAME} below has all of them.]"
            text = text_beginning(text, note)
        return TagResult(text, "; ".join(_lines(tags, states, tagged.left_out)))

    async def _run_tag(self, number: int, tag: Tag) -> str:
        try:
            send = await self._sender_of(tag)
            await self._save_tag(number, BEGUN)
            await self._answers.send_reliably(self._place, send, SendPriority.NEW, is_repeatable=False)
            state = DONE
        except (MethodRefused, ChatRefused) as refusal:
            state = str(refusal.facts["reason"])
        except ChatFailed as problem:
            log.warning("%s: %s may have been done: %s", self._place.key, _name(tag), problem)
            state = UNVERIFIED
        await self._save_tag(number, state)
        return state

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
            raise MethodRefused(reason="this chat may not send files")
        send = self._answers.chat.send_file
        return partial(
            send, self._place, Path(tag.path), display_text(tag.caption), within=self._rights.send_from
        )


def with_line(text: str, line: str) -> str:
    """The answer with the line below it; above it if the answer is too long for its end to be seen."""
    if line and is_long(text):
        return f"({line})\n\n{text}"
    return f"{text}\n\n({line})".strip() if line else text


def _lines(tags: tuple[Tag, ...], states: Mapping[int, str], left_out: int) -> Iterator[str]:
    for number, tag in enumerate(tags):
        if states[number] == UNVERIFIED:
            yield f"unconfirmed: {_name(tag)} (Telegram's answer was lost)"
        elif states[number] != DONE:
            yield f"not done: {_name(tag)} ({plain(states[number], REASON_CHARS_MAX)})"
    if left_out:
        yield f"not done: {left_out} more, beyond what one answer may ask for"


def _name(tag: Tag) -> str:
    if isinstance(tag, WholeAnswer):
        return "sending the whole answer as a file"
    return plain(redact(tag.method if isinstance(tag, ApiCall) else tag.path), NAME_CHARS_MAX)


KIND: Final = "gateway.tags"
_decode: Final = json_decoder(dict[int, str])

TurnEndHandler = Callable[[Turn, Fault | None, float], Awaitable[None]]


class AnswerFinisher:
    """Implements `AnswerFinishing`. The states of an answer's tags are a note until its turn is over."""

    def __init__(
        self,
        *,
        store: Store,
        answers: ChatAnswers,
        turn_store: TurnStore,
        rights_of: Callable[[Turn], Rights],
        buttons: Callable[[Turn, str], Buttons],
    ) -> None:
        self._store = store
        self._answers = answers
        self._turn_store = turn_store
        self._rights_of = rights_of
        self._buttons = buttons

    async def carry_out(self, turn: Turn) -> tuple[str, Buttons]:
        tagged = read_tags(turn.text)
        text = tagged.text
        if tagged.calls or tagged.files or tagged.left_out or is_long(text):
            key = self._turn_store.key_of(turn)
            note = await self._store.note(KIND, key)
            known: dict[int, str] = {}
            if note is not None:
                known = next(iter(decode_note_values([note], _decode)), known)

            async def save_tag(number: int, state: str) -> None:
                known[number] = state
                await self._store.save_note(Note(KIND, key, msgspec.json.encode(known)))

            runner = TagRunner(self._answers, turn.place, self._rights_of(turn), save_tag)
            result = await runner.run(tagged, dict(known))
            text = with_line(result.text, result.line)
        return text, self._buttons(turn, text)

    async def on_turn_end(self, turn: Turn, _fault: Fault | None, _seconds: float) -> None:
        """Drop the states of its tags: none is carried out again."""
        if "<" in turn.text or is_long(turn.text):
            await self._store.drop_note(KIND, self._turn_store.key_of(turn))


class TurnObservers:
    """Passes the end of each turn to its handlers, which join once they are built."""

    def __init__(self) -> None:
        self._handlers: list[TurnEndHandler] = []

    def add(self, handler: TurnEndHandler) -> None:
        self._handlers.append(handler)

    async def on_turn_end(self, turn: Turn, fault: Fault | None, seconds: float) -> None:
        for each in self._handlers:
            await each(turn, fault, seconds)
