"""Reading: status, sessions, one session, its events, waiting for it. What the desk answers is sent as it is."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Annotated, Any, Literal, TypeVar, cast

from litestar import Request
from litestar.handlers import HTTPRouteHandler, get
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import FromPath, FromQuery, QueryParameter

from wakeful.domain.findings import Health, State
from wakeful.domain.record import HealthView, SessionRecord
from wakeful.domain.why import Why
from wakeful.interfaces.http.answers import Encoded
from wakeful.interfaces.http.asgi import PEER, Receive, Scope
from wakeful.interfaces.http.problems import MEDIA_TYPE, Problem
from wakeful.interfaces.http.refusals import CallerGone
from wakeful.interfaces.http.shapes import SessionInspection, SessionList, SessionStatus, SessionWait
from wakeful.services.desk import Desk, Overview
from wakeful.services.recent_calls import CALLS_MAX, CallList
from wakeful.services.roster import LIMIT_MAX, Query
from wakeful.services.session_events import EventList

WAIT_SECONDS_MAX = 3600
EVENTS_MAX = 1000
# SQLite's integers end here.
_SEQ_MAX = 2**63 - 1

T = TypeVar("T")
_Limit = Annotated[int, QueryParameter(ge=1, le=LIMIT_MAX)]

PROBLEMS = {
    status: ResponseSpec(Problem, generate_examples=False, media_type=MEDIA_TYPE, description=text)
    for status, text in {
        400: "The request is not valid.",
        401: "No proof, or a wrong one.",
        403: "A foreign Host or Origin, or the wrong door.",
        404: "No such session or route.",
    }.items()
}


class SessionRoutes:
    """The reading half of the API."""

    def __init__(self, desk: Desk, ancestors: Callable[[int], Sequence[int]]) -> None:
        self._desk = desk
        self._ancestors = ancestors

    def handlers(self) -> list[HTTPRouteHandler]:
        one = "/api/sessions/{session_id:str}"
        table: dict[str, Callable[..., Any]] = {
            "/api/status": self.overview,
            "/api/sessions": self.sessions,
            "/api/sessions/self": self.of_caller,
            one: self.record,
            f"{one}/health": self.health,
            f"{one}/status": self.status,
            f"{one}/inspect": self.inspect,
            f"{one}/why": self.why,
            f"{one}/events": self.events,
            f"{one}/calls": self.calls,
            f"{one}/wait": self.wait,
        }
        return [_reading(path, fn) for path, fn in table.items()]

    def overview(self) -> Encoded[Overview]:
        """What the daemon says of itself, and how many sessions stand where."""
        return Encoded(self._desk.overview())

    def sessions(
        self,
        *,
        everything: Annotated[bool, QueryParameter(name="all")] = False,
        include_health: FromQuery[bool] = True,  # noqa: ARG002 - a documented parameter; a record always has its health
        health: FromQuery[Health | None] = None,
        # `state` means something else to Litestar.
        in_state: Annotated[State | None, QueryParameter(name="state")] = None,
        project: FromQuery[str | None] = None,
        limit: _Limit = LIMIT_MAX,
        cursor: FromQuery[str | None] = None,
    ) -> Encoded[SessionList]:
        """A page of sessions in order of id; sessions folded for their age with `all=true`."""
        return Encoded(self._desk.sessions(Query(everything, health, in_state, project, limit, cursor)))

    def of_caller(
        self,
        request: Request[Any, Any, Any],
        conversation: FromQuery[list[str] | None] = None,
        pid: FromQuery[list[int] | None] = None,
    ) -> Encoded[SessionRecord]:
        """The session that asks: by conversation id, else by a process it descends from."""
        pids = [*(pid or ()), *_peer_pids(cast("Scope", request.scope))]
        lineage = [each for start in pids for each in (start, *self._ancestors(start))]
        return Encoded(self._desk.of_caller(conversation or (), lineage))

    def record(self, session_id: FromPath[str]) -> Encoded[SessionRecord]:
        """The whole record of one session, by its id, its conversation id or a unique prefix of either."""
        return Encoded(self._desk.record(session_id))

    def health(self, session_id: FromPath[str]) -> Encoded[HealthView]:
        """The health of one session."""
        return Encoded(self._desk.health(session_id))

    def status(self, session_id: FromPath[str]) -> Encoded[SessionStatus]:
        """The record with supervision timers and warnings."""
        return Encoded(self._desk.status(session_id))

    def inspect(self, session_id: FromPath[str]) -> Encoded[SessionInspection]:
        """The status with the evidence and the policy it was judged by."""
        return Encoded(self._desk.inspect(session_id))

    def why(self, session_id: FromPath[str]) -> Encoded[Why]:
        """The verdict in one sentence, its evidence, the rules that fired or were held back, and what to do."""
        return Encoded(self._desk.why(session_id))

    async def events(
        self,
        session_id: FromPath[str],
        after: Annotated[int, QueryParameter(ge=0, le=_SEQ_MAX)] = 0,
        limit: Annotated[int, QueryParameter(ge=1, le=EVENTS_MAX)] = EVENTS_MAX,
    ) -> Encoded[EventList]:
        """The transitions of one session, oldest first."""
        return Encoded(await self._desk.events(session_id, after=after, limit=limit))

    async def calls(
        self, session_id: FromPath[str], limit: Annotated[int, QueryParameter(ge=1, le=CALLS_MAX)] = 50
    ) -> Encoded[CallList]:
        """The newest tool calls of one session, oldest first, redacted."""
        return Encoded(await self._desk.calls(session_id, limit=limit))

    async def wait(
        self,
        request: Request[Any, Any, Any],
        session_id: FromPath[str],
        until: FromQuery[Literal["idle", "waiting", "stopped", "prompting"]] = "idle",
        timeout: Annotated[float, QueryParameter(ge=0, le=WAIT_SECONDS_MAX)] = 600.0,  # noqa: ASYNC109 - a query parameter
    ) -> Encoded[SessionWait]:
        """Answer once the session is in this state, needs a person, died or stopped, or the time is over."""
        asking = self._desk.wait(session_id, State(until), timeout)
        return Encoded(await _unless_gone(cast("Receive", request.receive), asking))


def _reading(path: str, fn: Callable[..., Any]) -> HTTPRouteHandler:
    is_async = asyncio.iscoroutinefunction(fn)
    return get(path, responses=PROBLEMS, sync_to_thread=None if is_async else False)(fn)


def _peer_pids(scope: Scope) -> tuple[int, ...]:
    """The caller's pid at the socket; 0 is a process of a namespace we cannot see into."""
    peer = scope.get(PEER)
    return (peer.pid,) if peer is not None and peer.pid > 0 else ()


async def _unless_gone(receive: Receive, asking: Coroutine[Any, Any, T]) -> T:
    """The answer, unless whoever asked hangs up first: an hour of waiting must not outlive its caller."""
    answer = asyncio.ensure_future(asking)
    gone = asyncio.ensure_future(_hung_up(receive))
    try:
        await asyncio.wait({answer, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not answer.done():
            raise CallerGone
        return answer.result()
    finally:
        answer.cancel()
        gone.cancel()
        await asyncio.gather(answer, gone, return_exceptions=True)


async def _hung_up(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
