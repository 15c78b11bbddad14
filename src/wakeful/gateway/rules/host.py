"""Rules for host alerts and self-heal: readings and failures in, alerts and proposals out. Pure.

A reading that could not be taken is None and leads to nothing. The cooldown of an alert starts with its
delivery, so an alert that did not arrive suppresses none. Every kind of proposal has a cooldown key, which a
test enforces. A proposal resets the failures that led to it, so none is counted twice. The action gate
decides about sessions. Times are seconds of one clock.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Final

from msgspec import Struct, field

from wakeful.core.text import plain
from wakeful.gateway.rules.errors import AUTH_REQUIRED, NEVER_RESTARTED, Category
from wakeful.gateway.rules.messages import ConversationKey

# Cooldowns: half an hour for each alert key, and 5 min for each category.
ALERT_SECONDS: Final = 1800.0
CATEGORY_SECONDS: Final = 300.0
# One error in one minute is no spike; five in five minutes are one a minute.
SPIKE_WINDOW_SECONDS: Final = 300.0
SPIKE_PER_MINUTE_MIN: Final = 1.0
_MINUTES_OF_DAY: Final = 1440
NAMES_SHOWN_MAX: Final = 5


class HostCategory(StrEnum):
    DISK = "disk"
    MEMORY = "memory"
    LOAD = "load"
    PM2 = "pm2"
    DOCKER = "docker"
    TELEGRAM = "telegram"
    ERRORS = "errors"
    SELF_HEAL = "self_heal"


class Unit(Struct, frozen=True):
    """A process of PM2 or a container of Docker, with the state that its own tool gives."""

    name: str
    state: str


class HostReading(Struct, frozen=True):
    """The host at one moment. None: could not be read, or is not there."""

    disk_percent: float | None = None
    memory_percent: float | None = None
    load: float | None = None
    cores: int = 1
    pm2: tuple[Unit, ...] | None = None
    docker: tuple[Unit, ...] | None = None
    telegram_reachable: bool | None = None
    errors_per_minute: float = 0.0
    errors_daily_mean_per_minute: float = 0.0


class WatchLimits(Struct, frozen=True):
    """Limits of the host watch. `error_spike_factor`: how many times the day's mean."""

    disk_percent: float = 90.0
    memory_percent: float = 96.0
    load_per_core: float = 2.0
    error_spike_factor: float = 3.0


DEFAULT_WATCH_LIMITS: Final = WatchLimits()


class HostAlert(Struct, frozen=True):
    """One thing that is wrong. Its cooldowns go by its key and its category."""

    category: HostCategory
    key: str
    text: str


class HostCheck(Struct, frozen=True):
    """One check: when it alerts, in words, and the rule itself."""

    when: str
    alerts: Callable[[HostReading, WatchLimits], Iterator[HostAlert]]


def wrong_with(reading: HostReading, limits: WatchLimits = DEFAULT_WATCH_LIMITS) -> tuple[HostAlert, ...]:
    """Everything that is wrong, in the order of the checks."""
    return tuple(alert for check in CHECKS.values() for alert in check.alerts(reading, limits))


def format_reading(reading: HostReading) -> str:
    """The reading in one line; empty before the first one."""
    figures = {"disk": reading.disk_percent, "memory": reading.memory_percent}
    parts = [f"{name} {value:.0f} %" for name, value in figures.items() if value is not None]
    if reading.load is not None:
        parts.append(f"load {reading.load:.1f} on {reading.cores} cores")
    down = [plain(unit.name, 60) for unit in (*_pm2_down(reading), *_docker_down(reading))]
    if down:
        more = [f"{len(down) - NAMES_SHOWN_MAX} more"] if len(down) > NAMES_SHOWN_MAX else []
        parts.append(f"not up: {', '.join([*down[:NAMES_SHOWN_MAX], *more])}")
    return ", ".join(parts)


