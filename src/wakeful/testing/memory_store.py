"""MemoryStore: the store in memory, with its tasks, attempts and leases.

It passes the same contract suite as the real stores. For tests and simulations: nothing survives the process.
No method waits inside, so each call is atomic. `on_machine` opens the same data for another machine.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from itertools import islice
from typing import Self

from msgspec import structs

from wakeful.core.ids import SessionId
from wakeful.core.leases import (
    LEASE_ENDED,
    LEASE_SECONDS,
    SUMMARY_CHARS_READ,
    Attempt,
    AttemptState,
    Lease,
    LeaseConflict,
    LeaseKey,
    Run,
    WorkId,
    WorkItem,
    WorkState,
    state_after,
)
from wakeful.core.machine import Machine
from wakeful.core.managed_session import ManagedSession
from wakeful.core.process import Process
from wakeful.linux.clock import SystemClock
from wakeful.linux.machine import this_machine
from wakeful.storage.base import (
    SHARED,
    Bookmark,
    Conclusion,
    FinishedTurns,
    Intent,
    Note,
    SessionElsewhere,
    SessionRow,
    StateChange,
    StoreClosed,
    Transition,
    TransitionCount,
    is_shared,
)


class MemoryRuns:
    """`now` is the store's clock, in seconds of the epoch."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._works: dict[WorkId, WorkItem] = {}
        self._attempts: dict[WorkId, list[Attempt]] = {}
        self._leases: dict[LeaseKey, Lease] = {}
        # An epoch stays when its lease is released: it never decreases.
        self._epochs: dict[LeaseKey, int] = {}
        # The machine of the daemon that started each attempt, and those that manage sessions.
        self._started_on: dict[tuple[WorkId, int], str] = {}
        self.managed: dict[SessionId, tuple[str, ManagedSession]] = {}

    def enqueue(self, work: WorkItem) -> bool:
        if work.id in self._works:
            return False
        fresh = structs.replace(work, state=WorkState.PENDING, attempts=0, seq=len(self._works) + 1)
        self._works[work.id] = fresh
        self._attempts[work.id] = []
        return True

    def work(self, work_id: WorkId) -> WorkItem | None:
        return self._works.get(work_id)

    def works(self, state: WorkState | None, after: int, limit: int) -> list[WorkItem]:
        fits = (each for each in self._works.values() if each.seq > after and state in {None, each.state})
        return [
            structs.replace(each, prompt=each.prompt[:SUMMARY_CHARS_READ], context="")
            for each in islice(fits, limit)
        ]

    def attempts(self, work_id: WorkId) -> list[Attempt]:
        return list(self._attempts.get(work_id, ()))

    def claim_next_run(
        self, owner: str, project: str | None, ttl_seconds: float, holder: Process | None, machine: str
    ) -> Run | None:
        work = next(self._due(project, machine), None)
        if work is None:
            return None
        lease = self.claim_lease(work.lease_key, owner, ttl_seconds, holder)
        assert isinstance(lease, Lease), "the conversation of a task that is due is free"
        started = structs.replace(work, state=WorkState.RUNNING, attempts=work.attempts + 1)
        self._works[work.id] = started
        attempt = Attempt(work.id, started.attempts, lease.epoch, owner, AttemptState.RUNNING, lease.since)
        self._attempts[work.id].append(attempt)
        self._started_on[work.id, attempt.number] = machine
        return Run(started, attempt.number, lease.epoch, owner, lease.expires_at)

    def _due(self, project: str | None, machine: str) -> Iterator[WorkItem]:
        now = self._now()
        for work in self._works.values():
            lease = self._leases.get(work.lease_key)
            is_free = lease is None or lease.expires_at <= now
            is_wanted = project in {None, work.project} and work.not_before <= now
            is_here = work.session_id not in self.managed or self.managed[work.session_id][0] == machine
            if work.state is WorkState.PENDING and is_wanted and is_free and is_here:
                yield work

    def claim_lease(
        self,
        key: LeaseKey,
        owner: str,
        ttl_seconds: float,
        holder: Process | None,
        instead_of: Process | None = None,
    ) -> Lease | LeaseConflict:
        now = self._now()
        current = self._leases.get(key)
        is_replaced = current is not None and current.holder is not None and current.holder == instead_of
        if current is not None and current.expires_at > now and not is_replaced:
            return LeaseConflict(key, current.owner, current.since, current.expires_at, current.holder)
        self._epochs[key] = self._epochs.get(key, 0) + 1
        self._leases[key] = Lease(key, self._epochs[key], owner, now, now + ttl_seconds, holder)
        return self._leases[key]

    def renew_lease(
        self, key: LeaseKey, epoch: int, ttl_seconds: float, holder: Process | None = None
    ) -> float | None:
        lease = self._leases.get(key)
        if lease is None or lease.epoch != epoch:
            return None
        until = self._now() + ttl_seconds
        self._leases[key] = structs.replace(lease, expires_at=until, holder=holder or lease.holder)
        return until

    def yield_lease(self, key: LeaseKey, epoch: int) -> bool:
        lease = self._leases.get(key)
        if lease is None or lease.epoch != epoch:
            return False
        del self._leases[key]
        return True

    def leases(self) -> list[Lease]:
        return sorted(self._leases.values(), key=lambda lease: lease.key)

    def heartbeat(self, work_id: WorkId, epoch: int, ttl_seconds: float) -> float | None:
        attempt = self._running(work_id, epoch)
        if attempt is None:
            return None
        return self.renew_lease(self._works[work_id].lease_key, epoch, ttl_seconds)

    def end_run(self, work_id: WorkId, epoch: int, ending: AttemptState, result: str) -> WorkState | None:
        attempt = self._running(work_id, epoch)
        if attempt is None or self._lease_of(attempt) is None:
            return None
        return self._end(attempt, ending, result).state

    def expire_runs(self, machine: str) -> list[Run]:
        now = self._now()
        expired = []
        for attempt in self._all_running(machine):
            lease = self._lease_of(attempt)
            if lease is None or lease.expires_at <= now:
                work = self._end(attempt, AttemptState.EXPIRED, LEASE_ENDED)
                expired.append(Run(work, attempt.number, attempt.epoch, attempt.owner, now))
        return expired

    def next_expiry(self, machine: str) -> float | None:
        leases = [self._lease_of(attempt) for attempt in self._all_running(machine)]
        return min((0.0 if each is None else each.expires_at for each in leases), default=None)

    def _all_running(self, machine: str) -> list[Attempt]:
        newest = (each[-1] for each in self._attempts.values() if each)
        return [
            each
            for each in newest
            if each.state is AttemptState.RUNNING and self._started_on[each.work_id, each.number] == machine
        ]

    def _running(self, work_id: WorkId, epoch: int) -> Attempt | None:
        """The attempt with this epoch, if it has not ended."""
        last = self._attempts.get(work_id, [])[-1:]
        fits = [each for each in last if each.epoch == epoch and each.state is AttemptState.RUNNING]
        return fits[0] if fits else None

    def _lease_of(self, attempt: Attempt) -> Lease | None:
        """The attempt's lease, if no other attempt has taken it."""
        lease = self._leases.get(self._works[attempt.work_id].lease_key)
        return lease if lease is not None and lease.epoch == attempt.epoch else None

    def _end(self, attempt: Attempt, ending: AttemptState, result: str) -> WorkItem:
        self._attempts[attempt.work_id][-1] = structs.replace(
            attempt, state=ending, ended_at=self._now(), result=result
        )
        work = self._works[attempt.work_id]
        self.yield_lease(work.lease_key, attempt.epoch)
        state = state_after(ending, work.attempts, work.attempts_max)
        self._works[work.id] = structs.replace(work, state=state)
        return self._works[work.id]


