"""Works, attempts and leases of the MemoryStore, in dictionaries. Nothing here awaits, so each call is whole."""

from collections.abc import Callable, Iterator
from itertools import islice

from msgspec import structs

from wakeful.core.leases import (
    LEASE_ENDED,
    SUMMARY_CHARS_READ,
    Attempt,
    AttemptState,
    HeldLease,
    Lease,
    LeaseKey,
    Run,
    Work,
    WorkId,
    WorkState,
    state_after,
)
from wakeful.core.process import Process


class MemoryRuns:
    """`now` is the store's clock, in seconds of the epoch."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._works: dict[WorkId, Work] = {}
        self._attempts: dict[WorkId, list[Attempt]] = {}
        self._held: dict[LeaseKey, Lease] = {}
        # Kept when a lease is given back: an epoch never falls.
        self._epochs: dict[LeaseKey, int] = {}

    def enqueue(self, work: Work) -> bool:
        if work.id in self._works:
            return False
        fresh = structs.replace(work, state=WorkState.PENDING, attempts=0, seq=len(self._works) + 1)
        self._works[work.id] = fresh
        self._attempts[work.id] = []
        return True

    def work(self, work_id: WorkId) -> Work | None:
        return self._works.get(work_id)

    def works(self, state: WorkState | None, after: int, limit: int) -> list[Work]:
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
        assert isinstance(lease, Lease), "a work that is due has a free conversation"
        started = structs.replace(work, state=WorkState.RUNNING, attempts=work.attempts + 1)
        self._works[work.id] = started
        attempt = Attempt(work.id, started.attempts, lease.epoch, owner, AttemptState.RUNNING, lease.since)
        self._attempts[work.id].append(attempt)
        return Run(started, attempt.number, lease.epoch, owner, lease.expires_at)

    def _due(self, project: str | None) -> Iterator[Work]:
        now = self._now()
        for work in self._works.values():
            held = self._held.get(work.lease_key)
            free = held is None or held.expires_at <= now
            wanted = project in {None, work.project} and work.not_before <= now
            if work.state is WorkState.PENDING and wanted and free:
                yield work

    def claim_lease(
        self,
        key: LeaseKey,
        owner: str,
        ttl_seconds: float,
        holder: Process | None,
        instead_of: Process | None = None,
    ) -> Lease | HeldLease:
        now = self._now()
        held = self._held.get(key)
        replaced = held is not None and held.holder is not None and held.holder == instead_of
        if held is not None and held.expires_at > now and not replaced:
            return HeldLease(key, held.owner, held.since, held.expires_at, held.holder)
        self._epochs[key] = self._epochs.get(key, 0) + 1
        self._held[key] = Lease(key, self._epochs[key], owner, now, now + ttl_seconds, holder)
        return self._held[key]

    def renew_lease(
        self, key: LeaseKey, epoch: int, ttl_seconds: float, holder: Process | None = None
    ) -> float | None:
        held = self._held.get(key)
        if held is None or held.epoch != epoch:
            return None
        until = self._now() + ttl_seconds
        self._held[key] = structs.replace(held, expires_at=until, holder=holder or held.holder)
        return self._held[key].expires_at

    def yield_lease(self, key: LeaseKey, epoch: int) -> bool:
        held = self._held.get(key)
        if held is None or held.epoch != epoch:
            return False
        del self._held[key]
        return True

    def leases(self) -> list[Lease]:
        return sorted(self._held.values(), key=lambda lease: lease.key)

    def heartbeat(self, work_id: WorkId, epoch: int, ttl_seconds: float) -> float | None:
        attempt = self._running(work_id, epoch)
        if attempt is None:
            return None
        return self.renew_lease(self._works[work_id].lease_key, epoch, ttl_seconds)

    def end_run(self, work_id: WorkId, epoch: int, ending: AttemptState, said: str) -> WorkState | None:
        attempt = self._running(work_id, epoch)
        if attempt is None or self._lease_of(attempt) is None:
            return None
        return self._end(attempt, ending, said).state

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
        return [
            each[-1] for each in self._attempts.values() if each and each[-1].state is AttemptState.RUNNING
        ]

    def _running(self, work_id: WorkId, epoch: int) -> Attempt | None:
        """The attempt with this epoch, if it has not ended."""
        last = self._attempts.get(work_id, [])[-1:]
        fits = [each for each in last if each.epoch == epoch and each.state is AttemptState.RUNNING]
        return fits[0] if fits else None

    def _lease_of(self, attempt: Attempt) -> Lease | None:
        """Its lease, if it still has it."""
        held = self._held.get(self._works[attempt.work_id].lease_key)
        return held if held is not None and held.epoch == attempt.epoch else None

    def _end(self, attempt: Attempt, ending: AttemptState, said: str) -> Work:
        self._attempts[attempt.work_id][-1] = structs.replace(
            attempt, state=ending, ended_at=self._now(), result=said
        )
        work = self._works[attempt.work_id]
        self.yield_lease(work.lease_key, attempt.epoch)
        state = state_after(ending, work.attempts, work.attempts_max)
        self._works[work.id] = structs.replace(work, state=state)
        return self._works[work.id]
