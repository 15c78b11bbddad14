"""When an agent may be woken: active hours minus quiet windows, by the clocks of the places they name. Pure.

A window holds while the local time of day is inside of it. What that means when clocks are set follows from it: an hour
that is left out is nobody's, an hour that comes twice counts twice.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Final

from wakeful.heartbeat.domain_heartbeat import Window

DAY_MINUTES: Final = 24 * 60
MINUTE_SECONDS: Final = 60
# Since 1972 clocks are set at a quarter of an hour of UTC, by whole quarters, everywhere.
QUARTER_SECONDS: Final = 15 * MINUTE_SECONDS
DAY_SECONDS: Final = DAY_MINUTES * MINUTE_SECONDS
# While nobody sets clocks, one day is like another; two leave room for a day that clocks are set in.
STRETCH_SECONDS: Final = 2 * DAY_SECONDS
# Clocks that are set at all are set every year, and what two places share may depend on both.
HORIZON_DAYS: Final = 400

Zones = Mapping[str, tzinfo]


# Asked for at every step of a search; a day has no more of them.
@lru_cache(maxsize=DAY_MINUTES)
def minute_of(text: str) -> int:
    """The minute of the day that `HH:MM` names."""
    hours, _, minutes = text.partition(":")
    return int(hours) * 60 + int(minutes)


def is_quiet(active: Sequence[Window], quiet: Sequence[Window], zones: Zones, wall: float) -> bool:
    """Whether nobody is to be woken at this moment: inside a quiet window, or outside all active hours."""
    shown = {name: _local_minute(zone, wall) for name, zone in zones.items()}
    if any(_contains(window, shown[window.timezone]) for window in quiet):
        return True
    return bool(active) and not any(_contains(window, shown[window.timezone]) for window in active)


def holds(window: Window, zone: tzinfo, wall: float) -> bool:
    """Whether the window is open at this moment."""
    return _contains(window, _local_minute(zone, wall))


def next_change(active: Sequence[Window], quiet: Sequence[Window], zones: Zones, wall: float) -> float | None:
    """The first later moment at which `is_quiet` answers otherwise; None if it never does."""
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
    """The moments of a stretch at which a window could open or close: a bound of it, or clocks being set."""
    bounds = {minute_of(text) for each in windows for text in (each.start, each.end)}
    within = sorted({0} | {bound * MINUTE_SECONDS % QUARTER_SECONDS for bound in bounds})
    quarter = begin - begin % QUARTER_SECONDS
    while quarter < begin + STRETCH_SECONDS:
        yield from (quarter + seconds for seconds in within if quarter + seconds > begin)
        quarter += QUARTER_SECONDS


def _stretches(zones: Collection[tzinfo], wall: float) -> Iterator[float]:
    """Where days begin that may differ from the day before: now, and just before any of these clocks is set."""
    yield wall
    before = [_offset(zone, wall) for zone in zones]
    for day in range(1, HORIZON_DAYS):
        offsets = [_offset(zone, wall + day * DAY_SECONDS) for zone in zones]
        if offsets != before:
            yield wall + (day - 1) * DAY_SECONDS
        before = offsets


def overlap(one: Window, other: Window) -> bool:
    """Whether two windows of one place share a minute."""
    return _contains(one, minute_of(other.start)) or _contains(other, minute_of(one.start))


def _contains(window: Window, minute: int) -> bool:
    start, end = minute_of(window.start), minute_of(window.end)
    return start <= minute < end if start < end else minute >= start or minute < end


def _local_minute(zone: tzinfo, wall: float) -> int:
    local = datetime.fromtimestamp(wall, zone)
    return local.hour * 60 + local.minute


def _offset(zone: tzinfo, wall: float) -> timedelta | None:
    return datetime.fromtimestamp(wall, zone).utcoffset()
