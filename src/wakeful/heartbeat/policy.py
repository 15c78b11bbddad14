"""Wake policy of HEARTBEAT.md: preferences within configured bounds, time windows, snapshots. Pure.

A file contains preferences only; it defines no agent, command or tool. A valid file becomes a snapshot, with an
id and a digest over everything that shaped it. Wakes are allowed in active hours minus quiet windows, in the
local time of the time zones that the windows name. At a clock change, an hour that is left out is in no window,
and an hour that comes twice counts twice.
"""

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta, tzinfo
from enum import StrEnum
from functools import lru_cache
from typing import Final, Protocol

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


# The cause is the machine, and perhaps temporary.
class HeartbeatUnread(HeartbeatInvalid):
    """{file}:{line}: {reason}"""


class Include(StrEnum):
    """Facts that a wake prompt may contain beside the file's own guidance."""

    SELF = "self"
    SESSION_HEALTH = "session_health"
    TASK = "task"
    INBOX_SUMMARY = "inbox_summary"


class Window(Struct, frozen=True):
    """Every day from `start` to `end`, in the local time of a place; over midnight if `end` is not later."""

    timezone: str
    start: str
    end: str


class Bounds(Struct, frozen=True):
    """The part of the configuration that shapes a policy."""

    min_interval_seconds: float = 300.0
    default_interval_seconds: float = 1800.0
    body_bytes_max: int = 32_768


class HeartbeatPolicy(Struct, frozen=True, kw_only=True):
    """One file's preferences. `min_interval_seconds` is None if the file has none."""

    version: int = 1
    enabled: bool = True
    summary: str = ""
    min_interval_seconds: float | None = None
    active_hours: tuple[Window, ...] = ()
    quiet_windows: tuple[Window, ...] = ()
    include: tuple[Include, ...] = ()
    body: str = ""


class ClampedPreference(Struct, frozen=True):
    """A preference outside the bounds, and the value used instead."""

    code: str
    field: str
    asked: str
    given: str


class PolicyProblem(Struct, frozen=True):
    """Why a file is not valid. Lines begin at 1."""

    file: str
    line: int
    reason: str


class HeartbeatSnapshot(Struct, frozen=True):
    """A policy as it was read at one time."""

    id: str
    digest: str
    path: str
    taken_at: str
    policy: HeartbeatPolicy
    clamped: tuple[ClampedPreference, ...] = ()


class PolicyReading(Struct, frozen=True):
    """The state of an agent's file now. `snapshot` is the newest valid one, also beside a problem."""

    state: PolicyState
    snapshot: HeartbeatSnapshot | None = None
    problem: PolicyProblem | None = None


def digest_of(policy: HeartbeatPolicy, bounds: Bounds) -> str:
    """A digest of everything that shapes a wake: the schema, the policy with its guidance, and the bounds."""
    content = msgspec.json.encode([SCHEMA, policy, bounds], order="sorted")
    return hashlib.sha256(content).hexdigest()


def clamp(policy: HeartbeatPolicy, bounds: Bounds) -> tuple[HeartbeatPolicy, tuple[ClampedPreference, ...]]:
    """The policy with its preferences moved into the bounds, and those that were moved."""
    preferred, lowest = policy.min_interval_seconds, bounds.min_interval_seconds
    if preferred is None or preferred >= lowest:
        return policy, ()
    clamped = ClampedPreference(CLAMPED, "preferences.min_interval", f"{preferred:g} s", f"{lowest:g} s")
    return msgspec.structs.replace(policy, min_interval_seconds=lowest), (clamped,)


def snapshot_of(policy: HeartbeatPolicy, bounds: Bounds, path: str, at: str) -> HeartbeatSnapshot:
    """The snapshot of a policy: the same text under the same bounds has the same id."""
    digest = digest_of(policy, bounds)
    bounded, clamped = clamp(policy, bounds)
    return HeartbeatSnapshot(f"hb-{digest[:16]}", digest, path, at, bounded, clamped)


