"""Stores the audit of wake decisions, and the newest valid snapshot of each agent's policy.

Equal refusals in a row are one entry with a count. An entry without an outcome was reserved before its prompt
was sent; a restart counts it as sent, because the result is unknown. Of several daemons on one store, one
reserves the next wake and the others read its entry. Policies are read again when their files change. A
missing or invalid file is no policy; the newest valid snapshot stays visible. A policy never changes health.
"""

import logging
from collections import OrderedDict
from collections.abc import Mapping
from datetime import tzinfo
from typing import Final
from uuid import uuid4

import msgspec
from msgspec.structs import replace

from wakeful.core.clock import Clock, Instant, iso
from wakeful.core.decoding import decode_json
from wakeful.core.errors import WorldError
from wakeful.core.ids import SessionId
from wakeful.heartbeat.file import AgentHeartbeatFiles
from wakeful.heartbeat.model import Audit, Trigger, WakeOutcome, is_repeat, outcome_of
from wakeful.heartbeat.policy import (
    HeartbeatInvalid,
    HeartbeatPolicy,
    HeartbeatSnapshot,
    HeartbeatUnread,
    PolicyProblem,
    PolicyReading,
    is_quiet,
    next_change,
)
from wakeful.judging.session_record import safe
from wakeful.judging.wake_eligibility import IneligibilityReason, PolicyState
from wakeful.storage.base import Note, Store

KIND: Final = "wake"
# Beyond this the oldest are dropped at any age: a thousand refused agents must not fill a disk.
ENTRIES_MAX: Final = 20_000
# A cooldown counts from a session's last wake and lasts 30 days at most. Its entry stays twice as long.
LAST_GIVEN_SECONDS: Final = 60 * 86_400.0
# The wake after another one is reserved once; `prune` drops reservations after a month.
FOR_EVER_SECONDS: Final = 315_360_000.0
NOT_OBSERVED: Final = "Wakeful ended in the middle of it: it is unknown whether the prompt arrived"

log = logging.getLogger("wakeful")


