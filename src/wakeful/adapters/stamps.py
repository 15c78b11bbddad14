"""Timestamps as logs spell them."""

from datetime import datetime


def wall_of(stamp: str | float | None) -> float | None:
    """Epoch seconds of an ISO 8601 string or a number; None if it is neither."""
    if isinstance(stamp, str):
        try:
            return datetime.fromisoformat(stamp).timestamp()
        except (ValueError, OverflowError):
            return None
    return float(stamp) if stamp is not None else None
