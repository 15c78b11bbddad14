"""Interface of the issue tracker, and its circuit breaker: a tracker that hung is not called for ten minutes."""

from math import inf
from typing import Final, Protocol

from msgspec import Struct

from wakeful.core.clock import Clock
from wakeful.core.ids import SessionId

BREAKER_SECONDS: Final = 600.0
# A tracker that fails after this time hangs: no other caller waits for it until the next try. Healthy ones take 2 s.
SLOW_SECONDS: Final = 5.0


class IssueReport(Struct, frozen=True):
    """A report about one problem. The issue tracker redacts every text from outside in it."""

    project: str
    session_id: SessionId
    reason: str
    summary: str
    duration_seconds: float
    # Newest last: time, tool, subject, result.
    calls: tuple[tuple[str, str, str, str], ...] = ()
    # Other sessions of the same incident.
    others: tuple[SessionId, ...] = ()


class FilingResult(Struct, frozen=True):
    """Without `url` nothing was filed, and `words` say why."""

    url: str | None
    words: str


class IssueTracker(Protocol):
    async def file(self, report: IssueReport) -> FilingResult:
        """File it, or find the open issue about it, within a deadline. Never raises for outside problems."""


class BreakingIssueTracker:
    """Implements IssueTracker."""

    def __init__(self, tracker: IssueTracker, clock: Clock) -> None:
        self._tracker = tracker
        self._clock = clock
        # The reason, and the awake time until which the tracker is not called.
        self._open_breaker: tuple[str, float] = ("", -inf)

    async def file(self, report: IssueReport) -> FilingResult:
        reason, until = self._open_breaker
        if self._clock.now().awake < until:
            return FilingResult(None, f"{reason}; Wakeful tries again later")
        return await self.file_now(report)

    async def file_now(self, report: IssueReport) -> FilingResult:
        """File it even if the tracker hung before."""
        began = self._clock.now().awake
        filing = await self._tracker.file(report)
        now = self._clock.now().awake
        hung = filing.url is None and now - began > SLOW_SECONDS
        self._open_breaker = (filing.words, now + BREAKER_SECONDS) if hung else ("", -inf)
        return filing