class AuditLog:
    """The stored decisions, oldest first."""

    def __init__(self, store: Store, clock: Clock, retention_seconds: float) -> None:
        self._store = store
        self._clock = clock
        self._retention_seconds = retention_seconds
        self._entries: OrderedDict[str, Audit] = OrderedDict()
        self._last: dict[str, Audit] = {}
        self._highest = 0
        # The newest two prompts of every session: the newest may turn out not to have been sent.
        self._prompts: dict[SessionId, list[tuple[str, Instant]]] = {}
        # Budget keys of open reservations.
        self._spent_keys: dict[str, str] = {}

    async def restore(self) -> None:
        """Load the stored decisions; one that was under way failed without a known result."""
        for stored in await self._load_stored():
            audit = stored
            if audit.outcome is None:
                failed, reason = WakeOutcome.FAILED, IneligibilityReason.SYNTHETIC_PROMPT_FAILED
                audit = replace(audit, outcome=failed, reason=reason, words=NOT_OBSERVED)
                await self._save(audit)
            self._remember(audit, self._clock.instant(audit.wall))
        await self.forget_old()

    async def reload(self) -> None:
        """Load decisions of other daemons on this store."""
        for audit in await self._load_stored():
            if audit.id not in self._entries:
                self._remember(audit, self._clock.instant(audit.wall))

    def last(self, agent: str) -> Audit | None:
        return self._last.get(agent)

    def last_prompt_at(self, session_id: SessionId) -> Instant | None:
        """The time at which the last prompt to a session was sent, or may have been."""
        prompts = self._prompts.get(session_id)
        return prompts[-1][1] if prompts else None

    def prompts_within(self, seconds: float) -> list[Instant]:
        """The times of prompts to any session within the last `seconds`, also if they only may have been sent."""
        now = self._clock.now()
        times = [self._clock.instant(each.wall) for each in self._entries.values() if each.has_given_prompt]
        return [at for at in times if now.seconds_since(at) < seconds]

    def of(self, agent: str, limit: int = 20) -> list[Audit]:
        """The newest decisions about an agent, newest first."""
        return [each for each in reversed(self._entries.values()) if each.agent == agent][:limit]

    async def write(
        self,
        agent: str,
        session_id: SessionId | None,
        trigger: Trigger,
        reason: IneligibilityReason,
        text: str,
        snapshot: HeartbeatSnapshot | None,
    ) -> Audit:
        """Store a refusal durably, or count it if the decision before it is equal."""
        now = self._clock.now()
        audit = _audit(now, self._number(now), agent, session_id, trigger, snapshot)
        audit = replace(audit, outcome=outcome_of(reason), reason=reason, words=text)
        before = self._last.get(agent)
        if before is not None and is_repeat(before, audit):
            audit = replace(before, last_at=audit.at, wall=audit.wall, count=before.count + 1)
        self._remember(audit, now)
        try:
            await self._save(audit)
        except WorldError:
            self._forget(audit)
            raise
        if len(self._entries) > ENTRIES_MAX:
            await self._drop_first()
        return audit

    async def reserve(
        self, agent: str, session_id: SessionId, trigger: Trigger, snapshot: HeartbeatSnapshot
    ) -> Audit | None:
        """Store durably that a wake is under way. None: another daemon on this store was first."""
        now = self._clock.now()
        audit = _audit(now, self._number(now), agent, session_id, trigger, snapshot)
        # Daemons with the same last wake use the same key, and only one of them can spend it.
        key = f"wake/{session_id}/{self._last_prompt_id(session_id) or 'first'}"
        self._remember(audit, now)
        try:
            is_first = await self._store.spend_budget(
                key, _note(audit), times_max=1, window_seconds=FOR_EVER_SECONDS
            )
        except WorldError:
            self._forget(audit)
            raise
        if not is_first:
            self._forget(audit)
            return None
        self._spent_keys[audit.id] = key
        return audit

    async def conclude(
        self, audit: Audit, outcome: WakeOutcome, reason: IneligibilityReason | None, text: str
    ) -> Audit:
        """Store the result of a decision that was under way. Without a prompt there is no cooldown."""
        concluded = replace(audit, outcome=outcome, reason=reason, words=text)
        self._remember(concluded, self._clock.now())
        key = self._spent_keys.pop(audit.id, None)
        if key is not None and not concluded.has_given_prompt:
            await self._store.refund_budget(key, _note(audit))
        await self._save(concluded)
        return concluded

    async def forget_old(self) -> None:
        """Drop entries older than the retention; those that a cooldown counts from stay longer."""
        now, newest = self._clock.now().wall, self._newest_prompt_ids()
        longest_seconds = max(self._retention_seconds, LAST_GIVEN_SECONDS)
        for audit in list(self._entries.values()):
            retention_seconds = longest_seconds if audit.id in newest else self._retention_seconds
            # An entry may have been counted up while others were dropped.
            if audit.wall < now - retention_seconds and self._entries.get(audit.id) is audit:
                await self._drop(audit)
        while len(self._entries) > ENTRIES_MAX:
            await self._drop_first()

    async def _drop_first(self) -> None:
        """Make room: drop the oldest decision, preferably one that no cooldown counts from."""
        newest = self._newest_prompt_ids()
        oldest = next(iter(self._entries.values()))
        await self._drop(next((each for each in self._entries.values() if each.id not in newest), oldest))

    async def _drop(self, audit: Audit) -> None:
        await self._store.drop_note(KIND, audit.id)
        self._entries.pop(audit.id, None)
        if self._last.get(audit.agent) is audit:
            del self._last[audit.agent]
        if audit.session_id is not None and self._last_prompt_id(audit.session_id) == audit.id:
            del self._prompts[audit.session_id]

    def _last_prompt_id(self, session_id: SessionId) -> str | None:
        prompts = self._prompts.get(session_id)
        return prompts[-1][0] if prompts else None

    def _newest_prompt_ids(self) -> set[str]:
        return {prompts[-1][0] for prompts in self._prompts.values() if prompts}

    def _number(self, now: Instant) -> int:
        """The time in milliseconds, but above every earlier number.

        A restart reads decisions in the order of their ids, also if the clock was set back between them.
        """
        return max(int(now.wall * 1000), self._highest + 1)

    def _remember(self, audit: Audit, at: Instant) -> None:
        self._entries[audit.id] = audit
        self._highest = max(self._highest, int(audit.id.partition("-")[0]))
        self._last[audit.agent] = audit
        if audit.session_id is None:
            return
        prompts = self._prompts.setdefault(audit.session_id, [])
        known = any(audit_id == audit.id for audit_id, _ in prompts)
        if audit.has_given_prompt and not known:
            prompts.append((audit.id, at))
            del prompts[:-2]
        elif known and not audit.has_given_prompt:
            prompts[:] = [each for each in prompts if each[0] != audit.id]

    def _forget(self, audit: Audit) -> None:
        """Remove a decision that could not be stored, so that nothing depends on it."""
        self._remember(replace(audit, outcome=WakeOutcome.SKIPPED), self._clock.now())
        self._entries.pop(audit.id, None)
        self._last.pop(audit.agent, None)
        self._last |= {each.agent: each for each in self.of(audit.agent, 1)}

    async def _load_stored(self) -> list[Audit]:
        found = []
        for note in await self._store.notes(KIND):
            try:
                found.append(decode_json(note.body, Audit))
            except msgspec.DecodeError:
                log.info("a decision about a wake is from another version: %s", note.key)
        return found

    async def _save(self, audit: Audit) -> None:
        await self._store.save_note(_note(audit))


