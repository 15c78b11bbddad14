"""Keeps Wakeful's log sources and services running: a part that raises is retried and stops no other.

Retries back off. `status` and `doctor` show the parts that are down; people get one alert for each part and
one when it works again. Each part itself handles the outside errors that it expects, such as a full disk.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from msgspec import Struct

from wakeful.alerts.model import AlertCode, Topic, failed_part_alert, resolved_text
from wakeful.alerts.notifier import Notifier
from wakeful.core.clock import Clock, iso
from wakeful.core.errors import WorldError
from wakeful.core.redaction import redact
from wakeful.core.text import plain

RETRY_SECONDS_MIN: Final = 1.0
RETRY_SECONDS_MAX: Final = 60.0
# A service that ran this long after its last failure works again.
STEADY_SECONDS: Final = 30.0
# If the store has no room, try again this soon; the disk has an alert of its own.
WORLD_RETRY_SECONDS: Final = 5.0
REASON_CHARS_MAX: Final = 160
EPISODE_PREFIX: Final = "down:"

log = logging.getLogger("wakeful")


class FailedPart(Struct):
    name: str
    reason: str
    since: float
    times: int = 1

    @property
    def line(self) -> str:
        """One line for `status`."""
        return f"down since {iso(self.since)}: {self.name} ({self.reason}); Wakeful retries"


class FailedParts:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._down: dict[str, FailedPart] = {}
        # Set whenever a part fails or works again.
        self.changed = asyncio.Event()

    @property
    def down(self) -> tuple[FailedPart, ...]:
        return tuple(self._down.values())

    def is_down(self, name: str) -> bool:
        return name in self._down

    @property
    def lines(self) -> tuple[str, ...]:
        """The failed parts, for `status`."""
        return tuple(each.line for each in self._down.values())

    def on_failure(self, name: str, error: Exception) -> float:
        """Record that it raised; returns the seconds until the next try. Only the first failure logs a traceback."""
        reason = plain(redact(f"{type(error).__name__}: {error}"), REASON_CHARS_MAX)
        known = self._down.get(name)
        if known is None:
            log.error("%s is down", name, exc_info=error)
            self._down[name] = known = FailedPart(name, reason, self._clock.now().wall)
            self.changed.set()
        else:
            known.reason, known.times = reason, known.times + 1
        return min(RETRY_SECONDS_MIN * 2.0 ** min(known.times - 1, 10), RETRY_SECONDS_MAX)

    def on_success(self, name: str) -> None:
        failure = self._down.pop(name, None)
        if failure is not None:
            log.warning("%s works again after %d failures", name, failure.times)
            self.changed.set()

    async def keep_running(
        self, name: str, run: Callable[[], Awaitable[None]], *, world_errors: bool = False
    ) -> None:
        """Run a service until it is cancelled or returns, however often it fails.

        `world_errors`: a WorldError is logged and retried, and is no failure of the service.
        """
        while True:
            task = asyncio.ensure_future(run())
            try:
                return await self._await_steady(name, task)
            except Exception as error:  # noqa: BLE001 - one service must not end the others
                if world_errors and isinstance(error, WorldError):
                    log.warning("%s: %s", name, error)
                    await self._clock.sleep(WORLD_RETRY_SECONDS)
                else:
                    await self._clock.sleep(self.on_failure(name, error))
            finally:
                task.cancel()

    async def _await_steady(self, name: str, task: "asyncio.Future[None]") -> None:
        """Wait for a service's end; once it ran for a while, it works."""
        if name in self._down:
            steady = asyncio.ensure_future(self._clock.sleep(STEADY_SECONDS))
            try:
                await asyncio.wait((task, steady), return_when=asyncio.FIRST_COMPLETED)
            finally:
                steady.cancel()
            if not task.done():
                self.on_success(name)
        await task


class FailureAlerts:
    """Alerts people about failed parts, and about those that work again."""

    def __init__(self, failures: FailedParts, notifier: Notifier, host: str) -> None:
        self._failures = failures
        self._notifier = notifier
        self._host = host

    async def run(self) -> None:
        """Send alerts for every change, until cancelled."""
        while True:
            self._failures.changed.clear()
            await self.notify()
            await self._failures.changed.wait()

    async def notify(self) -> None:
        """Raise an alert for each failed part, and resolve the alerts about others, also those of an earlier daemon."""
        down = {f"{EPISODE_PREFIX}{each.name}": each for each in self._failures.down}
        for episode, failure in down.items():
            body = failed_part_alert(failure.name, failure.reason, self._host, failure.since)
            await self._notifier.raise_alert(episode, body, Topic((AlertCode.DOWN,)))
        for pending in self._notifier.open_alerts(EPISODE_PREFIX):
            episode = pending.alert.episode
            if episode not in down:
                name = episode.removeprefix(EPISODE_PREFIX)
                await self._notifier.resolve(episode, resolved_text(f"{name} was down", iso(pending.owed_at)))
