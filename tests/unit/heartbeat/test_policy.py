"""Claims about hours: windows over midnight and over changes of the clocks, against the C library's own calendar."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, tzinfo
from random import Random
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings, strategies as st

from wakeful.heartbeat.policy import Window, is_quiet, next_change, overlap

# Both halves of the world, half and quarter hours, half an hour of summer time, none at all, and a skipped day.
PLACES = (
    "Europe/Berlin",
    "America/New_York",
    "America/St_Johns",
    "Australia/Lord_Howe",
    "Asia/Kathmandu",
    "Africa/Casablanca",
    "Pacific/Apia",
    "America/Santiago",
    "UTC",
)
ZONES = {name: ZoneInfo(name) for name in PLACES}
YEAR = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
TIMES = st.builds("{:02d}:{:02d}".format, st.integers(0, 23), st.integers(0, 59))
WINDOWS = st.builds(Window, st.sampled_from(PLACES), TIMES, TIMES).filter(lambda each: each.start != each.end)
MOMENTS = st.integers(0, 2 * 366 * 86_400).map(lambda seconds: YEAR + seconds)


def is_in_window(window: Window, zone: tzinfo, wall: float) -> bool:
    return is_quiet((), (window,), {window.timezone: zone}, wall)


@contextmanager
def clocks_of(place: str) -> Iterator[None]:
    """The C library's local time is that of a place."""
    before = os.environ.get("TZ")
    os.environ["TZ"] = place
    time.tzset()
    try:
        yield
    finally:
        if before is None:
            del os.environ["TZ"]
        else:
            os.environ["TZ"] = before
        time.tzset()


def by_the_c_library(window: Window, moment: float) -> bool:
    """The second implementation: what the clock on the wall shows, compared as text."""
    with clocks_of(window.timezone):
        return _shows(window, moment)


def _shows(window: Window, moment: float) -> bool:
    shown = time.strftime("%H:%M", time.localtime(moment))
    if window.start < window.end:
        return window.start <= shown < window.end
    return not window.end <= shown < window.start


@pytest.mark.parametrize("place", PLACES)
def test_a_window_is_what_the_clock_on_the_wall_says(place: str) -> None:
    """Two thousand windows at any moments of two years, and every half hour of a year: both agree."""
    dice = Random(place)
    with clocks_of(place):
        for number in range(2000):
            window = Window(place, _any_time(dice), _any_time(dice))
            moment = YEAR + dice.randrange(2 * 366 * 86_400)
            if window.start != window.end:
                seen = is_in_window(window, ZONES[place], moment)
                assert seen == _shows(window, moment), (number, window, moment)
        for moment in range(int(YEAR), int(YEAR) + 366 * 86_400, 1800):
            assert is_in_window(EARLY, ZONES[place], moment) == _shows(EARLY, moment), moment


EARLY = Window("anywhere", "00:30", "02:45")


def _any_time(dice: Random) -> str:
    return f"{dice.randrange(24):02d}:{dice.randrange(60):02d}"


@given(st.lists(WINDOWS, max_size=3), st.lists(WINDOWS, max_size=3), MOMENTS)
@settings(max_examples=60, deadline=None)
def test_quiet_is_subtracted_from_active(active: list[Window], quiet: list[Window], moment: float) -> None:
    """Quiet windows win; active hours, where there are any, are the only others."""
    inside = any(by_the_c_library(each, moment) for each in active) or not active
    hushed = any(by_the_c_library(each, moment) for each in quiet)
    assert is_quiet(active, quiet, ZONES, moment) == (hushed or not inside)


@given(st.lists(WINDOWS, max_size=2), st.lists(WINDOWS, max_size=2), MOMENTS)
@settings(max_examples=15, deadline=None)
def test_the_next_change_is_the_first_one(active: list[Window], quiet: list[Window], moment: float) -> None:
    """Nothing changes in any minute before it, and there it does."""
    before = is_quiet(active, quiet, ZONES, moment)
    found = next_change(active, quiet, ZONES, moment)
    minute = moment - moment % 60 + 60
    end = moment + 2 * 86_400 if found is None else min(found, moment + 2 * 86_400)
    while minute < end:
        assert is_quiet(active, quiet, ZONES, minute) == before
        minute += 60
    assert found is None or is_quiet(active, quiet, ZONES, found) != before


NIGHT = Window("Europe/Berlin", "22:00", "06:00")
SPRING = Window("Europe/Berlin", "02:15", "02:45")
MOVED = {
    # The night in which clocks go from 02:00 to 03:00 is an hour shorter, the other one an hour longer.
    "2026-03-28T21:00": ("2026-03-29T04:00", 7.0),
    "2026-10-24T20:00": ("2026-10-25T05:00", 9.0),
    "2026-06-01T20:00": ("2026-06-02T04:00", 8.0),
}


def at(text: str) -> float:
    return datetime.fromisoformat(f"{text}+00:00").timestamp()


@pytest.mark.parametrize("begin", MOVED)
def test_a_night_ends_by_the_clock_on_the_wall(begin: str) -> None:
    """At six in the morning, however many hours that took."""
    end, hours = MOVED[begin]
    assert not is_quiet((), (NIGHT,), ZONES, at(begin) - 60)
    assert is_quiet((), (NIGHT,), ZONES, at(begin))
    assert next_change((), (NIGHT,), ZONES, at(begin)) == at(end)
    assert (at(end) - at(begin)) / 3600 == hours


def test_an_hour_that_is_left_out_is_nobodys_and_one_that_comes_twice_counts_twice() -> None:
    """02:15 to 02:45 does not happen in the last night of March and happens twice in the last one of October."""
    march = range(int(at("2026-03-28T22:00")), int(at("2026-03-29T10:00")), 60)
    october = range(int(at("2026-10-24T22:00")), int(at("2026-10-25T10:00")), 60)
    counts = [
        sum(is_in_window(SPRING, ZONES["Europe/Berlin"], each) for each in night)
        for night in (march, october)
    ]
    assert counts == [0, 60]


def test_places_that_set_their_clocks_on_other_days_are_awaited() -> None:
    """An hour that is quiet all year but between Berlin's last Sunday of October and New York's first of November."""
    active = (Window("America/New_York", "00:00", "01:00"),)
    quiet = (Window("Europe/Berlin", "05:50", "07:00"),)
    assert is_quiet(active, quiet, ZONES, at("2026-06-01T04:30"))
    assert next_change(active, quiet, ZONES, at("2026-06-01T04:30")) == at("2026-10-25T04:00")
    assert next_change(active, quiet, ZONES, at("2026-10-25T04:00")) == at("2026-10-25T04:50")
    assert next_change(active, quiet, ZONES, at("2026-11-02T00:00")) == at("2027-03-15T04:00")


def test_windows_that_cover_everything_never_change() -> None:
    """Two halves of a day leave nothing to wait for."""
    halves = (Window("UTC", "00:00", "12:00"), Window("UTC", "12:00", "00:00"))
    assert next_change((), halves, ZONES, YEAR) is None
    assert next_change((), (), ZONES, YEAR) is None


@given(TIMES, TIMES, TIMES, TIMES)
@settings(max_examples=30, deadline=None)
def test_overlap_is_a_shared_minute(a: str, b: str, c: str, d: str) -> None:
    """Windows that touch share none."""
    one, other = Window("UTC", a, b), Window("UTC", c, d)
    if a == b or c == d:
        return
    minutes = range(int(YEAR), int(YEAR) + 86_400, 60)
    shared = any(is_in_window(one, UTC, each) and is_in_window(other, UTC, each) for each in minutes)
    assert overlap(one, other) == shared
