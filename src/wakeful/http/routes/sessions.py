"""Routes to read sessions and wait for them, to report a wrong verdict, and to repair a stored record.

Query answers are sent as `views` encoded them. Reporting a wrong verdict stores the evidence and changes nothing else.
A repair needs a person.
"""

from collections.abc import Callable, Sequence
from typing import Annotated, Literal, NoReturn

from msgspec import Meta, Struct, field

from wakeful.core.waiting import first_of
from wakeful.http.asgi import PEER, Receive
from wakeful.http.errors import CallerDisconnected
from wakeful.http.responses import (
    EncodedResponse,
    SessionInspection,
    SessionStatus,
    SessionWait,
    WrongVerdictReport,
    encode_response,
)
from wakeful.http.routing import HttpRequest, Route, get, post
from wakeful.judging.explanation import Explanation
from wakeful.judging.findings import Health, State
from wakeful.judging.session_record import HealthView, SessionRecord
from wakeful.replay.cases import SavedCase
from wakeful.sessions.registry import LIMIT_MAX, Query
from wakeful.sessions.repair import Repair, Repairs
from wakeful.views.calls import CALLS_MAX
from wakeful.views.conversation import MESSAGES_MAX
from wakeful.views.records import (
    CallList,
    ConversationPart,
    EventList,
    Overview,
    SessionList,
    SessionMatchList,
)
from wakeful.views.sessions import SessionQueries
from wakeful.views.timeline import HOURS_MAX, FleetTimeline

WAIT_SECONDS_MAX = 3600
EVENTS_MAX = 1000
# The largest integer of SQLite.
_SEQ_MAX = 2**63 - 1


class SessionQuery(Struct, frozen=True):
    everything: bool = field(default=False, name="all")
    # A documented parameter; a record always has its health.
    include_health: bool = True
    health: Health | None = None
    state: State | None = None
    project: str | None = None
    limit: Annotated[int, Meta(ge=1, le=LIMIT_MAX)] = LIMIT_MAX
    cursor: str | None = None


class NameQuery(Struct, frozen=True):
    name: Annotated[str, Meta(min_length=1, max_length=200)]


class CallerQuery(Struct, frozen=True):
    conversation: list[str] | None = None
    pid: list[int] | None = None


class EventQuery(Struct, frozen=True):
    after: Annotated[int, Meta(ge=0, le=_SEQ_MAX)] = 0
    limit: Annotated[int, Meta(ge=1, le=EVENTS_MAX)] = EVENTS_MAX


class CallQuery(Struct, frozen=True):
    limit: Annotated[int, Meta(ge=1, le=CALLS_MAX)] = 50


class MessageQuery(Struct, frozen=True):
    after: Annotated[str, Meta(pattern=r"\A(?:[0-9]{1,20}-[0-9]{1,18})?\Z")] = ""
    limit: Annotated[int, Meta(ge=1, le=MESSAGES_MAX)] = 50


class TimelineQuery(Struct, frozen=True):
    hours: Annotated[int, Meta(ge=1, le=HOURS_MAX)] = 24


class WaitQuery(Struct, frozen=True):
    until: Literal["idle", "waiting", "stopped", "prompting"] = "idle"
    timeout: Annotated[float, Meta(ge=0, le=WAIT_SECONDS_MAX)] = 600.0


