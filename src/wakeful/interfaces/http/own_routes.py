"""What the daemon shows of itself to whoever watches the watcher: alive, ready, and its figures."""

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from litestar import MediaType, Request, Response
from litestar.handlers import HTTPRouteHandler, get
from litestar.openapi.datastructures import ResponseSpec

from wakeful.domain.errors import WakefulError
from wakeful.domain.figures import Figures
from wakeful.interfaces.http.problems import MEDIA_TYPE, Problem
from wakeful.interfaces.http.session_routes import PROBLEMS

if TYPE_CHECKING:
    from wakeful.interfaces.http.exposition import Exposition

Readiness = Callable[[], WakefulError | None]
"""What keeps the daemon from its work now, if anything does."""

_UNREADY = {
    503: ResponseSpec(
        Problem, generate_examples=False, media_type=MEDIA_TYPE, description="Not ready; its `code` says why."
    )
}


class OwnRoutes:
    """The daemon about itself. Nothing is asked for between two questions."""

    def __init__(self, readiness: Readiness = lambda: None, figures: Callable[[], Figures] = dict) -> None:
        self._readiness = readiness
        self._figures = figures
        self._exposition: Exposition | None = None

    def handlers(self) -> Sequence[HTTPRouteHandler]:
        return (
            get("/healthz", media_type=MediaType.TEXT, sync_to_thread=False)(self.healthz),
            get("/readyz", media_type=MediaType.TEXT, sync_to_thread=False, responses=PROBLEMS | _UNREADY)(
                self.readyz
            ),
            get("/metrics", media_type=MediaType.TEXT, responses=PROBLEMS)(self.metrics),
        )

    def healthz(self) -> str:
        """Says ok, and nothing else to nobody in particular."""
        return "ok"

    def readyz(self) -> str:
        """Says ready: the store takes writes, the eyes are told of changes, the first look is done."""
        trouble = self._readiness()
        if trouble is not None:
            raise trouble
        return "ready"

    async def metrics(self, request: Request[Any, Any, Any]) -> Response[bytes]:
        """Figures for Prometheus, in OpenMetrics. No session is named in them."""
        if self._exposition is None:
            # In a thread, so that a verdict need not wait for the library.
            self._exposition = await asyncio.to_thread(self._open)
        body, media_type = self._exposition.text(request.headers.get("accept", ""))
        return Response(body, media_type=media_type)

    def _open(self) -> "Exposition":
        from wakeful.interfaces.http.exposition import Exposition  # noqa: PLC0415 - costs nobody who is not scraped

        return Exposition(self._figures)
