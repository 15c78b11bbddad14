"""The application behind the gate: routes, page files, API description. Joined here, decided elsewhere."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, cast

import msgspec
from litestar import Litestar, Response
from litestar.exceptions import HTTPException
from litestar.handlers import HTTPRouteHandler, get
from litestar.openapi import OpenAPIConfig
from litestar.types import ControllerRouterHandler

from wakeful import __version__
from wakeful.domain.errors import WakefulError
from wakeful.domain.moment import Instant
from wakeful.interfaces.http.access import Access
from wakeful.interfaces.http.act_routes import ActRoutes
from wakeful.interfaces.http.agent_routes import AgentRoutes
from wakeful.interfaces.http.asgi import App
from wakeful.interfaces.http.calm_routes import CalmRoutes
from wakeful.interfaces.http.case_routes import CaseRoutes
from wakeful.interfaces.http.checkpoint_routes import CheckpointRoutes
from wakeful.interfaces.http.deciders import Deciders
from wakeful.interfaces.http.entry_routes import EntryRoutes
from wakeful.interfaces.http.event_routes import EventLog, EventRoutes
from wakeful.interfaces.http.gate import Gate
from wakeful.interfaces.http.heal_routes import HealRoutes, Queue
from wakeful.interfaces.http.heartbeat_routes import HeartbeatRoutes
from wakeful.interfaces.http.incident_routes import IncidentRoutes, Listed
from wakeful.interfaces.http.live import LiveRoute
from wakeful.interfaces.http.own_routes import OwnRoutes
from wakeful.interfaces.http.penalties import Penalties
from wakeful.interfaces.http.problems import answer_error
from wakeful.interfaces.http.queries import refuse_unknown
from wakeful.interfaces.http.repair_routes import RepairRoutes
from wakeful.interfaces.http.report_routes import ReportRoutes
from wakeful.interfaces.http.session_routes import SessionRoutes
from wakeful.interfaces.http.work_routes import WorkRoutes
from wakeful.interfaces.page import PAGE_PATHS, page_file
from wakeful.services.calm import Calm, Paused
from wakeful.services.checkpoints import Checkpoints
from wakeful.services.desk import Desk
from wakeful.services.hands import Hands
from wakeful.services.healing import Healer
from wakeful.services.hub import Hub
from wakeful.services.lessons import Lessons
from wakeful.services.once import OnceHands
from wakeful.services.repair import Repairs
from wakeful.services.reports import Reports
from wakeful.services.restoring import Restorer
from wakeful.services.wake import WakeService
from wakeful.services.work import WorkDesk


def build_app(
    desk: Desk,
    work: WorkDesk,
    hands: tuple[Hands, OnceHands],
    deciders: Deciders,
    access: Access,
    *,
    now: Callable[[], Instant],
    ancestors: Callable[[int], Sequence[int]],
    shut_down: Callable[[], None],
    calm: Calm | None = None,
    incidents: Listed | None = None,
    critical: EventLog | None = None,
    healing: tuple[Healer, Restorer] | None = None,
    queue: Queue | None = None,
    checkpoints: tuple[Checkpoints, Lessons] | None = None,
    hub: Hub | None = None,
    wakes: WakeService | None = None,
    repairs: Repairs | None = None,
    own: OwnRoutes | None = None,
    reports: Reports | None = None,
) -> Gate:
    """One ASGI application for both doors. `ancestors` gives the parents of a pid, nearest first."""
    penalties, paused = Penalties(), _paused(calm)
    described: Sequence[HTTPRouteHandler] = (
        *(own or OwnRoutes()).handlers(),
        *SessionRoutes(desk, ancestors).handlers(),
        *CaseRoutes(desk).handlers(),
        *WorkRoutes(work, paused).handlers(),
        *ActRoutes(*hands).handlers(),
        *(CalmRoutes(calm, now, desk.resolve).handlers() if calm is not None else ()),
        *(EventRoutes(critical, now, paused).handlers() if critical is not None else ()),
        *(IncidentRoutes(incidents, paused).handlers() if incidents is not None else ()),
        *(HealRoutes(*healing, paused, queue).handlers() if healing is not None else ()),
        *(AgentRoutes(hub, paused).handlers() if hub is not None else ()),
        *(HeartbeatRoutes(wakes, deciders).handlers() if wakes is not None else ()),
        *(RepairRoutes(repairs).handlers() if repairs is not None else ()),
        *(ReportRoutes(reports, now).handlers() if reports is not None else ()),
        *(CheckpointRoutes(*checkpoints, paused).handlers() if checkpoints is not None else ()),
        *EntryRoutes(access, penalties, now, shut_down).handlers(),
    )
    handlers: list[ControllerRouterHandler] = [*described, LiveRoute(desk).handler()]
    handlers += [_page_route(path) for path in PAGE_PATHS]
    handlers.append(_Description(described).handler())
    return Gate(cast("App", routed(handlers)), access, penalties, deciders)


def routed(handlers: Sequence[ControllerRouterHandler], openapi: OpenAPIConfig | None = None) -> Litestar:
    """The bare application, without the gate."""
    return Litestar(
        list(handlers),
        before_request=refuse_unknown,
        exception_handlers={
            WakefulError: answer_error,
            HTTPException: answer_error,
            Exception: answer_error,
        },
        openapi_config=openapi,
        logging_config=None,
        debug=False,
    )


def _paused(calm: Calm | None) -> Paused:
    return lambda: calm.paused_record if calm is not None else None


def _page_route(path: str) -> HTTPRouteHandler:
    body, media_type = page_file(path)

    @get(path, include_in_schema=False, sync_to_thread=False)
    def file() -> Response[bytes]:
        return Response(body, media_type=media_type)

    return file


class _Description:
    """The OpenAPI document, generated when somebody first asks: it takes a tenth of a second."""

    def __init__(self, handlers: Sequence[HTTPRouteHandler]) -> None:
        self._handlers = handlers
        self._body: bytes | None = None

    def handler(self) -> HTTPRouteHandler:
        return get("/api/openapi.json")(self.openapi)

    async def openapi(self) -> Response[bytes]:
        """This document."""
        if self._body is None:
            # In a thread, so that a verdict need not wait for it.
            self._body = await asyncio.to_thread(self._generate)
        return Response(self._body, media_type="application/vnd.oai.openapi+json")

    def _generate(self) -> bytes:
        config = OpenAPIConfig(
            title="Wakeful",
            version=__version__,
            summary="The truth about every agent session on this machine.",
            description=(
                "Errors are RFC 9457 problem documents. `/api/ws` is a WebSocket: it sends "
                '`{"hello": …}` with the body of `/api/status`, then `{"changes": […]}` as sessions change '
                'and `{"agent": …}` as agents do, and `{"supervision": …}` as timers of prompts speak. '
                "It says hello again when a pause begins or ends."
            ),
        )
        handlers: list[ControllerRouterHandler] = [*self._handlers, self.handler()]
        schema: dict[str, Any] = routed(handlers, config).openapi_schema.to_schema()
        return msgspec.json.encode(schema)
