"""The stored state of a turn, from the arrival of its message to its answer, and of a conversation. Pure.

A turn is stored before and after every step that must not happen twice. After a crash the stored turn shows
which steps have happened, and which one may have.
"""

from enum import StrEnum
from typing import Final

from msgspec import Struct

from wakeful.gateway.rules.messages import ButtonPress, ConversationKey, Place


class TurnStage(StrEnum):
    ACCEPTED = "accepted"
    # The placeholder is sent. A crash just before can leave one whose number was lost: it stays empty.
    PLACED = "placed"
    # The prompt is given to the session under the turn's key; asking again under it is safe.
    ASKING = "asking"
    ASKED = "asked"
    # The text is known and stored; parts of it may have been sent.
    ANSWERING = "answering"
    DONE = "done"
    FAILED = "failed"


class StopScope(StrEnum):
    """How much its user stopped."""

    NOTHING = ""
    TURN = "turn"
    CONVERSATION = "conversation"


FINAL_STAGES: Final = frozenset({TurnStage.DONE, TurnStage.FAILED})
# Telegram keeps an update for a day, and may send it again until then.
RETENTION_SECONDS: Final = 86_400.0


class Turn(Struct, frozen=True, kw_only=True):
    """`text` is the final text: an answer, or why there is none. `parts` are the messages that show it."""

    update_id: int
    place: Place
    message_id: int
    user_id: int
    at: float
    prompt: str
    stage: TurnStage = TurnStage.ACCEPTED
    provider: str = ""
    # Empty while ASKING: the prompt begins a conversation.
    session_id: str = ""
    # The process of that session that got the prompt; 0 if unknown.
    epoch: int = 0
    # Why the prompt may have had no effect, in the words of the daemon; empty: it arrived.
    doubt: str = ""
    text: str = ""
    # By number from 0: the first one is the placeholder.
    parts: dict[int, int] = {}
    # The pattern of a failure, `refused`, `stopped` or `queue_full`; empty for an answer.
    fault: str = ""
    # An answer that the validator rejected: shown once, on request.
    withheld: str = ""
    cost_usd: float | None = None
    # In and out; 0 if the client does not report them.
    tokens: tuple[int, int] = (0, 0)
    # A stop is final, even if another process continues the turn.
    cut: StopScope = StopScope.NOTHING
    # The press of a button: no turn, but stored like one until it was handled.
    pressed: ButtonPress | None = None

    @property
    def key(self) -> ConversationKey:
        return self.place.key

    @property
    def is_over(self) -> bool:
        return self.stage in FINAL_STAGES


class Conversation(Struct, frozen=True, kw_only=True):
    """A conversation between its turns. `session_id` is the session that runs it, or ran it last."""

    provider: str
    session_id: str = ""
    # A digest of its folder, program and permissions.
    held_as: str = ""
    # The gateway did not end its session: it has a place in the pool.
    seated: bool = False
    # Digests of the calls that a person allowed for this session. Earlier versions stored tool names, which allow
    # nothing.
    allowed: tuple[str, ...] = ()
