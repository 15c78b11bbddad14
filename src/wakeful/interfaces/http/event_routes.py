"""Critical events as programs read them. The log is somebody else's: nothing is written or archived here."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Protocol

from litestar.handlers import HTTPRouteHandler, get
from litestar.params import FromQuery, QueryParameter
from msgspec import Struct

from wakeful.domain.moment import Instant
from wakeful.interfaces.http.answers import Encoded, encoded
from wakeful.interfaces.http.session_routes import PROBLEMS
from wakeful.interfaces.since import wall_at

EVENTS_MAX: Final = 10_000


class EventLog(Protocol):
    """Where events are read; the log of critical events is one."""

    path: Path

    def recent(self, since_wall: float) -> list[dict[str, Any]]:
        """Every event since that time, oldest first. Blocks."""


class CriticalEventList(Struct, frozen=True):
    """Events in 000's shape, oldest first. `left_out` older ones did not fit; `path` is the log."""

    path: str
    events: list[dict[str, Any]]
    left_out: int


def newest(log: EventLog, since_wall: float, limit: int) -> CriticalEventList:
    """What a door shows of the log."""
    events = log.recent(since_wall)
    return CriticalEventList(str(log.path), events[-limit:], max(0, len(events) - limit))


class EventRoutes:
    """Reading the log."""

    def __init__(self, log: EventLog, now: Callable[[], Instant]) -> None:
        self._log = log
        self._now = now

    def handlers(self) -> Sequence[HTTPRouteHandler]:
        return (get("/api/events", responses=PROBLEMS)(self.events),)

    async def events(
        self,
        since: FromQuery[str] = "24h",
        limit: Annotated[int, QueryParameter(ge=1, le=EVENTS_MAX)] = 1000,
    ) -> Encoded[CriticalEventList]:
        """The newest critical events since a moment: how long ago (`24h`) or a time."""
        since_wall = wall_at(since, self._now().wall)
        return encoded(await asyncio.to_thread(newest, self._log, since_wall, limit))
