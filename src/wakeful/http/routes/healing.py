"""Routes to bring sessions back on a person's order, and to list incidents."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Protocol

from msgspec import Meta, Struct, field

from wakeful.alerts.mute_pause import PauseQuery
from wakeful.alerts.mute_pause_model import PauseRecord
from wakeful.control.gate import ActionKind, ActionRecord
from wakeful.control.ownership import NotManaged
from wakeful.core.errors import SessionNotFound, WorldError
from wakeful.core.ids import parse_session_id
from wakeful.healing.healer import Healer
from wakeful.healing.restore import LostSession, Restorer
from wakeful.http.responses import EncodedResponse, encode_response
from wakeful.http.routes.control import CONFLICTS, action_response
from wakeful.http.routes.mute import UNNAMED_OPERATOR
from wakeful.http.routing import HttpRequest, Route, get, post
from wakeful.incidents.model import Incident
from wakeful.storage.base import ActionOutcome
from wakeful.views.incidents import IncidentList, incident_list


class QueuedSessionHeld(WorldError):
    """{shown} belongs to a queue, and {waits}. A person's yes revives it: wakeful session revive {shown} --yes"""

    code = "held-in-queue"
    exit_code = 1
    http_status = 409


class QueuedSessions(Protocol):
    """Sessions that somebody else's queue runs."""

    async def release(self, session_id: str, by: str) -> str | None:
        """Let one that is held go on, by whose word; what was done, or None if it runs none of that name."""

    async def waits(self, session_id: str) -> str | None:
        """What it waits for, in words; empty if for nothing, None if it runs none of that name."""


class ReviveOrder(Struct, frozen=True, forbid_unknown_fields=True):
    """`approved`: a person has looked at the calls that were cut off and says that it may go on.

    `by_gateway`: the chat gateway proposes it by itself, so what holds for Wakeful's own actions holds for it.
    """

    approved: bool = False
    by_gateway: bool = False
    by: Annotated[str, Meta(max_length=300)] = UNNAMED_OPERATOR


class LostSessionList(Struct, frozen=True):
    """What a reboot or a dead tmux server took along, by name; `paused` says who stopped everything, if somebody did."""

    lost: tuple[LostSession, ...]
    paused: PauseRecord | None


class HealingRoutes:
    """Decisions of people: refused to whoever works inside a supervised session."""

    def __init__(
        self,
        healer: Healer,
        restorer: Restorer,
        paused: PauseQuery,
        queue: QueuedSessions | None = None,
    ) -> None:
        self._healer = healer
        self._restorer = restorer
        self._get_pause = paused
        self._queue = queue

    def routes(self) -> Sequence[Route]:
        one = "/api/sessions/{session_id}"
        return (
            get("/api/lost", self.lost, LostSessionList),
            post(f"{one}/revive", self.revive, ActionRecord, body=ReviveOrder, problems=CONFLICTS),
            post(f"{one}/restore", self.restore, ActionRecord, problems=CONFLICTS),
        )

    async def revive(self, request: HttpRequest[ReviveOrder]) -> EncodedResponse[ActionRecord]:
        """Bring a managed session in trouble back now. A person's decision."""
        session_id, order = request.id, request.input
        if order.by_gateway:
            return action_response(await self._healer.propose(session_id))
        try:
            return action_response(
                await self._healer.revive(session_id, approved=order.approved, by=order.by)
            )
        except (SessionNotFound, NotManaged):
            # Sessions of a queue are not ours to hold, but they wait for a person's yes as well.
            words = await self._release_queued(session_id, order.by, approved=order.approved)
            if words is None:
                raise
            record = ActionRecord(
                session_id, ActionKind.RESUME, parse_session_id(session_id), ActionOutcome.UNVERIFIED, words
            )
            return action_response(record)

    async def _release_queued(self, session_id: str, by: str, *, approved: bool) -> str | None:
        if self._queue is None:
            return None
        known = parse_session_id(session_id)
        if approved:
            return await self._queue.release(known, by)
        waits = await self._queue.waits(known)
        if waits is not None:
            raise QueuedSessionHeld(shown=known, waits=f"is held: {waits}" if waits else "waits for nobody")
        return None

    async def lost(self, _request: HttpRequest[None]) -> EncodedResponse[LostSessionList]:
        """Sessions that a reboot or a dead tmux server took along, and which of them can be brought back."""
        return encode_response(LostSessionList(tuple(self._restorer.list_lost()), self._get_pause()))

    async def restore(self, request: HttpRequest[None]) -> EncodedResponse[ActionRecord]:
        """Bring one of them back, managed from then on. A person's decision."""
        return action_response(await self._restorer.resume(request.id))


ListIncidents = Callable[[bool], Awaitable[list[Incident]]]
"""Open incidents; with True also those that are over."""


class IncidentQuery(Struct, frozen=True):
    everything: bool = field(default=False, name="all")


class IncidentRoutes:
    """Reading the book of incidents."""

    def __init__(self, listed: ListIncidents, paused: PauseQuery) -> None:
        self._list_incidents = listed
        self._get_pause = paused

    def routes(self) -> Sequence[Route]:
        return (get("/api/incidents", self.incidents, IncidentList, query=IncidentQuery),)

    async def incidents(self, request: HttpRequest[IncidentQuery]) -> EncodedResponse[IncidentList]:
        """Troubles by their cause: those that are open, with `all=true` also those that are over."""
        return encode_response(
            incident_list(await self._list_incidents(request.input.everything), self._get_pause())
        )
