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
"""Why the daemon is not ready; None if it is."""

_NOT_READY: Final = PROBLEMS | {503: "Not ready; its `code` says why."}
_PLAIN: Final = "text/plain"
_UTF8: Final = "text/plain; charset=utf-8"


class MonitoringRoutes:
    """Liveness, readiness and metrics, all computed per request."""

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
        """Answers ok, without any proof of the caller."""
        return TextResponse(b"ok", _UTF8)

    async def readyz(self, _request: HttpRequest[None]) -> TextResponse:
        """Answers ready: the store takes writes, log sources get changes, the first scan is done."""
        problem = self._readiness()
        if problem is not None:
            raise problem
        return TextResponse(b"ready", _UTF8)

    async def metrics(self, request: HttpRequest[None]) -> TextResponse:
        """Metrics for Prometheus, in OpenMetrics. They name no session."""
        if self._exposition is None:
            # In a thread, so that no verdict waits for the library.
            self._exposition = await asyncio.to_thread(_load_exposition, self._figures)
        return TextResponse(*self._exposition.text(request.header(b"accept") or ""))


def _load_exposition(figures: Callable[[], MetricSamples]) -> "Exposition":
    from wakeful.http.metrics import Exposition  # noqa: PLC0415 - only a scraped daemon pays for it

    return Exposition(figures)
