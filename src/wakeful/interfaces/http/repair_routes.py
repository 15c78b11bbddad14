"""Mending what the store says of a session after an unclean exit. A person's decision."""

from collections.abc import Sequence

from litestar.handlers import HTTPRouteHandler, post
from litestar.params import FromPath, JSONBody
from msgspec import Struct

from wakeful.interfaces.http.answers import Encoded, encoded
from wakeful.interfaces.http.session_routes import PROBLEMS
from wakeful.services.repair import Repair, Repairs


class RepairOrder(Struct, frozen=True, forbid_unknown_fields=True):
    """`dry_run`: only say what would be mended."""

    dry_run: bool = False


class RepairRoutes:
    """One route."""

    def __init__(self, repairs: Repairs) -> None:
        self._repairs = repairs

    def handlers(self) -> Sequence[HTTPRouteHandler]:
        one = "/api/sessions/{session_id:str}/repair"
        return (post(one, status_code=200, responses=PROBLEMS)(self.repair),)

    async def repair(self, session_id: FromPath[str], data: JSONBody[RepairOrder]) -> Encoded[Repair]:
        """Mend the stored record of a session by what is there now; what was decided about waking it stays."""
        return encoded(await self._repairs.repair(session_id, dry_run=data.dry_run))
