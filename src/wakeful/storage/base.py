"""Interface of the store: atomic operations with compare-and-set results, never cursors.

When an operation has returned, its effect survives kill -9; operations that are called durable also survive
power loss. An operation that raised, or whose caller was cancelled, may have been stored, but then whole.
Lease time is the store's own clock. Leases are the only authority over who runs what, and nothing caches
them. One contract suite (`tests/contract`) holds every implementation to this and to the docstrings below.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Protocol

from msgspec import Struct

from wakeful.core.errors import OwnError
from wakeful.core.ids import SessionId
from wakeful.core.leases import (
    LEASE_SECONDS,
    Attempt,
    Lease,
    LeaseConflict,
    LeaseKey,
    Run,
    WorkId,
    WorkItem,
    WorkState,
)
from wakeful.core.managed_session import ManagedSession
from wakeful.core.process import Process


class TransitionCount(Struct, frozen=True):
    """How often a session went from one standing to another. `old_state` is empty for one that was new."""

    session_id: SessionId
    old_state: str
    state: str
    old_health: str
    health: str
    count: int


class FinishedTurns(Struct, frozen=True):
    """How many turns of a session ended well, and when the newest of them did."""

    session_id: SessionId
    count: int
    newest_at: float


class StoreClosed(OwnError):
    """The store was used after it was closed. Please report this."""

    code = "store-closed"


class SessionRow(Struct, frozen=True):
    """The newest record of a session, encoded once; `version` grows by one with every transition.

    `updated_at` is the time of that transition. A session that was forgotten and returns begins at version 1.
    """

    id: SessionId
    version: int
    record: bytes
    updated_at: float


class Transition(Struct, frozen=True):
    """One change of a session, with the record it led to. `seq` is given by the store, 0 before that.

    `turn_ended_at`: when the newest turn that was known to have ended well did. `left_out`: how many changes before it,
    back to the stored one, were not stored because there were too many.
    """

    session_id: SessionId
    at: float
    old_state: str
    new_state: str
    old_health: str
    new_health: str
    reason: str
    record: bytes
    seq: int = 0
    turn_ended_at: float | None = None
    left_out: int = 0


class Bookmark(Struct, frozen=True):
    """How far a log was read and what had been folded by then; valid for this file and rule version only."""

    path: str
    inode: int
    offset: int
    head_hash: bytes
    rule_version: int
    folded: bytes


class ActionOutcome(StrEnum):
    """How an act ended, as seen and not as hoped."""

    CONFIRMED = "recovered"
    UNVERIFIED = "unverified"
    INEFFECTIVE = "ineffective"
    DECLINED = "declined"


class Intent(Struct, frozen=True):
    """An act that was decided; durable (synced to disk) before the act begins."""

    id: str
    session_id: SessionId
    act: str
    evidence: bytes
    at: float


class Conclusion(Struct, frozen=True):
    """What became of an intent."""

    intent_id: str
    outcome: ActionOutcome
    reason: str
    at: float


class Note(Struct, frozen=True):
    """A small thing to remember under a name: a mute, a pause, a case, an incident, an alert that is owed."""

    kind: str
    key: str
    body: bytes


class Store(Protocol):
    async def record(self, transitions: Sequence[Transition]) -> int:
        """Store transitions and the sessions' newest records, all or nothing.

        Sequence numbers follow one another in the order given and never return. Gives that of the last
        transition (0 if there were none).
        """

    async def sessions(self) -> list[SessionRow]:
        """The newest record of every session, ordered by id."""

    async def transitions(
        self, session_id: SessionId | None = None, *, after: int = 0, limit: int = 1000
    ) -> list[Transition]:
        """Transitions with a sequence number beyond `after`, oldest first."""

    async def transition_counts(self, since: float) -> list[TransitionCount]:
        """How often each session went from one standing to another since that time, in no order that matters."""

    async def finished_turns(self, since: float) -> list[FinishedTurns]:
        """The turns that ended well since that time, as transitions tell of them, in no order that matters."""

    async def forget(self, session_ids: Sequence[SessionId]) -> None:
        """Drop sessions whose logs are gone. Their transitions stay until retention takes them."""

    async def prune(self, before: float) -> int:
        """Drop transitions from before that time; how many. Done in slices, so others are served meanwhile.

        Spendings of that age are dropped with them.

        Two kinds stay, however old: the newest one of a session that was not forgotten (its record is
        there only), and the very last one (so that sequence numbers never return).
        """

    async def save_bookmarks(self, bookmarks: Sequence[Bookmark]) -> None:
        """Replace the bookmarks of these paths. Losing the newest ones costs reading twice, nothing else."""

    async def drop_bookmarks(self, paths: Sequence[str]) -> None:
        """Forget how far these logs were read: they are gone."""

    async def bookmarks(self) -> list[Bookmark]:
        """Every bookmark, in no order that matters. Paths may hold bytes that are not UTF-8 (`os.fsdecode`)."""

    async def save_intent(self, intent: Intent) -> bool:
        """Make an intent durable (synced to disk) before its act; False if one with this id exists already."""

    async def save_conclusion(self, conclusion: Conclusion) -> bool:
        """Store the outcome of an open intent, durably; False if it is unknown or concluded already."""

    async def open_intents(self) -> list[Intent]:
        """Intents without an outcome, oldest first: what a restart has to look at."""

    async def enqueue(self, work: WorkItem) -> bool:
        """Keep a new work as pending, durably; False if one with this id exists, which stays as it is."""

    async def work(self, work_id: WorkId) -> WorkItem | None:
        """One work, whole."""

    async def works(
        self, state: WorkState | None = None, *, after: int = 0, limit: int = 100
    ) -> list[WorkItem]:
        """Works with a sequence number beyond `after`, oldest first; prompts cut to a summary, no contexts."""

    async def attempts(self, work_id: WorkId) -> list[Attempt]:
        """Every attempt of a work, oldest first."""

    async def claim_next_run(
        self,
        owner: str,
        *,
        project: str | None = None,
        ttl_seconds: float = LEASE_SECONDS,
        holder: Process | None = None,
    ) -> Run | None:
        """Begin an attempt of the oldest pending work that is due and whose conversation nobody holds; durably.

        The lease of its conversation is claimed in the same transaction: this run has the only newest epoch.
        """

    async def heartbeat_run_lease(
        self, work_id: WorkId, epoch: int, ttl_seconds: float = LEASE_SECONDS
    ) -> float | None:
        """Move the end of a run's lease to `ttl_seconds` from now and say when that is; None if it is not held.

        Time alone takes nothing away: a lease past its end is renewed as long as nobody claimed it or expired it.
        """

    async def complete_run(self, work_id: WorkId, epoch: int, result: str) -> bool:
        """The attempt succeeded, its work is done and its lease is free; durably. False: not held, nothing changed."""

    async def fail_run(self, work_id: WorkId, epoch: int, reason: str) -> WorkState | None:
        """The attempt failed and its lease is free; durably. None: not held, nothing changed.

        Else where the work stands now: pending while it has attempts left, failed after that.
        """

    async def expire_runs(self) -> list[Run]:
        """End every attempt whose lease has ended, was yielded or taken over; oldest work first, durably.

        Each comes with its work as it stands then: pending while it has attempts left, failed after that; its
        `lease_until` is now.
        """

    async def next_expiry(self) -> float | None:
        """When, by the store's clock, `expire_runs` will next have something to do; None without a running attempt."""

    async def claim_lease(
        self,
        key: LeaseKey,
        owner: str,
        *,
        ttl_seconds: float = LEASE_SECONDS,
        holder: Process | None = None,
        instead_of: Process | None = None,
    ) -> Lease | LeaseConflict:
        """Take a lease that is free or has ended, with the next epoch, durably; else who has it.

        A lease that is held is refused to everybody, its own owner included: owners renew. `instead_of`: a holder that
        the caller has seen dead; if the lease is still its, it counts as ended.
        """

    async def renew_lease(
        self,
        key: LeaseKey,
        epoch: int,
        ttl_seconds: float = LEASE_SECONDS,
        holder: Process | None = None,
    ) -> float | None:
        """As `heartbeat_run_lease`, by the lease's own key; `holder`: who has it from now on, if that is said."""

    async def yield_lease(self, key: LeaseKey, epoch: int) -> bool:
        """Give a lease back; the epoch stays. False: not held with this epoch, nothing changed."""

    async def leases(self) -> list[Lease]:
        """Every lease that somebody has, ordered by key, those past their end among them."""

    async def save_managed_session(self, managed: ManagedSession) -> None:
        """Keep where a managed session lives, durably; the newest word about a session counts."""

    async def reclaim_managed_session(
        self, managed: ManagedSession, owner: str, *, ttl_seconds: float = LEASE_SECONDS
    ) -> ManagedSession | LeaseConflict:
        """Claim the session anew and keep its hosting under the next epoch, both or neither, durably.

        The hosting that is kept has no process and is not stopped. LeaseConflict, and nothing changed: somebody else
        claimed it since this hosting's epoch.
        """

    async def drop_managed_session(self, session_id: SessionId) -> bool:
        """Forget where a session lives, durably: it is managed no longer. False if it was not."""

    async def managed_sessions(self) -> list[ManagedSession]:
        """Every managed session, ordered by id."""

    async def save_note(self, note: Note) -> None:
        """Remember it, durably; the newest word counts."""

    async def save_new_note(self, note: Note) -> bool:
        """Remember it, durably, unless one of this kind and key is there, which stays as it is: False."""

    async def save_new_notes(self, notes: Sequence[Note]) -> None:
        """Remember them together, all or none, durably; where one of a kind and key is there, that one stays."""

    async def drop_note(self, kind: str, key: str) -> bool:
        """Forget it, durably. False if it was not there."""

    async def notes(self, kind: str) -> list[Note]:
        """Every note of a kind, ordered by key."""

    async def note(self, kind: str, key: str) -> Note | None:
        """One of them."""

    async def spend_budget(self, key: str, note: Note, *, times_max: int, window_seconds: float) -> bool:
        """Spend a budget and keep the note that says on what, both or neither, durably.

        False, and nothing changed: it was spent `times_max` times within the window, by the store's clock.
        """

    async def refund_budget(self, key: str, note: Note) -> bool:
        """Undo the newest spending and forget its note, durably. False, and nothing changed: there is no such note."""

    async def close(self) -> None:
        """Finish what was begun and let go of the file; twice is once. After that everything raises StoreClosed."""
