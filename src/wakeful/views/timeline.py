"""The timeline of all sessions: stored changes become spans of what each session did. Pure.

A session without a change in this time is not in it: it did what its record says now.
"""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final

from msgspec import Struct

from wakeful.core.clock import iso
from wakeful.core.ids import SessionId
from wakeful.storage.base import StateChange

# The newest. Reading them takes about half a second of the thread that reads the store, and two thousand sessions have
# 25 each.
CHANGES_MAX: Final = 50_000
HOURS_MAX: Final = 168
_SILENT_REASONS: Final = frozenset({"silent", "tool_wedged", "never_started"})


class ActivityKind(StrEnum):
    """What a session did, in the order of legends. Only its calls tell `model` and `tool` from `working`."""

    WORKING = "working"
    MODEL = "model"
    TOOL = "tool"
    PERSON = "person"
    IDLE = "idle"
    PROBLEM = "problem"
    SILENT = "silent"
    DEAD = "dead"
    UNKNOWN = "unknown"
    STOPPED = "stopped"


def activity_kind(state: str, health: str, reason: str) -> ActivityKind:
    """What a session did in a state; `spans.js` has the same rules."""
    if health == "dead":
        return ActivityKind.DEAD
    if reason in _SILENT_REASONS:
        return ActivityKind.SILENT
    if state == "waiting":
        return ActivityKind.PERSON
    by_health = {"degraded": ActivityKind.PROBLEM, "unknown": ActivityKind.UNKNOWN}
    by_state = {"stopped": ActivityKind.STOPPED, "idle": ActivityKind.IDLE, "detached": ActivityKind.IDLE}
    return by_health.get(health) or by_state.get(state, ActivityKind.WORKING)


class LaneSpan(Struct, frozen=True):
    """What a session did from this time on, in seconds after the timeline's `since`, until its next span."""

    seconds: int
    kind: ActivityKind


class Lane(Struct, frozen=True):
    """One session. Before its first span nothing is known of it."""

    id: SessionId
    spans: tuple[LaneSpan, ...]


class FleetTimeline(Struct, frozen=True):
    """What sessions did since `since`; a session without a lane did all the time what its record says.

    `complete` is false if there were too many changes: then `since` is the time of the oldest one that was read.
    """

    since: str
    until: str
    complete: bool
    lanes: tuple[Lane, ...]


def fleet_timeline(changes: Sequence[StateChange], since: float, until: float) -> FleetTimeline:
    """The lanes of the newest CHANGES_MAX changes since a time, which are in order."""
    complete = len(changes) < CHANGES_MAX
    begin = since if complete else changes[0].at
    by_session: dict[SessionId, list[StateChange]] = {}
    for change in changes:
        by_session.setdefault(change.session_id, []).append(change)
    lanes = tuple(Lane(each, _spans(found, begin)) for each, found in by_session.items())
    return FleetTimeline(iso(begin), iso(until), complete, lanes)


def _spans(changes: Iterable[StateChange], begin: float) -> tuple[LaneSpan, ...]:
    spans: list[LaneSpan] = []
    for change in changes:
        if not spans and change.old_state:
            spans.append(LaneSpan(0, activity_kind(change.old_state, change.old_health, "")))
        kind = activity_kind(change.state, change.health, change.reason)
        if not spans or spans[-1].kind is not kind:
            spans.append(LaneSpan(max(0, int(change.at - begin)), kind))
    return tuple(spans)
