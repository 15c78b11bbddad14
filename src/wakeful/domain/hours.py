"""When an agent may be woken: active hours minus quiet windows, by the clocks of the places they name. Pure.

A window holds while the local time of day is inside of it. What that means when clocks are set follows from it: an hour
that is left out is nobody's, an hour that comes twice counts twice.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, tzinfo
from typing import Final

from wakeful.domain.heartbeat import Window

DAY_MINUTES: Final = 24 * 60
MINUTE_SECONDS: Final = 60
# Since 1972 clocks are set at a quarter of an hour of UTC, everywhere.
QUARTER_SECONDS: Final = 15 * MINUTE_SECONDS
# Whatever holds every day of a week, and across a change of clocks, holds for ever.
HORIZON_SECONDS: Final = 8 * 86_400

Zones = Mapping[str, tzinfo]


def minute_of(text: str) -> int:
    """The minute of the day that `HH:MM` names."""
    hours, _, minutes = text.partition(":")
    return int(hours) * 60 + int(minutes)


def is_quiet(active: Sequence[Window], quiet: Sequence[Window], zones: Zones, wall: float) -> bool:
    """Whether nobody is to be woken at this moment: inside a quiet window, or outside all active hours."""
    if any(holds(window, zones[window.timezone], wall) for window in quiet):
        return True
    return bool(active) and not any(holds(window, zones[window.timezone], wall) for window in active)


def holds(window: Window, zone: tzinfo, wall: float) -> bool:
    """Whether the window is open at this moment."""
    return _contains(window, _local_minute(zone, wall))


def next_change(active: Sequence[Window], quiet: Sequence[Window], zones: Zones, wall: float) -> float | None:
    """The first later moment at which `is_quiet` answers otherwise; None if it never does."""
    before = is_quiet(active, quiet, zones, wall)
    windows = (*active, *quiet)
    moment = wall
    while windows and moment < wall + HORIZON_SECONDS:
        moment = min(_next_bound(window, zones[window.timezone], moment) for window in windows)
        if is_quiet(active, quiet, zones, moment) is not before:
            return moment
    return None


def overlap(one: Window, other: Window) -> bool:
    """Whether two windows of one place share a minute."""
    return _contains(one, minute_of(other.start)) or _contains(other, minute_of(one.start))


def _contains(window: Window, minute: int) -> bool:
    start, end = minute_of(window.start), minute_of(window.end)
    return start <= minute < end if start < end else minute >= start or minute < end


def _local_minute(zone: tzinfo, wall: float) -> int:
    local = datetime.fromtimestamp(wall, zone)
    return local.hour * 60 + local.minute


def _next_bound(window: Window, zone: tzinfo, wall: float) -> float:
    """The next moment at which the window could open or close: a bound of it, or clocks being set."""
    whole = wall - wall % MINUTE_SECONDS
    minute = _local_minute(zone, wall)
    bounds = (minute_of(window.start), minute_of(window.end))
    ahead = min((bound - minute) % DAY_MINUTES or DAY_MINUTES for bound in bounds)
    return min(whole + ahead * MINUTE_SECONDS, wall - wall % QUARTER_SECONDS + QUARTER_SECONDS)
