"""What was decided about wakes, kept in the store: every decision with its reason and its snapshot.

Equal refusals in a row are one entry that counts. An entry without an outcome was reserved before its prompt was given:
a restart that finds one knows that nobody saw what became of it, and counts it as given.
"""

import logging
from collections import OrderedDict
from typing import Final
from uuid import uuid4

import msgspec
from msgspec.structs import replace

from wakeful.domain.eligibility import Reason
from wakeful.domain.errors import WorldError
from wakeful.domain.heartbeat import Snapshot
from wakeful.domain.ids import SessionId
from wakeful.domain.moment import Instant, iso
from wakeful.domain.wake import Audit, Trigger, WakeOutcome, is_same
from wakeful.ports.clock import Clock
from wakeful.ports.store import Note, Store

KIND: Final = "wake"
# Beyond this the oldest go, however young: a thousand agents that are refused in turn must not fill a disk.
ENTRIES_MAX: Final = 20_000
UNSEEN: Final = "Wakeful ended in its middle: nobody saw whether the prompt arrived"

log = logging.getLogger("wakeful")


class AuditBook:
    """Every decision that is kept, oldest first."""

    def __init__(self, store: Store, clock: Clock, retention_seconds: float) -> None:
        self._store = store
        self._clock = clock
        self._retention_seconds = retention_seconds
        self._entries: OrderedDict[str, Audit] = OrderedDict()
        self._last: dict[str, Audit] = {}
        # The newest two prompts of every session: of the newest it may turn out that it was not given after all.
        self._given: dict[SessionId, list[tuple[str, Instant]]] = {}

    async def take_up(self) -> None:
        """Know again what was decided; what was under way is over, and nobody saw how."""
        for note in await self._store.notes(KIND):
            try:
                audit = msgspec.json.decode(note.body, type=Audit)
            except msgspec.DecodeError:
                log.info("a decision about a wake is of another version: %s", note.key)
                continue
            if audit.outcome is None:
                audit = _failed(audit, UNSEEN)
                await self._keep(audit)
            self._remember(audit, self._clock.instant(audit.wall))
        await self.forget_old()

    def last(self, agent: str) -> Audit | None:
        """The newest decision about an agent."""
        return self._last.get(agent)

    def last_given(self, session_id: SessionId) -> Instant | None:
        """When a prompt was last given to a session, or may have been."""
        given = self._given.get(session_id)
        return given[-1][1] if given else None

    def given_within(self, seconds: float) -> list[Instant]:
        """When prompts were given in the last so many seconds, or may have been; to whomever."""
        now = self._clock.now()
        given = [self._clock.instant(each.wall) for each in self._entries.values() if each.was_given]
        return [at for at in given if now.seconds_since(at) < seconds]

    def of(self, agent: str, limit: int = 20) -> list[Audit]:
        """The newest decisions about an agent, newest first."""
        return [each for each in reversed(self._entries.values()) if each.agent == agent][:limit]

    async def write(
        self,
        agent: str,
        session_id: SessionId | None,
        trigger: Trigger,
        outcome: WakeOutcome | None,
        reason: Reason | None,
        words: str,
        snapshot: Snapshot | None,
    ) -> Audit:
        """Write a decision down, durably; an equal one before it is counted instead."""
        now = self._clock.now()
        audit = Audit(
            id=f"{int(now.wall * 1000):015d}-{uuid4().hex[:8]}",
            at=iso(now.wall),
            last_at=iso(now.wall),
            count=1,
            agent=agent,
            session_id=session_id,
            trigger=trigger,
            outcome=outcome,
            reason=reason,
            words=words,
            snapshot_id=snapshot.id if snapshot is not None else None,
            digest=snapshot.digest if snapshot is not None else None,
            wall=now.wall,
        )
        before = self._last.get(agent)
        if before is not None and is_same(before, audit):
            audit = replace(before, last_at=audit.at, count=before.count + 1)
        self._remember(audit, now)
        try:
            await self._keep(audit)
        except WorldError:
            self._forget(audit)
            raise
        return audit

    async def conclude(self, audit: Audit, outcome: WakeOutcome, reason: Reason | None, words: str) -> Audit:
        """What became of a decision that was under way. One that gave no prompt cools nothing."""
        concluded = replace(audit, outcome=outcome, reason=reason, words=words)
        self._remember(concluded, self._clock.now())
        await self._keep(concluded)
        return concluded

    async def forget_old(self) -> None:
        """Drop what is older than the retention."""
        before = self._clock.now().wall - self._retention_seconds
        old = [each for each in self._entries.values() if each.wall < before]
        surplus = len(self._entries) - len(old) - ENTRIES_MAX
        if surplus > 0:
            old += list(self._entries.values())[len(old) : len(old) + surplus]
        for audit in old:
            await self._store.drop_note(KIND, audit.id)
            self._entries.pop(audit.id, None)

    def _remember(self, audit: Audit, at: Instant) -> None:
        self._entries[audit.id] = audit
        self._last[audit.agent] = audit
        if audit.session_id is None:
            return
        given = self._given.setdefault(audit.session_id, [])
        known = any(audit_id == audit.id for audit_id, _ in given)
        if audit.was_given and not known:
            given.append((audit.id, at))
            del given[:-2]
        elif known and not audit.was_given:
            given[:] = [each for each in given if each[0] != audit.id]

    def _forget(self, audit: Audit) -> None:
        """It could not be written down, so nothing is done on its strength."""
        self._remember(replace(audit, outcome=WakeOutcome.SKIPPED), self._clock.now())
        self._entries.pop(audit.id, None)
        self._last.pop(audit.agent, None)

    async def _keep(self, audit: Audit) -> None:
        await self._store.keep_note(Note(KIND, audit.id, msgspec.json.encode(audit)))


def _failed(audit: Audit, words: str) -> Audit:
    return replace(audit, outcome=WakeOutcome.FAILED, reason=Reason.SYNTHETIC_PROMPT_FAILED, words=words)
