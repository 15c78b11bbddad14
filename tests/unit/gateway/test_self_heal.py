"""Self-heal: what is proposed, how often, and for which sessions; the same for both providers."""

import pytest

from wakeful.gateway.rules.errors import AUTH_REQUIRED, NEVER_RESTARTED, USAGE_LIMITED, Category
from wakeful.gateway.rules.host import (
    COOLDOWN_SECONDS,
    HEAL_RULES,
    RUNAWAY_SECONDS,
    Failed,
    HealKind,
    Hog,
    Proposal,
    Signals,
    history_after,
    patterns,
    propose,
)
from wakeful.gateway.rules.messages import ConversationKey

A = ConversationKey("chat:1:thread:main")
B = ConversationKey("chat:2:thread:7")
PROVIDERS = ["claude", "codex"]
NOW = 10_000.0


def failed(
    pattern: str, *ages: float, key: ConversationKey | None = A, provider: str = "claude"
) -> tuple[Failed, ...]:
    return tuple(Failed(NOW - age, pattern, key, provider) for age in ages)


def kinds(proposals: tuple[Proposal, ...]) -> list[tuple[HealKind, str]]:
    return [(each.kind, each.target) for each in proposals]


@pytest.mark.parametrize("kind", HealKind)
def test_every_kind_has_a_cooldown_key(kind: HealKind) -> None:
    """Each recovery action has a cooldown key of its own, of five minutes."""
    heal = HEAL_RULES[kind]
    assert heal.cooldown_key
    assert heal.cooldown_seconds == COOLDOWN_SECONDS
    assert [each.cooldown_key for each in HEAL_RULES.values()].count(heal.cooldown_key) == 1
    assert Proposal(kind, "x").cooldown_key == heal.cooldown_key


EVERYTHING = Signals(
    failures=(
        *failed("timeout", 1, 2, 3),
        *failed("unknown", 1, 2, 3, key=None),
        *failed(AUTH_REQUIRED, 1, 2, 3),
        *failed("mcp_tool_failure", 1, 2, 3),
    ),
    dead=(B,),
    silent=(A,),
    memory_percent=99,
    disk_percent=95,
    hogs=(Hog(A, "1:2", 99, 900, 5), Hog(B, "4:5", 99, 900, 5, is_progressing=True)),
)


def test_whatever_is_proposed_rests_afterwards() -> None:
    """No kind is proposed again within five minutes, whatever the signals are."""
    first = propose(EVERYTHING, {}, NOW)
    history = history_after(first, {}, NOW)
    again = propose(EVERYTHING, history, NOW + COOLDOWN_SECONDS - 1)
    assert not {each.kind for each in again} & {each.kind for each in first}


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("pattern", sorted({*Category} - {"mcp_tool_failure"}))
def test_three_of_a_kind_in_ten_minutes_restart_the_conversation(pattern: str, provider: str) -> None:
    """Two do not, nor does a third that is older."""
    assert propose(Signals(failed(pattern, 1, 2, provider=provider)), {}, NOW) == ()
    assert propose(Signals(failed(pattern, 1, 2, 601, provider=provider)), {}, NOW) == ()
    assert kinds(propose(Signals(failed(pattern, 1, 2, 599, provider=provider)), {}, NOW)) == [
        (HealKind.RESTART_KEY, A)
    ]


def test_failures_of_different_kinds_are_no_pattern() -> None:
    """Three different problems are three."""
    mixed = (*failed("timeout", 1), *failed("unknown", 2), *failed("process_crash", 3))
    assert propose(Signals(mixed), {}, NOW) == ()


def test_an_unknown_conversation_means_all_of_them() -> None:
    """And then no session is brought back twice."""
    failures = (*failed("unknown", 1, 2), *failed("unknown", 3, key=None), *failed("timeout", 1, 2, 3))
    assert kinds(propose(Signals(failures), {}, NOW)) == [(HealKind.RESTART_ALL, "")]


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("count", [3, 10, 100])
def test_a_missing_login_never_restarts_anything(count: int, provider: str) -> None:
    """It degrades the provider instead, for a restart makes it worse."""
    failures = failed(AUTH_REQUIRED, *[1.0] * count, provider=provider)
    assert kinds(propose(Signals(failures), {}, NOW)) == [(HealKind.DEGRADE_AUTH, provider)]


