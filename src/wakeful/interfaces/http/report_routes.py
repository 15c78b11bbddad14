"""The morning report over HTTP. It is made for whoever asks, and nothing is kept of it."""

from collections.abc import Callable, Sequence
from typing import Annotated

from litestar.handlers import HTTPRouteHandler, get
from litestar.params import FromQuery, QueryParameter

from wakeful.domain.moment import Instant
from wakeful.domain.report import Report
from wakeful.interfaces.http.answers import Encoded, encoded
from wakeful.interfaces.http.session_routes import PROBLEMS
from wakeful.interfaces.since import wall_at
from wakeful.services.reports import Reports


class ReportRoutes:
    """Reading only, git included."""

    def __init__(self, reports: Reports, now: Callable[[], Instant]) -> None:
        self._reports = reports
        self._now = now

    def handlers(self) -> Sequence[HTTPRouteHandler]:
        return (get("/api/report", responses=PROBLEMS)(self.report),)

    async def report(
        self,
        since: Annotated[str, QueryParameter(max_length=100)] = "12h",
        folders: FromQuery[bool] = True,
    ) -> Encoded[Report]:
        """What happened since a moment (`22:00`, `12h` or a time); without folders neither git nor logs are read."""
        since_wall = wall_at(since, self._now().wall)
        return encoded(await self._reports.since(since_wall, with_folders=folders))
