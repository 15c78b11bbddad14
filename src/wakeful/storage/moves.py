"""How often sessions changed, as the store counts it for reports."""

from msgspec import Struct

from wakeful.core.ids import SessionId


class Moves(Struct, frozen=True):
    """How often a session went from one standing to another. `old_state` is empty for one that was new."""

    session_id: SessionId
    old_state: str
    state: str
    old_health: str
    health: str
    count: int
