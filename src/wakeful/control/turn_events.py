"""Events of a running turn, the same for every provider. Their texts are the agent's own."""

from typing import Final

from msgspec import Struct

from wakeful.judging.events import Failure


class PromptTaken(Struct, frozen=True):
    """The prompt arrived: later events belong to this turn, earlier ones do not."""


class AnswerText(Struct, frozen=True):
    """More of the answer, as it is generated."""

    text: str


class PermissionAsked(Struct, frozen=True):
    """A permission is asked for. `tool` and `untrusted` are the agent's; `call` is a digest of the whole call, if known."""

    question_id: str
    tool: str
    untrusted: str
    call: str = ""


class PermissionClosed(Struct, frozen=True):
    """A question is no longer open."""

    question_id: str


class Spent(Struct, frozen=True):
    """The cost of a turn. None: the client does not report it."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None


NO_COST: Final = Spent()


class Ended(Struct, frozen=True):
    """The turn is over. `failure`: it failed, and `text` is the client's message, not an answer."""

    text: str
    failure: Failure | None = None
    spent: Spent = Spent()
    # After an interrupt by the healer the turn goes on, and its reader reads on.
    interrupted: bool = False
    # Why the model stopped, in the client's word; `end_turn` for a complete answer.
    stop_reason: str = ""

    @property
    def is_final(self) -> bool:
        """Whether nothing continues this turn. One that failed or was interrupted may go on by a prompt of the healer."""
        return not self.interrupted and self.failure is None


class Gone(Struct, frozen=True):
    """Its process ended inside the turn. `last_words` are redacted lines of its error stream."""

    last_words: str


class PromptUnread(Struct, frozen=True):
    """Its process ended during work on another prompt, and this one was lost unread."""


TurnEvent = PromptTaken | AnswerText | PermissionAsked | PermissionClosed | Ended | Gone | PromptUnread
