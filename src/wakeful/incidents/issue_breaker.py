"""Circuit breaker: an issue tracker that hung is not asked again for ten minutes."""

from math import inf
from typing import Final

from wakeful.core.clock import Clock
from wakeful.incidents.issue_tracker import FilingResult, IssueReport, IssueTracker

BREAKER_SECONDS: Final = 600.0
# A tracker that fails after this time hangs: no other caller waits for it until the next try. Healthy ones take 2 s.
SLOW_SECONDS: Final = 5.0


class BreakingIssueTracker:
    """Implements IssueTracker."""

    def __init__(self, tracker: IssueTracker, clock: Clock) -> None:
        self._tracker = tracker
        self._clock = clock
        # The reason, and until when by the awake clock the tracker is not asked.
        self._open_breaker: tuple[str, float] = ("", -inf)

    async def file(self, report: IssueReport) -> FilingResult:
        words, until = self._open_breaker
        if self._clock.now().awake < until:
            return FilingResult(None, f"{words}; it is asked again later")
        return await self.file_now(report)

    async def file_now(self, report: IssueReport) -> FilingResult:
        """File it even if the tracker hung before."""
        began = self._clock.now().awake
        filing = await self._tracker.file(report)
        now = self._clock.now().awake
        hung = filing.url is None and now - began > SLOW_SECONDS
        self._open_breaker = (filing.words, now + BREAKER_SECONDS) if hung else ("", -inf)
        return filing
