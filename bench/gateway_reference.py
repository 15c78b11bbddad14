"""The reference page of the chat gateway, made from the tables of `wakeful.gateway.rules`."""

import re
from collections.abc import Iterator

from wakeful.control.login import (
    AUTH_TRANSITIONS as AUTH_MOVES,
    PROBE_SECONDS,
    SHORT_CHARS_MAX,
    USER_SENTENCE,
    WATCH_SECONDS,
    AuthEvent,
    AuthState,
)
from wakeful.gateway.import_config import NAMES
from wakeful.gateway.rules.access import (
    CODE_CHARS,
    PAIRING_SECONDS,
    PRESS_REFUSAL_TEXTS,
    TRIES_MAX,
    PermissionChoice,
)
from wakeful.gateway.rules.breaker import TRANSITIONS, Breaker, BreakerState
from wakeful.gateway.rules.chat_methods import METHODS
from wakeful.gateway.rules.errors import CATEGORY_OF, MEANINGS, USER_TEXTS, Category
from wakeful.gateway.rules.follow_ups import CUES, LABELS, PROMPTS
from wakeful.gateway.rules.formatting import PARTS_MAX, UNITS_MAX
from wakeful.gateway.rules.host import (
    ALERT_SECONDS,
    CATEGORY_SECONDS,
    CHECKS,
    COOLDOWN_SECONDS,
    HEAL_RULES,
    PATTERN_COUNT_MIN,
    PATTERN_SECONDS,
)
from wakeful.gateway.rules.pool import EvictionReason, PoolLimits
from wakeful.gateway.rules.tags import CALLS_MAX
from wakeful.gateway.rules.validation import RULES

EVICTIONS = {
    EvictionReason.IDLE_TTL: "idle for `conversation.idle_ttl_minutes`",
    EvictionReason.LRU_LIMIT: "idle longest when another key needed room",
    EvictionReason.RESTART: "resumed; waiting messages are kept",
    EvictionReason.STOP: "a person stopped it; waiting messages are dropped, and their senders are informed",
    EvictionReason.STOP_ALL: "everything was stopped",
}


def gateway(made: str) -> str:
    """Every table of the gateway's rules."""
    return "\n".join(
        [
            made,
            "# The chat gateway",
            "",
            "The rules are a library, [wakeful.gateway](../how-to/gateway.md#as-a-library); these are its tables.",
            "",
            *_breaker(),
            *_validator(),
            *_classifier(),
            *_auth(),
            *_pool(),
            *_self_heal(),
            *_host(),
            *_access(),
            *_answers(),
            *_import(),
        ]
    )


def _breaker() -> Iterator[str]:
    usual = Breaker().thresholds
    yield from (
        "# Breaker",
        "",
        f"Each chat has one for each provider: {usual.failures_max} failures in a row in that chat, {usual.open_seconds:.0f} s,",
        f"{usual.successes_needed} successful tests, one at a time; configurable per provider. Another one holds back all chats: it",
        f"counts each chat once until the provider gives a good answer, so {usual.failures_max} chats have to fail. One chat, with all its",
        "topics, cannot block a provider for the others. A refused login does not count, nor does a turn that its user",
        "stopped. An answer that the validator rejected counts for all chats, but does not hold its own chat back.",
        f"Self-heal counts every one of them, for its own conversation. States of a breaker: {', '.join(f'`{each}`' for each in BreakerState)}.",
        "",
        "```mermaid",
        "stateDiagram-v2",
        f"    [*] --> {_id(BreakerState.CLOSED)}",
    )
    yield from (f"    {_id(state)} --> {_id(after)}: {move}" for (state, move), after in TRANSITIONS.items())
    yield "```"
    yield ""


def _id(state: BreakerState) -> str:
    """Mermaid takes a dash for an arrow."""
    return state.replace("-", "_")


def _validator() -> Iterator[str]:
    yield from (
        "# Validator",
        "",
        "The first reason that applies rejects an answer. One sentence says so, and a button, *Show it anyway*, shows it to",
        "the person who asked, or an admin. Only answers to the same question are compared: those whose words are the same,",
        "or the same with a few more. The first repetition is shown, because a status that has not changed is a true answer.",
        "",
        "| reason | rejected | accepted | category |",
        "|---|---|---|---|",
    )
    for reason, rule in RULES.items():
        yield f"| `{reason}` | {rule.words} | {rule.not_held_against} | `{CATEGORY_OF[reason]}` |"
    yield ""


def _classifier() -> Iterator[str]:
    yield from (
        "# Categories of failure",
        "",
        "The list is closed, and no name changes. `auth_required` and `usage_limited` are pattern keys beside a category: neither is",
        "ever causes a restart.",
        "",
        "| category | when | what the user reads |",
        "|---|---|---|",
    )
    yield from (f"| `{each}` | {MEANINGS[each]} | {USER_TEXTS[each]} |" for each in Category)
    yield ""


