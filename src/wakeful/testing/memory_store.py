"""MemoryStore: the store in memory, with its tasks, attempts and leases.

It passes the same contract suite as the real stores. For tests and simulations: nothing survives the process.
No method waits inside, so each call is atomic.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

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
from wakeful.core.managed_session import ManagedSession
from wakeful.core.process import Process
from wakeful.linux.clock import SystemClock
from wakeful.storage.base import (
    Bookmark,
    Conclusion,
    FinishedTurns,
    Intent,
    Note,
    SessionRow,
    StateChange,
    StoreClosed,
    Transition,
    TransitionCount,
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
        self, owner: str, project: str | None, ttl_seconds: float, holder: Process | None
    ) -> Run | None:
        work = next(self._due(project), None)
        if work is None:
            return None
        lease = self.claim_lease(work.lease_key, owner, ttl_seconds, holder)
        assert isinstance(lease, Lease), "the conversation of a task that is due is free"
        started = structs.replace(work, state=WorkState.RUNNING, attempts=work.attempts + 1)
        self._works[work.id] = started
        attempt = Attempt(work.id, started.attempts, lease.epoch, owner, AttemptState.RUNNING, lease.since)
        self._attempts[work.id].append(attempt)
        return Run(started, attempt.number, lease.epoch, owner, lease.expires_at)

    def _due(self, project: str | None) -> Iterator[WorkItem]:
        now = self._now()
        for work in self._works.values():
            lease = self._leases.get(work.lease_key)
            is_free = lease is None or lease.expires_at <= now
            is_wanted = project in {None, work.project} and work.not_before <= now
            if work.state is WorkState.PENDING and is_wanted and is_free:
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

    def expire_runs(self) -> list[Run]:
        now = self._now()
        expired = []
        for attempt in self._all_running():
            lease = self._lease_of(attempt)
            if lease is None or lease.expires_at <= now:
                work = self._end(attempt, AttemptState.EXPIRED, LEASE_ENDED)
                expired.append(Run(work, attempt.number, attempt.epoch, attempt.owner, now))
        return expired

    def next_expiry(self) -> float | None:
        leases = [self._lease_of(attempt) for attempt in self._all_running()]
        return min((0.0 if each is None else each.expires_at for each in leases), default=None)

    def _all_running(self) -> list[Attempt]:
        newest = (each[-1] for each in self._attempts.values() if each)
        return [each for each in newest if each.state is AttemptState.RUNNING]

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
    """Everything is in dictionaries by sequence number or id."""

    def __init__(self, *, now: Callable[[], float] = lambda: SystemClock().now().wall) -> None:
        self._now = now
        self._stored_runs = MemoryRuns(now)
        self._managed_sessions: dict[SessionId, ManagedSession] = {}
        self._notes: dict[tuple[str, str], Note] = {}
        self._spendings: dict[str, list[float]] = {}
        self._sessions: dict[SessionId, SessionRow] = {}
        self._transitions: dict[int, Transition] = {}
        self._bookmarks: dict[str, Bookmark] = {}
        self._intents: dict[str, Intent] = {}
        self._conclusions: dict[str, Conclusion] = {}
        self._transition_seq = 0
        self._closed = False

    async def record(self, transitions: Sequence[Transition]) -> int:
        self._require_open()
        # The whole batch is copied first, so that a bad transition changes nothing.
        numbered = [
            structs.replace(each, seq=seq, record=bytes(each.record))
            for seq, each in enumerate(transitions, self._transition_seq + 1)
        ]
        for each in numbered:
            self._transition_seq = each.seq
            self._transitions[each.seq] = each
            known = self._sessions.get(each.session_id)
            version = 1 if known is None else known.version + 1
            self._sessions[each.session_id] = SessionRow(each.session_id, version, each.record, each.at)
        return self._transition_seq if transitions else 0

    async def sessions(self) -> list[SessionRow]:
        self._require_open()
        return sorted(self._sessions.values(), key=lambda row: row.id)

    async def transitions(
        self, session_id: SessionId | None = None, *, after: int = 0, limit: int = 1000
    ) -> list[Transition]:
        self._require_open()
        wanted = (
            each
            for each in self._transitions.values()
            if each.seq > after and session_id in {None, each.session_id}
        )
        return list(wanted)[:limit]

    async def transition_counts(self, since: float) -> list[TransitionCount]:
        self._require_open()
        counted = Counter(
            (each.session_id, each.old_state, each.new_state, each.old_health, each.new_health)
            for each in self._transitions.values()
            if each.at >= since
        )
        return [TransitionCount(*standings, count) for standings, count in counted.items()]

    async def state_changes(self, since: float, limit: int) -> list[StateChange]:
        self._require_open()
        found = sorted(
            (each for each in self._transitions.values() if each.at >= since),
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
        for each in self._transitions.values():
            if each.at >= since and each.turn_ended_at is not None and each.turn_ended_at >= since:
                ends.setdefault(each.session_id, set()).add(each.turn_ended_at)
        return [FinishedTurns(session_id, len(known), max(known)) for session_id, known in ends.items()]

    async def forget(self, session_ids: Sequence[SessionId]) -> None:
        self._require_open()
        for each in session_ids:
            self._sessions.pop(each, None)

    async def prune(self, before: float) -> int:
        self._require_open()
        newest = {each.session_id: each.seq for each in self._transitions.values()}
        needed = {newest[id_] for id_ in self._sessions} | {self._transition_seq}
        old = [each.seq for each in self._transitions.values() if each.at < before and each.seq not in needed]
        for seq in old:
            del self._transitions[seq]
        return len(old)

    async def save_bookmarks(self, bookmarks: Sequence[Bookmark]) -> None:
        self._require_open()
        self._bookmarks.update((each.path, each) for each in bookmarks)

    async def drop_bookmarks(self, paths: Sequence[str]) -> None:
        self._require_open()
        for path in paths:
            self._bookmarks.pop(path, None)

    async def bookmarks(self) -> list[Bookmark]:
        self._require_open()
        return list(self._bookmarks.values())

    async def save_intent(self, intent: Intent) -> bool:
        self._require_open()
        if intent.id in self._intents:
            return False
        self._intents[intent.id] = intent
        return True

    async def save_conclusion(self, conclusion: Conclusion) -> bool:
        self._require_open()
        if conclusion.intent_id not in self._intents or conclusion.intent_id in self._conclusions:
            return False
        self._conclusions[conclusion.intent_id] = conclusion
        return True

    async def open_intents(self) -> list[Intent]:
        self._require_open()
        return [each for each in self._intents.values() if each.id not in self._conclusions]

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
        return self._runs.claim_next_run(owner, project, ttl_seconds, holder)

    async def heartbeat_run_lease(
        self, work_id: WorkId, epoch: int, ttl_seconds: float = LEASE_SECONDS
    ) -> float | None:
        return self._runs.heartbeat(work_id, epoch, ttl_seconds)

    async def complete_run(self, work_id: WorkId, epoch: int, result: str) -> bool:
        return self._runs.end_run(work_id, epoch, AttemptState.DONE, result) is not None

    async def fail_run(self, work_id: WorkId, epoch: int, reason: str) -> WorkState | None:
        return self._runs.end_run(work_id, epoch, AttemptState.FAILED, reason)

    async def expire_runs(self) -> list[Run]:
        return self._runs.expire_runs()

    async def next_expiry(self) -> float | None:
        return self._runs.next_expiry()

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
        self._managed_sessions[managed.session_id] = managed

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
        self._managed_sessions[managed.session_id] = reclaimed
        return reclaimed

    async def drop_managed_session(self, session_id: SessionId) -> bool:
        self._require_open()
        return self._managed_sessions.pop(session_id, None) is not None

    async def managed_sessions(self) -> list[ManagedSession]:
        self._require_open()
        return [self._managed_sessions[each] for each in sorted(self._managed_sessions)]

    async def save_note(self, note: Note) -> None:
        self._require_open()
        self._notes[note.kind, note.key] = note

    async def save_new_note(self, note: Note) -> bool:
        self._require_open()
        if (note.kind, note.key) in self._notes:
            return False
        self._notes[note.kind, note.key] = note
        return True

    async def save_new_notes(self, notes: Sequence[Note]) -> None:
        self._require_open()
        for note in notes:
            self._notes.setdefault((note.kind, note.key), note)

    async def drop_note(self, kind: str, key: str) -> bool:
        self._require_open()
        return self._notes.pop((kind, key), None) is not None

    async def notes(self, kind: str) -> list[Note]:
        self._require_open()
        return [self._notes[each] for each in sorted(self._notes) if each[0] == kind]

    async def note(self, kind: str, key: str) -> Note | None:
        self._require_open()
        return self._notes.get((kind, key))

    async def spend_budget(self, key: str, note: Note, *, times_max: int, window_seconds: float) -> bool:
        self._require_open()
        at, spendings = self._now(), self._spendings.setdefault(key, [])
        if sum(each > at - window_seconds for each in spendings) >= times_max:
            return False
        spendings.append(at)
        self._notes[note.kind, note.key] = note
        return True

    async def refund_budget(self, key: str, note: Note) -> bool:
        self._require_open()
        if self._notes.pop((note.kind, note.key), None) is None:
            return False
        if self._spendings.get(key):
            self._spendings[key].pop()
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
