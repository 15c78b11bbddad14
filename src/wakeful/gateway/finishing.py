"""What an answer asks of the gateway itself, done before its words appear, and what is offered under it."""

from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from wakeful.core.decoding import json_decoder
from wakeful.gateway.answering import Answers
from wakeful.gateway.rules.errors import Fault
from wakeful.gateway.rules.messages import Buttons
from wakeful.gateway.rules.shown_text import is_long
from wakeful.gateway.rules.tags import read_tags
from wakeful.gateway.rules.turn import Turn
from wakeful.gateway.tags_run import Rights, TagsRun, with_line
from wakeful.storage.readable import values
from wakeful.storage.store import Note, Store

KIND: Final = "gateway.tags"
_decode: Final = json_decoder(dict[int, str])

Ended = Callable[[Turn, Fault | None, float], Awaitable[None]]


class Finishing:
    """Implements needs.Finish. How far an answer's tags have come is a note until its turn is over."""

    def __init__(
        self,
        *,
        store: Store,
        answers: Answers,
        rights_of: Callable[[Turn], Rights],
        buttons: Callable[[Turn, str], Buttons],
        name_of: Callable[[Turn], str],
    ) -> None:
        self._store = store
        self._answers = answers
        self._rights_of = rights_of
        self._buttons = buttons
        self._name_of = name_of

    async def carry_out(self, turn: Turn) -> tuple[str, Buttons]:
        tagged = read_tags(turn.text)
        text = tagged.text
        if tagged.calls or tagged.files or tagged.left_out or is_long(text):
            stands = await self._known(turn)

            async def keep(number: int, how: str) -> None:
                stands[number] = how
                note = Note(KIND, self._name_of(turn), msgspec.json.encode(stands))
                await self._store.keep_note(note)

            run = TagsRun(self._answers, turn.place, self._rights_of(turn), keep)
            told = await run.run(tagged, dict(stands))
            text = with_line(told.text, told.line)
        return text, self._buttons(turn, text)

    async def ended(self, turn: Turn, _fault: Fault | None, _seconds: float) -> None:
        """Nothing of it will be done again."""
        if "<" in turn.text or is_long(turn.text):
            await self._store.drop_note(KIND, self._name_of(turn))

    async def _known(self, turn: Turn) -> dict[int, str]:
        note = await self._store.note(KIND, self._name_of(turn))
        return {} if note is None else next(iter(values([note], _decode)), {})


class Witnesses:
    """Implements needs.Witness: everybody who wants to know how turns end."""

    def __init__(self, *told: Ended) -> None:
        self._told = told

    async def ended(self, turn: Turn, fault: Fault | None, seconds: float) -> None:
        for each in self._told:
            await each(turn, fault, seconds)