def _auth() -> Iterator[str]:
    yield from (
        "# Login of a provider",
        "",
        f"Checked at start and every {WATCH_SECONDS:.0f} s. `logged_out` and `refused` are degraded mode: no process is",
        f"started for users, who read “{USER_SENTENCE}” A text of {SHORT_CHARS_MAX} characters at",
        "most that looks like an error of the client is withheld until a probe turn decides. A probe runs",
        f"{PROBE_SECONDS / 60:.0f} min after a refusal, or as soon as credentials changed, and not twice in that time.",
        "",
        "| provider | event | from | to |",
        "|---|---|---|---|",
    )
    rows: dict[tuple[str, str, str], list[str]] = {}
    for provider, moves in AUTH_MOVES.items():
        for (state, event), after in moves.items():
            rows.setdefault((state, event, after), []).append(provider)
    for (start, seen, end), providers in rows.items():
        yield f"| {', '.join(providers)} | `{seen}` | `{start}` | `{end}` |"
    idle = [
        event
        for event in AuthEvent
        if not any(event is each for moves in AUTH_MOVES.values() for _, each in moves)
    ]
    yield from ("", f"These change no state by themselves: {', '.join(f'`{each}`' for each in idle)}.", "")
    assert {state for moves in AUTH_MOVES.values() for state, _ in moves} == set(AuthState), (
        "every state leads on"
    )


def _pool() -> Iterator[str]:
    limits = PoolLimits()
    yield from (
        "# Pool",
        "",
        f"{limits.active_max} sessions at most, {limits.idle_seconds / 60:.0f} min of idleness, one queue of {limits.queue_max} for each key.",
        "A busy one is never evicted for another: a new key waits until one is idle.",
        "",
        "| evictionReason | when |",
        "|---|---|",
    )
    yield from (f"| `{reason}` | {EVICTIONS[reason]} |" for reason in EvictionReason)
    yield ""


def _self_heal() -> Iterator[str]:
    yield from (
        "# Self-heal",
        "",
        f"Self-heal proposes; the action gate decides about sessions. A pattern is {PATTERN_COUNT_MIN} of the same in {PATTERN_SECONDS / 60:.0f} min; each kind has a cooldown of",
        f"{COOLDOWN_SECONDS / 60:.0f} min, and a proposal resets the failures that led to it.",
        "",
        "| proposal | when | what | cooldown key |",
        "|---|---|---|---|",
    )
    yield from (
        f"| `{kind}` | {heal.when} | {heal.what} | `{heal.cooldown_key}` |"
        for kind, heal in HEAL_RULES.items()
    )
    yield ""


def _host() -> Iterator[str]:
    yield from (
        "# Host watch",
        "",
        f"Every `gateway.host.watch_seconds`. The same alert again after {ALERT_SECONDS / 60:.0f} min, one of a category after",
        f"{CATEGORY_SECONDS / 60:.0f} min; both count from its delivery.",
        "",
        "| category | alert when |",
        "|---|---|",
    )
    yield from (f"| `{category}` | {check.when} |" for category, check in CHECKS.items())
    yield ""


def _access() -> Iterator[str]:
    choices = ", ".join(choice.label for choice in PermissionChoice)
    yield from (
        "# Access",
        "",
        f"An empty `gateway.allow` allows no one. A pairing code has {CODE_CHARS} characters ({5 * CODE_CHARS} bits), {TRIES_MAX} tries and",
        f"{PAIRING_SECONDS / 60:.0f} minutes. A permission question offers {choices}; without an answer it is denied.",
        "",
        "| a press that is | answer |",
        "|---|---|",
    )
    yield from (f"| `{refusal}` | {words} |" for refusal, words in PRESS_REFUSAL_TEXTS.items())
    yield ""


def _answers() -> Iterator[str]:
    yield from (
        "# Answers",
        "",
        f"A message has {UNITS_MAX} UTF-16 code units at most; longer answers are split at paragraphs, lines, sentences or",
        f"words, code blocks closed and opened again. Beyond {PARTS_MAX} messages the whole answer is sent as a file, after",
        f"its beginning. At most {CALLS_MAX} `<telegram-api>` tags are carried out, for admins, in their own chat, of these methods:",
        f"{', '.join(f'`{each}`' for each in METHODS)}.",
        "",
        "| button | typed | becomes |",
        "|---|---|---|",
    )
    for cue, action in CUES.items():
        yield f"| {LABELS[action]} (`{action}`) | `{cue}` | {PROMPTS[action]} |"
    yield ""


def _import() -> Iterator[str]:
    assert all(_snake_case(name) == ours for name, ours in NAMES.items()), "a key has another name here"
    yield from (
        "# `wakeful config import gateway.json`",
        "",
        "Every key keeps its name, in snake case (`maxActiveSessions` becomes `max_active_sessions`):",
        f"{', '.join(f'`{ours}`' for ours in NAMES.values())}.",
        "",
    )


def _snake_case(name: str) -> str:
    return re.sub("[A-Z]", lambda found: f"_{found[0].lower()}", name)
