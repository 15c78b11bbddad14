"""Builds the HTTP application: routes, page files and API description behind the gate."""

from collections.abc import Callable, Sequence

from wakeful.agents.hub import Hub
from wakeful.alerts.mute_pause import Calm, Paused
from wakeful.checkpoints.service import Checkpoints
from wakeful.checkpoints.user_rules import Lessons
from wakeful.control.controller import Hands
from wakeful.control.idempotency import OnceHands
from wakeful.core.clock import Instant
from wakeful.healing.healer import Healer
from wakeful.healing.restore import Restorer
from wakeful.heartbeat.service import WakeService
from wakeful.http.auth import Access
from wakeful.http.caller import Deciders
from wakeful.http.gate import Gate, Penalties
from wakeful.http.openapi import Description
from wakeful.http.routes.agents import AgentRoutes, HeartbeatRoutes
from wakeful.http.routes.auth import EntryRoutes
from wakeful.http.routes.checkpoints import CheckpointRoutes
from wakeful.http.routes.control import ActRoutes
from wakeful.http.routes.daemon import OwnRoutes
from wakeful.http.routes.events import EventLog, EventRoutes, ReportRoutes
from wakeful.http.routes.healing import HealRoutes, IncidentRoutes, Listed, Queue
from wakeful.http.routes.mute import CalmRoutes
from wakeful.http.routes.sessions import CaseRoutes, RepairRoutes, SessionRoutes
from wakeful.http.routes.work import WorkRoutes
from wakeful.http.routing import Route, Router, file_route
from wakeful.http.websocket import LiveRoute
from wakeful.reports.service import Reports
from wakeful.sessions.repair import Repairs
from wakeful.views.sessions import Desk
from wakeful.web import PAGE_PATHS, page_file
from wakeful.work.service import WorkDesk


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
    described: Sequence[Route] = (
        *(own or OwnRoutes()).routes(),
        *SessionRoutes(desk, ancestors).routes(),
        *CaseRoutes(desk).routes(),
        *WorkRoutes(work, paused).routes(),
        *ActRoutes(*hands).routes(),
        *(CalmRoutes(calm, now, desk.resolve).routes() if calm is not None else ()),
        *(EventRoutes(critical, now, paused).routes() if critical is not None else ()),
        *(IncidentRoutes(incidents, paused).routes() if incidents is not None else ()),
        *(HealRoutes(*healing, paused, queue).routes() if healing is not None else ()),
        *(AgentRoutes(hub, paused).routes() if hub is not None else ()),
        *(HeartbeatRoutes(wakes, deciders).routes() if wakes is not None else ()),
        *(RepairRoutes(repairs).routes() if repairs is not None else ()),
        *(ReportRoutes(reports, now).routes() if reports is not None else ()),
        *(CheckpointRoutes(*checkpoints, paused).routes() if checkpoints is not None else ()),
        *EntryRoutes(access, penalties, now, shut_down).routes(),
    )
    described = (*described, Description(described).route())
    files = [file_route(path, *page_file(path)) for path in PAGE_PATHS]
    return Gate(Router((*described, LiveRoute(desk).route(), *files)), access, penalties, deciders)


def _paused(calm: Calm | None) -> Paused:
    return lambda: calm.paused_record if calm is not None else None
