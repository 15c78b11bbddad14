"""A moment as people write it: so long ago (`24h`), a time of day (`22:00`), or a time (`2026-02-05T10:00:00Z`)."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from wakeful.core.durations import BadDuration, seconds_of
from wakeful.core.errors import OperatorError
from wakeful.incidents.critical_event import wall_of_stamp

# Forty years: no log is older, and the moment is still one after 1970.
AGO_SECONDS_MAX: Final = 40 * 365 * 86_400.0
_TIME_OF_DAY: Final = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])")


class BadMoment(OperatorError):
    """{shown!r} is no moment: write how long ago, like 30m, 24h, 7d or 4w, or a time like 22:00 or 2026-02-05T10:00:00Z."""

    code = "bad-moment"


def wall_at(text: str, now_wall: float) -> float:
    """The epoch seconds of such a moment; a time of day is the last one of this host's clock. Raises BadMoment."""
    found = _TIME_OF_DAY.fullmatch(text)
    if found is not None:
        return _last(int(found[1]), int(found[2]), now_wall)
    try:
        return now_wall - seconds_of(text, AGO_SECONDS_MAX)
    except BadDuration as problem:
        wall = wall_of_stamp(text)
        if wall is None:
            raise BadMoment(shown=text[:40]) from problem
        return wall


def _last(hour: int, minute: int, now_wall: float) -> float:
    """By the clock on the wall, also over the night in which it is set."""
    here = datetime.fromtimestamp(now_wall, UTC).astimezone().replace(tzinfo=None)
    then = here.replace(hour=hour, minute=minute, second=0, microsecond=0)
    return (then if then <= here else then - timedelta(days=1)).timestamp()
