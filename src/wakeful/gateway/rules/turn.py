"""The stored state of a turn, from the arrival of its message to its answer, and of a conversation. Pure.

A turn is stored before and after every step that must not happen twice, so that after a crash it shows what
has happened and what may have happened.
"""

from enum import StrEnum
from typing import Final

from msgspec import Struct

from wakeful.gateway.rules.messages import ButtonPress, ConversationKey, Place


class TurnStage(StrEnum):
    ACCEPTED = "accepted"
    # Before, a placeholder may have been sent whose number was lost: it stays empty.
    PLACED = "placed"
    # The prompt is given to the session under the turn's key; asking again under it is safe.
    ASKING = "asking"
    ASKED = "asked"
    # The text is known and stored; parts of it may have been sent.
    ANSWERING = "answering"
    DONE = "done"
    FAILED = "failed"


class StopScope(StrEnum):
    """What its user wants no more of."""

    NOTHING = ""
    TURN = "turn"
    CONVERSATION = "conversation"


FINAL_STAGES: Final = frozenset({TurnStage.DONE, TurnStage.FAILED})
# Telegram keeps an update for a day: what it may send again is known here as long.
RETENTION_SECONDS: Final = 86_400.0


class Turn(Struct, frozen=True, kw_only=True):
    """`text` is the final text, an answer or why there is none; `parts` are the messages that show it."""

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
    # The text that was sent instead, if the prompt was not seen to arrive.
    doubt: str = ""
    text: str = ""
    # By number from 0: the first one is the placeholder.
    parts: dict[int, int] = {}
    # The pattern of a failure, `refused` or `stopped`; empty for an answer.
    fault: str = ""
    # An answer that the validator rejected: shown once, on request.
    withheld: str = ""
    cost_usd: float | None = None
    # In and out; nothing where the client does not say.
    tokens: tuple[int, int] = (0, 0)
    # A stop is final, whichever process continues the turn.
    cut: StopScope = StopScope.NOTHING
    # A button that was pressed: no turn, but kept like one until it was seen to.
    pressed: ButtonPress | None = None

    @property
    def key(self) -> ConversationKey:
        return self.place.key

    @property
    def is_over(self) -> bool:
        return self.stage in FINAL_STAGES


class Conversation(Struct, frozen=True, kw_only=True):
    """What is kept of a conversation between its turns. `session_id` is empty before the first one and after /new."""

    provider: str
    session_id: str = ""
    # A digest of how it is run: where, by which program, with which permissions.
    held_as: str = ""
    # Its session was not ended by us: it has a place in the pool.
    seated: bool = False
    used_at: float = 0.0
    # Calls that a person allowed for this session, by their digests. Earlier versions stored names of tools: those
    # allow nothing.
    allowed: tuple[str, ...] = ()
