"""Bringing sessions back because a person asks: one that is held or given up, or all that a reboot took along."""

from collections.abc import Sequence
from typing import Any

from litestar import Request
from litestar.handlers import HTTPRouteHandler, get, post
from litestar.params import FromPath, JSONBody
from msgspec import Struct

from wakeful.interfaces.http.act_routes import CONFLICTS, answer_deed
from wakeful.interfaces.http.answers import Encoded, encoded
from wakeful.interfaces.http.deciders import Deciders
from wakeful.services.acts import Deed
from wakeful.services.healing import Healer
from wakeful.services.restoring import Lost, Restorer


class ReviveOrder(Struct, frozen=True, forbid_unknown_fields=True):
    """`approved`: a person has looked at the calls that were cut off and says that it may go on."""

    approved: bool = False


class LostList(Struct, frozen=True):
    """What a reboot or a dead tmux server took along, by name."""

    lost: tuple[Lost, ...]


class HealRoutes:
    """Decisions of people: refused to whoever works inside a supervised session."""

    def __init__(self, healer: Healer, restorer: Restorer, deciders: Deciders) -> None:
        self._healer = healer
        self._restorer = restorer
        self._deciders = deciders

    def handlers(self) -> Sequence[HTTPRouteHandler]:
        one = "/api/sessions/{session_id:str}"
        return (
            get("/api/lost", sync_to_thread=False)(self.lost),
            post(f"{one}/revive", status_code=200, responses=CONFLICTS)(self.revive),
            post(f"{one}/restore", status_code=200, responses=CONFLICTS)(self.restore),
        )

    async def revive(
        self, request: Request[Any, Any, Any], session_id: FromPath[str], data: JSONBody[ReviveOrder]
    ) -> Encoded[Deed]:
        """Bring a managed session in trouble back now. A person's decision."""
        await self._deciders.admit(request)
        return answer_deed(await self._healer.revive(session_id, approved=data.approved))

    def lost(self) -> Encoded[LostList]:
        """Sessions that a reboot or a dead tmux server took along, and which of them can be brought back."""
        return encoded(LostList(tuple(self._restorer.lost())))

    async def restore(self, request: Request[Any, Any, Any], session_id: FromPath[str]) -> Encoded[Deed]:
        """Bring one of them back, managed from then on. A person's decision."""
        await self._deciders.admit(request)
        return answer_deed(await self._restorer.bring_back(session_id))
