"""Mending what the store says of a session after an unclean exit. A person's decision."""

from collections.abc import Sequence

from msgspec import Struct

from wakeful.http.answers import Encoded, encoded
from wakeful.http.routing import Request, Route, post
from wakeful.sessions.repair import Repair, Repairs


class RepairOrder(Struct, frozen=True, forbid_unknown_fields=True):
    """`dry_run`: only say what would be mended."""

    dry_run: bool = False


class RepairRoutes:
    """One route."""

    def __init__(self, repairs: Repairs) -> None:
        self._repairs = repairs

    def routes(self) -> Sequence[Route]:
        return (post("/api/sessions/{session_id}/repair", self.repair, Repair, body=RepairOrder),)

    async def repair(self, request: Request[RepairOrder]) -> Encoded[Repair]:
        """Mend the stored record of a session by what is there now; what was decided about waking it stays."""
        return encoded(await self._repairs.repair(request.id, dry_run=request.input.dry_run))
