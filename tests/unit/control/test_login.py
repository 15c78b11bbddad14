"""Degraded mode of a provider: what enters it, what leaves it and when, and that people get one alert."""

import pytest

from wakeful.control.login import (
    AUTH_TRANSITIONS,
    PROBE_SECONDS,
    USER_SENTENCE,
    AuthAlert,
    AuthEvent,
    AuthLevel,
    AuthMode,
    AuthState,
)

PROVIDERS = ["claude", "codex"]


def after(mode: AuthMode, *events: AuthEvent, now: float = 0.0) -> tuple[AuthMode, list[AuthAlert]]:
    alerts = []
    for event in events:
        mode, alert = mode.after(event, now)
        alerts += [alert] if alert else []
    return mode, alerts


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_refused_turn_degrades_at_once_and_is_told_once(provider: str) -> None:
    """Critical on entering, and nothing more however often it is refused again."""
    mode, alerts = after(AuthMode(provider), *[AuthEvent.TURN_REFUSED] * 5, now=10.0)
    assert (mode.is_degraded, mode.since) == (True, 10.0)
    assert [alert.level for alert in alerts] == [AuthLevel.CRITICAL]
    assert provider in alerts[0].text


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_good_status_does_not_prove_a_login_that_a_turn_saw_refused(provider: str) -> None:
    """Neither client asks its server: a turn that works is the proof, and then the end is sent."""
    refused, _ = after(AuthMode(provider), AuthEvent.TURN_REFUSED)
    still, alerts = after(refused, *[AuthEvent.STATUS_GOOD] * 3)
    assert (still.is_degraded, alerts) == (True, [])
    good, alerts = after(still, AuthEvent.TURN_WORKED)
    assert (good.is_degraded, [alert.level for alert in alerts]) == (False, [AuthLevel.INFO])


def test_codexs_status_alone_never_degrades() -> None:
    """It says "not logged in" where another provider works."""
    mode, alerts = after(AuthMode("codex"), *[AuthEvent.STATUS_GONE] * 10)
    assert (mode.state, alerts) == (AuthState.GOOD, [])


def test_claudes_status_degrades_and_brings_back() -> None:
    """Without credentials nothing can work; with new ones it is tried again."""
    gone, entered = after(AuthMode("claude"), AuthEvent.STATUS_GONE)
    assert (gone.state, gone.next_probe_at) == (AuthState.LOGGED_OUT, None)
    good, left = after(gone, AuthEvent.STATUS_GOOD)
    assert [alert.level for alert in (*entered, *left)] == [AuthLevel.CRITICAL, AuthLevel.INFO]
    assert not good.is_degraded


def test_claude_logged_out_and_in_again_after_a_refusal_is_good() -> None:
    """Credentials that were gone and are there again are new ones."""
    mode, alerts = after(
        AuthMode("claude"), AuthEvent.TURN_REFUSED, AuthEvent.STATUS_GONE, AuthEvent.STATUS_GOOD
    )
    assert not mode.is_degraded
    assert len(alerts) == 2


@pytest.mark.parametrize("provider", PROVIDERS)
def test_one_probe_turn_in_five_minutes(provider: str) -> None:
    """The first one five minutes after the refusal, then every five minutes."""
    mode, _ = after(AuthMode(provider), AuthEvent.TURN_REFUSED, now=100.0)
    assert mode.next_probe_at == 100.0 + PROBE_SECONDS
    mode, alerts = after(mode.probing(400.0), AuthEvent.PROBE_REFUSED, now=405.0)
    assert (mode.is_degraded, mode.next_probe_at, alerts) == (True, 700.0, [])


@pytest.mark.parametrize("provider", PROVIDERS)
def test_changed_credentials_are_tried_at_once_but_not_twice_in_five_minutes(provider: str) -> None:
    """A new login takes effect at once; a file edited in a loop does not spend the model."""
    mode, _ = after(AuthMode(provider), AuthEvent.TURN_REFUSED, now=100.0)
    mode, _ = after(mode, AuthEvent.CREDENTIALS_CHANGED, now=130.0)
    assert mode.next_probe_at == 130.0
    mode, _ = after(mode.probing(130.0), AuthEvent.PROBE_REFUSED, AuthEvent.CREDENTIALS_CHANGED, now=140.0)
    assert mode.next_probe_at == 430.0


@pytest.mark.parametrize("provider", PROVIDERS)
def test_an_answer_that_reads_like_a_login_prompt_is_doubted_not_believed(provider: str) -> None:
    """Any user can make a model say it: a probe decides, at most every five minutes."""
    mode, alerts = after(AuthMode(provider), AuthEvent.TEXT_SUSPECTED, now=50.0)
    assert (mode.is_degraded, mode.next_probe_at, alerts) == (False, 50.0, [])
    fine, _ = after(mode.probing(50.0), AuthEvent.TURN_WORKED, AuthEvent.TEXT_SUSPECTED, now=60.0)
    assert (fine.is_degraded, fine.next_probe_at) == (False, 350.0)
    refused, alerts = after(mode.probing(50.0), AuthEvent.PROBE_REFUSED, now=60.0)
    assert (refused.is_degraded, len(alerts)) == (True, 1)


@pytest.mark.parametrize("provider", [*PROVIDERS, "another"])
def test_what_is_unknown_changes_nothing(provider: str) -> None:
    """A status that could not be read, in any state."""
    for state in AuthState:
        mode = AuthMode(provider, state, 1.0)
        assert mode.after(AuthEvent.STATUS_UNKNOWN, 2.0) == (mode, None)


def test_the_sentence_for_users_names_no_command() -> None:
    """Chat users cannot log in."""
    assert "/login" not in USER_SENTENCE
    assert set(AUTH_TRANSITIONS) == set(PROVIDERS)
