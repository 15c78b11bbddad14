"""Routes to bring sessions back on a person's order, and to list incidents."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Protocol

from msgspec import Meta, Struct, field

from wakeful.alerts.mute_pause import Paused
from wakeful.alerts.mute_pause_model import PauseRecord
from wakeful.control.gate import Act, Deed
from wakeful.control.ownership import NotManaged
from wakeful.core.errors import SessionNotFound, WorldError
from wakeful.core.ids import parse_session_id
from wakeful.healing.healer import Healer
from wakeful.healing.restore import Lost, Restorer
from wakeful.http.responses import Encoded, encoded
from wakeful.http.routes.control import CONFLICTS, answer_deed
from wakeful.http.routes.mute import NOBODY_NAMED
from wakeful.http.routing import Request, Route, get, post
from wakeful.incidents.model import Incident
from wakeful.storage.base import Outcome
from wakeful.views.incidents import IncidentList, incident_list


class HeldInQueue(WorldError):
    """{shown} belongs to a queue, and {waits}. A person's yes revives it: wakeful session revive {shown} --yes"""

    code = "held-in-queue"
    exit_code = 1
    http_status = 409


class Queue(Protocol):
    """Sessions that somebody else's queue runs."""

    async def release(self, session_id: str, by: str) -> str | None:
        """Let one that is held go on, by whose word; what was done, or None if it runs none of that name."""

    async def waits(self, session_id: str) -> str | None:
        """What it waits for, in words; empty if for nothing, None if it runs none of that name."""


class ReviveOrder(Struct, frozen=True, forbid_unknown_fields=True):
    """`approved`: a person has looked at the calls that were cut off and says that it may go on."""

    approved: bool = False
    by: Annotated[str, Meta(max_length=300)] = NOBODY_NAMED


class LostList(Struct, frozen=True):
    """What a reboot or a dead tmux server took along, by name; `paused` says who stopped everything, if somebody did."""

    lost: tuple[Lost, ...]
    paused: PauseRecord | None


class HealRoutes:
    """Decisions of people: refused to whoever works inside a supervised session."""

    def __init__(
        self,
        healer: Healer,
        restorer: Restorer,
        paused: Paused,
        queue: Queue | None = None,
    ) -> None:
        self._healer = healer
        self._restorer = restorer
        self._paused = paused
        self._queue = queue

    def routes(self) -> Sequence[Route]:
        one = "/api/sessions/{session_id}"
        return (
            get("/api/lost", self.lost, LostList),
            post(f"{one}/revive", self.revive, Deed, body=ReviveOrder, problems=CONFLICTS),
            post(f"{one}/restore", self.restore, Deed, problems=CONFLICTS),
        )

    async def revive(self, request: Request[ReviveOrder]) -> Encoded[Deed]:
        """Bring a managed session in trouble back now. A person's decision."""
        session_id, order = request.id, request.input
        try:
            return answer_deed(await self._healer.revive(session_id, approved=order.approved, by=order.by))
        except (SessionNotFound, NotManaged):
            # Sessions of a queue are not ours to hold, but they wait for a person's yes as well.
            words = await self._released(session_id, order.by, approved=order.approved)
            if words is None:
                raise
            deed = Deed(session_id, Act.RESUME, parse_session_id(session_id), Outcome.UNVERIFIED, words)
            return answer_deed(deed)

    async def _released(self, session_id: str, by: str, *, approved: bool) -> str | None:
        if self._queue is None:
            return None
        known = parse_session_id(session_id)
        if approved:
            return await self._queue.release(known, by)
        waits = await self._queue.waits(known)
        if waits is not None:
            raise HeldInQueue(shown=known, waits=f"is held: {waits}" if waits else "waits for nobody")
        return None

    async def lost(self, _request: Request[None]) -> Encoded[LostList]:
        """Sessions that a reboot or a dead tmux server took along, and which of them can be brought back."""
        return encoded(LostList(tuple(self._restorer.lost()), self._paused()))

    async def restore(self, request: Request[None]) -> Encoded[Deed]:
        """Bring one of them back, managed from then on. A person's decision."""
        return answer_deed(await self._restorer.bring_back(request.id))


Listed = Callable[[bool], Awaitable[list[Incident]]]
"""Open incidents; with True also those that are over."""


class IncidentQuery(Struct, frozen=True):
    everything: bool = field(default=False, name="all")


class IncidentRoutes:
    """Reading the book of incidents."""

    def __init__(self, listed: Listed, paused: Paused) -> None:
        self._listed = listed
        self._paused = paused

    def routes(self) -> Sequence[Route]:
        return (get("/api/incidents", self.incidents, IncidentList, query=IncidentQuery),)

    async def incidents(self, request: Request[IncidentQuery]) -> Encoded[IncidentList]:
        """Troubles by their cause: those that are open, with `all=true` also those that are over."""
        return encoded(incident_list(await self._listed(request.input.everything), self._paused()))