def _note(audit: Audit) -> Note:
    return Note(KIND, audit.id, msgspec.json.encode(audit))


def _audit(
    now: Instant,
    number: int,
    agent: str,
    session_id: SessionId | None,
    trigger: Trigger,
    snapshot: HeartbeatSnapshot | None,
) -> Audit:
    """A decision that is under way."""
    return Audit(
        id=f"{number:015d}-{uuid4().hex[:8]}",
        at=iso(now.wall),
        last_at=iso(now.wall),
        count=1,
        agent=agent,
        session_id=session_id,
        trigger=trigger,
        outcome=None,
        reason=None,
        words="under way",
        snapshot_id=snapshot.id if snapshot is not None else None,
        digest=snapshot.digest if snapshot is not None else None,
        wall=now.wall,
    )


SNAPSHOT_KIND: Final = "heartbeat-snapshot"


class PolicyStore:
    """The state of every agent's file."""

    def __init__(self, files: AgentHeartbeatFiles, store: Store, clock: Clock) -> None:
        self._files = files
        self._store = store
        self._clock = clock
        self._valid_snapshots: dict[str, HeartbeatSnapshot] = {}
        self._readings: dict[str, tuple[object, PolicyReading]] = {}
        self._unsaved: dict[str, HeartbeatSnapshot] = {}

    async def restore(self) -> None:
        """Load the last valid snapshots."""
        for note in await self._store.notes(SNAPSHOT_KIND):
            try:
                self._valid_snapshots[note.key] = decode_json(note.body, HeartbeatSnapshot)
            except msgspec.DecodeError:
                log.info("the snapshot of agent %s is from another version", note.key)

    def reading(self, agent: str, workdir: str | None) -> PolicyReading:
        """The state of the agent's file now."""
        stamp = self._files.stamp(agent, workdir)
        if stamp is None:
            self._readings.pop(agent, None)
            return PolicyReading(PolicyState.MISSING, self._valid_snapshots.get(agent))
        known = self._readings.get(agent)
        if known is not None and known[0] == stamp:
            return known[1]
        try:
            snapshot = self._files.load(agent, workdir, iso(self._clock.now().wall))
            before = self._valid_snapshots.get(agent)
            if before is not None and (before.digest, before.path) == (snapshot.digest, snapshot.path):
                snapshot = before
            else:
                self._valid_snapshots[agent] = self._unsaved[agent] = snapshot
            state = PolicyState.VALID if snapshot.policy.enabled else PolicyState.DISABLED
            reading = PolicyReading(state, snapshot)
        except HeartbeatUnread as wrong:
            # A failed read allows no conclusion about the file: it is read again.
            return self._invalid(agent, wrong)
        except HeartbeatInvalid as wrong:
            reading = self._invalid(agent, wrong)
        self._readings[agent] = (stamp, reading)
        return reading

    async def save(self) -> None:
        """Store new snapshots for a restart. If the store refuses, they are stored later."""
        for agent in list(self._unsaved):
            snapshot = self._unsaved[agent]
            try:
                await self._store.save_note(Note(SNAPSHOT_KIND, agent, msgspec.json.encode(snapshot)))
            except WorldError as error:
                log.warning("the snapshot of agent %s was not stored: %s", agent, error)
                return
            if self._unsaved.get(agent) is snapshot:
                del self._unsaved[agent]

    def is_quiet(self, policy: HeartbeatPolicy, wall: float) -> bool:
        return is_quiet(policy.active_hours, policy.quiet_windows, self._zones(policy), wall)

    def next_change(self, policy: HeartbeatPolicy, wall: float) -> float | None:
        """The next time at which a quiet window ends or begins; None if that never happens."""
        return next_change(policy.active_hours, policy.quiet_windows, self._zones(policy), wall)

    def _invalid(self, agent: str, wrong: HeartbeatInvalid) -> PolicyReading:
        file, line, reason = (wrong.facts[name] for name in ("file", "line", "reason"))
        # It may quote the file, which is untrusted.
        problem = PolicyProblem(str(file), int(str(line)), safe(str(reason)))
        return PolicyReading(PolicyState.INVALID, self._valid_snapshots.get(agent), problem)

    def _zones(self, policy: HeartbeatPolicy) -> Mapping[str, tzinfo]:
        windows = (*policy.active_hours, *policy.quiet_windows)
        return {each.timezone: self._files.zone(each.timezone) for each in windows}
