"""The circuit breaker: when it opens, who may test it, and when it closes again."""

import pytest
from hypothesis import given, strategies as st

from wakeful.gateway.rules.breaker import (
    TEST_SECONDS_MAX,
    TRANSITIONS,
    Breaker,
    BreakerState,
    Outcome,
    Thresholds,
)

OPEN = Breaker().after(Outcome.FAILURE, 1).after(Outcome.FAILURE, 2).after(Outcome.FAILURE, 3)


def test_three_failures_in_a_row_open_it_and_a_success_between_them_does_not() -> None:
    """Only failures in a row count, and the limit is three."""
    two = Breaker().after(Outcome.FAILURE, 1).after(Outcome.FAILURE, 2)
    assert two.state is BreakerState.CLOSED
    assert two.after(Outcome.SUCCESS, 3).after(Outcome.FAILURE, 4).state is BreakerState.CLOSED
    assert two.after(Outcome.FAILURE, 3).state is BreakerState.OPEN


def test_an_open_one_lets_nothing_pass_for_30_seconds() -> None:
    """It fails fast, and says for how long."""
    assert not OPEN.may_pass(3)
    assert not OPEN.may_pass(32.9)
    assert OPEN.wait_seconds(13) == 20
    assert OPEN.may_pass(33)
    assert OPEN.at(33).state is BreakerState.HALF_OPEN


def test_half_open_lets_one_test_pass_at_a_time() -> None:
    """The second one waits until the first one said how it went."""
    testing = OPEN.passing(40)
    assert not testing.may_pass(41)
    once = testing.after(Outcome.SUCCESS, 50, since=40)
    assert (once.state, once.may_pass(51)) == (BreakerState.HALF_OPEN, True)
    assert once.passing(51).after(Outcome.SUCCESS, 52, since=51).state is BreakerState.CLOSED


def test_a_failed_test_opens_it_anew() -> None:
    """One failure is enough, and the rest begins again."""
    again = OPEN.passing(40).after(Outcome.FAILURE, 50, since=40)
    assert (again.state, again.may_pass(79.9), again.may_pass(80)) == (BreakerState.OPEN, False, True)


def test_a_request_from_before_the_opening_tells_nothing_new() -> None:
    """A long turn that ends while the breaker rests or is tested neither closes nor opens it."""
    testing = OPEN.passing(40)
    assert testing.after(Outcome.SUCCESS, 41, since=2.5) == testing
    assert testing.after(Outcome.FAILURE, 41, since=2.5) == testing
    assert OPEN.after(Outcome.SUCCESS, 20) == OPEN


def test_a_stopped_request_says_nothing_and_frees_the_test() -> None:
    """A user's stop is neither success nor failure."""
    freed = OPEN.passing(40).after(Outcome.NEITHER, 45, since=40)
    assert (freed.state, freed.successes, freed.may_pass(45)) == (BreakerState.HALF_OPEN, 0, True)
    assert Breaker(failures=2).after(Outcome.NEITHER, 1).failures == 2


def test_a_test_that_never_ends_does_not_keep_everybody_out_for_ever() -> None:
    """After ten minutes another one may pass."""
    testing = OPEN.passing(40)
    assert not testing.may_pass(40 + TEST_SECONDS_MAX - 1)
    assert testing.may_pass(40 + TEST_SECONDS_MAX)


@pytest.mark.parametrize("provider", ["claude", "codex"])
def test_each_provider_has_thresholds_and_a_breaker_of_its_own(provider: str) -> None:
    """What one provider does never shows in the other's breaker."""
    breakers = {"claude": Breaker(Thresholds(1, 10, 1)), "codex": Breaker(Thresholds(1, 10, 1))}
    breakers[provider] = breakers[provider].after(Outcome.FAILURE, 1)
    assert {name for name, each in breakers.items() if not each.may_pass(2)} == {provider}
    assert breakers[provider].passing(11).after(Outcome.SUCCESS, 12).state is BreakerState.CLOSED


STEPS = st.lists(st.tuples(st.sampled_from(Outcome), st.floats(0, 60), st.booleans()), max_size=60)


@given(STEPS)
def test_whatever_happens_it_rests_before_it_is_tested_and_is_tested_by_one(
    steps: list[tuple[Outcome, float, bool]],
) -> None:
    """No request passes within the rest, none beside a test, and every change of state is a row of the table."""
    breaker, now, since = Breaker(), 0.0, None
    for outcome, seconds, passes in steps:
        now += seconds
        seen = breaker.at(now)
        if seen.opened_at is not None and seen.state is BreakerState.OPEN:
            assert not breaker.may_pass(now)
            assert now - seen.opened_at < breaker.thresholds.open_seconds
        if passes and breaker.may_pass(now):
            breaker, since = breaker.passing(now), now
            assert breaker.may_pass(now) == (breaker.state is BreakerState.CLOSED)
        before = breaker.at(now).state
        breaker = breaker.after(outcome, now, since)
        assert breaker.state is before or any(
            (one, other) == (before, breaker.state) for (one, _), other in TRANSITIONS.items()
        )