DAY_MINUTES: Final = 24 * 60
MINUTE_SECONDS: Final = 60
# Since 1972 clocks everywhere change at a quarter of an hour of UTC, by whole quarters.
QUARTER_SECONDS: Final = 15 * MINUTE_SECONDS
DAY_SECONDS: Final = DAY_MINUTES * MINUTE_SECONDS
# Without a clock change all days are equal; two days cover one with a clock change.
STRETCH_SECONDS: Final = 2 * DAY_SECONDS
# Zones with clock changes have them every year, and windows in two zones may depend on the changes of both.
HORIZON_DAYS: Final = 400

Zones = Mapping[str, tzinfo]


# Called at every step of a search; a day has no more values.
@lru_cache(maxsize=DAY_MINUTES)
def minute_of(text: str) -> int:
    """The minute of the day that `HH:MM` names."""
    hours, _, minutes = text.partition(":")
    return int(hours) * 60 + int(minutes)


def is_quiet(active: Sequence[Window], quiet: Sequence[Window], zones: Zones, wall: float) -> bool:
    """Whether no wake is allowed at this time: inside a quiet window, or outside all active hours."""
    minutes = {name: _local_minute(zone, wall) for name, zone in zones.items()}
    if any(_contains(window, minutes[window.timezone]) for window in quiet):
        return True
    return bool(active) and not any(_contains(window, minutes[window.timezone]) for window in active)


def next_change(active: Sequence[Window], quiet: Sequence[Window], zones: Zones, wall: float) -> float | None:
    """The first later time at which `is_quiet` changes; None if it never does."""
    windows = (*active, *quiet)
    if not windows:
        return None
    before = is_quiet(active, quiet, zones, wall)
    for begin in _stretches(zones.values(), wall):
        for moment in _steps(windows, begin):
            if is_quiet(active, quiet, zones, moment) is not before:
                return moment
    return None


def _steps(windows: Sequence[Window], begin: float) -> Iterator[float]:
    """The times of a stretch at which a window could open or close: one of its ends, or a clock change."""
    bounds = {minute_of(text) for each in windows for text in (each.start, each.end)}
    within = sorted({0} | {bound * MINUTE_SECONDS % QUARTER_SECONDS for bound in bounds})
    quarter = begin - begin % QUARTER_SECONDS
    while quarter < begin + STRETCH_SECONDS:
        yield from (quarter + seconds for seconds in within if quarter + seconds > begin)
        quarter += QUARTER_SECONDS


def _stretches(zones: Collection[tzinfo], wall: float) -> Iterator[float]:
    """The starts of days that may differ from the day before: now, and just before a clock change in any zone."""
    yield wall
    before = [_offset(zone, wall) for zone in zones]
    for day in range(1, HORIZON_DAYS):
        offsets = [_offset(zone, wall + day * DAY_SECONDS) for zone in zones]
        if offsets != before:
            yield wall + (day - 1) * DAY_SECONDS
        before = offsets


def overlap(one: Window, other: Window) -> bool:
    """Whether two windows of one place have a minute in common."""
    return _contains(one, minute_of(other.start)) or _contains(other, minute_of(one.start))


def _contains(window: Window, minute: int) -> bool:
    start, end = minute_of(window.start), minute_of(window.end)
    return start <= minute < end if start < end else minute >= start or minute < end


def _local_minute(zone: tzinfo, wall: float) -> int:
    local = datetime.fromtimestamp(wall, zone)
    return local.hour * 60 + local.minute


def _offset(zone: tzinfo, wall: float) -> timedelta | None:
    return datetime.fromtimestamp(wall, zone).utcoffset()


class TrustedFiles(Protocol):
    """The files that a person trusts, by path and content."""

    def stamp(self) -> object | None:
        """A value that changes with the list."""

    def is_trusted(self, path: str, content: bytes) -> bool:
        """Whether exactly this content is trusted at this path. Raises OperatorError if that cannot be determined."""
