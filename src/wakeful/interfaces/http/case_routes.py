"""Telling Wakeful that it was wrong: the evidence is kept, nothing else changes."""

from collections.abc import Sequence

from litestar.handlers import HTTPRouteHandler, post
from litestar.params import FromPath, JSONBody

from wakeful.interfaces.http.answers import Encoded
from wakeful.interfaces.http.session_routes import PROBLEMS
from wakeful.interfaces.http.shapes import WrongReport
from wakeful.services.cases import KeptCase
from wakeful.services.desk import Desk


class CaseRoutes:
    """Reports about verdicts."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def handlers(self) -> Sequence[HTTPRouteHandler]:
        return (post("/api/sessions/{session_id:str}/wrong", responses=PROBLEMS)(self.wrong),)

    async def wrong(self, session_id: FromPath[str], data: JSONBody[WrongReport]) -> Encoded[KeptCase]:
        """Keep the evidence of a verdict that was wrong as a labelled case for `wakeful replay`."""
        return Encoded(await self._desk.wrong(session_id, data.expect, data.note), status_code=201)
