"""Routes for critical events and for the morning report. A report is made for each request and not kept."""

import asyncio
from collections.abc import Sequence
from typing import Annotated, Final

from msgspec import Meta, Struct

from wakeful.alerts.mute_pause import PauseQuery
from wakeful.core.clock import Clock
from wakeful.http.responses import EncodedResponse, encode_response
from wakeful.http.routing import HttpRequest, Route, get, post
from wakeful.incidents.critical_log import CriticalLog
from wakeful.reports.model import Report
from wakeful.reports.service import ReportService
from wakeful.reports.text import parse_moment
from wakeful.views.records import ArchiveAnswer, CriticalEventList

EVENTS_MAX: Final = 10_000


class CriticalEventQuery(Struct, frozen=True):
    since: str = "24h"
    limit: Annotated[int, Meta(ge=1, le=EVENTS_MAX)] = 1000


class ArchiveOrder(Struct, frozen=True, forbid_unknown_fields=True):
    """`before`: how long ago (`7d`) or a time."""

    before: Annotated[str, Meta(max_length=100)]


class EventRoutes:
    """Reads the log. Archiving needs a person, because the record of an agent's actions must stay readable."""

    def __init__(self, log: CriticalLog, clock: Clock, paused: PauseQuery) -> None:
        self._log = log
        self._clock = clock
        self._get_pause = paused

    def routes(self) -> Sequence[Route]:
        return (
            get("/api/events", self.events, CriticalEventList, query=CriticalEventQuery),
            post("/api/events/archive", self.archive, ArchiveAnswer, body=ArchiveOrder),
        )

    async def archive(self, request: HttpRequest[ArchiveOrder]) -> EncodedResponse[ArchiveAnswer]:
        """Move older events to the gzip of their day, beside the log. Needs a person."""
        before_wall = parse_moment(request.input.before, self._clock.now().wall)
        count = await asyncio.to_thread(self._log.archive, before_wall)
        return encode_response(ArchiveAnswer(count, str(self._log.path)))

    async def events(self, request: HttpRequest[CriticalEventQuery]) -> EncodedResponse[CriticalEventList]:
        """The newest critical events since a time: how long ago (`24h`) or a date."""
        since_wall = parse_moment(request.input.since, self._clock.now().wall)
        events = await asyncio.to_thread(self._log.recent, since_wall)
        newest = events[-request.input.limit :]
        left_out = len(events) - len(newest)
        return encode_response(CriticalEventList(str(self._log.path), newest, left_out, self._get_pause()))


class ReportQuery(Struct, frozen=True):
    since: Annotated[str, Meta(max_length=100)] = "12h"
    folders: bool = True


class ReportRoutes:
    """Reads only, git included."""

    def __init__(self, reports: ReportService, clock: Clock) -> None:
        self._reports = reports
        self._clock = clock

    def routes(self) -> Sequence[Route]:
        return (get("/api/report", self.report, Report, query=ReportQuery),)

    async def report(self, request: HttpRequest[ReportQuery]) -> EncodedResponse[Report]:
        """What happened since a time (`22:00`, `12h` or a date); without folders neither git nor logs are read."""
        since_wall = parse_moment(request.input.since, self._clock.now().wall)
        return encode_response(
            await self._reports.report_since(since_wall, with_folders=request.input.folders)
        )
