"""Incidents over HTTP. Nothing is opened or resolved here."""

from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct, field

from wakeful.domain.incident import Incident
from wakeful.domain.incident_record import IncidentList, incident_list
from wakeful.interfaces.http.answers import Encoded, encoded
from wakeful.interfaces.http.routing import Request, Route, get
from wakeful.services.calm import Paused

Listed = Callable[[bool], Awaitable[list[Incident]]]
"""Open incidents; with True also those that are over."""


class IncidentQuery(Struct, frozen=True):
    everything: bool = field(default=False, name="all")


class IncidentRoutes:
    """Reading the book of incidents."""

    def __init__(self, listed: Listed, paused: Paused) -> None:
        self._listed = listed
        self._paused = paused

    def routes(self) -> Sequence[Route]:
        return (get("/api/incidents", self.incidents, IncidentList, query=IncidentQuery),)

    async def incidents(self, request: Request[IncidentQuery]) -> Encoded[IncidentList]:
        """Troubles by their cause: those that are open, with `all=true` also those that are over."""
        return encoded(incident_list(await self._listed(request.input.everything), self._paused()))
