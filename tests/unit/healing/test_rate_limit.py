"""Claims about the limiter: if more than a fifth of the revivals of ten minutes was given up, no more are made."""

import asyncio

import pytest

from wakeful.healing.rate_limit import BREAKER_SECONDS, RevivalLimiter
from wakeful.testing.virtual_clock import VirtualClock


def after(revived: int, given_up: int) -> tuple[VirtualClock, RevivalLimiter]:
    """So many were brought back, and so many of them failed again."""
    clock = VirtualClock()
    limiter = RevivalLimiter(clock, 2.0, 10)
    for number in range(revived + given_up):
        limiter.record_result(gave_up=number >= revived)
    return clock, limiter


@pytest.mark.parametrize(
    ("revived", "given_up", "is_braked"),
    [
        (10, 2, False),
        (10, 3, True),
        (9, 2, True),
        (5, 1, False),
        (5, 2, True),
        (2, 1, False),
        (100, 20, False),
    ],
)
def test_more_than_a_fifth_is_too_many(revived: int, given_up: int, is_braked: bool) -> None:
    """A fifth is not; of a handful nothing can be said."""
    _, limiter = after(revived, given_up)
    assert (limiter.breaker_seconds > 0) is is_braked


def test_the_brake_is_released_after_ten_minutes() -> None:
    """Counted from the first that was given up."""
    clock, limiter = after(10, 5)
    assert limiter.breaker_seconds == BREAKER_SECONDS
    asyncio.run(clock.run_for(BREAKER_SECONDS + 1))
    assert limiter.breaker_seconds == 0.0
