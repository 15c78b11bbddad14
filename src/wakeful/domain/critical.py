"""Critical events in 000's shape: closed words, a fixed order of keys, one line each. Pure.

They are written for programs that read a day's log, so nothing here may be renamed.
"""

from enum import StrEnum
from typing import Any

from msgspec import Struct


class Happening(StrEnum):
    """What an event is about."""

    SESSION_UNHEALTHY = "session_unhealthy"
    SESSION_RECOVERED = "session_recovered"
    REVIVAL_FAILED = "revival_failed"
    QUEUE_STALLED = "queue_stalled"
    MESSAGE_UNROUTED = "message_unrouted"


class ActionTaken(StrEnum):
    """What was done about it."""

    REVIVAL_ATTEMPTED = "revival_attempted"
    FAILURE_MESSAGE_SENT = "failure_message_sent"
    HELD_FOR_APPROVAL = "held_for_approval"
    NONE = "none"


class CriticalEvent(Struct, frozen=True):
    """One line of the log."""

    timestamp: str
    event: Happening
    session_id: str
    project_key: str
    reason: str
    action_taken: ActionTaken
    github_issue: str | None
    details: dict[str, Any]
