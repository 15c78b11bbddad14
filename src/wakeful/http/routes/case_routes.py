"""Telling Wakeful that it was wrong: the evidence is kept, nothing else changes."""

from collections.abc import Sequence

from wakeful.http.answers import Encoded
from wakeful.http.routing import Request, Route, post
from wakeful.http.shapes import WrongReport
from wakeful.replay.cases import KeptCase
from wakeful.views.desk import Desk


class CaseRoutes:
    """Reports about verdicts."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def routes(self) -> Sequence[Route]:
        return (post("/api/sessions/{session_id}/wrong", self.wrong, KeptCase, body=WrongReport, status=201),)

    async def wrong(self, request: Request[WrongReport]) -> Encoded[KeptCase]:
        """Keep the evidence of a verdict that was wrong as a labelled case for `wakeful replay`."""
        return Encoded(await self._desk.wrong(request.id, request.input.expect, request.input.note))
