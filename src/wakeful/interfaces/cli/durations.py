"""Ages as people read them: `4m`. Durations as they write them are the domain's."""

from wakeful.domain.durations import DURATION_SECONDS_MAX, UNITS, BadDuration, seconds_of

__all__ = ["DURATION_SECONDS_MAX", "BadDuration", "age", "seconds_of"]


def age(seconds: float) -> str:
    """A length of time in its largest whole unit: 8s, 4m, 2h, 3d."""
    whole = max(0, int(seconds))
    for unit in ("d", "h", "m"):
        if whole >= UNITS[unit]:
            return f"{whole // UNITS[unit]}{unit}"
    return f"{whole}s"
