"""Routes for monitoring the daemon: liveness, readiness and metrics."""

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from wakeful.core.errors import WakefulError
from wakeful.http.errors import PROBLEMS
from wakeful.http.responses import Text
from wakeful.http.routing import Request, Route, get
from wakeful.metrics.model import Figures

if TYPE_CHECKING:
    from wakeful.http.metrics import Exposition

Readiness = Callable[[], WakefulError | None]
"""What keeps the daemon from its work now, if anything does."""

_UNREADY: Final = PROBLEMS | {503: "Not ready; its `code` says why."}
_PLAIN: Final = "text/plain"
_UTF8: Final = "text/plain; charset=utf-8"


class OwnRoutes:
    """The daemon about itself. Nothing is asked for between two questions."""

    def __init__(self, readiness: Readiness = lambda: None, figures: Callable[[], Figures] = dict) -> None:
        self._readiness = readiness
        self._figures = figures
        self._exposition: Exposition | None = None

    def routes(self) -> Sequence[Route]:
        return (
            get("/healthz", self.healthz, str, problems={}, media_type=_PLAIN),
            get("/readyz", self.readyz, str, problems=_UNREADY, media_type=_PLAIN),
            get("/metrics", self.metrics, str, media_type=_PLAIN),
        )

    async def healthz(self, _request: Request[None]) -> Text:
        """Says ok, and nothing else to nobody in particular."""
        return Text(b"ok", _UTF8)

    async def readyz(self, _request: Request[None]) -> Text:
        """Says ready: the store takes writes, the eyes are told of changes, the first look is done."""
        trouble = self._readiness()
        if trouble is not None:
            raise trouble
        return Text(b"ready", _UTF8)

    async def metrics(self, request: Request[None]) -> Text:
        """Figures for Prometheus, in OpenMetrics. No session is named in them."""
        if self._exposition is None:
            # In a thread, so that a verdict need not wait for the library.
            self._exposition = await asyncio.to_thread(self._open)
        return Text(*self._exposition.text(request.header(b"accept") or ""))

    def _open(self) -> "Exposition":
        from wakeful.http.metrics import Exposition  # noqa: PLC0415 - costs nobody who is not scraped

        return Exposition(self._figures)
