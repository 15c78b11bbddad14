"""Durations as people write and read them: `10m` in, `4m` out."""

import re
from typing import Final

from wakeful.domain.errors import OperatorError

_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_SPELLING: Final = re.compile(r"([0-9]{1,9})([smhd])")
DURATION_SECONDS_MAX: Final = 30 * 86400


class BadDuration(OperatorError):
    """{shown!r} is not a duration: write 30s, 10m, 2h or 1d, 30 days at most."""

    code = "bad-duration"


def seconds_of(text: str) -> float:
    """The seconds of a duration like 30s, 10m, 2h or 1h30m. Raises BadDuration."""
    parts = _SPELLING.findall(text)
    seconds = sum(int(number) * _SECONDS[unit] for number, unit in parts)
    spelled = "".join(number + unit for number, unit in parts)
    if spelled != text or not 0 < seconds <= DURATION_SECONDS_MAX:
        raise BadDuration(shown=text[:40])
    return float(seconds)


def age(seconds: float) -> str:
    """A length of time in its largest whole unit: 8s, 4m, 2h, 3d."""
    whole = max(0, int(seconds))
    for unit in ("d", "h", "m"):
        if whole >= _SECONDS[unit]:
            return f"{whole // _SECONDS[unit]}{unit}"
    return f"{whole}s"
