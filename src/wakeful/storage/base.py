"""Interface of the store: atomic operations with compare-and-set results, never cursors.

When an operation has returned, its effect survives kill -9; operations that are called durable also survive
power loss. An operation that raised, or whose caller was cancelled, may have been stored, but then whole.
Machines may share a store: it is opened for one, and rows about processes, files and sessions are that machine's own.
Tasks, leases and notes of SHARED_NOTES are common to all. Leases are measured with the store's own clock. They alone
decide which process runs a conversation, and nothing caches them. One contract suite (`tests/contract`) checks every
implementation against this and the docstrings below.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Final, Protocol

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
    """How often a session made one transition. `old_state` is empty for a new session."""

    session_id: SessionId
    old_state: str
    state: str
    old_health: str
    health: str
    count: int


class StateChange(Struct, frozen=True):
    """A transition without its record. `old_state` is empty for a new session."""

    session_id: SessionId
    at: float
    old_state: str
    old_health: str
    state: str
    health: str
    reason: str


class FinishedTurns(Struct, frozen=True):
    """How many turns of a session ended well, and the end of the newest of them."""

    session_id: SessionId
    count: int
    newest_at: float


class StoreClosed(OwnError):
    """The store was used after it was closed. Please report this."""

    code = "store-closed"


class SessionRow(Struct, frozen=True):
    """The newest record of a session, encoded once; `version` grows by one with every transition.

    `updated_at` is the time of that transition. A session that returns after `forget` begins at version 1.
    """

    id: SessionId
    version: int
    record: bytes
    updated_at: float


class Transition(Struct, frozen=True):
    """One change of a session, with the resulting record. The store sets `seq`, which is 0 before that.

    `turn_ended_at`: the end of the newest turn that is known to have ended well. `left_out`: how many changes since
    the last stored one were not stored because there were too many.
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
    # Whether its agent lives, for the other machines on this store.
    alive: bool = False


class SessionElsewhere(Struct, frozen=True):
    """A session that another machine manages, or whose agent lives there. `host` is that machine's name.

    `managed` is None if it is only watched there.
    """

    session_id: SessionId
    host: str
    managed: ManagedSession | None = None


class Bookmark(Struct, frozen=True):
    """The position up to which a log was read, and the state folded from it; only for this file and rule version."""

    path: str
    inode: int
    offset: int
    head_hash: bytes
    rule_version: int
    folded: bytes


class ActionOutcome(StrEnum):
    CONFIRMED = "recovered"
    UNVERIFIED = "unverified"
    INEFFECTIVE = "ineffective"
    DECLINED = "declined"


class Intent(Struct, frozen=True):
    """A decided action; durable (synced to disk) before the action begins."""

    id: str
    session_id: SessionId
    act: str
    evidence: bytes
    at: float


class Conclusion(Struct, frozen=True):
    intent_id: str
    outcome: ActionOutcome
    reason: str
    at: float


class Note(Struct, frozen=True):
    """A small stored document under a name: a mute, a pause, a case, an incident, a pending alert."""

    kind: str
    key: str
    body: bytes


# What all machines on a store share; every other kind of note is about one machine. Budgets follow their notes.
SHARED_NOTES: Final = frozenset({"pause", "mute", "lesson", "issue", "work_told", "deed"})
SHARED: Final = ""
"""The machine of rows that all machines share."""


def is_shared(kind: str) -> bool:
    """Whether all machines share the notes of this kind."""
    return kind in SHARED_NOTES


