"""A moment as people write it: so long ago (`24h`), or a time (`2026-02-05T10:00:00Z`)."""

from wakeful.domain.critical import wall_of_stamp
from wakeful.domain.errors import OperatorError
from wakeful.interfaces.cli.durations import BadDuration, seconds_of


class BadMoment(OperatorError):
    """{shown!r} is no moment: write how long ago, like 30m, 24h or 7d, or a time like 2026-02-05T10:00:00Z."""

    code = "bad-moment"


def wall_at(text: str, now_wall: float) -> float:
    """The epoch seconds of such a moment. Raises BadMoment."""
    try:
        return now_wall - seconds_of(text)
    except BadDuration as problem:
        wall = wall_of_stamp(text)
        if wall is None:
            raise BadMoment(shown=text[:40]) from problem
        return wall
