"""One turn on its way: what is kept of it, and the messages that will say it. Nothing here decides."""

from typing import Any

from msgspec.structs import replace

from wakeful.control.turn_events import NOTHING, Spent
from wakeful.core.fault_points import reach
from wakeful.gateway.book import Book
from wakeful.gateway.needs import Answers
from wakeful.gateway.rules.turn import Stage, Turn


class Passage:
    """`turn` is as it was kept last, or is being kept now."""

    def __init__(self, turn: Turn, book: Book, answers: Answers) -> None:
        self.turn = turn
        self._book = book
        self.answer = answers.of(turn.place, self._keep_part, turn.parts)

    async def keep(self, **changes: Any) -> None:
        """Change it, durably."""
        # Here first: whoever changes it while the store is busy changes what is newest.
        self.turn = replace(self.turn, **changes)
        await self._book.keep(self.turn)

    async def place(self) -> None:
        """A placeholder, and its number kept."""
        await self.answer.place(self.turn.message_id)

    async def decide(self, text: str, fault: str, spent: Spent = NOTHING, withheld: str = "") -> None:
        """What will be said is kept before it is said, and so is what will not."""
        tokens = (spent.input_tokens, spent.output_tokens)
        kept = {"text": text, "fault": fault, "withheld": withheld}
        await self.keep(stage=Stage.ANSWERING, **kept, cost_usd=spent.cost_usd, tokens=tokens)

    async def _keep_part(self, number: int, message_id: int) -> None:
        reach("turn.sent")
        stage = Stage.PLACED if self.turn.stage is Stage.ACCEPTED else self.turn.stage
        await self.keep(stage=stage, parts={**self.turn.parts, number: message_id})
