"""What the gateway proposes when it is not well: signals in, proposals out. Pure; it never acts.

The one gate decides about sessions. Every kind of proposal has a cooldown key; a test holds that. What was proposed
forgets the failures that led to it, so that they are never counted twice. Times are seconds of one clock.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Final

from msgspec import Struct

from wakeful.gateway.rules.errors import AUTH_REQUIRED, NEVER_RESTARTED, Category
from wakeful.gateway.rules.messages import ConversationKey

# Three or more of the same within ten minutes; five minutes of rest for each kind.
PATTERN_COUNT_MIN: Final = 3
PATTERN_SECONDS: Final = 600.0
COOLDOWN_SECONDS: Final = 300.0
# A snapshot of a processor proves nothing: five minutes in a row do.
RUNAWAY_SECONDS: Final = 300.0
FAILURES_MAX: Final = 1000


class HealKind(StrEnum):
    """What can be proposed."""

    RESTART_KEY = "restart_key"
    RESTART_ALL = "restart_all"
    COLLECT_MEMORY = "collect_memory"
    CLEAN_FILES = "clean_files"
    END_RUNAWAY = "end_runaway"
    DEGRADE_AUTH = "degrade_auth"
    ALERT = "alert"


class Heal(Struct, frozen=True):
    """A kind in words, and the key of its cooldown."""

    cooldown_key: str
    cooldown_seconds: float
    when: str
    what: str


HEALS: Final[Mapping[HealKind, Heal]] = {
    HealKind.RESTART_KEY: Heal(
        "heal:restart_key",
        COOLDOWN_SECONDS,
        "the same failure 3 times in 10 min with known keys; a session that is gone; a turn silent beyond its limit",
        "those conversations' sessions are ended, and brought back by the next message; one that is at work is left alone",
    ),
    HealKind.RESTART_ALL: Heal(
        "heal:restart_all",
        COOLDOWN_SECONDS,
        "the same failure 3 times in 10 min and a key is unknown; memory still short after it was collected",
        "every session of the pool is ended and brought back, its turn goes on",
    ),
    HealKind.COLLECT_MEMORY: Heal(
        "heal:collect_memory", COOLDOWN_SECONDS, "memory above its limit", "the gateway frees what it can"
    ),
    HealKind.CLEAN_FILES: Heal(
        "heal:clean_files",
        COOLDOWN_SECONDS,
        "disk above its limit",
        "temporary files of the gateway older than a day and rotated logs older than three are removed",
    ),
    HealKind.END_RUNAWAY: Heal(
        "heal:end_runaway",
        COOLDOWN_SECONDS,
        "a provider's process of ours at its processor limit for 5 min without progress, or above its memory limit",
        "that very process is ended and its session brought back",
    ),
    HealKind.DEGRADE_AUTH: Heal(
        "heal:degrade_auth",
        COOLDOWN_SECONDS,
        "auth_required 3 times in 10 min",
        "the provider's login is checked and its mode entered; nothing is restarted",
    ),
    HealKind.ALERT: Heal(
        "heal:alert",
        COOLDOWN_SECONDS,
        "mcp_tool_failure or usage_limited 3 times in 10 min; a runaway that makes progress",
        "the operator is told, nothing else",
    ),
}


class Failed(Struct, frozen=True):
    """A turn that failed: when, how, and in which conversation; None if nobody knows."""

    at: float
    pattern: str
    key: ConversationKey | None = None
    provider: str = ""


class Hog(Struct, frozen=True):
    """A provider's process of one of our sessions, and what it takes."""

    key: ConversationKey
    process: str
    cpu_percent: float
    # For how long it has been above the limit, as readings in a row say.
    busy_seconds: float
    memory_percent: float
    is_progressing: bool = False


class HealLimits(Struct, frozen=True):
    """Limits of self-heal, in percent."""

    memory_percent: float = 96.0
    disk_percent: float = 90.0
    runaway_cpu_percent: float = 90.0
    runaway_memory_percent: float = 50.0


DEFAULT_LIMITS: Final = HealLimits()


class Signals(Struct, frozen=True):
    """How the gateway is. None: nobody knows, and nothing is proposed for it."""

    failures: tuple[Failed, ...] = ()
    # Conversations whose session is gone, or whose turn is silent beyond its limit.
    dead: tuple[ConversationKey, ...] = ()
    silent: tuple[ConversationKey, ...] = ()
    memory_percent: float | None = None
    disk_percent: float | None = None
    hogs: tuple[Hog, ...] = ()


class Proposal(Struct, frozen=True):
    """What should be done, and why. `target`: a conversation, a provider or a pattern; empty: everything."""

    kind: HealKind
    reason: str
    target: str = ""

    @property
    def cooldown_key(self) -> str:
        return HEALS[self.kind].cooldown_key


History = Mapping[str, float]
"""When each cooldown key was last used."""


