"""Classifies how a turn failed into six closed categories. Pure.

Dashboards and alerts depend on the categories, so none is renamed. The end of the turn decides, never the
text of a model. Only the client's own message about its failure is read: a client has no other way to say
that a login is missing or that a tool server failed.
"""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from msgspec import Struct

from wakeful.control.login import AuthTier, auth_tier
from wakeful.control.turn_events import Ended, Gone
from wakeful.judging.events import Failure


class Category(StrEnum):
    """What kind of failure it was."""

    TIMEOUT = "timeout"
    PROCESS_CRASH = "process_crash"
    MCP_TOOL_FAILURE = "mcp_tool_failure"
    INVALID_RESPONSE = "invalid_response"
    CONFUSION = "confusion"
    UNKNOWN = "unknown"


class Reason(StrEnum):
    """Why the validator rejects an answer."""

    EMPTY = "empty"
    ERROR_LEAK = "error_leak"
    CONFUSION = "confusion"
    TRUNCATED = "truncated"
    LOOP = "loop"


CATEGORY_OF: Final[Mapping[Reason, Category]] = {
    Reason.EMPTY: Category.INVALID_RESPONSE,
    Reason.ERROR_LEAK: Category.INVALID_RESPONSE,
    Reason.CONFUSION: Category.CONFUSION,
    Reason.TRUNCATED: Category.INVALID_RESPONSE,
    Reason.LOOP: Category.INVALID_RESPONSE,
}
AUTH_REQUIRED: Final = "auth_required"
USAGE_LIMITED: Final = "usage_limited"
# Failures that a restart does not mend.
NEVER_RESTARTED: Final = frozenset({AUTH_REQUIRED, USAGE_LIMITED})


class TimedOut(Struct, frozen=True):
    """The turn did not end within its limit."""


class NotBegun(Struct, frozen=True):
    """No session took the prompt. `words` are the daemon's or the client's, redacted.

    `is_sure`: False if it is unknown whether one took it.
    """

    words: str
    is_sure: bool = True


class Rejected(Struct, frozen=True):
    """The validator rejected the answer."""

    reason: Reason


End = Ended | Gone | TimedOut | NotBegun | Rejected
"""How a turn can end."""


class Fault(Struct, frozen=True):
    """A failure: its category, and the key by which repetitions are counted."""

    category: Category
    pattern: str
    # False: judged by the text of an answer, which one conversation can provoke for all.
    of_provider: bool = True

    @property
    def counts_for_breaker(self) -> bool:
        """A missing login does not count: degraded mode covers it."""
        return self.pattern != AUTH_REQUIRED


MEANINGS: Final[Mapping[Category, str]] = {
    Category.TIMEOUT: "the turn exceeded its limit, or the client gave up waiting for the model",
    Category.PROCESS_CRASH: "the process ended during the turn, or there was none",
    Category.MCP_TOOL_FAILURE: "the client says that a tool server failed",
    Category.INVALID_RESPONSE: "the validator rejected the answer: empty, error_leak, truncated or loop",
    Category.CONFUSION: "the validator rejected the answer: confusion",
    Category.UNKNOWN: "the turn failed in another way: the provider's errors, a refused login, a usage limit",
}
# One clear sentence for the user; the exact error is for the operator.
USER_TEXTS: Final[Mapping[Category, str]] = {
    Category.TIMEOUT: "This took too long and was stopped. Please try again, perhaps with a smaller step.",
    Category.PROCESS_CRASH: "The agent stopped in the middle of its work. Please send your message again.",
    Category.MCP_TOOL_FAILURE: "A tool that the agent needs does not work now. Please try again later.",
    Category.INVALID_RESPONSE: "The agent gave no usable answer. Please try again, or start over with /new.",
    Category.CONFUSION: "The agent did not understand this. Please rephrase it, or start over with /new.",
    Category.UNKNOWN: "Something went wrong with the agent. Please try again later.",
}
USAGE_LIMIT_TEXT: Final = "The agent has reached its usage limit. Please try again later."

_TIMED_OUT: Final = re.compile(
    r"timed? ?out|ETIMEDOUT|deadline exceeded|idle timeout waiting for SSE", re.IGNORECASE
)
_MCP: Final = re.compile(
    r"\bMCP (?:server|client|tool|error)\b|\bmcp__\w+|\bmcp server\b|MCP error -?\d+", re.IGNORECASE
)


def classify(end: End) -> Fault | None:
    """The failure at this end of a turn; None: it ended well."""
    match end:
        case TimedOut():
            return _fault_of(Category.TIMEOUT)
        case Rejected(reason):
            return Fault(CATEGORY_OF[reason], CATEGORY_OF[reason], of_provider=False)
        case Gone(words) | NotBegun(words):
            return _classify_text(words, Category.PROCESS_CRASH)
        case Ended(text, failure):
            return None if failure is None else _classify_failure(failure, text)


def user_words(fault: Fault) -> str:
    """The text for the user. It contains nothing of the client's text."""
    return USAGE_LIMIT_TEXT if fault.pattern == USAGE_LIMITED else USER_TEXTS[fault.category]


def _classify_failure(failure: Failure, words: str) -> Fault:
    if failure is Failure.AUTH:
        return Fault(Category.UNKNOWN, AUTH_REQUIRED)
    if failure is Failure.LIMIT:
        return Fault(Category.UNKNOWN, USAGE_LIMITED)
    if _TIMED_OUT.search(words):
        return _fault_of(Category.TIMEOUT)
    return _classify_text(words, Category.UNKNOWN)


def _classify_text(words: str, otherwise: Category) -> Fault:
    """Classify by the client's own text. For a login only the last 20 lines count: a crash has its cause at its end."""
    if any(auth_tier(line) is AuthTier.SURE for line in words.splitlines()[-20:]):
        return Fault(otherwise, AUTH_REQUIRED)
    return _fault_of(Category.MCP_TOOL_FAILURE if _MCP.search(words) else otherwise)


def _fault_of(category: Category) -> Fault:
    return Fault(category, category)
