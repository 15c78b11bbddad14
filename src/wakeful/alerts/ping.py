"""Pings an outside monitoring service every minute, which notices when this host or daemon is gone.

The address is a secret: with it, any program can send the ping. It appears in no log and in no error.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from wakeful.core.clock import Clock
from wakeful.core.errors import ExtraMissing
from wakeful.linux.logging import silence_libraries

if TYPE_CHECKING:
    import httpx

PING_SECONDS: Final = 60.0
ANSWER_SECONDS_MAX: Final = 10.0

log = logging.getLogger("wakeful.ping")


class Ping:
    """Calls the address while judging works; silence is the alarm."""

    def __init__(self, url: str, clock: Clock, is_judging: Callable[[], bool]) -> None:
        self._url = url
        self._clock = clock
        self._is_judging = is_judging
        self._client: httpx.AsyncClient | None = None
        self.problem: str | None = None

    async def run(self) -> None:
        try:
            while True:
                begun = self._clock.now().awake
                if self._is_judging():
                    self._log_change(await self._ping())
                await self._clock.sleep_until(begun + PING_SECONDS)
        finally:
            if self._client is not None:
                await self._client.aclose()

    async def _ping(self) -> str | None:
        """The error, if any."""
        if self._client is None:
            self._client = await asyncio.to_thread(_open_client)
        import httpx  # noqa: PLC0415 - loaded by now

        try:
            async with asyncio.timeout(ANSWER_SECONDS_MAX):
                answer = await self._client.get(self._url)
        except TimeoutError:
            return f"no answer within {ANSWER_SECONDS_MAX:g} s"
        except (httpx.HTTPError, httpx.InvalidURL) as problem:
            return type(problem).__name__
        return None if answer.is_success else f"answered with status {answer.status_code}"

    def _log_change(self, problem: str | None) -> None:
        """Log a failure once, and its end once."""
        if problem is not None and self.problem is None:
            log.warning("alerts.ping_url does not answer: %s", problem)
        if problem is None and self.problem is not None:
            log.warning("alerts.ping_url answers again")
        self.problem = problem


def _open_client() -> "httpx.AsyncClient":
    silence_libraries()
    try:
        import httpx  # noqa: PLC0415 - takes a tenth of a second, and is needed for pings only
    except ModuleNotFoundError as missing:
        raise ExtraMissing(what="alerts.ping_url", library=missing.name, extra="alerts") from missing

    limits = httpx.Limits(max_keepalive_connections=0)
    return httpx.AsyncClient(timeout=ANSWER_SECONDS_MAX, limits=limits)