class MemoryStore:
    """Everything is in dictionaries by sequence number or id, beside or below the machine of each row."""

    def __init__(
        self, *, machine: Machine | None = None, now: Callable[[], float] = lambda: SystemClock().now().wall
    ) -> None:
        machine = this_machine() if machine is None else machine
        self._machine = machine.id
        self._hosts = {machine.id: machine.host}
        self._now = now
        self._stored_runs = MemoryRuns(now)
        self._notes: dict[tuple[str, str, str], Note] = {}
        self._spendings: dict[tuple[str, str], list[float]] = {}
        self._sessions: dict[tuple[str, SessionId], SessionRow] = {}
        self._transitions: dict[int, tuple[str, Transition]] = {}
        self._bookmarks: dict[tuple[str, str], Bookmark] = {}
        self._intents: dict[str, tuple[str, Intent]] = {}
        self._conclusions: dict[str, Conclusion] = {}
        self._closed = False

    def on_machine(self, machine: Machine) -> Self:
        """The same data, opened for another machine."""
        other = copy(self)
        other._machine, other._closed = machine.id, False  # noqa: SLF001 - a new object of this class
        self._hosts[machine.id] = machine.host
        return other

    @property
    def _own_transitions(self) -> list[Transition]:
        return [each for machine, each in self._transitions.values() if machine == self._machine]

    def _scope(self, kind: str) -> str:
        return SHARED if is_shared(kind) else self._machine

    def _key_of(self, note: Note) -> tuple[str, str, str]:
        return self._scope(note.kind), note.kind, note.key

    async def record(self, transitions: Sequence[Transition]) -> int:
        self._require_open()
        last = max(self._transitions, default=0)
        # The whole batch is copied first, so that a bad transition changes nothing.
        numbered = [
            structs.replace(each, seq=seq, record=bytes(each.record))
            for seq, each in enumerate(transitions, last + 1)
        ]
        for each in numbered:
            self._transitions[each.seq] = self._machine, each
            known = self._sessions.get((self._machine, each.session_id))
            version = 1 if known is None else known.version + 1
            row = SessionRow(each.session_id, version, each.record, each.at)
            self._sessions[self._machine, each.session_id] = row
        return numbered[-1].seq if numbered else 0

    async def sessions(self) -> list[SessionRow]:
        self._require_open()
        return [row for (machine, _), row in sorted(self._sessions.items()) if machine == self._machine]

    async def sessions_elsewhere(self) -> list[SessionElsewhere]:
        self._require_open()
        managed = self._stored_runs.managed
        alive = {(machine, each.session_id): each.alive for machine, each in self._transitions.values()}
        known = {key for key in self._sessions if alive[key]} | {
            (machine, session_id) for session_id, (machine, _) in managed.items()
        }
        return [
            SessionElsewhere(
                session_id,
                self._hosts[machine],
                managed[session_id][1] if managed.get(session_id, ("",))[0] == machine else None,
            )
            for machine, session_id in known
            if machine != self._machine
        ]

    async def transitions(
        self, session_id: SessionId | None = None, *, after: int = 0, limit: int = 1000
    ) -> list[Transition]:
        self._require_open()
        wanted = (
            each
            for each in self._own_transitions
            if each.seq > after and session_id in {None, each.session_id}
        )
        return list(wanted)[:limit]

    async def transition_counts(self, since: float) -> list[TransitionCount]:
        self._require_open()
        counted = Counter(
            (each.session_id, each.old_state, each.new_state, each.old_health, each.new_health)
            for each in self._own_transitions
            if each.at >= since
        )
        return [TransitionCount(*standings, count) for standings, count in counted.items()]

    async def state_changes(self, since: float, limit: int) -> list[StateChange]:
        self._require_open()
        found = sorted(
            (each for each in self._own_transitions if each.at >= since),
            key=lambda each: (each.at, each.seq),
        )
        return [
            StateChange(
                each.session_id,
                each.at,
                each.old_state,
                each.old_health,
                each.new_state,
                each.new_health,
                each.reason,
            )
            for each in found[max(0, len(found) - limit) :]
        ]

    async def finished_turns(self, since: float) -> list[FinishedTurns]:
        self._require_open()
        ends: dict[SessionId, set[float]] = {}
        for each in self._own_transitions:
            if each.at >= since and each.turn_ended_at is not None and each.turn_ended_at >= since:
                ends.setdefault(each.session_id, set()).add(each.turn_ended_at)
        return [FinishedTurns(session_id, len(known), max(known)) for session_id, known in ends.items()]

    async def forget(self, session_ids: Sequence[SessionId]) -> None:
        self._require_open()
        for each in session_ids:
            self._sessions.pop((self._machine, each), None)

    async def prune(self, before: float) -> int:
        self._require_open()
        newest = {(machine, each.session_id): each.seq for machine, each in self._transitions.values()}
        needed = {newest[key] for key in self._sessions} | {max(self._transitions, default=0)}
        found = (each for _, each in self._transitions.values())
        old = [each.seq for each in found if each.at < before and each.seq not in needed]
        for seq in old:
            del self._transitions[seq]
        return len(old)

    async def save_bookmarks(self, bookmarks: Sequence[Bookmark]) -> None:
        self._require_open()
        self._bookmarks.update(((self._machine, each.path), each) for each in bookmarks)

    async def drop_bookmarks(self, paths: Sequence[str]) -> None:
        self._require_open()
        for path in paths:
            self._bookmarks.pop((self._machine, path), None)

    async def bookmarks(self) -> list[Bookmark]:
        self._require_open()
        return [each for (machine, _), each in self._bookmarks.items() if machine == self._machine]

    async def save_intent(self, intent: Intent) -> bool:
        self._require_open()
        if intent.id in self._intents:
            return False
        self._intents[intent.id] = self._machine, intent
        return True

    async def save_conclusion(self, conclusion: Conclusion) -> bool:
        self._require_open()
        if conclusion.intent_id not in self._intents or conclusion.intent_id in self._conclusions:
            return False
        self._conclusions[conclusion.intent_id] = conclusion
        return True

    async def open_intents(self) -> list[Intent]:
        self._require_open()
        own = (each for machine, each in self._intents.values() if machine == self._machine)
        return [each for each in own if each.id not in self._conclusions]

    async def enqueue(self, work: WorkItem) -> bool:
        return self._runs.enqueue(work)

    async def work(self, work_id: WorkId) -> WorkItem | None:
        return self._runs.work(work_id)

    async def works(
        self, state: WorkState | None = None, *, after: int = 0, limit: int = 100
    ) -> list[WorkItem]:
        return self._runs.works(state, after, limit)

    async def attempts(self, work_id: WorkId) -> list[Attempt]:
        return self._runs.attempts(work_id)

    async def claim_next_run(
        self,
        owner: str,
        *,
        project: str | None = None,
        ttl_seconds: float = LEASE_SECONDS,
        holder: Process | None = None,
    ) -> Run | None:
        return self._runs.claim_next_run(owner, project, ttl_seconds, holder, self._machine)

    async def heartbeat_run_lease(
        self, work_id: WorkId, epoch: int, ttl_seconds: float = LEASE_SECONDS
    ) -> float | None:
        return self._runs.heartbeat(work_id, epoch, ttl_seconds)

    async def complete_run(self, work_id: WorkId, epoch: int, result: str) -> bool:
        return self._runs.end_run(work_id, epoch, AttemptState.DONE, result) is not None

    async def fail_run(self, work_id: WorkId, epoch: int, reason: str) -> WorkState | None:
        return self._runs.end_run(work_id, epoch, AttemptState.FAILED, reason)

    async def expire_runs(self) -> list[Run]:
        return self._runs.expire_runs(self._machine)

    async def next_expiry(self) -> float | None:
        return self._runs.next_expiry(self._machine)

    async def claim_lease(
        self,
        key: LeaseKey,
        owner: str,
        *,
        ttl_seconds: float = LEASE_SECONDS,
        holder: Process | None = None,
        instead_of: Process | None = None,
    ) -> Lease | LeaseConflict:
        return self._runs.claim_lease(key, owner, ttl_seconds, holder, instead_of)

    async def renew_lease(
        self, key: LeaseKey, epoch: int, ttl_seconds: float = LEASE_SECONDS, holder: Process | None = None
    ) -> float | None:
        return self._runs.renew_lease(key, epoch, ttl_seconds, holder)

    async def yield_lease(self, key: LeaseKey, epoch: int) -> bool:
        return self._runs.yield_lease(key, epoch)

    async def leases(self) -> list[Lease]:
        return self._runs.leases()

    async def save_managed_session(self, managed: ManagedSession) -> None:
        self._require_open()
        machine, known = self._runs.managed.get(managed.session_id, (self._machine, managed))
        if machine == self._machine or known.epoch < managed.epoch:
            self._runs.managed[managed.session_id] = self._machine, managed

    async def reclaim_managed_session(
        self, managed: ManagedSession, owner: str
    ) -> ManagedSession | LeaseConflict:
        self._require_open()
        key = LeaseKey(managed.session_id)
        self._runs.yield_lease(key, managed.epoch)
        lease = self._runs.claim_lease(key, owner, LEASE_SECONDS, None)
        if isinstance(lease, LeaseConflict):
            return lease
        reclaimed = structs.replace(
            managed, epoch=lease.epoch, process=None, stopped=False, by_gateway=False, heir=None, closed=False
        )
        await self.save_managed_session(reclaimed)
        return reclaimed

    async def drop_managed_session(self, session_id: SessionId) -> bool:
        self._require_open()
        if self._runs.managed.get(session_id, ("",))[0] != self._machine:
            return False
        del self._runs.managed[session_id]
        return True

    async def managed_sessions(self) -> list[ManagedSession]:
        self._require_open()
        found = sorted(self._runs.managed.items())
        return [managed for _, (machine, managed) in found if machine == self._machine]

    async def save_note(self, note: Note) -> None:
        self._require_open()
        self._notes[self._key_of(note)] = note

    async def save_new_note(self, note: Note) -> bool:
        self._require_open()
        if self._key_of(note) in self._notes:
            return False
        self._notes[self._key_of(note)] = note
        return True

    async def save_new_notes(self, notes: Sequence[Note]) -> None:
        self._require_open()
        for note in notes:
            self._notes.setdefault(self._key_of(note), note)

    async def replace_note(self, old: Note, new: Note) -> bool:
        self._require_open()
        if self._notes.get(self._key_of(old)) != old:
            return False
        self._notes[self._key_of(old)] = structs.replace(old, body=new.body)
        return True

    async def drop_note(self, kind: str, key: str) -> bool:
        self._require_open()
        return self._notes.pop((self._scope(kind), kind, key), None) is not None

    async def notes(self, kind: str) -> list[Note]:
        self._require_open()
        return [self._notes[each] for each in sorted(self._notes) if each[:2] == (self._scope(kind), kind)]

    async def note(self, kind: str, key: str) -> Note | None:
        self._require_open()
        return self._notes.get((self._scope(kind), kind, key))

    async def spend_budget(self, key: str, note: Note, *, times_max: int, window_seconds: float) -> bool:
        self._require_open()
        at, spendings = self._now(), self._spendings.setdefault((self._scope(note.kind), key), [])
        if sum(each > at - window_seconds for each in spendings) >= times_max:
            return False
        spendings.append(at)
        self._notes[self._key_of(note)] = note
        return True

    async def refund_budget(self, key: str, note: Note) -> bool:
        self._require_open()
        if self._notes.pop(self._key_of(note), None) is None:
            return False
        if spendings := self._spendings.get((self._scope(note.kind), key)):
            spendings.pop()
        return True

    async def close(self) -> None:
        self._closed = True

    @property
    def _runs(self) -> MemoryRuns:
        self._require_open()
        return self._stored_runs

    def _require_open(self) -> None:
        if self._closed:
            raise StoreClosed
