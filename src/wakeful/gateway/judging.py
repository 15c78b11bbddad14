"""What the end of a turn is worth: an answer that may be shown, or a failure and the one sentence about it."""

import logging
from typing import Final

from msgspec import Struct

from wakeful.control.auth_text import AuthTier, auth_tier
from wakeful.control.turn_events import Ended, Gone
from wakeful.gateway.rules.errors import (
    AUTH_REQUIRED,
    Category,
    Fault,
    NotBegun,
    Rejected,
    TimedOut,
    classify,
    user_words,
)
from wakeful.gateway.rules.messages import ConversationKey
from wakeful.gateway.rules.tags import shown_so_far
from wakeful.gateway.rules.turn import Turn
from wakeful.gateway.rules.validation import Finish, Recent, validate

STOPPED_WORDS: Final = "Stopped."
NOT_BEGUN_WORDS: Final = "The agent could not be asked. Please try again in a moment."
UNSURE_WORDS: Final = (
    "I do not know whether the agent got this message. Please look at what is done before you send it again."
)
LOST_WORDS: Final = "This message was lost while I was restarted. Please send it again."
# Conversations whose last answers are remembered: more than ever have a session at once.
KEYS_MAX: Final = 200
_FINISHES: Final = {"end_turn": Finish.COMPLETE, "max_tokens": Finish.CUT_SHORT}

log = logging.getLogger("wakeful.gateway")


class Stopped(Struct, frozen=True):
    """Its user stopped it, or somebody else cut it short and nobody went on. `text`: what it had said by then."""

    text: str


class Lost(Struct, frozen=True):
    """Nobody knows its session any more."""


End = Ended | Gone | TimedOut | NotBegun | Stopped | Lost


class Judging:
    """Remembers the last answers of every conversation: a loop is told by them."""

    def __init__(self) -> None:
        self._recent: dict[ConversationKey, Recent] = {}

    def judge(self, turn: Turn, end: End) -> tuple[Fault | None, str]:
        """Whether it failed, and what is said. Nothing a client says about a failure is in it."""
        if isinstance(end, Lost):
            return Fault(Category.PROCESS_CRASH, Category.PROCESS_CRASH), LOST_WORDS
        if isinstance(end, Stopped):
            return None, f"{_said_so_far(end.text)}\n\n{STOPPED_WORDS}".strip()
        fault = classify(end)
        if fault is None and isinstance(end, Ended):
            fault = self._rejection(turn, end)
            if fault is None:
                return None, end.text
        assert fault is not None, "an end that is no answer is a failure"
        if isinstance(end, NotBegun):
            return fault, NOT_BEGUN_WORDS if end.is_sure else UNSURE_WORDS
        return fault, user_words(fault)

    def forget(self, key: ConversationKey) -> None:
        """Another conversation begins there."""
        self._recent.pop(key, None)

    def _rejection(self, turn: Turn, end: Ended) -> Fault | None:
        recent = self._recent.pop(turn.key, Recent())
        self._remember(turn.key, recent.after(turn.prompt, end.text))
        tier = auth_tier(end.text)
        if tier is AuthTier.SURE:
            return Fault(Category.UNKNOWN, AUTH_REQUIRED)
        finish = _FINISHES.get(end.stop_reason, Finish.UNSAID)
        reason = validate(end.text, asked=turn.prompt, recent=recent, finish=finish)
        if reason is None:
            return None
        log.warning("an answer of %s was rejected: %s", turn.session_id, reason)
        fault = classify(Rejected(reason))
        # An error that speaks of credentials: no restart gives it any.
        return fault if fault is None or tier is None else Fault(fault.category, AUTH_REQUIRED)

    def _remember(self, key: ConversationKey, recent: Recent) -> None:
        """A dict keeps its order: who has not written for longest is forgotten first."""
        self._recent[key] = recent
        if len(self._recent) > KEYS_MAX:
            del self._recent[next(iter(self._recent))]


def _said_so_far(text: str) -> str:
    """What is left of an answer that was cut short: what it asked for is not done, and a client's complaint not shown."""
    return "" if auth_tier(text) is not None else shown_so_far(text)
