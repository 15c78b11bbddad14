"""When a usage limit ends, by the sentence a client shows: as an epoch, a span from now, or a time of day.

Only asked after a turn failed. A time of day without its zone is meant in the zone of this host.
"""

import re
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

_UNIT_SECONDS: Final = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400}
_EPOCH: Final = re.compile(r"\|\s?(\d{10})\b")
_SPAN: Final = re.compile(r"(\d{1,4})\s?(second|minute|hour|day)s?")
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
# `resets 2:09am (UTC)`, `resets Nov 18, 7:42am (Europe/Berlin)`, `try again at Nov 19th, 2026 2:09 AM.`
_CLOCK: Final = re.compile(
    r"(?:resets?(?: at)?|again at)\s+"
    rf"(?:(?P<month>{'|'.join(_MONTHS)})[a-z]* (?P<day>\d{{1,2}})(?:st|nd|rd|th)?(?:, (?P<year>\d{{4}}))?,? (?:at )?)?"
    r"(?P<hour>\d{1,2})(?::(?P<minute>\d\d))? ?(?P<half>[ap]m)\b(?: \((?P<zone>[a-z0-9_/+-]{1,64})\))?",
    re.IGNORECASE,
)


def limit_end_in(text: str, at: float) -> float | None:
    """The wall time at which a limit ends, if the sentence written at `at` says so."""
    if "limit" not in text.lower():
        return None
    epoch = _EPOCH.search(text)
    if epoch is not None:
        return float(epoch[1])
    return _after_span(text.lower(), at) or _at_clock(text, at)


def _after_span(lower: str, at: float) -> float | None:
    _, found, span = lower.rpartition("again in")
    seconds = sum(int(count) * _UNIT_SECONDS[unit] for count, unit in _SPAN.findall(span)) if found else 0
    return at + seconds if seconds else None


def _at_clock(text: str, at: float) -> float | None:
    """The next such time of day, or the day it names; None if the calendar has no such moment."""
    told = _CLOCK.search(text)
    if told is None:
        return None
    said = datetime.fromtimestamp(at, UTC).astimezone(_zone(told["zone"]))
    hour = int(told["hour"]) % 12 + (12 if told["half"].lower() == "pm" else 0)
    try:
        end = said.replace(hour=hour, minute=int(told["minute"] or 0), second=0, microsecond=0)
        if told["month"] is None:
            end = end if end > said else end + timedelta(days=1)
        else:
            month = _MONTHS.index(told["month"].lower()) + 1
            end = end.replace(year=int(told["year"] or said.year), month=month, day=int(told["day"]))
            # A day that has long passed is next year's: clients leave the year out where it is this one's.
            end = end if told["year"] or end > said - timedelta(days=180) else end.replace(year=said.year + 1)
        return end.timestamp()
    except (ValueError, OverflowError):
        return None


def _zone(name: str | None) -> tzinfo | None:
    """The named zone; None, which means this host's own, if there is no such zone here."""
    from zoneinfo import ZoneInfo  # noqa: PLC0415 - a file search and more: only a limit that names its zone needs it

    try:
        return ZoneInfo(name) if name else None
    except (ValueError, OSError, LookupError):
        return None
