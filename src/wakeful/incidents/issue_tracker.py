"""Interface of the issue tracker: a report about a problem, and the result of filing it."""

from typing import Protocol

from msgspec import Struct

from wakeful.core.ids import SessionId


class IssueReport(Struct, frozen=True):
    """What is filed about one problem. The issue tracker redacts every text from outside in it."""

    project: str
    session_id: SessionId
    reason: str
    summary: str
    duration_seconds: float
    # The newest last: when, which tool, what about, and how it ended.
    calls: tuple[tuple[str, str, str, str], ...] = ()
    # Sessions of the same incident.
    others: tuple[SessionId, ...] = ()


class FilingResult(Struct, frozen=True):
    """What became of a report. Without `url` nothing was filed, and `words` say why."""

    url: str | None
    words: str


class IssueTracker(Protocol):
    async def file(self, report: IssueReport) -> FilingResult:
        """File it, or find the open issue about it. Within its deadline; never raises for the world's troubles."""
