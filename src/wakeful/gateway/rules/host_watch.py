"""What is wrong with the host: readings in, alerts out, none of them too often. Pure.

A reading that could not be taken is None and says nothing. A cooldown starts when an alert was delivered, so that one
that went nowhere silences nobody. Times are seconds of one clock.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Final

from msgspec import Struct, field

from wakeful.core.text import plain

# Half an hour for each alert key, and 5 min for each category.
ALERT_SECONDS: Final = 1800.0
CATEGORY_SECONDS: Final = 300.0
# One error in one minute is no spike; five in five minutes are one a minute.
SPIKE_WINDOW_SECONDS: Final = 300.0
SPIKE_PER_MINUTE_MIN: Final = 1.0
DAY_SECONDS: Final = 86_400.0
_MINUTES_OF_DAY: Final = 1440
NAMES_SHOWN_MAX: Final = 5


class HostCategory(StrEnum):
    """What an alert is about."""

    DISK = "disk"
    MEMORY = "memory"
    LOAD = "load"
    PM2 = "pm2"
    DOCKER = "docker"
    TELEGRAM = "telegram"
    ERRORS = "errors"
    SELF_HEAL = "self_heal"


class Unit(Struct, frozen=True):
    """A process of PM2 or a container of Docker, by its name, and what its own tool calls its state."""

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
    """Limits of the host watch."""

    disk_percent: float = 90.0
    memory_percent: float = 96.0
    load_per_core: float = 2.0
    error_spike_factor: float = 3.0


DEFAULT_LIMITS: Final = WatchLimits()


class HostAlert(Struct, frozen=True):
    """One thing that is wrong."""

    category: HostCategory
    key: str
    text: str


class HostCheck(Struct, frozen=True):
    """One check: when it alerts, in words, and the rule itself."""

    when: str
    alerts: Callable[[HostReading, WatchLimits], Iterator[HostAlert]]


def wrong_with(reading: HostReading, limits: WatchLimits = DEFAULT_LIMITS) -> tuple[HostAlert, ...]:
    """Everything that is wrong, in the order of the checks."""
    return tuple(alert for check in CHECKS.values() for alert in check.alerts(reading, limits))


def in_words(reading: HostReading) -> str:
    """The figures of one look in one line; empty before the first."""
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
    """What was told and when, by key and by category."""

    keys: dict[str, float] = field(default_factory=dict)
    categories: dict[HostCategory, float] = field(default_factory=dict)

    def due(self, alerts: Sequence[HostAlert], now: float) -> tuple[HostAlert, ...]:
        """Those that may be told now: one of a category at most, the others come when it has rested."""
        found: dict[HostCategory, HostAlert] = {}
        for alert in alerts:
            if not self._rests(alert, now):
                found.setdefault(alert.category, alert)
        return tuple(found.values())

    def delivered(self, alert: HostAlert, now: float) -> None:
        """It arrived: its cooldowns start. Old ones are forgotten."""
        self.keys = {key: at for key, at in self.keys.items() if now - at < ALERT_SECONDS}
        self.keys[alert.key] = self.categories[alert.category] = now

    def _rests(self, alert: HostAlert, now: float) -> bool:
        told_at = self.keys.get(alert.key, now - ALERT_SECONDS)
        category_at = self.categories.get(alert.category, now - CATEGORY_SECONDS)
        return now - told_at < ALERT_SECONDS or now - category_at < CATEGORY_SECONDS


class ErrorCounts:
    """Errors of the last day by the minute: constant cost for each, bounded memory."""

    def __init__(self) -> None:
        self._minutes: deque[tuple[int, int]] = deque()

    def add(self, now: float) -> None:
        """An error happened."""
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
    # A container that ended well was meant to end; Docker's own word for the others.
    down = ("unhealthy", "restarting", "dead", "failed")
    return [unit for unit in reading.docker or () if unit.state in down]


def _units(category: HostCategory, who: str, down: Sequence[Unit]) -> Iterator[HostAlert]:
    for unit in down:
        name, state = plain(unit.name, 60), plain(unit.state, 40)
        yield HostAlert(category, f"{category}:{name}", f"{who}: {name} is {state}.")


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
