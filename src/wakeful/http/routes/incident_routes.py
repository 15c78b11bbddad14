"""Incidents over HTTP. Nothing is opened or resolved here."""

from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct, field

from wakeful.alerts.mute_pause import Paused
from wakeful.http.answers import Encoded, encoded
from wakeful.http.routing import Request, Route, get
from wakeful.incidents.incident import Incident
from wakeful.views.incidents import IncidentList, incident_list

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