@pytest.mark.parametrize("pattern", [Category.MCP_TOOL_FAILURE, USAGE_LIMITED])
def test_what_no_restart_heals_is_only_told(pattern: str) -> None:
    """A tool's server and a usage limit are not the session's fault."""
    assert kinds(propose(Signals(failed(pattern, 1, 2, 3)), {}, NOW)) == [(HealKind.ALERT, pattern)]
    assert AUTH_REQUIRED in NEVER_RESTARTED


def test_a_restart_forgets_what_led_to_it() -> None:
    """Failures from before are not counted again when the cooldown is over."""
    signals = Signals(failed("timeout", 1, 2, 3))
    history = history_after(propose(signals, {}, NOW), {}, NOW)
    later = NOW + COOLDOWN_SECONDS + 1
    assert propose(signals, history, later) == ()
    fresh = tuple(Failed(later - age, "timeout", A) for age in (1, 2, 3))
    assert kinds(propose(Signals((*signals.failures, *fresh)), history, later)) == [(HealKind.RESTART_KEY, A)]


def test_a_dead_or_silent_conversation_is_brought_back_alone() -> None:
    """Each for itself, and both in one go."""
    signals = Signals(dead=(A,), silent=(B, A))
    assert {each.target for each in propose(signals, {}, NOW)} == {A, B}
    assert {each.kind for each in propose(signals, {}, NOW)} == {HealKind.RESTART_KEY}


def test_memory_is_collected_first_and_sessions_go_if_that_did_not_help() -> None:
    """Collect, check again, then all sessions."""
    short = Signals(memory_percent=96.0)
    first = propose(short, {}, NOW)
    assert kinds(first) == [(HealKind.COLLECT_MEMORY, "")]
    history = history_after(first, {}, NOW)
    assert kinds(propose(short, history, NOW + 1)) == [(HealKind.RESTART_ALL, "")]
    assert propose(Signals(memory_percent=95.9), history, NOW + 1) == ()


def test_a_full_disk_is_cleaned() -> None:
    """At 90 %, and not if the figure is unknown."""
    assert kinds(propose(Signals(disk_percent=90), {}, NOW)) == [(HealKind.CLEAN_FILES, "")]
    assert propose(Signals(disk_percent=89.9), {}, NOW) == ()
    assert propose(Signals(), {}, NOW) == ()


@pytest.mark.parametrize(
    ("hog", "expected"),
    [
        (Hog(A, "p", 99, RUNAWAY_SECONDS - 1, 5), []),
        (Hog(A, "p", 90, 900, 5), []),
        (Hog(A, "p", 90.1, RUNAWAY_SECONDS, 5), [(HealKind.END_RUNAWAY, A)]),
        (Hog(A, "p", 99, 900, 5, is_progressing=True), [(HealKind.ALERT, A)]),
        (Hog(A, "p", 1, 0, 50), []),
        (Hog(A, "p", 1, 0, 50.1, is_progressing=True), [(HealKind.END_RUNAWAY, A)]),
    ],
)
def test_a_runaway_is_sustained_or_eats_the_memory(hog: Hog, expected: list[tuple[HealKind, str]]) -> None:
    """A busy moment is no runaway, and one that works is reported, not ended."""
    assert kinds(propose(Signals(hogs=(hog,)), {}, NOW)) == expected


def test_patterns_are_counted_with_their_last_time() -> None:
    """What `/errors patterns` shows: category, count and when last, of ten minutes."""
    failures = (*failed("timeout", 700, 30, 20), *failed("unknown", 10))
    assert patterns(failures, NOW) == (("timeout", 2, NOW - 20), ("unknown", 1, NOW - 10))
