"""`wakeful.gateway`: the parts together, as another program uses them, for both providers."""

import subprocess
import sys

import pytest

import wakeful.gateway as library
from wakeful.gateway import (
    AuthEvent,
    AuthMode,
    AuthTier,
    Breaker,
    BreakerState,
    Category,
    End,
    Ended,
    Failed,
    Failure,
    Gone,
    HealKind,
    Outcome,
    Place,
    Rejected,
    Signals,
    auth_tier,
    classify,
    propose,
    validate,
)

# What each client says when the same thing happens to it.
SAID: dict[str, dict[str, End]] = {
    "claude": {
        "overloaded": Ended("API Error: 529 Overloaded. This is a server-side issue", Failure.PROVIDER),
        "refused": Ended("Failed to authenticate. API Error: 401 OAuth token has expired.", Failure.AUTH),
        "crashed": Gone("[claude] killed"),
    },
    "codex": {
        "overloaded": Ended("Selected model is at capacity. Please try a different model.", Failure.PROVIDER),
        "refused": Ended("unexpected status 401 Unauthorized: bad key, url: http://x", Failure.AUTH),
        "crashed": Gone("thread 'main' panicked"),
    },
}
PROVIDERS = sorted(SAID)


def judged(end: End) -> End:
    """An answer goes through the validator first."""
    if isinstance(end, Ended) and end.failure is None:
        reason = validate(end.text)
        return end if reason is None else Rejected(reason)
    return end


def outcome_of(end: End) -> Outcome:
    fault = classify(judged(end))
    if fault is None:
        return Outcome.SUCCESS
    return Outcome.FAILURE if fault.counts_for_breaker else Outcome.NEITHER


@pytest.mark.parametrize("provider", PROVIDERS)
def test_an_outage_opens_the_breaker_and_an_answer_closes_it(provider: str) -> None:
    """Three failures, thirty seconds, two good answers."""
    breaker = Breaker()
    for now in (1.0, 2.0, 3.0):
        breaker = breaker.after(outcome_of(SAID[provider]["overloaded"]), now)
    assert breaker.state is BreakerState.OPEN
    for now in (40.0, 50.0):
        breaker = breaker.passing(now).after(outcome_of(Ended("The tests pass.")), now + 1, since=now)
    assert breaker.state is BreakerState.CLOSED


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_refused_login_degrades_and_opens_no_breaker(provider: str) -> None:
    """Two different problems with two different ends."""
    breaker = Breaker()
    for now in range(5):
        breaker = breaker.after(outcome_of(SAID[provider]["refused"]), now)
    assert breaker.state is BreakerState.CLOSED
    mode, alert = AuthMode(provider).after(AuthEvent.TURN_REFUSED, 1.0)
    assert mode.is_degraded
    assert alert is not None


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize(
    ("what", "category"), [("overloaded", Category.UNKNOWN), ("crashed", Category.PROCESS_CRASH)]
)
def test_repeated_trouble_restarts_its_conversation(provider: str, what: str, category: Category) -> None:
    """The same category for both clients, and the same proposal."""
    fault = classify(SAID[provider][what])
    assert fault is not None
    assert fault.category is category
    key = Place(-100, 7).key
    failures = tuple(Failed(at, fault.pattern, key, provider) for at in (1.0, 2.0, 3.0))
    assert [each.kind for each in propose(Signals(failures), {}, 4.0)] == [HealKind.RESTART_KEY]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_login_prompt_is_never_an_answer(provider: str) -> None:
    """Also if it came as one, by a mistake of a client to come."""
    refused = SAID[provider]["refused"]
    assert isinstance(refused, Ended)
    assert auth_tier(refused.text) is AuthTier.SURE
    assert auth_tier("The tests pass.") is None


def test_everything_offered_is_there_and_documented() -> None:
    """Each name of the library has words for its caller; aliases and enumerations of ids aside."""
    for name in library.__all__:
        assert getattr(library, name).__doc__, name


def test_the_rules_load_nothing_of_the_outside_world() -> None:
    """No chat library, no loop, no process: another program pays for nothing it does not use."""
    code = "import sys, wakeful.gateway; print(*sorted({n.split('.')[0] for n in sys.modules}))"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert not {"telegram", "psutil", "asyncio", "httpx", "uvicorn"} & set(loaded.split())
