"""HEARTBEAT.md as it is understood: an agent's preferences about being woken, within the configuration's bounds. Pure.

A file expresses preferences and nothing else: who runs what, with which tools, is decided elsewhere. What was valid once
stays known as a snapshot, by an id and a digest over everything that shaped it.
"""

import hashlib
from enum import StrEnum
from typing import Final

import msgspec
from msgspec import Struct

from wakeful.core.errors import OperatorError
from wakeful.judging.wake_eligibility import PolicyState

SCHEMA: Final = 1
CLAMPED: Final = "heartbeat_preference_clamped"


class HeartbeatInvalid(OperatorError):
    """{file}:{line}: {reason}"""

    code = "heartbeat-invalid"
    exit_code = 1


# By the machine's fault, and perhaps only this once.
class HeartbeatUnread(HeartbeatInvalid):
    """{file}:{line}: {reason}"""


class Include(StrEnum):
    """What a wake prompt may say beside the file's own guidance."""

    SELF = "self"
    SESSION_HEALTH = "session_health"
    TASK = "task"
    INBOX_SUMMARY = "inbox_summary"


class Window(Struct, frozen=True):
    """Every day from `start` until `end`, by the clocks of a place; over midnight if `end` is not later."""

    timezone: str
    start: str
    end: str


class Bounds(Struct, frozen=True):
    """The part of the configuration that shapes a policy."""

    min_interval_seconds: float = 300.0
    default_interval_seconds: float = 1800.0
    body_bytes_max: int = 32_768


class HeartbeatPolicy(Struct, frozen=True, kw_only=True):
    """One file's preferences. `min_interval_seconds` is None where it asks for none."""

    version: int = 1
    enabled: bool = True
    summary: str = ""
    min_interval_seconds: float | None = None
    active_hours: tuple[Window, ...] = ()
    quiet_windows: tuple[Window, ...] = ()
    include: tuple[Include, ...] = ()
    body: str = ""


class Clamped(Struct, frozen=True):
    """A preference beyond the bounds, and what it got instead."""

    code: str
    field: str
    asked: str
    given: str


class Problem(Struct, frozen=True):
    """Why a file is no policy. Lines begin at 1."""

    file: str
    line: int
    reason: str


class Snapshot(Struct, frozen=True):
    """A policy as it was read once."""

    id: str
    digest: str
    path: str
    taken_at: str
    policy: HeartbeatPolicy
    clamped: tuple[Clamped, ...] = ()


class PolicyReading(Struct, frozen=True):
    """What an agent's file amounts to now. `snapshot` is the newest valid one, also beside a problem."""

    state: PolicyState
    snapshot: Snapshot | None = None
    problem: Problem | None = None


def digest_of(policy: HeartbeatPolicy, bounds: Bounds) -> str:
    """Over the schema, the body, the front matter in one spelling and the bounds: whatever shapes a wake."""
    written = msgspec.json.encode([SCHEMA, policy, bounds], order="sorted")
    return hashlib.sha256(written).hexdigest()


def within(policy: HeartbeatPolicy, bounds: Bounds) -> tuple[HeartbeatPolicy, tuple[Clamped, ...]]:
    """The policy with whatever is beyond the bounds moved to them, and what that was."""
    asked = policy.min_interval_seconds
    if asked is None or asked >= bounds.min_interval_seconds:
        return policy, ()
    given = bounds.min_interval_seconds
    clamped = Clamped(CLAMPED, "preferences.min_interval", f"{asked:g} s", f"{given:g} s")
    return msgspec.structs.replace(policy, min_interval_seconds=given), (clamped,)


def snapshot_of(policy: HeartbeatPolicy, bounds: Bounds, path: str, at: str) -> Snapshot:
    """The snapshot of what a file said: the same words under the same bounds have the same id."""
    digest = digest_of(policy, bounds)
    bounded, clamped = within(policy, bounds)
    return Snapshot(f"hb-{digest[:16]}", digest, path, at, bounded, clamped)
