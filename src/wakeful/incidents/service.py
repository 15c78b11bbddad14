"""Opens, updates and resolves incidents; an incident is resolved when its last session has left.

Incidents are notes in the store, so one continues over restarts, and several daemons share it.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from typing import Final
from uuid import uuid4
from weakref import WeakValueDictionary

import msgspec
from msgspec.structs import replace

from wakeful.core.clock import Clock
from wakeful.core.decoding import json_decoder
from wakeful.core.errors import WorldError
from wakeful.core.ids import SessionId
from wakeful.incidents.model import Cause, Incident, MemberStatus, Origin
from wakeful.storage.base import Note, Store
from wakeful.storage.note_decoding import decode_note_values

KIND: Final = "incident"
# The open incident of each cause and scope, claimed by the first daemon of a store.
OPEN_KIND: Final = "incident_open"
# Resolved incidents stay readable this long.
RETENTION_SECONDS: Final = 30 * 86_400.0
# A problem that comes back so soon is the same episode: sessions recover and fail at their own pace.
REOPEN_SECONDS: Final = 120.0
_decode: Final = json_decoder(Incident)

log = logging.getLogger("wakeful.healing")


class Incidents:
    """Open incidents in memory, and all of them in the store."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._open: dict[str, Incident] = {}
        self._recent: dict[str, Incident] = {}
        self._of_session: dict[SessionId, str] = {}
        # Incidents of other daemons on this store: sessions join them here, the other daemon stores them.
        self._foreign_ids: set[str] = set()
        self._join_lock = asyncio.Lock()
        # Newest values of incidents that are not stored yet, and a lock for each write.
        self._unsaved: dict[str, Incident] = {}
        self._save_locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._listeners: list[Callable[[], None]] = []
        # New incidents since the start.
        self.opened_counts: Counter[Cause] = Counter()

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Call it whenever an incident was opened, changed or closed."""
        self._listeners.append(listener)

    def _notify(self) -> None:
        for listener in self._listeners:
            listener()

    async def load(self) -> None:
        """Continue with the open incidents of an earlier daemon, and drop old resolved ones."""
        oldest = self._clock.now().wall - RETENTION_SECONDS
        for incident in await self.list_incidents(include_resolved=True):
            if incident.is_open:
                self._remember(incident)
            elif incident.resolved_at is not None and incident.resolved_at < oldest:
                await self._store.drop_note(KIND, incident.id)
            else:
                self._recent[_key(incident)] = incident

    async def list_incidents(self, include_resolved: bool = False) -> list[Incident]:
        """Open incidents, or all; newest last."""
        found = {each.id: each for each in decode_note_values(await self._store.notes(KIND), _decode)}
        # An incident that a slow or full store did not accept is open nevertheless.
        found.update({each.id: each for each in self._open.values() if each.id not in self._foreign_ids})
        shown = [each for each in found.values() if include_resolved or each.is_open]
        return sorted(shown, key=lambda each: each.opened_at)

    def of(self, session_id: SessionId) -> Incident | None:
        key = self._of_session.get(session_id)
        return self._open.get(key) if key is not None else None

    def newest(self, incident: Incident) -> Incident:
        """Its current value, if it is open or was resolved recently; otherwise the given one."""
        known = (self._open.get(_key(incident)), self._recent.get(_key(incident)))
        return next((each for each in known if each is not None and each.id == incident.id), incident)

    @property
    def open_count(self) -> int:
        return len(self._open)

    @property
    def open_by_cause(self) -> Counter[Cause]:
        return Counter(each.cause for each in self._open.values())

    def sessions(self) -> list[SessionId]:
        """The sessions and agents of all open incidents."""
        return list(self._of_session)

    async def join(
        self,
        session_id: SessionId,
        origin: Origin,
        summary: str,
        name: str = "",
        *,
        until: float | None = None,
        instead_of: SessionId | None = None,
        died: bool = False,
    ) -> Incident:
        """Add a session to the incident with this cause and scope, which is opened if there is none.

        `until`: when the cause ends by itself; the latest time counts. `instead_of`: a member that is the same
        agent under another name, and must not count twice. `died`: its agent died, so a recently resolved
        incident about another problem is not reopened for it.
        """
        # One at a time: two sessions that join at once would each open an incident.
        async with self._join_lock:
            known = self.of(session_id)
            if known is not None and (known.cause, known.scope) == (origin.cause, origin.scope):
                newest = known.with_until(until).with_name(session_id, name)
                if newest == known:
                    return known
            else:
                if known is not None:
                    await self._leave(session_id, "another cause was found")
                now = self._clock.now().wall
                incident = self._open.get(origin.key) or await self._open_incident(
                    origin, summary, now, died=died and origin.cause is Cause.SESSION
                )
                newest = incident.with_session(session_id, now, name).with_until(until)
                self._of_session[session_id] = origin.key
                if instead_of is not None and self._of_session.get(instead_of) == origin.key:
                    del self._of_session[instead_of]
                    newest = newest.without_session(instead_of)
        # Outside the lock: thousands of sessions that join one incident at once are stored together.
        return await self.update(newest)

    async def begin(self, origin: Origin, summary: str) -> Incident:
        """Open the incident of a cause that was observed itself. It is open at once, even if the store refuses."""
        async with self._join_lock:
            now = self._clock.now().wall
            try:
                incident = self._open.get(origin.key) or await self._open_incident(origin, summary, now)
                return await self.update(replace(incident, standing=True, updated_at=now))
            except WorldError as error:
                log.warning("an incident is only in memory: %s", error)
                self.opened_counts[origin.cause] += origin.key not in self._open
                incident = self._open.get(origin.key) or _new(origin, summary, now)
                self._remember(replace(incident, standing=True))
                return self._open[origin.key]

    async def end(self, origin: Origin) -> Incident | None:
        """Record that the cause ended. Returns its incident, resolved unless sessions are in it; None if none is open."""
        async with self._join_lock:
            incident = self._open.get(origin.key)
            if incident is None or not incident.standing:
                return None
            return await self._update_or_close(incident.with_cause_ended(self._clock.now().wall))

    def is_open(self, incident: Incident) -> bool:
        """Whether it is open now: a resolved incident may have been reopened."""
        known = self._open.get(_key(incident))
        return known is not None and known.id == incident.id

    async def leave(self, session_id: SessionId, ended: str = "") -> Incident | None:
        """Remove a session from its incident; the last one resolves it. None if it was in none.

        `ended` says how it left, if it did not recover.
        """
        async with self._join_lock:
            return await self._leave(session_id, ended)

    async def _leave(self, session_id: SessionId, ended: str = "") -> Incident | None:
        incident = self.of(session_id)
        if incident is None:
            return None
        del self._of_session[session_id]
        return await self._update_or_close(
            incident.with_session_left(session_id, self._clock.now().wall, ended)
        )

    async def _update_or_close(self, incident: Incident) -> Incident:
        """Store its newest value, or close it. If the store refuses to close it, it stays open."""
        if incident.is_open:
            return await self.update(incident)
        before = self._open.pop(_key(incident), None)
        try:
            await self.update(incident)
            await self._store.drop_note(OPEN_KIND, _key(incident))
        except WorldError:
            if before is not None:
                self._remember(before)
            raise
        self._recent[_key(incident)] = incident
        return incident

    async def update(self, incident: Incident) -> Incident:
        """Set the newest value of an incident at once; returns its current value after it was stored.

        Make the value from `newest()` without an await in between: it would undo the changes of other tasks.
        """
        if incident.is_open:
            self._open[_key(incident)] = incident
        elif self.newest(incident) != incident:
            self._recent[_key(incident)] = incident
        if incident.id not in self._foreign_ids or not incident.is_open:
            await self._save(incident)
        return self.newest(incident)

    async def _save(self, incident: Incident) -> None:
        """Store it durably. Changes during a write of the same incident are written together."""
        self._unsaved[incident.id] = incident
        async with self._save_locks.setdefault(incident.id, asyncio.Lock()):
            newest = self._unsaved.pop(incident.id, None)
            if newest is None:
                return
            try:
                await self._store.save_note(Note(KIND, newest.id, msgspec.json.encode(newest)))
            except BaseException:
                # The next task that waits for the lock tries again.
                self._unsaved.setdefault(newest.id, newest)
                raise
        self._notify()

    async def _open_incident(
        self, origin: Origin, summary: str, now: float, *, died: bool = False
    ) -> Incident:
        """A new incident, a recently resolved one, or the one that another daemon on this store opened first."""
        recent = self._take_recent(origin, summary, now, died=died)
        incident = recent or _new(origin, summary, now)
        claim = Note(OPEN_KIND, origin.key, msgspec.json.encode(incident))
        if await self._store.save_new_note(claim):
            self.opened_counts[origin.cause] += recent is None
            return incident
        claimed = decode_note_values(
            [note for note in await self._store.notes(OPEN_KIND) if note.key == origin.key], _decode
        )
        stored = {each.id: each for each in await self.list_incidents(include_resolved=True)}
        foreign = next((stored.get(each.id, each) for each in claimed), None)
        if foreign is None or not foreign.is_open:
            # The daemon that opened it ended before it could drop the claim.
            await self._store.save_note(claim)
            self.opened_counts[origin.cause] += recent is None
            return incident
        if foreign.id in stored:
            self._foreign_ids.add(foreign.id)
        # Otherwise its daemon ended before it stored it: it continues here.
        return foreign

    def _take_recent(self, origin: Origin, summary: str, now: float, *, died: bool) -> Incident | None:
        """A recently resolved incident with this origin, to be reopened.

        Not if a session died and the incident was about another problem that Wakeful did not treat.
        """
        self._recent = {
            key: each
            for key, each in self._recent.items()
            if each.resolved_at is not None and now - each.resolved_at <= REOPEN_SECONDS
        }
        recent = self._recent.pop(origin.key, None)
        if recent is None or (died and recent.summary != summary and not _is_treated(recent)):
            return None
        return replace(recent, resolved_at=None)

    def _remember(self, incident: Incident) -> None:
        self._open[_key(incident)] = incident
        for session_id in incident.sessions:
            self._of_session[session_id] = _key(incident)
        self._notify()


def _new(origin: Origin, summary: str, now: float) -> Incident:
    return Incident(
        id=f"i-{uuid4().hex[:12]}",
        cause=origin.cause,
        scope=origin.scope,
        opened_at=now,
        updated_at=now,
        resolved_at=None,
        sessions=(),
        summary=summary,
    )


def _is_treated(incident: Incident) -> bool:
    """Whether Wakeful acted on it: a later failure then belongs to the same episode, even with another summary."""
    return any(
        each.fate not in {MemberStatus.OPEN, MemberStatus.LEFT_ALONE, MemberStatus.UNSEEN}
        for each in incident.members
    )


def _key(incident: Incident) -> str:
    return Origin(incident.cause, incident.scope).key
