"""A forge that hung is left alone for a while: of all who want an issue only the first waits for it.

And, for programs without a daemon: one that does not work is told once, and once more when it works again.
"""

from collections.abc import Awaitable, Callable
from math import inf
from typing import Final

from wakeful.domain.alerts import resolved
from wakeful.domain.moment import iso
from wakeful.domain.news import forge_news, text_of
from wakeful.ports.clock import Clock
from wakeful.ports.forge import Filing, Forge, Report
from wakeful.ports.jobs import Jobs

SPARED_SECONDS: Final = 600.0
# One that fails after this hangs: nobody else waits for it until it is tried again. Healthy ones take 2 s.
SLOW_SECONDS: Final = 5.0
EPISODE: Final = "forge"
WITHOUT_ONE: Final = "wrote its event without one; the next trouble is filed again"


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


class ToldForge:
    """Implements Forge. `tell` gets the words; that it is told once is kept where the queue is."""

    def __init__(
        self, forge: Forge, jobs: Jobs, clock: Clock, tell: Callable[[str], Awaitable[object]]
    ) -> None:
        self._forge = forge
        self._jobs = jobs
        self._clock = clock
        self._tell = tell

    async def file(self, report: Report) -> Filing:
        filing = await self._forge.file(report)
        now = self._clock.now().wall
        if filing.url is None:
            if await self._jobs.begin(EPISODE, f"{now:.3f}"):
                await self._tell(text_of(forge_news(filing.words, "this host", now, did=WITHOUT_ONE)))
        elif (since := (await self._jobs.episodes()).get(EPISODE)) and await self._jobs.end(EPISODE):
            await self._tell(resolved("no issue could be filed", iso(float(since))))
        return filing
