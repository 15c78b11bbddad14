"""State of a running turn (its stored row and chat messages), and the interfaces and limits of turns."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

from wakeful.client.api import Workspace
from wakeful.control.turn_events import NO_COST, Spent
from wakeful.core.fault_points import fault_point
from wakeful.gateway.rules.errors import Fault
from wakeful.gateway.rules.messages import Buttons, ConversationKey, Place
from wakeful.gateway.rules.turn import Turn, TurnStage
from wakeful.gateway.turn_store import TurnStore

WorkspaceFor = Callable[[ConversationKey], Workspace]
"""Where a conversation is held: provider, folder, flags and environment, as it is configured now."""

SavePart = Callable[[int, int], Awaitable[None]]
"""Keeps that the part of this number, from 0, is the message of that number."""


class TurnLimits(Struct, frozen=True):
    """In seconds. `turn`: how long a turn may have no event; `question`: how long one waits for its answer."""

    turn: float = 600.0
    question: float = 600.0
    # How long a turn that another party interrupted may stay so before it counts as over.
    cut_short: float = 60.0
    # How long a process that ended inside it may be missed: the healer takes two minutes at most to see one back.
    gone: float = 180.0
    # One proposal of a kind for a key within this time.
    proposal_cooldown: float = 300.0
    # A daemon that is away is asked again after this.
    retry: float = 2.0
    # And no longer than this for one turn.
    away: float = 600.0


class AuthGate(Protocol):
    """The login state of every provider."""

    def refusal(self, provider: str) -> str | None:
        """The text that the user gets at once instead of an answer; None while its login is good."""

    async def on_login_failed(self, provider: str) -> None:
        """A turn ended for want of a login."""

    async def on_login_suspected(self, provider: str) -> None:
        """A turn ended well, and its answer reads like a login prompt: any user can have a model write that."""

    async def on_login_succeeded(self, provider: str) -> None:
        """A turn ended well."""


class AnswerMessages(Protocol):
    """The messages of one answer. Each says it until it is there; ChatRefused where that will never be."""

    async def send_placeholder(self, reply_to: int | None = None) -> int:
        """Let the placeholder appear, unless it is there."""

    def grow(self, text: str) -> None:
        """The whole answer so far. Does not wait until it is shown."""

    def writing(self) -> AbstractAsyncContextManager[None]:
        """While inside, it is shown that an answer is being written, and the answer as it grows."""

    async def finish(self, text: str, buttons: Buttons = ()) -> None:
        """Let the final text be there, once, however often this is called with it."""


class AnswerFactory(Protocol):
    def answer_for(
        self, place: Place, keep: SavePart, parts: Mapping[int, int] | None = None
    ) -> AnswerMessages:
        """The answer to one turn. `parts`: its messages, if it was begun before."""


class AnswerFinishing(Protocol):
    """What an answer asks of the gateway itself, and what is offered under it."""

    async def carry_out(self, turn: Turn) -> tuple[str, Buttons]:
        """Do what the text asks for, each thing once however often this is called; what is left to be shown."""


class TurnObserver(Protocol):
    """Told how every turn ended, for analytics and self-heal. A turn that was merely refused or stopped has no fault."""

    async def on_turn_end(self, turn: Turn, fault: Fault | None, seconds: float) -> None: ...


class TurnContext:
    """`turn` is as it was kept last, or is being kept now."""

    def __init__(self, turn: Turn, turn_store: TurnStore, answers: AnswerFactory) -> None:
        self.turn = turn
        self._turn_store = turn_store
        self.answer = answers.answer_for(turn.place, self._save_part, turn.parts)

    async def save(self, **changes: Any) -> None:
        """Change it, durably."""
        # In memory first: a change while the store is busy starts from the newest value.
        self.turn = replace(self.turn, **changes)
        await self._turn_store.save(self.turn)

    async def send_placeholder(self) -> None:
        """A placeholder, and its number kept."""
        await self.answer.send_placeholder(self.turn.message_id)

    async def save_answer(self, text: str, fault: str, spent: Spent = NO_COST, withheld: str = "") -> None:
        """Store the text to send, and what is withheld, before it is sent."""
        tokens = (spent.input_tokens, spent.output_tokens)
        kept = {"text": text, "fault": fault, "withheld": withheld}
        await self.save(stage=TurnStage.ANSWERING, **kept, cost_usd=spent.cost_usd, tokens=tokens)

    async def _save_part(self, number: int, message_id: int) -> None:
        fault_point("turn.sent")
        stage = TurnStage.PLACED if self.turn.stage is TurnStage.ACCEPTED else self.turn.stage
        await self.save(stage=stage, parts={**self.turn.parts, number: message_id})
