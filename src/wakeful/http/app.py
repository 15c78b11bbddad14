"""Builds the HTTP application: routes, page files and API description behind the gate."""

from collections.abc import Callable, Sequence

from wakeful.agents.hub import Hub
from wakeful.alerts.mute_pause import MutePause
from wakeful.alerts.mute_pause_model import PauseRecord
from wakeful.checkpoints.service import Checkpoints
from wakeful.checkpoints.user_rules import Lessons
from wakeful.control.controller import SessionController
from wakeful.control.idempotency import IdempotentController
from wakeful.core.clock import Clock
from wakeful.healing.healer import Healer
from wakeful.healing.restore import Restorer
from wakeful.heartbeat.service import WakeService
from wakeful.http.auth import Authenticator
from wakeful.http.caller import CallerCheck
from wakeful.http.gate import FailureLimiter, Gate
from wakeful.http.openapi import OpenApiDocument
from wakeful.http.routes.agents import AgentRoutes, HeartbeatRoutes
from wakeful.http.routes.auth import LoginRoutes
from wakeful.http.routes.checkpoints import CheckpointRoutes
from wakeful.http.routes.control import ControlRoutes
from wakeful.http.routes.daemon import MonitoringRoutes
from wakeful.http.routes.events import EventRoutes, ReportRoutes
from wakeful.http.routes.healing import HealingRoutes, IncidentRoutes, ListIncidents, QueuedSessions
from wakeful.http.routes.mute import MuteRoutes
from wakeful.http.routes.sessions import CaseRoutes, RepairRoutes, SessionRoutes
from wakeful.http.routes.work import WorkRoutes
from wakeful.http.routing import Route, Router, file_route
from wakeful.http.websocket import WebSocketRoute
from wakeful.incidents.critical_log import CriticalLog
from wakeful.reports.service import ReportService
from wakeful.sessions.repair import Repairs
from wakeful.views.sessions import SessionQueries
from wakeful.web import PAGE_PATHS, page_file
from wakeful.work.service import WorkQueue


def build_app(
    queries: SessionQueries,
    work: WorkQueue,
    controllers: tuple[SessionController, IdempotentController],
    callers: CallerCheck,
    authenticator: Authenticator,
    *,
    clock: Clock,
    ancestors: Callable[[int], Sequence[int]],
    shut_down: Callable[[], None],
    mute_pause: MutePause | None = None,
    incidents: ListIncidents | None = None,
    critical: CriticalLog | None = None,
    healing: tuple[Healer, Restorer] | None = None,
    queue: QueuedSessions | None = None,
    checkpoints: tuple[Checkpoints, Lessons] | None = None,
    hub: Hub | None = None,
    wakes: WakeService | None = None,
    repairs: Repairs | None = None,
    own: MonitoringRoutes | None = None,
    reports: ReportService | None = None,
) -> Gate:
    """One ASGI application for both listeners. `ancestors` gives the parents of a pid, nearest first."""
    limiter = FailureLimiter()

    def paused() -> PauseRecord | None:
        return mute_pause.current_pause_record if mute_pause is not None else None

    described: Sequence[Route] = (
        *(own or MonitoringRoutes()).routes(),
        *SessionRoutes(queries, ancestors).routes(),
        *CaseRoutes(queries).routes(),
        *WorkRoutes(work, paused).routes(),
        *ControlRoutes(*controllers).routes(),
        *(MuteRoutes(mute_pause, clock, queries).routes() if mute_pause is not None else ()),
        *(EventRoutes(critical, clock, paused).routes() if critical is not None else ()),
        *(IncidentRoutes(incidents, paused).routes() if incidents is not None else ()),
        *(HealingRoutes(*healing, paused, queue).routes() if healing is not None else ()),
        *(AgentRoutes(hub, paused).routes() if hub is not None else ()),
        *(HeartbeatRoutes(wakes, callers).routes() if wakes is not None else ()),
        *(RepairRoutes(repairs).routes() if repairs is not None else ()),
        *(ReportRoutes(reports, clock).routes() if reports is not None else ()),
        *(CheckpointRoutes(*checkpoints, paused).routes() if checkpoints is not None else ()),
        *LoginRoutes(authenticator, limiter, clock, shut_down).routes(),
    )
    described = (*described, OpenApiDocument(described).route())
    files = [file_route(path, *page_file(path)) for path in PAGE_PATHS]
    return Gate(
        Router((*described, WebSocketRoute(queries).route(), *files)), authenticator, limiter, callers
    )
