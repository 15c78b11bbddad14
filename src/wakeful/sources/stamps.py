"""Timestamps as logs spell them."""

from datetime import datetime


def wall_of(stamp: datetime | str | float | None) -> float | None:
    """Epoch seconds of an ISO 8601 string, a decoded one or a number; None if it is none of them."""
    try:
        if isinstance(stamp, datetime):
            return stamp.timestamp()
        if isinstance(stamp, str):
            return datetime.fromisoformat(stamp).timestamp()
    except (ValueError, OverflowError):
        return None
    return float(stamp) if stamp is not None else None
