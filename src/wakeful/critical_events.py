"""Critical events for any program: write one, read a day's, archive what was processed. No daemon, no configuration.

The log is `./logs/critical_events.jsonl` unless another path is given; any number of processes may write to it. Lines
have the keys of `CriticalEvent`, in that order; what looks like a secret is taken out of them.
"""

from collections.abc import AsyncIterator, Mapping
from datetime import datetime, timedelta
from os import PathLike
from pathlib import Path
from typing import Any, Final, cast

import msgspec

from wakeful.core.errors import OperatorError
from wakeful.incidents.critical_event import critical_event, wall_of_stamp
from wakeful.incidents.critical_log import RETENTION_SECONDS, CriticalLog, decode_event
from wakeful.incidents.line_log import follow
from wakeful.linux.clock import SystemClock

__all__ = [
    "CRITICAL_EVENTS_PATH",
    "BadTime",
    "CriticalLog",
    "archive_events",
    "follow_events",
    "forget_events",
    "log_critical_event",
    "read_recent_events",
]

CRITICAL_EVENTS_PATH: Final = "./logs/critical_events.jsonl"
AnyPath = str | PathLike[str]


class BadTime(OperatorError):
    """Invalid time {shown!r}: use a datetime, epoch seconds, or text like 2026-02-05T10:00:00Z."""

    code = "bad-time"


def log_critical_event(
    event: str,
    session_id: str,
    project_key: str,
    reason: str,
    action_taken: str = "none",
    github_issue: str | None = None,
    details: Mapping[str, Any] | None = None,
    *,
    timestamp: datetime | str | float | None = None,
    path: AnyPath = CRITICAL_EVENTS_PATH,
) -> dict[str, Any]:
    """Append one event and give it as it was written; it is on the disk then.

    Raises BadCriticalEvent for an `event` or `action_taken` outside the closed lists; LogFull, LogBusy or LogUnusable
    when nothing could be written.
    """
    at_wall = SystemClock().now().wall if timestamp is None else _wall_of(timestamp)
    written = critical_event(
        event, session_id, project_key, reason, action_taken, github_issue, details or {}, at_wall=at_wall
    )
    CriticalLog(Path(path)).append(written)
    return cast("dict[str, Any]", msgspec.to_builtins(written))


def read_recent_events(hours: float = 24, *, path: AnyPath = CRITICAL_EVENTS_PATH) -> list[dict[str, Any]]:
    """The events of the last hours, oldest first; none if there is no log. A line still being written is none yet."""
    since_wall = SystemClock().now().wall - timedelta(hours=hours).total_seconds()
    return CriticalLog(Path(path)).recent(since_wall)


def archive_events(before: datetime | str | float, *, path: AnyPath = CRITICAL_EVENTS_PATH) -> int:
    """Move the events from before that time to the gzip of their day, beside the log; how many. Raises BadTime."""
    return CriticalLog(Path(path)).archive(_wall_of(before))


def forget_events(days: float = RETENTION_SECONDS / 86_400, *, path: AnyPath = CRITICAL_EVENTS_PATH) -> int:
    """Drop older events that were not archived; returns how many."""
    before_wall = SystemClock().now().wall - timedelta(days=days).total_seconds()
    return CriticalLog(Path(path)).forget(before_wall)


async def follow_events(path: AnyPath = CRITICAL_EVENTS_PATH) -> AsyncIterator[dict[str, Any]]:
    """Every event of the log, then each new one as it is written, until cancelled."""
    async for line in follow(Path(path)):
        event = decode_event(line)
        if event:
            yield event


def _wall_of(moment: datetime | str | float) -> float:
    if isinstance(moment, int | float):
        return float(moment)
    wall = wall_of_stamp(moment if isinstance(moment, str) else moment.isoformat())
    if wall is None:
        raise BadTime(shown=moment[:40] if isinstance(moment, str) else str(moment))
    return wall
