"""Circuit breaker: an issue tracker that hung is not asked again for ten minutes."""

from math import inf
from typing import Final

from wakeful.core.clock import Clock
from wakeful.incidents.issue_tracker import Filing, Forge, Report

SPARED_SECONDS: Final = 600.0
# One that fails after this hangs: nobody else waits for it until it is tried again. Healthy ones take 2 s.
SLOW_SECONDS: Final = 5.0


class SparedForge:
    """Implements Forge."""

    def __init__(self, forge: Forge, clock: Clock) -> None:
        self._forge = forge
        self._clock = clock
        # Why and until when, by the awake clock, it is not asked.
        self._hung: tuple[str, float] = ("", -inf)

    async def file(self, report: Report) -> Filing:
        words, until = self._hung
        if self._clock.now().awake < until:
            return Filing(None, f"{words}; it is asked again later")
        return await self.ask(report)

    async def ask(self, report: Report) -> Filing:
        """Now, whether it hung before or not."""
        began = self._clock.now().awake
        filing = await self._forge.file(report)
        now = self._clock.now().awake
        hung = filing.url is None and now - began > SLOW_SECONDS
        self._hung = (filing.words, now + SPARED_SECONDS) if hung else ("", -inf)
        return filing
