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
"""The provider, folder, flags and environment of a conversation, as they are configured now."""

SavePart = Callable[[int, int], Awaitable[None]]
"""Stores which message shows this part of the answer; parts are numbered from 0."""


class TurnLimits(Struct, frozen=True):
    """In seconds. `turn`: how long a turn may have no event; `question`: how long a question may be open."""

    turn: float = 600.0
    question: float = 600.0
    # How long a turn that another party interrupted may stay so before it counts as over.
    cut_short: float = 60.0
    # How long a turn waits after its process ended: the healer takes two minutes at most to bring one back.
    gone: float = 180.0
    # One proposal to revive for each key within this time.
    proposal_cooldown: float = 300.0
    # A daemon that is away is asked again after this.
    retry: float = 2.0
    # For no longer than this with one request.
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
    """The messages of one answer. Sending retries until it is shown; ChatRefused if the chat will not have it."""

    async def send_placeholder(self, reply_to: int | None = None) -> int:
        """Send the placeholder, unless it is there; returns the number of its message."""

    def grow(self, text: str) -> None:
        """Take the whole answer so far. Does not wait until it is shown."""

    def writing(self) -> AbstractAsyncContextManager[None]:
        """While inside, the chat shows the typing sign and the growing answer."""

    async def finish(self, text: str, buttons: Buttons = ()) -> None:
        """Show the final text, once, however often this is called with it."""


class AnswerFactory(Protocol):
    def answer_for(
        self, place: Place, save_part: SavePart, parts: Mapping[int, int] | None = None
    ) -> AnswerMessages:
        """The answer to one turn. `parts`: its messages, if it was begun before."""


class AnswerFinishing(Protocol):
    async def carry_out(self, turn: Turn) -> tuple[str, Buttons]:
        """Carry out the tags of the answer, each once however often this is called; returns what is to be shown."""


class TurnObserver(Protocol):
    """Gets the end of every turn. A turn that was only refused or stopped has no fault."""

    async def on_turn_end(self, turn: Turn, fault: Fault | None, seconds: float) -> None: ...


class TurnContext:
    """`turn` is the newest state: stored, or being stored now."""

    def __init__(self, turn: Turn, turn_store: TurnStore, answers: AnswerFactory) -> None:
        self.turn = turn
        self._turn_store = turn_store
        self.answer = answers.answer_for(turn.place, self._save_part, turn.parts)

    async def save(self, **changes: Any) -> None:
        """Change the turn, durably."""
        # In memory first: a change while the store is busy starts from the newest value.
        self.turn = replace(self.turn, **changes)
        await self._turn_store.save(self.turn)

    async def save_answer(self, text: str, fault: str, spent: Spent = NO_COST, withheld: str = "") -> None:
        """Store the text to send, and what is withheld, before it is sent."""
        tokens = (spent.input_tokens, spent.output_tokens)
        answer = {"text": text, "fault": fault, "withheld": withheld}
        await self.save(stage=TurnStage.ANSWERING, **answer, cost_usd=spent.cost_usd, tokens=tokens)

    async def _save_part(self, number: int, message_id: int) -> None:
        fault_point("turn.sent")
        stage = TurnStage.PLACED if self.turn.stage is TurnStage.ACCEPTED else self.turn.stage
        await self.save(stage=stage, parts={**self.turn.parts, number: message_id})
