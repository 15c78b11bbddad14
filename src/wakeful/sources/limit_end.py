"""When a usage limit ends, by the sentence a client shows: as an epoch, a span from now, or a time of day.

Only asked after a turn failed. A time of day without its zone is meant in the zone of this host.
"""

import re
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

# The longest windows are a month's: an end that passed longer ago was not meant.
LATE_DAYS_MAX: Final = 31
_ABOUT: Final = ("limit", "usage", "quota", "credit")
_UNIT_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_EPOCH: Final = re.compile(r"\|\s?(\d{10})\b")
# `try again in 3 hours 5 minutes`, `resets in 2h 15m`.
_IN: Final = re.compile(r"(?:again|resets?)(?: again)? in (?P<span>.{1,60})")
_SPAN: Final = re.compile(r"(\d{1,4})\s?(s(?:ec(?:ond)?s?)?|m(?:in(?:ute)?s?)?|h(?:ou)?r?s?|d(?:ays?)?)\b")
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_WEEKDAY: Final = rf"(?:{'|'.join(_DAYS)})[a-z]*"
# `resets 2:09am (UTC)`, `resets 15:30`, `resets Nov 18, 7:42am (Europe/Berlin)`, `resets May 28 at 19:00`,
# `Resets by 4:00 AM Friday`, `resets Mon 12:00am`, `try again at Nov 19th, 2026 2:09 AM.`
_CLOCK: Final = re.compile(
    r"(?:resets?|again)(?: (?:at|by|on))?\s+"
    rf"(?:(?P<weekday>{_WEEKDAY}),? (?:at )?)?"
    rf"(?:(?P<month>{'|'.join(_MONTHS)})[a-z]* (?P<day>\d{{1,2}})(?:st|nd|rd|th)?(?:, (?P<year>\d{{4}}))?,? (?:at )?)?"
    r"(?=\d{1,2}(?::\d\d| ?[ap]m))(?P<hour>\d{1,2})(?::(?P<minute>\d\d))?(?: ?(?P<half>[ap]m))?\b"
    r"(?: \((?P<zone>[a-z0-9_/+-]{1,64})\)| (?P<utc>UTC|GMT)\b)?"
    rf"(?:,? (?:on )?(?P<weekday_after>{_WEEKDAY}))?",
    re.IGNORECASE,
)


def limit_end_in(text: str, at: float) -> float | None:
    """The wall time at which a limit ends, if the sentence written at `at` says so."""
    lower = text.lower()
    if not any(word in lower for word in _ABOUT):
        return None
    epoch = _EPOCH.search(text)
    if epoch is not None:
        return float(epoch[1])
    return _after_span(lower, at) or _at_clock(text, at)


def _after_span(lower: str, at: float) -> float | None:
    told = _IN.search(lower)
    if told is None:
        return None
    seconds = sum(int(count) * _UNIT_SECONDS[unit[0]] for count, unit in _SPAN.findall(told["span"]))
    return at + seconds if seconds else None


def _at_clock(text: str, at: float) -> float | None:
    """The next such time of day, or the day it names; None if the calendar has no such moment."""
    told = _CLOCK.search(text)
    if told is None:
        return None
    said = datetime.fromtimestamp(at, UTC).astimezone(_zone(told["zone"] or told["utc"]))
    try:
        end = said.replace(hour=_hour(told), minute=int(told["minute"] or 0), second=0, microsecond=0)
        return _on_day(told, end, said).timestamp()
    except (ValueError, OverflowError):
        return None


def _hour(told: re.Match[str]) -> int:
    """Of 24. Without its half of the day it is one of 24 already."""
    hour = int(told["hour"])
    return hour if told["half"] is None else hour % 12 + (12 if told["half"].lower() == "pm" else 0)


def _on_day(told: re.Match[str], end: datetime, said: datetime) -> datetime:
    if told["month"] is not None:
        month = _MONTHS.index(told["month"].lower()) + 1
        end = end.replace(year=int(told["year"] or said.year), month=month, day=int(told["day"]))
        # A day that has long passed is next year's: clients leave the year out where it is this one's.
        return (
            end
            if told["year"] or end > said - timedelta(days=LATE_DAYS_MAX)
            else end.replace(year=said.year + 1)
        )
    weekday = told["weekday"] or told["weekday_after"]
    if weekday is None:
        return end if end > said else end + timedelta(days=1)
    end += timedelta(days=(_DAYS.index(weekday[:3].lower()) - said.weekday()) % 7)
    return end if end > said else end + timedelta(days=7)


def _zone(name: str | None) -> tzinfo | None:
    """The named zone; None, which means this host's own, if there is no such zone here."""
    from zoneinfo import ZoneInfo  # noqa: PLC0415 - a file search and more: only a limit that names its zone needs it

    try:
        return ZoneInfo(name) if name else None
    except (ValueError, OSError, LookupError):
        return None