class Told(Struct):
    """The sent alerts with their times, by key and by category."""

    keys: dict[str, float] = field(default_factory=dict)
    categories: dict[HostCategory, float] = field(default_factory=dict)

    def due(self, alerts: Sequence[HostAlert], now: float) -> tuple[HostAlert, ...]:
        """The alerts to send now: at most one of a category, the others after its cooldown."""
        found: dict[HostCategory, HostAlert] = {}
        for alert in alerts:
            if not self._is_cooling_down(alert, now):
                found.setdefault(alert.category, alert)
        return tuple(found.values())

    def delivered(self, alert: HostAlert, now: float) -> None:
        """Start the cooldowns of an alert that arrived, and forget old ones."""
        self.keys = {key: at for key, at in self.keys.items() if now - at < ALERT_SECONDS}
        self.keys[alert.key] = self.categories[alert.category] = now

    def _is_cooling_down(self, alert: HostAlert, now: float) -> bool:
        key_at = self.keys.get(alert.key, now - ALERT_SECONDS)
        category_at = self.categories.get(alert.category, now - CATEGORY_SECONDS)
        return now - key_at < ALERT_SECONDS or now - category_at < CATEGORY_SECONDS


class ErrorCounts:
    """Errors of the last day by the minute: constant cost for each, bounded memory."""

    def __init__(self) -> None:
        self._minutes: deque[tuple[int, int]] = deque()

    def add(self, now: float) -> None:
        minute = int(now // 60)
        count = self._minutes.pop()[1] if self._minutes and self._minutes[-1][0] == minute else 0
        self._minutes.append((minute, count + 1))
        self._forget(minute)

    def rates(self, now: float) -> tuple[float, float]:
        """Errors a minute: in the last five minutes, and on average in the day before them."""
        minute = int(now // 60)
        self._forget(minute)
        window_minutes = int(SPIKE_WINDOW_SECONDS // 60)
        newest = sum(count for each, count in self._minutes if minute - each < window_minutes)
        older = sum(count for _, count in self._minutes) - newest
        return newest / window_minutes, older / (_MINUTES_OF_DAY - window_minutes)

    def _forget(self, minute: int) -> None:
        while self._minutes and minute - self._minutes[0][0] >= _MINUTES_OF_DAY:
            self._minutes.popleft()


def _disk(reading: HostReading, limits: WatchLimits) -> Iterator[HostAlert]:
    if reading.disk_percent is not None and reading.disk_percent >= limits.disk_percent:
        yield HostAlert(HostCategory.DISK, "disk", f"The disk is {reading.disk_percent:.0f} % full.")


def _memory(reading: HostReading, limits: WatchLimits) -> Iterator[HostAlert]:
    if reading.memory_percent is not None and reading.memory_percent >= limits.memory_percent:
        yield HostAlert(HostCategory.MEMORY, "memory", f"Memory is {reading.memory_percent:.0f} % full.")


def _load(reading: HostReading, limits: WatchLimits) -> Iterator[HostAlert]:
    if reading.load is not None and reading.load > limits.load_per_core * reading.cores:
        text = f"The load is {reading.load:.1f} on {reading.cores} cores."
        yield HostAlert(HostCategory.LOAD, "load", text)


def _pm2(reading: HostReading, _limits: WatchLimits) -> Iterator[HostAlert]:
    yield from _units(HostCategory.PM2, "PM2 says", _pm2_down(reading))


def _docker(reading: HostReading, _limits: WatchLimits) -> Iterator[HostAlert]:
    yield from _units(HostCategory.DOCKER, "Docker says", _docker_down(reading))


def _pm2_down(reading: HostReading) -> list[Unit]:
    return [unit for unit in reading.pm2 or () if unit.state in ("errored", "stopped", "waiting restart")]


def _docker_down(reading: HostReading) -> list[Unit]:
    # `failed` and `unhealthy` are the host reader's own states. A container that ended well was meant to end.
    down = ("unhealthy", "restarting", "dead", "failed")
    return [unit for unit in reading.docker or () if unit.state in down]


def _units(category: HostCategory, source: str, down: Sequence[Unit]) -> Iterator[HostAlert]:
    for unit in down:
        name, state = plain(unit.name, 60), plain(unit.state, 40)
        yield HostAlert(category, f"{category}:{name}", f"{source}: {name} is {state}.")


def _telegram(reading: HostReading, _limits: WatchLimits) -> Iterator[HostAlert]:
    if reading.telegram_reachable is False:
        yield HostAlert(HostCategory.TELEGRAM, "telegram", "Telegram cannot be reached.")


def _errors(reading: HostReading, limits: WatchLimits) -> Iterator[HostAlert]:
    rate, mean = reading.errors_per_minute, reading.errors_daily_mean_per_minute
    if rate >= SPIKE_PER_MINUTE_MIN and rate >= limits.error_spike_factor * mean:
        yield HostAlert(
            HostCategory.ERRORS, "errors", f"{rate:.1f} errors a minute; the day's mean is {mean:.2f}."
        )


CHECKS: Final[Mapping[HostCategory, HostCheck]] = {
    HostCategory.DISK: HostCheck("`gateway.host.disk_percent` or more is used", _disk),
    HostCategory.MEMORY: HostCheck("`gateway.host.memory_percent` or more is used", _memory),
    HostCategory.LOAD: HostCheck("the load is above `gateway.host.load_per_core` for each core", _load),
    HostCategory.PM2: HostCheck("a process of PM2 is errored, stopped or waits for its restart", _pm2),
    HostCategory.DOCKER: HostCheck(
        "a container is unhealthy, restarting, dead or ended with an error", _docker
    ),
    HostCategory.TELEGRAM: HostCheck("the Bot API does not answer", _telegram),
    HostCategory.ERRORS: HostCheck(
        "in five minutes one error a minute and `gateway.host.error_spike_factor` times the day's mean",
        _errors,
    ),
}

# Three or more of the same within ten minutes; five minutes of cooldown for each kind.
PATTERN_COUNT_MIN: Final = 3
PATTERN_SECONDS: Final = 600.0
COOLDOWN_SECONDS: Final = 300.0
# One reading of a processor proves nothing; readings over five minutes do.
RUNAWAY_SECONDS: Final = 300.0
FAILURES_MAX: Final = 1000


class HealKind(StrEnum):
    """The acts that can be proposed."""

    RESTART_KEY = "restart_key"
    RESTART_ALL = "restart_all"
    COLLECT_MEMORY = "collect_memory"
    CLEAN_FILES = "clean_files"
    END_RUNAWAY = "end_runaway"
    DEGRADE_AUTH = "degrade_auth"
    ALERT = "alert"


class HealRule(Struct, frozen=True):
    """A kind in words, and the key of its cooldown."""

    cooldown_key: str
    cooldown_seconds: float
    when: str
    what: str


HEAL_RULES: Final[Mapping[HealKind, HealRule]] = {
    HealKind.RESTART_KEY: HealRule(
        "heal:restart_key",
        COOLDOWN_SECONDS,
        "the same failure 3 times in 10 min with known keys; in the library also a session that is gone and a turn silent beyond its limit, which Wakeful's own gateway leaves to the daemon",
        "ends the sessions of these conversations; the next message resumes them. A working session is not touched",
    ),
    HealKind.RESTART_ALL: HealRule(
        "heal:restart_all",
        COOLDOWN_SECONDS,
        "the same failure 3 times in 10 min and a key is unknown; memory still short after it was collected",
        "ends every session of the pool: a running turn continues in a new process, an idle session resumes with its next message",
    ),
    HealKind.COLLECT_MEMORY: HealRule(
        "heal:collect_memory", COOLDOWN_SECONDS, "memory above its limit", "the gateway frees memory"
    ),
    HealKind.CLEAN_FILES: HealRule(
        "heal:clean_files",
        COOLDOWN_SECONDS,
        "disk above its limit",
        "removes temporary files of the gateway older than a day and rotated logs older than three days",
    ),
    HealKind.END_RUNAWAY: HealRule(
        "heal:end_runaway",
        COOLDOWN_SECONDS,
        "an agent process of the gateway at its processor limit for 5 min without progress, or above its memory limit",
        "ends this process and resumes its session",
    ),
    HealKind.DEGRADE_AUTH: HealRule(
        "heal:degrade_auth",
        COOLDOWN_SECONDS,
        "auth_required 3 times in 10 min",
        "checks the provider's login and enters its mode; no restart",
    ),
    HealKind.ALERT: HealRule(
        "heal:alert",
        COOLDOWN_SECONDS,
        "mcp_tool_failure or usage_limited 3 times in 10 min; a runaway that makes progress",
        "alerts the operator only",
    ),
}


class Failed(Struct, frozen=True):
    """A failed turn: when, how, and in which conversation, if that is known."""

    at: float
    pattern: str
    key: ConversationKey | None = None
    provider: str = ""


class Hog(Struct, frozen=True):
    """The usage of a provider's process of one of the gateway's sessions."""

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


DEFAULT_HEAL_LIMITS: Final = HealLimits()


class Signals(Struct, frozen=True):
    """The state of the gateway. None: unknown, and nothing is proposed for it."""

    failures: tuple[Failed, ...] = ()
    # Conversations whose session is gone, or whose turn is silent beyond its limit.
    dead: tuple[ConversationKey, ...] = ()
    silent: tuple[ConversationKey, ...] = ()
    memory_percent: float | None = None
    disk_percent: float | None = None
    hogs: tuple[Hog, ...] = ()


class Proposal(Struct, frozen=True):
    """An act and its reason. `target`: a conversation, a provider or a pattern; empty: the whole gateway."""

    kind: HealKind
    reason: str
    target: str = ""

    @property
    def cooldown_key(self) -> str:
        return HEAL_RULES[self.kind].cooldown_key


HealHistory = Mapping[str, float]
"""When each cooldown key was last used."""


def propose(
    signals: Signals, history: HealHistory, now: float, limits: HealLimits = DEFAULT_HEAL_LIMITS
) -> tuple[Proposal, ...]:
    """The acts to take now, each once, without the kinds in their cooldown. Several of one kind go together."""
    wanted = [
        *_propose_for_patterns(signals.failures, history, now),
        *(Proposal(HealKind.RESTART_KEY, "session_dead", key) for key in signals.dead),
        *(Proposal(HealKind.RESTART_KEY, "turn_silent", key) for key in signals.silent),
        *_propose_for_memory(signals, history, now, limits),
        *_propose_for_disk(signals, limits),
        *_propose_for_hogs(signals.hogs, limits),
    ]
    return tuple(
        dict.fromkeys(_unless_covered(each for each in wanted if not _is_cooling_down(each, history, now)))
    )


def history_after(proposals: Sequence[Proposal], history: HealHistory, now: float) -> dict[str, float]:
    """The history after these proposals. A key is forgotten when the failures before it are."""
    recent = {key: at for key, at in history.items() if now - at < PATTERN_SECONDS}
    return {**recent, **{each.cooldown_key: now for each in proposals}}


def patterns(failures: Sequence[Failed], now: float) -> tuple[tuple[str, int, float], ...]:
    """Every pattern of the last ten minutes: how often, and when last; the commonest first."""
    recent = [each for each in failures[-FAILURES_MAX:] if now - each.at < PATTERN_SECONDS]
    last = {each.pattern: each.at for each in recent}
    counted = Counter(each.pattern for each in recent)
    return tuple((pattern, count, last[pattern]) for pattern, count in counted.most_common())


def _propose_for_patterns(failures: Sequence[Failed], history: HealHistory, now: float) -> Iterator[Proposal]:
    for pattern, _, _ in patterns(failures, now):
        alike = [each for each in failures if each.pattern == pattern and now - each.at < PATTERN_SECONDS]
        # Only failures since the last proposal for a pattern lead to another one.
        proposed_at = max(
            (history.get(key, now - PATTERN_SECONDS) for key in _cooldown_keys(pattern)), default=0.0
        )
        counted = [each for each in alike if each.at > proposed_at]
        if len(counted) >= PATTERN_COUNT_MIN:
            yield from _propose_for_pattern(pattern, counted)


def _cooldown_keys(pattern: str) -> tuple[str, ...]:
    if pattern == AUTH_REQUIRED:
        return (HEAL_RULES[HealKind.DEGRADE_AUTH].cooldown_key,)
    if pattern in (*NEVER_RESTARTED, Category.MCP_TOOL_FAILURE):
        return (HEAL_RULES[HealKind.ALERT].cooldown_key,)
    return (HEAL_RULES[HealKind.RESTART_KEY].cooldown_key, HEAL_RULES[HealKind.RESTART_ALL].cooldown_key)


def _propose_for_pattern(pattern: str, counted: Sequence[Failed]) -> Iterator[Proposal]:
    if pattern == AUTH_REQUIRED:
        yield from (Proposal(HealKind.DEGRADE_AUTH, pattern, each.provider) for each in counted)
    elif pattern in (*NEVER_RESTARTED, Category.MCP_TOOL_FAILURE):
        yield Proposal(HealKind.ALERT, f"repeated {pattern}", pattern)
    elif any(each.key is None for each in counted):
        yield Proposal(HealKind.RESTART_ALL, f"repeated {pattern}")
    else:
        yield from (Proposal(HealKind.RESTART_KEY, f"repeated {pattern}", each.key or "") for each in counted)


def _propose_for_memory(
    signals: Signals, history: HealHistory, now: float, limits: HealLimits
) -> Iterator[Proposal]:
    if signals.memory_percent is None or signals.memory_percent < limits.memory_percent:
        return
    collected_at = history.get(HEAL_RULES[HealKind.COLLECT_MEMORY].cooldown_key)
    if collected_at is not None and now - collected_at < COOLDOWN_SECONDS:
        yield Proposal(HealKind.RESTART_ALL, "memory still short")
    yield Proposal(HealKind.COLLECT_MEMORY, "memory short")


def _propose_for_disk(signals: Signals, limits: HealLimits) -> Iterator[Proposal]:
    if signals.disk_percent is not None and signals.disk_percent >= limits.disk_percent:
        yield Proposal(HealKind.CLEAN_FILES, "disk short")


def _propose_for_hogs(hogs: Sequence[Hog], limits: HealLimits) -> Iterator[Proposal]:
    for hog in hogs:
        if hog.memory_percent > limits.runaway_memory_percent:
            yield Proposal(HealKind.END_RUNAWAY, f"memory of {hog.process}", hog.key)
        elif hog.cpu_percent > limits.runaway_cpu_percent and hog.busy_seconds >= RUNAWAY_SECONDS:
            kind = HealKind.ALERT if hog.is_progressing else HealKind.END_RUNAWAY
            yield Proposal(kind, f"processor of {hog.process}", hog.key)


def _is_cooling_down(proposal: Proposal, history: HealHistory, now: float) -> bool:
    used_at = history.get(proposal.cooldown_key)
    return used_at is not None and now - used_at < HEAL_RULES[proposal.kind].cooldown_seconds


def _unless_covered(proposals: Iterator[Proposal]) -> Iterator[Proposal]:
    """A session that is restarted with all others is not restarted alone, too."""
    found = list(proposals)
    all_at_once = any(each.kind is HealKind.RESTART_ALL for each in found)
    yield from (each for each in found if not (all_at_once and each.kind is HealKind.RESTART_KEY))