class SessionRoutes:
    def __init__(self, queries: SessionQueries, ancestors: Callable[[int], Sequence[int]]) -> None:
        self._queries = queries
        self._ancestors = ancestors

    def routes(self) -> Sequence[Route]:
        one = "/api/sessions/{session_id}"
        return (
            get("/api/status", self.overview, Overview),
            get("/api/sessions", self.sessions, SessionList, query=SessionQuery),
            get("/api/sessions/self", self.of_caller, SessionRecord, query=CallerQuery),
            get("/api/timeline", self.timeline, FleetTimeline, query=TimelineQuery),
            get("/api/find", self.find, SessionMatchList, query=NameQuery),
            get(one, self.record, SessionRecord),
            get(f"{one}/health", self.health, HealthView),
            get(f"{one}/status", self.status, SessionStatus),
            get(f"{one}/inspect", self.inspect, SessionInspection),
            get(f"{one}/why", self.why, Explanation),
            get(f"{one}/events", self.events, EventList, query=EventQuery),
            get(f"{one}/calls", self.calls, CallList, query=CallQuery),
            get(f"{one}/messages", self.messages, ConversationPart, query=MessageQuery),
            get(f"{one}/wait", self.wait, SessionWait, query=WaitQuery),
        )

    async def overview(self, _request: HttpRequest[None]) -> EncodedResponse[Overview]:
        """The daemon's own state, and the number of sessions in each state."""
        return EncodedResponse(self._queries.overview())

    async def sessions(self, request: HttpRequest[SessionQuery]) -> EncodedResponse[SessionList]:
        """A page of sessions in order of id; with `all=true` also those folded for their age."""
        given = request.input
        query = Query(given.everything, given.health, given.state, given.project, given.limit, given.cursor)
        return EncodedResponse(self._queries.sessions(query))

    async def of_caller(self, request: HttpRequest[CallerQuery]) -> EncodedResponse[SessionRecord]:
        """The caller's own session: by conversation id, else by a process it descends from."""
        pids = list(request.input.pid or ())
        peer = request.scope.get(PEER)
        # At the socket, pid 0 is a process of a namespace that this one cannot see.
        if peer is not None and peer.pid > 0:
            pids.append(peer.pid)
        lineage = [each for start in pids for each in (start, *self._ancestors(start))]
        return EncodedResponse(self._queries.of_caller(request.input.conversation or (), lineage))

    async def find(self, request: HttpRequest[NameQuery]) -> EncodedResponse[SessionMatchList]:
        """The sessions that a name stands for: a name, agent, tmux session, id, project, or a part of one."""
        return EncodedResponse(self._queries.find(request.input.name))

    async def timeline(self, request: HttpRequest[TimelineQuery]) -> EncodedResponse[FleetTimeline]:
        """What every session did in the last hours, from the stored changes."""
        return EncodedResponse(await self._queries.timeline(request.input.hours))

    async def record(self, request: HttpRequest[None]) -> EncodedResponse[SessionRecord]:
        """The whole record of one session, by its id, its conversation id or a unique prefix of either."""
        return EncodedResponse(self._queries.record(request.id))

    async def health(self, request: HttpRequest[None]) -> EncodedResponse[HealthView]:
        return EncodedResponse(self._queries.health(request.id))

    async def status(self, request: HttpRequest[None]) -> EncodedResponse[SessionStatus]:
        """The record with supervision timers and warnings."""
        return EncodedResponse(self._queries.status(request.id))

    async def inspect(self, request: HttpRequest[None]) -> EncodedResponse[SessionInspection]:
        """The status with the evidence and the policy it was judged by."""
        return EncodedResponse(self._queries.inspect(request.id))

    async def why(self, request: HttpRequest[None]) -> EncodedResponse[Explanation]:
        """The verdict in one sentence, its evidence, the rules that fired or were suppressed, and what to do."""
        return EncodedResponse(self._queries.why(request.id))

    async def events(self, request: HttpRequest[EventQuery]) -> EncodedResponse[EventList]:
        given = request.input
        return EncodedResponse(await self._queries.events(request.id, after=given.after, limit=given.limit))

    async def calls(self, request: HttpRequest[CallQuery]) -> EncodedResponse[CallList]:
        """The newest tool calls of one session, oldest first, redacted."""
        return EncodedResponse(await self._queries.calls(request.id, limit=request.input.limit))

    async def messages(self, request: HttpRequest[MessageQuery]) -> EncodedResponse[ConversationPart]:
        """The newest texts and calls of one session, oldest first, redacted; with `after`, those since a cursor."""
        given = request.input
        return EncodedResponse(await self._queries.messages(request.id, after=given.after, limit=given.limit))

    async def wait(self, request: HttpRequest[WaitQuery]) -> EncodedResponse[SessionWait]:
        """Answer once the session is in this state, needs a person, died or stopped, or the time is over."""
        waiting = self._queries.wait(request.id, State(request.input.until), request.input.timeout)
        return EncodedResponse(await first_of(waiting, _raise_at_disconnect(request.receive)))


async def _raise_at_disconnect(receive: Receive) -> NoReturn:
    """An hour of waiting must not outlive its caller. Raises CallerDisconnected."""
    while (await receive())["type"] != "http.disconnect":
        pass
    raise CallerDisconnected


class CaseRoutes:
    def __init__(self, queries: SessionQueries) -> None:
        self._queries = queries

    def routes(self) -> Sequence[Route]:
        return (
            post(
                "/api/sessions/{session_id}/wrong", self.wrong, SavedCase, body=WrongVerdictReport, status=201
            ),
        )

    async def wrong(self, request: HttpRequest[WrongVerdictReport]) -> EncodedResponse[SavedCase]:
        """Save the evidence of a wrong verdict as a labelled case for `wakeful replay`."""
        return EncodedResponse(
            await self._queries.report_wrong(request.id, request.input.expect, request.input.note)
        )


class RepairOrder(Struct, frozen=True, forbid_unknown_fields=True):
    """`dry_run`: only report what a repair would change."""

    dry_run: bool = False


class RepairRoutes:
    def __init__(self, repairs: Repairs) -> None:
        self._repairs = repairs

    def routes(self) -> Sequence[Route]:
        return (post("/api/sessions/{session_id}/repair", self.repair, Repair, body=RepairOrder),)

    async def repair(self, request: HttpRequest[RepairOrder]) -> EncodedResponse[Repair]:
        """Repair the stored record of a session by the evidence of now; decisions about waking it stay."""
        return encode_response(await self._repairs.repair(request.id, dry_run=request.input.dry_run))
