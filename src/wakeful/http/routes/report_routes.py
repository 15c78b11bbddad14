"""The morning report over HTTP. It is made for whoever asks, and nothing is kept of it."""

from collections.abc import Callable, Sequence
from typing import Annotated

from msgspec import Meta, Struct

from wakeful.core.moment import Instant
from wakeful.http.answers import Encoded, encoded
from wakeful.http.routing import Request, Route, get
from wakeful.reports.model import Report
from wakeful.reports.reports import Reports
from wakeful.reports.since import wall_at


class ReportQuery(Struct, frozen=True):
    since: Annotated[str, Meta(max_length=100)] = "12h"
    folders: bool = True


class ReportRoutes:
    """Reading only, git included."""

    def __init__(self, reports: Reports, now: Callable[[], Instant]) -> None:
        self._reports = reports
        self._now = now

    def routes(self) -> Sequence[Route]:
        return (get("/api/report", self.report, Report, query=ReportQuery),)

    async def report(self, request: Request[ReportQuery]) -> Encoded[Report]:
        """What happened since a moment (`22:00`, `12h` or a time); without folders neither git nor logs are read."""
        since_wall = wall_at(request.input.since, self._now().wall)
        return encoded(await self._reports.since(since_wall, with_folders=request.input.folders))
