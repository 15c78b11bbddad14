"""Repairs the stored record of a session that is wrong after an unclean exit.

The new record comes only from the present evidence. A session without any evidence becomes stopped, with an
unknown end. Stored decisions about wakes do not change.
"""

import logging
from typing import Any, Final, Protocol

import msgspec
from msgspec import Struct

from wakeful.core.clock import Clock, iso
from wakeful.core.decoding import decode_json
from wakeful.core.errors import SessionNotFound
from wakeful.core.ids import SessionId, parse_session_id
from wakeful.judging.findings import State
from wakeful.judging.session_record import SessionRecord, mark_stopped
from wakeful.sessions.registry import SessionRegistry
from wakeful.sessions.session import transition_key_of
from wakeful.storage.base import SessionRow, Store, Transition

REASON: Final = "repaired"
# States that need evidence: a session without any cannot be in them.
UNFINISHED: Final = frozenset(
    {State.IDLE, State.PROMPTING, State.WAITING, State.STOPPING, State.STARTING, State.DETACHED}
)
_COMPARED_FIELDS: Final = (
    "state",
    "health",
    "active_prompt",
    "attachable",
    "session_alive",
    "attention",
    "pid",
)

log = logging.getLogger("wakeful")


class RepairChange(Struct, frozen=True):
    """One field of the stored record, with its value and the correct one."""

    field: str
    old: Any
    new: Any


class Repair(Struct, frozen=True):
    """The changes of a repair; with `dry_run` they are not made."""

    session_id: SessionId
    dry_run: bool
    changes: tuple[RepairChange, ...]
    words: str


class SessionRefresher(Protocol):
    """Reads evidence again. The observer is one."""

    def refresh(self, session_id: SessionId) -> None:
        """Read everything new about a session and judge it, now."""


class Repairs:
    def __init__(
        self, store: Store, registry: SessionRegistry, clock: Clock, observer: SessionRefresher
    ) -> None:
        self._store = store
        self._registry = registry
        self._clock = clock
        self._observer = observer

    async def repair(self, text: str, *, dry_run: bool) -> Repair:
        """Repair the stored record of a session, or list the changes. Raises SessionNotFound, BadSessionId."""
        row = await self._row(text)
        if row is None:
            return Repair(self._registry.resolve(text), dry_run, (), "nothing is stored of it yet")
        stored = _decode_row(row)
        current = self._current_record(row.id, stored)
        if current is None:
            return Repair(
                row.id, dry_run, (), "what is stored is of another version, and nothing else is left of it"
            )
        changes = _changes(stored, current)
        if not changes:
            return Repair(row.id, dry_run, (), "what is stored is true")
        if dry_run:
            return Repair(row.id, dry_run, changes, "this would be repaired")
        await self._store.record((self._transition(stored, current),))
        log.info("%s was repaired: %s", row.id, ", ".join(each.field for each in changes))
        return Repair(row.id, dry_run, changes, "repaired")

    async def _row(self, text: str) -> SessionRow | None:
        """The stored row, also of a session that the registry does not know."""
        rows = {row.id: row for row in await self._store.sessions()}
        try:
            return rows.get(self._registry.resolve(text))
        except SessionNotFound:
            row = rows.get(SessionId(parse_session_id(text)))
            if row is None:
                raise
            return row

    def _current_record(self, session_id: SessionId, stored: SessionRecord | None) -> SessionRecord | None:
        session = self._registry.sessions.get(session_id)
        if session is not None:
            self._observer.refresh(session_id)
        if session is not None and session.record is not None:
            return session.record
        if stored is None or stored.state not in UNFINISHED:
            return stored
        return mark_stopped(stored, iso(self._clock.now().wall))

    def _transition(self, stored: SessionRecord | None, current: SessionRecord) -> Transition:
        return Transition(
            session_id=current.id,
            at=self._clock.now().wall,
            old_state=stored.state if stored is not None else "",
            new_state=current.state,
            old_health=stored.health if stored is not None else "",
            new_health=current.health,
            reason=REASON,
            record=msgspec.json.encode(current),
            alive=current.session_alive,
        )


def _decode_row(row: SessionRow) -> SessionRecord | None:
    try:
        return decode_json(row.record, SessionRecord)
    except msgspec.DecodeError:
        return None


def _changes(stored: SessionRecord | None, current: SessionRecord) -> tuple[RepairChange, ...]:
    """The differences, if they make a transition: times differ without being wrong."""
    if stored is None:
        return (RepairChange("schema", None, current.schema),)
    if transition_key_of(stored) == transition_key_of(current):
        return ()
    pairs = ((name, getattr(stored, name), getattr(current, name)) for name in _COMPARED_FIELDS)
    return tuple(RepairChange(name, old, new) for name, old, new in pairs if old != new)