class Store(Protocol):
    async def record(self, transitions: Sequence[Transition]) -> int:
        """Store transitions and the sessions' newest records, all or nothing.

        Sequence numbers are consecutive in the given order and are never reused. Returns the last one (0 without
        transitions).
        """

    async def sessions(self) -> list[SessionRow]:
        """The newest record of every session, ordered by id."""

    async def sessions_elsewhere(self) -> list[SessionElsewhere]:
        """The sessions that other machines manage or have seen alive, unordered; a session may be on several."""

    async def transitions(
        self, session_id: SessionId | None = None, *, after: int = 0, limit: int = 1000
    ) -> list[Transition]:
        """Transitions with a sequence number above `after`, oldest first."""

    async def transition_counts(self, since: float) -> list[TransitionCount]:
        """How often each session made each transition since that time, unordered."""

    async def state_changes(self, since: float, limit: int) -> list[StateChange]:
        """The newest `limit` transitions since that time without their records, oldest first."""

    async def finished_turns(self, since: float) -> list[FinishedTurns]:
        """The turns that ended well since that time, according to the transitions, unordered."""

    async def forget(self, session_ids: Sequence[SessionId]) -> None:
        """Drop sessions of which the logs were deleted. Their transitions stay until `prune` drops them."""

    async def prune(self, before: float) -> int:
        """Drop transitions and budget spendings from before that time; returns the number of transitions.

        It works in slices, so other operations run in between. Two kinds stay at any age: the newest transition of a
        session that was not forgotten (it has the only record), and the very last one (so that sequence numbers are
        never reused).
        """

    async def save_bookmarks(self, bookmarks: Sequence[Bookmark]) -> None:
        """Replace the bookmarks of these paths. Losing the newest ones only costs a second read."""

    async def drop_bookmarks(self, paths: Sequence[str]) -> None:
        """Drop the bookmarks of deleted logs."""

    async def bookmarks(self) -> list[Bookmark]:
        """Every bookmark, unordered. Paths may contain bytes that are not UTF-8 (`os.fsdecode`)."""

    async def save_intent(self, intent: Intent) -> bool:
        """Store an intent durably before its action; False if one with this id exists already."""

    async def save_conclusion(self, conclusion: Conclusion) -> bool:
        """Store the outcome of an open intent durably; False if it is unknown or concluded already."""

    async def open_intents(self) -> list[Intent]:
        """Intents without an outcome, oldest first; a restart checks them."""

    async def enqueue(self, work: WorkItem) -> bool:
        """Store a new pending task durably; False if one with this id exists, which stays unchanged."""

    async def work(self, work_id: WorkId) -> WorkItem | None:
        """One task with its full prompt and context."""

    async def works(
        self, state: WorkState | None = None, *, after: int = 0, limit: int = 100
    ) -> list[WorkItem]:
        """Tasks with a sequence number above `after`, oldest first; prompts cut to a summary, no contexts."""

    async def attempts(self, work_id: WorkId) -> list[Attempt]:
        """Every attempt of a task, oldest first."""

    async def claim_next_run(
        self,
        owner: str,
        *,
        project: str | None = None,
        ttl_seconds: float = LEASE_SECONDS,
        holder: Process | None = None,
    ) -> Run | None:
        """Begin, durably, an attempt of the oldest pending task that is due and has a free conversation.

        The same transaction claims the lease of its conversation: only this run has the newest epoch. A task that
        continues a session of another machine is left to that machine.
        """

    async def heartbeat_run_lease(
        self, work_id: WorkId, epoch: int, ttl_seconds: float = LEASE_SECONDS
    ) -> float | None:
        """Move the end of a run's lease to `ttl_seconds` from now and return it; None if the run has no lease.

        Time alone ends no lease: one past its end can be renewed until another owner claims it or it is expired.
        """

    async def complete_run(self, work_id: WorkId, epoch: int, result: str) -> bool:
        """Mark the attempt and its task done and free the lease, durably. False without the lease: nothing changed."""

    async def fail_run(self, work_id: WorkId, epoch: int, reason: str) -> WorkState | None:
        """Mark the attempt failed and free its lease, durably. None without the lease: nothing changed.

        Otherwise returns the task's new state: pending while it has attempts left, failed after that.
        """

    async def expire_runs(self) -> list[Run]:
        """End, durably, every attempt of this machine with a lease that has ended, was yielded or taken over; oldest task first.

        Each has its task in the new state: pending while it has attempts left, failed after that; its
        `lease_until` is now.
        """

    async def next_expiry(self) -> float | None:
        """When, by the store's clock, `expire_runs` will have work next; None without a running attempt of this machine."""

    async def claim_lease(
        self,
        key: LeaseKey,
        owner: str,
        *,
        ttl_seconds: float = LEASE_SECONDS,
        holder: Process | None = None,
        instead_of: Process | None = None,
    ) -> Lease | LeaseConflict:
        """Take a free or ended lease, with the next epoch, durably; otherwise returns the conflicting lease.

        A held lease is refused even to its own owner: owners renew. `instead_of`: a holder that the caller has seen
        dead; if it still has the lease, the lease counts as ended.
        """

    async def renew_lease(
        self,
        key: LeaseKey,
        epoch: int,
        ttl_seconds: float = LEASE_SECONDS,
        holder: Process | None = None,
    ) -> float | None:
        """As `heartbeat_run_lease`, by the lease's key; `holder`, if given, is its process from now on."""

    async def yield_lease(self, key: LeaseKey, epoch: int) -> bool:
        """Release a lease; the epoch stays. False if it is not held with this epoch: nothing changed."""

    async def leases(self) -> list[Lease]:
        """Every held lease, including those past their end, ordered by key."""

    async def save_managed_session(self, managed: ManagedSession) -> None:
        """Store or replace the address of a managed session, durably.

        That of another machine is replaced only under a newer epoch; otherwise nothing changes.
        """

    async def reclaim_managed_session(
        self, managed: ManagedSession, owner: str
    ) -> ManagedSession | LeaseConflict:
        """Claim the session again and store it under the next epoch, durably, all or nothing.

        The stored one has no process and is not stopped. LeaseConflict: another owner claimed it since its epoch;
        nothing changed.
        """

    async def drop_managed_session(self, session_id: SessionId) -> bool:
        """Delete a managed session durably: it is watched only from now on. False if it was not managed here."""

    async def managed_sessions(self) -> list[ManagedSession]:
        """Every managed session of this machine, ordered by id."""

    async def save_note(self, note: Note) -> None:
        """Store or replace a note, durably."""

    async def save_new_note(self, note: Note) -> bool:
        """Store a note durably; False if one of this kind and key exists, which stays unchanged."""

    async def save_new_notes(self, notes: Sequence[Note]) -> None:
        """Store notes together, durably, all or nothing; existing notes of the same kind and key stay unchanged."""

    async def replace_note(self, old: Note, new: Note) -> bool:
        """Store `new` durably in place of `old`, of the same kind and key. False if `old` is not stored any more."""

    async def drop_note(self, kind: str, key: str) -> bool:
        """Delete a note durably. False if it does not exist."""

    async def notes(self, kind: str) -> list[Note]:
        """Every note of a kind, ordered by key."""

    async def note(self, kind: str, key: str) -> Note | None: ...

    async def spend_budget(self, key: str, note: Note, *, times_max: int, window_seconds: float) -> bool:
        """Spend a budget and store the note about its use, durably, all or nothing.

        False if it was spent `times_max` times within the window, by the store's clock: nothing changed.
        """

    async def refund_budget(self, key: str, note: Note) -> bool:
        """Undo the newest spending and delete its note, durably. False if there is no such note: nothing changed."""

    async def close(self) -> None:
        """Finish running operations and close the file; a second call has no effect. Later ones raise StoreClosed."""
