"""Routes for critical events and for the morning report. A report is made for each request and not kept."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Protocol

from msgspec import Meta, Struct

from wakeful.alerts.mute_pause import PauseQuery
from wakeful.alerts.mute_pause_model import PauseRecord
from wakeful.core.clock import Instant
from wakeful.http.responses import EncodedResponse, encode_response
from wakeful.http.routing import HttpRequest, Route, get, post
from wakeful.reports.model import Report
from wakeful.reports.service import ReportService
from wakeful.reports.text import parse_moment
from wakeful.views.records import ArchiveAnswer, CriticalEventList

EVENTS_MAX: Final = 10_000


class CriticalEventReader(Protocol):
    """Where events are read; the log of critical events is one."""

    path: Path

    def recent(self, since_wall: float) -> list[dict[str, Any]]:
        """Every event since that time, oldest first. Blocks."""

    def archive(self, before_wall: float) -> int:
        """Move what is older to the gzip of its day; how many lines. Blocks."""


class CriticalEventQuery(Struct, frozen=True):
    since: str = "24h"
    limit: Annotated[int, Meta(ge=1, le=EVENTS_MAX)] = 1000


class ArchiveOrder(Struct, frozen=True, forbid_unknown_fields=True):
    """`before`: how long ago (`7d`) or a time."""

    before: Annotated[str, Meta(max_length=100)]


def newest_events(
    log: CriticalEventReader, since_wall: float, limit: int, paused: PauseRecord | None
) -> CriticalEventList:
    """What a door shows of the log."""
    events = log.recent(since_wall)
    return CriticalEventList(str(log.path), events[-limit:], max(0, len(events) - limit), paused)


class EventRoutes:
    """Reading the log. What an agent did must stay to be read: archiving is a person's decision."""

    def __init__(self, log: CriticalEventReader, now: Callable[[], Instant], paused: PauseQuery) -> None:
        self._log = log
        self._now = now
        self._get_pause = paused

    def routes(self) -> Sequence[Route]:
        return (
            get("/api/events", self.events, CriticalEventList, query=CriticalEventQuery),
            post("/api/events/archive", self.archive, ArchiveAnswer, body=ArchiveOrder),
        )

    async def archive(self, request: HttpRequest[ArchiveOrder]) -> EncodedResponse[ArchiveAnswer]:
        """Move older events to the gzip of their day, beside the log. A person's decision."""
        before_wall = parse_moment(request.input.before, self._now().wall)
        count = await asyncio.to_thread(self._log.archive, before_wall)
        return encode_response(ArchiveAnswer(count, str(self._log.path)))

    async def events(self, request: HttpRequest[CriticalEventQuery]) -> EncodedResponse[CriticalEventList]:
        """The newest critical events since a moment: how long ago (`24h`) or a time."""
        since_wall = parse_moment(request.input.since, self._now().wall)
        limit = request.input.limit
        return encode_response(
            await asyncio.to_thread(newest_events, self._log, since_wall, limit, self._get_pause())
        )


class ReportQuery(Struct, frozen=True):
    since: Annotated[str, Meta(max_length=100)] = "12h"
    folders: bool = True


class ReportRoutes:
    """Reading only, git included."""

    def __init__(self, reports: ReportService, now: Callable[[], Instant]) -> None:
        self._reports = reports
        self._now = now

    def routes(self) -> Sequence[Route]:
        return (get("/api/report", self.report, Report, query=ReportQuery),)

    async def report(self, request: HttpRequest[ReportQuery]) -> EncodedResponse[Report]:
        """What happened since a moment (`22:00`, `12h` or a time); without folders neither git nor logs are read."""
        since_wall = parse_moment(request.input.since, self._now().wall)
        return encode_response(
            await self._reports.report_since(since_wall, with_folders=request.input.folders)
        )
