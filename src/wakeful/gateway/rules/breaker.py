"""Circuit breaker: after repeated failures a provider is not used for a while, then tested. Pure.

While it is tested, one request at a time passes. A breaker is a value; every change returns a new one. Times
are seconds of any clock that never goes back. Every change of state is a row of TRANSITIONS.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

# A test that has not ended by then no longer blocks others. So long is silence no problem (detect.silence_seconds).
TEST_SECONDS_MAX: Final = 600.0


class BreakerState(StrEnum):
    """Closed: everything passes. Open: nothing does. Half-open: one test request at a time."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half-open"


class Outcome(StrEnum):
    """The result of a request. NEITHER: it says nothing about the provider, as when its user stopped it."""

    SUCCESS = "success"
    FAILURE = "failure"
    NEITHER = "neither"


class BreakerEvent(StrEnum):
    FAILED_TOO_OFTEN = "failed too often"
    OPEN_TIME_OVER = "rested"
    TEST_FAILED = "a test failed"
    TESTS_PASSED = "enough tests passed"


TRANSITIONS: Final[Mapping[tuple[BreakerState, BreakerEvent], BreakerState]] = {
    (BreakerState.CLOSED, BreakerEvent.FAILED_TOO_OFTEN): BreakerState.OPEN,
    (BreakerState.OPEN, BreakerEvent.OPEN_TIME_OVER): BreakerState.HALF_OPEN,
    (BreakerState.HALF_OPEN, BreakerEvent.TEST_FAILED): BreakerState.OPEN,
    (BreakerState.HALF_OPEN, BreakerEvent.TESTS_PASSED): BreakerState.CLOSED,
}


class Thresholds(Struct, frozen=True):
    """Three failures in a row open the breaker; after 30 s it is tested, and two successful tests close it."""

    failures_max: int = 3
    open_seconds: float = 30.0
    successes_needed: int = 2


class Breaker(Struct, frozen=True):
    """The breaker of one provider at its last change; `at` brings it up to now."""

    thresholds: Thresholds = Thresholds()
    state: BreakerState = BreakerState.CLOSED
    # Failures in a row while closed, successful tests while half-open.
    failures: int = 0
    successes: int = 0
    opened_at: float | None = None
    testing_since: float | None = None

    def at(self, now: float) -> "Breaker":
        """The breaker now: half-open once its open time is over, and without a test that never ended."""
        if self.state is BreakerState.OPEN and self.wait_seconds(now) == 0:
            return _transition(self, BreakerEvent.OPEN_TIME_OVER)
        if self.testing_since is not None and now - self.testing_since >= TEST_SECONDS_MAX:
            return replace(self, testing_since=None)
        return self

    def may_pass(self, now: float) -> bool:
        """Whether a request may go to the provider now. Call `passing` when it does."""
        current = self.at(now)
        if current.state is BreakerState.HALF_OPEN:
            return current.testing_since is None
        return current.state is BreakerState.CLOSED

    def passing(self, now: float) -> "Breaker":
        """The breaker while a request goes; if half-open, that is its one test."""
        assert self.may_pass(now), "`may_pass` was asked first"
        current = self.at(now)
        return replace(current, testing_since=now) if current.state is BreakerState.HALF_OPEN else current

    def after(self, outcome: Outcome, now: float, since: float | None = None) -> "Breaker":
        """The breaker after a request with this outcome.

        `since`: when it was sent; a request older than the last opening changes nothing.
        """
        current = self.at(now)
        if since is not None and current.opened_at is not None and since < current.opened_at:
            return current
        if current.state is BreakerState.CLOSED:
            if outcome is Outcome.NEITHER:
                return current
            failures = current.failures + 1 if outcome is Outcome.FAILURE else 0
            if failures >= current.thresholds.failures_max:
                return _transition(current, BreakerEvent.FAILED_TOO_OFTEN, opened_at=now)
            return replace(current, failures=failures)
        return _after_test(current, outcome, now) if current.state is BreakerState.HALF_OPEN else current

    def wait_seconds(self, now: float) -> float:
        """How long nothing passes yet; 0 unless it is open."""
        if self.state is not BreakerState.OPEN or self.opened_at is None:
            return 0.0
        return max(0.0, self.opened_at + self.thresholds.open_seconds - now)


def _after_test(breaker: Breaker, outcome: Outcome, now: float) -> Breaker:
    if outcome is Outcome.FAILURE:
        return _transition(breaker, BreakerEvent.TEST_FAILED, opened_at=now)
    successes = breaker.successes + (outcome is Outcome.SUCCESS)
    if successes >= breaker.thresholds.successes_needed:
        return _transition(breaker, BreakerEvent.TESTS_PASSED)
    return replace(breaker, successes=successes, testing_since=None)


def _transition(breaker: Breaker, event: BreakerEvent, opened_at: float | None = None) -> Breaker:
    """The breaker in its next state, with its counters at zero."""
    opened_at = breaker.opened_at if opened_at is None else opened_at
    return Breaker(breaker.thresholds, TRANSITIONS[breaker.state, event], opened_at=opened_at)
