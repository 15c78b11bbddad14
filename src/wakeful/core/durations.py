"""Parses durations such as `10m`, and formats durations and ages for people. Pure."""

import re
from typing import Final

from wakeful.core.errors import OperatorError

UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_SPELLING: Final = re.compile(r"([0-9]{1,9})([smhdw])")
DURATION_SECONDS_MAX: Final = 30 * 86400


class BadDuration(OperatorError):
    """Invalid duration {shown!r}: use 30s, 10m, 2h, 1d or 2w, at most 30 days."""

    code = "bad-duration"


def parse_duration(text: str, seconds_max: float = DURATION_SECONDS_MAX) -> float:
    """The seconds of a duration like 30s, 10m, 2h, 1h30m or 2w. Raises BadDuration."""
    parts = _SPELLING.findall(text)
    seconds = sum(int(number) * UNITS[unit] for number, unit in parts)
    spelled_out = "".join(number + unit for number, unit in parts)
    if spelled_out != text or not 0 < seconds <= seconds_max:
        raise BadDuration(shown=text[:40])
    return float(seconds)


def format_duration(seconds: float) -> str | float:
    """The shortest text that `parse_duration` reads back; a value it cannot read stays a number."""
    whole = int(seconds)
    if whole != seconds or not 0 < whole <= DURATION_SECONDS_MAX:
        return seconds
    # No days: the configurations with these numbers write a week of retention as `168h`.
    unit = next(unit for unit in ("h", "m", "s") if whole % UNITS[unit] == 0)
    return f"{whole // UNITS[unit]}{unit}"


def age(seconds: float) -> str:
    """A duration in its largest whole unit: 8s, 4m, 2h, 3d."""
    whole = max(0, int(seconds))
    for unit in ("d", "h", "m"):
        if whole >= UNITS[unit]:
            return f"{whole // UNITS[unit]}{unit}"
    return f"{whole}s"
