"""A session's transitions as doors show them. Nothing is judged or kept here."""

from msgspec import Struct

from wakeful.core.moment import iso
from wakeful.storage.store import Transition


class EventRecord(Struct, frozen=True):
    """One transition of a session."""

    seq: int
    at: str
    old_state: str | None
    state: str
    old_health: str | None
    health: str
    reason: str


class EventList(Struct, frozen=True):
    """Transitions, oldest first. Pass `next_cursor` as `after` to go on."""

    events: tuple[EventRecord, ...]
    next_cursor: int | None


def event_record(row: Transition) -> EventRecord:
    return EventRecord(
        row.seq,
        iso(row.at),
        row.old_state or None,
        row.new_state,
        row.old_health or None,
        row.new_health,
        row.reason,
    )
