"""MemoryStore: the store port without a file, held to the same contract suite as the real ones.

For tests and simulations: nothing survives the process, and nothing here waits.
"""

from collections import Counter
from collections.abc import Callable, Sequence

from msgspec import structs

from wakeful.core.ids import SessionId
from wakeful.core.leases import (
    LEASE_SECONDS,
    Attempt,
    AttemptState,
    HeldLease,
    Lease,
    LeaseKey,
    Run,
    Work,
    WorkId,
    WorkState,
)
from wakeful.core.managed_session import Hosting
from wakeful.core.process import Process
from wakeful.linux.clock import SystemClock
from wakeful.storage.moves import Moves
from wakeful.storage.store import (
    Bookmark,
    Conclusion,
    Intent,
    Note,
    SessionRow,
    StoreClosed,
    Transition,
)
from wakeful.testing.memory_runs import MemoryRuns


def _system_wall() -> float:
    return SystemClock().now().wall


class MemoryStore:
    """Everything in dictionaries by sequence number or id; each operation is whole because nothing awaits."""

    def __init__(self, *, now: Callable[[], float] = _system_wall) -> None:
        self._now = now
        self._runs = MemoryRuns(now)
        self._hostings: dict[SessionId, Hosting] = {}
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
        first = self._transition_seq + 1
        numbered = [
            structs.replace(each, seq=seq, record=bytes(each.record))
            for seq, each in enumerate(transitions, first)
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

    async def moves(self, since: float) -> list[Moves]:
        self._require_open()
        counted = Counter(
            (each.session_id, each.old_state, each.new_state, each.old_health, each.new_health)
            for each in self._transitions.values()
            if each.at >= since
        )
        return [Moves(*standings, count) for standings, count in counted.items()]

    async def forget(self, session_ids: Sequence[SessionId]) -> None:
        self._require_open()
        for each in session_ids:
            self._sessions.pop(each, None)

    async def prune(self, before: float) -> int:
        self._require_open()
        newest = {each.session_id: each.seq for each in self._transitions.values()}
        kept = {newest[id_] for id_ in self._sessions} | {self._transition_seq}
        old = [each.seq for each in self._transitions.values() if each.at < before and each.seq not in kept]
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

    async def intend(self, intent: Intent) -> bool:
        self._require_open()
        if intent.id in self._intents:
            return False
        self._intents[intent.id] = intent
        return True

    async def conclude(self, conclusion: Conclusion) -> bool:
        self._require_open()
        if conclusion.intent_id not in self._intents or conclusion.intent_id in self._conclusions:
            return False
        self._conclusions[conclusion.intent_id] = conclusion
        return True

    async def open_intents(self) -> list[Intent]:
        self._require_open()
        return [each for each in self._intents.values() if each.id not in self._conclusions]

    async def enqueue(self, work: Work) -> bool:
        self._require_open()
        return self._runs.enqueue(work)

    async def work(self, work_id: WorkId) -> Work | None:
        self._require_open()
        return self._runs.work(work_id)

    async def works(self, state: WorkState | None = None, *, after: int = 0, limit: int = 100) -> list[Work]:
        self._require_open()
        return self._runs.works(state, after, limit)

    async def attempts(self, work_id: WorkId) -> list[Attempt]:
        self._require_open()
        return self._runs.attempts(work_id)

    async def claim_next_run(
        self,
        owner: str,
        *,
        project: str | None = None,
        ttl_seconds: float = LEASE_SECONDS,
        holder: Process | None = None,
    ) -> Run | None:
        self._require_open()
        return self._runs.claim_next_run(owner, project, ttl_seconds, holder)

    async def heartbeat_run_lease(
        self, work_id: WorkId, epoch: int, ttl_seconds: float = LEASE_SECONDS
    ) -> float | None:
        self._require_open()
        return self._runs.heartbeat(work_id, epoch, ttl_seconds)

    async def complete_run(self, work_id: WorkId, epoch: int, result: str) -> bool:
        self._require_open()
        return self._runs.end_run(work_id, epoch, AttemptState.DONE, result) is not None

    async def fail_run(self, work_id: WorkId, epoch: int, reason: str) -> WorkState | None:
        self._require_open()
        return self._runs.end_run(work_id, epoch, AttemptState.FAILED, reason)

    async def expire_runs(self) -> list[Run]:
        self._require_open()
        return self._runs.expire_runs()

    async def next_expiry(self) -> float | None:
        self._require_open()
        return self._runs.next_expiry()

    async def claim_lease(
        self,
        key: LeaseKey,
        owner: str,
        *,
        ttl_seconds: float = LEASE_SECONDS,
        holder: Process | None = None,
        instead_of: Process | None = None,
    ) -> Lease | HeldLease:
        self._require_open()
        return self._runs.claim_lease(key, owner, ttl_seconds, holder, instead_of)

    async def renew_lease(
        self,
        key: LeaseKey,
        epoch: int,
        ttl_seconds: float = LEASE_SECONDS,
        holder: Process | None = None,
    ) -> float | None:
        self._require_open()
        return self._runs.renew_lease(key, epoch, ttl_seconds, holder)

    async def yield_lease(self, key: LeaseKey, epoch: int) -> bool:
        self._require_open()
        return self._runs.yield_lease(key, epoch)

    async def leases(self) -> list[Lease]:
        self._require_open()
        return self._runs.leases()

    async def host(self, hosting: Hosting) -> None:
        self._require_open()
        self._hostings[hosting.session_id] = hosting

    async def rehost(
        self, hosting: Hosting, owner: str, *, ttl_seconds: float = LEASE_SECONDS
    ) -> Hosting | HeldLease:
        self._require_open()
        key = LeaseKey(hosting.session_id)
        self._runs.yield_lease(key, hosting.epoch)
        taken = self._runs.claim_lease(key, owner, ttl_seconds, None)
        if isinstance(taken, HeldLease):
            return taken
        following = structs.replace(
            hosting, epoch=taken.epoch, process=None, stopped=False, heir=None, closed=False
        )
        self._hostings[hosting.session_id] = following
        return following

    async def unhost(self, session_id: SessionId) -> bool:
        self._require_open()
        return self._hostings.pop(session_id, None) is not None

    async def hostings(self) -> list[Hosting]:
        self._require_open()
        return [self._hostings[each] for each in sorted(self._hostings)]

    async def keep_note(self, note: Note) -> None:
        self._require_open()
        self._notes[note.kind, note.key] = note

    async def keep_new_note(self, note: Note) -> bool:
        self._require_open()
        if (note.kind, note.key) in self._notes:
            return False
        self._notes[note.kind, note.key] = note
        return True

    async def keep_new_notes(self, notes: Sequence[Note]) -> None:
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

    async def spend(self, key: str, note: Note, *, times_max: int, window_seconds: float) -> bool:
        self._require_open()
        at, spendings = self._now(), self._spendings.setdefault(key, [])
        if sum(each > at - window_seconds for each in spendings) >= times_max:
            return False
        spendings.append(at)
        self._notes[note.kind, note.key] = note
        return True

    async def give_back(self, key: str, note: Note) -> bool:
        self._require_open()
        if self._notes.pop((note.kind, note.key), None) is None:
            return False
        if self._spendings.get(key):
            self._spendings[key].pop()
        return True

    async def close(self) -> None:
        self._closed = True

    def _require_open(self) -> None:
        if self._closed:
            raise StoreClosed
