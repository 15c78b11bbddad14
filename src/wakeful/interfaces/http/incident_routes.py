"""Incidents over HTTP. Nothing is opened or resolved here."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated

from litestar.handlers import HTTPRouteHandler, get
from litestar.params import QueryParameter

from wakeful.domain.incident import Incident
from wakeful.domain.incident_record import IncidentList, incident_list
from wakeful.interfaces.http.answers import Encoded, encoded
from wakeful.interfaces.http.session_routes import PROBLEMS
from wakeful.services.calm import Paused

Listed = Callable[[bool], Awaitable[list[Incident]]]
"""Open incidents; with True also those that are over."""


class IncidentRoutes:
    """Reading the book of incidents."""

    def __init__(self, listed: Listed, paused: Paused) -> None:
        self._listed = listed
        self._paused = paused

    def handlers(self) -> Sequence[HTTPRouteHandler]:
        return (get("/api/incidents", responses=PROBLEMS)(self.incidents),)

    async def incidents(
        self, *, everything: Annotated[bool, QueryParameter(name="all")] = False
    ) -> Encoded[IncidentList]:
        """Troubles by their cause: those that are open, with `all=true` also those that are over."""
        return encoded(incident_list(await self._listed(everything), self._paused()))
