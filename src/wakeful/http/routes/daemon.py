"""Routes for monitoring the daemon: liveness, readiness and metrics."""

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from wakeful.core.errors import WakefulError
from wakeful.http.errors import PROBLEMS
from wakeful.http.responses import TextResponse
from wakeful.http.routing import HttpRequest, Route, get
from wakeful.metrics.model import MetricSamples

if TYPE_CHECKING:
    from wakeful.http.metrics import Exposition

Readiness = Callable[[], WakefulError | None]
"""What keeps the daemon from its work now, if anything does."""

_NOT_READY: Final = PROBLEMS | {503: "Not ready; its `code` says why."}
_PLAIN: Final = "text/plain"
_UTF8: Final = "text/plain; charset=utf-8"


class MonitoringRoutes:
    """The daemon about itself. Nothing is asked for between two questions."""

    def __init__(
        self, readiness: Readiness = lambda: None, figures: Callable[[], MetricSamples] = dict
    ) -> None:
        self._readiness = readiness
        self._figures = figures
        self._exposition: Exposition | None = None

    def routes(self) -> Sequence[Route]:
        return (
            get("/healthz", self.healthz, str, problems={}, media_type=_PLAIN),
            get("/readyz", self.readyz, str, problems=_NOT_READY, media_type=_PLAIN),
            get("/metrics", self.metrics, str, media_type=_PLAIN),
        )

    async def healthz(self, _request: HttpRequest[None]) -> TextResponse:
        """Says ok, and nothing else to nobody in particular."""
        return TextResponse(b"ok", _UTF8)

    async def readyz(self, _request: HttpRequest[None]) -> TextResponse:
        """Says ready: the store takes writes, the eyes are told of changes, the first look is done."""
        trouble = self._readiness()
        if trouble is not None:
            raise trouble
        return TextResponse(b"ready", _UTF8)

    async def metrics(self, request: HttpRequest[None]) -> TextResponse:
        """Figures for Prometheus, in OpenMetrics. No session is named in them."""
        if self._exposition is None:
            # In a thread, so that a verdict need not wait for the library.
            self._exposition = await asyncio.to_thread(self._load_exposition)
        return TextResponse(*self._exposition.text(request.header(b"accept") or ""))

    def _load_exposition(self) -> "Exposition":
        from wakeful.http.metrics import Exposition  # noqa: PLC0415 - costs nobody who is not scraped

        return Exposition(self._figures)
