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


class QueuedSessionHeld(WorldError, code="held-in-queue", http_status=409, exit_code=1):
    """{shown} belongs to a queue, and {waits}. To approve it: wakeful resume {shown} --yes"""


class QueuedSessions(Protocol):
    """Sessions that another program's queue runs."""

    async def release(self, session_id: str, by: str) -> str | None:
        """Let a session that waits for a person go on; returns the action as text, or None if the queue has no
        such session."""

    async def waits(self, session_id: str) -> str | None:
        """What it waits for, as text; empty if for nothing, None if the queue has no such session."""


class ReviveOrder(Struct, frozen=True, forbid_unknown_fields=True):
    """`approved`: a person has checked the interrupted calls and lets it go on.

    `happened`: they have happened, and the brief for the agent says so; only with `approved`.

    `by_gateway`: the chat gateway proposes it by itself, so the limits of Wakeful's own actions apply.
    `failed`: its user reads that its turn failed, so nothing continues that turn; only with `by_gateway`.
    `runaway`: its process takes too much of the host and is to be ended first; only with `by_gateway`.
    """

    approved: bool = False
    happened: bool = False
    by_gateway: bool = False
    failed: bool = False
    runaway: bool = False
    by: Annotated[str, Meta(max_length=300)] = UNNAMED_OPERATOR


class LostSessionList(Struct, frozen=True):
    """Sessions that a reboot or a dead tmux server ended, by name; `paused` is the pause of all automatic actions."""

    lost: tuple[LostSession, ...]
    paused: PauseRecord | None


class HealingRoutes:
    """Decisions of people: processes of a supervised session are refused."""

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
        """Resume a managed session with a problem now. Needs a person."""
        session_id, order = request.id, request.input
        if order.by_gateway and order.failed:
            return action_response(await self._healer.leave_to_user(session_id))
        if order.by_gateway and order.runaway:
            return action_response(await self._healer.end_runaway(session_id))
        if order.by_gateway:
            return action_response(await self._healer.propose(session_id))
        try:
            return action_response(
                await self._healer.revive(
                    session_id,
                    approved=order.approved,
                    by=order.by,
                    happened=order.approved and order.happened,
                )
            )
        except (SessionNotFound, NotManaged):
            # Wakeful does not manage the sessions of a queue, but they wait for a person's approval as well.
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
            raise QueuedSessionHeld(shown=known, waits=f"is held: {waits}" if waits else "waits for no one")
        return None

    async def lost(self, _request: HttpRequest[None]) -> EncodedResponse[LostSessionList]:
        """Sessions that a reboot or a dead tmux server ended, and which of them can be resumed."""
        return encode_response(LostSessionList(tuple(self._restorer.list_lost()), self._get_pause()))

    async def restore(self, request: HttpRequest[None]) -> EncodedResponse[ActionRecord]:
        """Resume one of them, managed from then on. Needs a person."""
        return action_response(await self._restorer.resume(request.id))


ListIncidents = Callable[[bool], Awaitable[list[Incident]]]
"""Open incidents; with True also resolved ones."""


class IncidentQuery(Struct, frozen=True):
    everything: bool = field(default=False, name="all")


class IncidentRoutes:
    def __init__(self, list_incidents: ListIncidents, paused: PauseQuery) -> None:
        self._list_incidents = list_incidents
        self._get_pause = paused

    def routes(self) -> Sequence[Route]:
        return (get("/api/incidents", self.incidents, IncidentList, query=IncidentQuery),)

    async def incidents(self, request: HttpRequest[IncidentQuery]) -> EncodedResponse[IncidentList]:
        """Problems by their cause: the open ones, with `all=true` also resolved ones."""
        return encode_response(
            incident_list(await self._list_incidents(request.input.everything), self._get_pause())
        )
