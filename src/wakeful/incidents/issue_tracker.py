"""Interface of the issue tracker: a report about a problem, and the result of filing it."""

from typing import Protocol

from msgspec import Struct

from wakeful.core.ids import SessionId


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