def propose(
    signals: Signals, history: History, now: float, limits: HealLimits = DEFAULT_LIMITS
) -> tuple[Proposal, ...]:
    """What should be done now, each once, without the kinds that rest. Several of one kind go together."""
    wanted = [
        *_of_patterns(signals.failures, history, now),
        *(Proposal(HealKind.RESTART_KEY, "session_dead", key) for key in signals.dead),
        *(Proposal(HealKind.RESTART_KEY, "turn_silent", key) for key in signals.silent),
        *_of_memory(signals, history, now, limits),
        *_of_disk(signals, limits),
        *_of_hogs(signals.hogs, limits),
    ]
    return tuple(dict.fromkeys(_unless_covered(each for each in wanted if not _rests(each, history, now))))


def after(proposals: Sequence[Proposal], history: History, now: float) -> dict[str, float]:
    """The history once these were proposed. Keys that rest no longer are forgotten when their failures are."""
    kept = {key: at for key, at in history.items() if now - at < PATTERN_SECONDS}
    return {**kept, **{each.cooldown_key: now for each in proposals}}


def patterns(failures: Sequence[Failed], now: float) -> tuple[tuple[str, int, float], ...]:
    """Every pattern of the last ten minutes: how often, and when last; the commonest first."""
    recent = [each for each in failures[-FAILURES_MAX:] if now - each.at < PATTERN_SECONDS]
    last = {each.pattern: each.at for each in recent}
    counted = Counter(each.pattern for each in recent)
    return tuple((pattern, count, last[pattern]) for pattern, count in counted.most_common())


def _of_patterns(failures: Sequence[Failed], history: History, now: float) -> Iterator[Proposal]:
    for pattern, _, _ in patterns(failures, now):
        alike = [each for each in failures if each.pattern == pattern and now - each.at < PATTERN_SECONDS]
        # What was proposed for a pattern is its answer: only what failed since then asks for another one.
        proposed_at = max(
            (history.get(key, now - PATTERN_SECONDS) for key in _answers_to(pattern)), default=0.0
        )
        counted = [each for each in alike if each.at > proposed_at]
        if len(counted) >= PATTERN_COUNT_MIN:
            yield from _of_pattern(pattern, counted)


def _answers_to(pattern: str) -> tuple[str, ...]:
    if pattern == AUTH_REQUIRED:
        return (HEALS[HealKind.DEGRADE_AUTH].cooldown_key,)
    if pattern in (*NEVER_RESTARTED, Category.MCP_TOOL_FAILURE):
        return (HEALS[HealKind.ALERT].cooldown_key,)
    return (HEALS[HealKind.RESTART_KEY].cooldown_key, HEALS[HealKind.RESTART_ALL].cooldown_key)


def _of_pattern(pattern: str, counted: Sequence[Failed]) -> Iterator[Proposal]:
    if pattern == AUTH_REQUIRED:
        yield from (Proposal(HealKind.DEGRADE_AUTH, pattern, each.provider) for each in counted)
    elif pattern in (*NEVER_RESTARTED, Category.MCP_TOOL_FAILURE):
        yield Proposal(HealKind.ALERT, f"repeated {pattern}", pattern)
    elif any(each.key is None for each in counted):
        yield Proposal(HealKind.RESTART_ALL, f"repeated {pattern}")
    else:
        yield from (Proposal(HealKind.RESTART_KEY, f"repeated {pattern}", each.key or "") for each in counted)


def _of_memory(signals: Signals, history: History, now: float, limits: HealLimits) -> Iterator[Proposal]:
    if signals.memory_percent is None or signals.memory_percent < limits.memory_percent:
        return
    collected_at = history.get(HEALS[HealKind.COLLECT_MEMORY].cooldown_key)
    if collected_at is not None and now - collected_at < COOLDOWN_SECONDS:
        yield Proposal(HealKind.RESTART_ALL, "memory still short")
    yield Proposal(HealKind.COLLECT_MEMORY, "memory short")


def _of_disk(signals: Signals, limits: HealLimits) -> Iterator[Proposal]:
    if signals.disk_percent is not None and signals.disk_percent >= limits.disk_percent:
        yield Proposal(HealKind.CLEAN_FILES, "disk short")


def _of_hogs(hogs: Sequence[Hog], limits: HealLimits) -> Iterator[Proposal]:
    for hog in hogs:
        if hog.memory_percent > limits.runaway_memory_percent:
            yield Proposal(HealKind.END_RUNAWAY, f"memory of {hog.process}", hog.key)
        elif hog.cpu_percent > limits.runaway_cpu_percent and hog.busy_seconds >= RUNAWAY_SECONDS:
            kind = HealKind.ALERT if hog.is_progressing else HealKind.END_RUNAWAY
            yield Proposal(kind, f"processor of {hog.process}", hog.key)


def _rests(proposal: Proposal, history: History, now: float) -> bool:
    used_at = history.get(proposal.cooldown_key)
    return used_at is not None and now - used_at < HEALS[proposal.kind].cooldown_seconds


def _unless_covered(proposals: Iterator[Proposal]) -> Iterator[Proposal]:
    """Who is brought back with everybody is not brought back alone, too."""
    kept = list(proposals)
    all_at_once = any(each.kind is HealKind.RESTART_ALL for each in kept)
    yield from (each for each in kept if not (all_at_once and each.kind is HealKind.RESTART_KEY))
