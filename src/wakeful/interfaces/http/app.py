"""The application behind the gate: routes, page files, API description. Joined here, decided elsewhere."""

from collections.abc import Callable, Sequence

from wakeful.domain.moment import Instant
from wakeful.interfaces.http.access import Access
from wakeful.interfaces.http.act_routes import ActRoutes
from wakeful.interfaces.http.agent_routes import AgentRoutes
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
from wakeful.interfaces.http.openapi import Description
from wakeful.interfaces.http.own_routes import OwnRoutes
from wakeful.interfaces.http.penalties import Penalties
from wakeful.interfaces.http.repair_routes import RepairRoutes
from wakeful.interfaces.http.report_routes import ReportRoutes
from wakeful.interfaces.http.routing import Route, Router, file_route
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
