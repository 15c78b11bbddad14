"""The gateway's host watch: every minute the host, then self-heal, in one cycle. It tells, and acts on nothing."""

import logging
from typing import Protocol

from msgspec.structs import replace

from wakeful.core.clock import Clock
from wakeful.core.errors import WakefulError
from wakeful.gateway.auth_watch import Tell
from wakeful.gateway.host import Host
from wakeful.gateway.ports_chat import ChatFailed, ChatRefused
from wakeful.gateway.rules.host_watch import (
    DEFAULT_LIMITS,
    HostAlert,
    HostReading,
    Told,
    WatchLimits,
    wrong_with,
)
from wakeful.gateway.self_heal import SelfHeal

log = logging.getLogger("wakeful.gateway.host")


class Reachable(Protocol):
    """As much of a chat as says whether it is there."""

    async def me(self) -> str: ...


class HostWatch:
    """`tell` must not depend on Telegram alone: that it cannot be reached is one of the alerts."""

    def __init__(
        self,
        *,
        clock: Clock,
        host: Host,
        chat: Reachable,
        heal: SelfHeal,
        tell: Tell,
        limits: WatchLimits = DEFAULT_LIMITS,
        watch_seconds: float = 60.0,
    ) -> None:
        self._clock = clock
        self._host = host
        self._chat = chat
        self._heal = heal
        self._tell = tell
        self._limits = limits
        self._watch_seconds = watch_seconds
        self._told = Told()
        # The newest look: `/health` shows both.
        self.reading = HostReading()
        self.wrong: tuple[HostAlert, ...] = ()

    async def run(self) -> None:
        """Look every minute, until cancelled. A look that failed is said, and the next one comes."""
        while True:
            began = self._clock.now().awake
            try:
                await self.look()
            except WakefulError as problem:
                log.warning("the host could not be looked at: %s", problem)
            await self._clock.sleep_until(began + self._watch_seconds)

    async def look(self) -> None:
        """One cycle: read, tell, heal."""
        self.reading = await self._read()
        self.wrong = wrong_with(self.reading, self._limits)
        for alert in self._told.due(self.wrong, self._clock.now().awake):
            if await self._tell("warning", alert.text):
                self._told.delivered(alert, self._clock.now().awake)
        await self._heal.look(self.reading.memory_percent, self.reading.disk_percent)

    async def _read(self) -> HostReading:
        rate, mean = self._heal.errors.rates(self._clock.now().awake)
        return replace(
            await self._host.reading(),
            telegram_reachable=await self._is_reachable(),
            errors_per_minute=rate,
            errors_daily_mean_per_minute=mean,
        )

    async def _is_reachable(self) -> bool:
        """Whether Telegram answers at all; also a refusal is an answer."""
        try:
            await self._chat.me()
        except ChatRefused:
            return True
        except ChatFailed:
            return False
        except WakefulError as problem:
            # The bot is locked, or read by somebody else: it answered, and others tell of that.
            log.debug("telegram answered: %s", problem)
        return True
