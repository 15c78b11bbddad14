"""Memory that outlives the daemon: atomic domain operations with compare-and-set results, never cursors.

Whatever an operation here has returned is there after kill -9; `intend` and `conclude` also survive power
loss. An operation that raised, or whose caller was cancelled, may have been stored, but then whole. One contract
suite (`tests/contract/store_contract.py`) holds every implementation to that and to the docstrings below.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Protocol

from msgspec import Struct

from wakeful.domain.errors import OwnError
from wakeful.domain.ids import SessionId


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
    """One change of a session, with the record it led to. `seq` is given by the store, 0 before that."""

    session_id: SessionId
    at: float
    old_state: str
    new_state: str
    old_health: str
    new_health: str
    reason: str
    record: bytes
    seq: int = 0


class OutboxRow(Struct, frozen=True):
    """An effect that is owed to the outside; written in the same transaction as its cause."""

    seq: int
    kind: str
    payload: bytes


class Bookmark(Struct, frozen=True):
    """How far a log was read and what had been folded by then; valid for this file and rule version only."""

    path: str
    inode: int
    offset: int
    head_hash: bytes
    rule_version: int
    folded: bytes


class Outcome(StrEnum):
    """How an act ended, as seen and not as hoped."""

    RECOVERED = "recovered"
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
    outcome: Outcome
    reason: str
    at: float


class Store(Protocol):
    async def record(
        self, transitions: Sequence[Transition], *, notices: Sequence[tuple[str, bytes]] = ()
    ) -> int:
        """Store transitions, the sessions' newest records and the notices owed for them, all or nothing.

        Sequence numbers follow one another in the order given and never return. Gives that of the last
        transition (0 if there were none).
        """

    async def sessions(self) -> list[SessionRow]:
        """The newest record of every session, ordered by id."""

    async def transitions(
        self, session_id: SessionId | None = None, *, after: int = 0, limit: int = 1000
    ) -> list[Transition]:
        """Transitions with a sequence number beyond `after`, oldest first."""

    async def forget(self, session_ids: Sequence[SessionId]) -> None:
        """Drop sessions whose logs are gone. Their transitions stay until retention takes them."""

    async def prune(self, before: float) -> int:
        """Drop transitions from before that time; how many. Done in slices, so others are served meanwhile.

        Two kinds stay, however old: the newest one of a session that was not forgotten (its record is
        there only), and the very last one (so that sequence numbers never return).
        """

    async def take_outbox(self, limit: int = 100) -> list[OutboxRow]:
        """The oldest effects still owed, oldest first. Taking does not remove them; numbers never return."""

    async def settle_outbox(self, seqs: Sequence[int]) -> int:
        """Remove effects that were delivered; how many were still there."""

    async def save_bookmarks(self, bookmarks: Sequence[Bookmark]) -> None:
        """Replace the bookmarks of these paths. Losing the newest ones costs reading twice, nothing else."""

    async def bookmarks(self) -> list[Bookmark]:
        """Every bookmark, in no order that matters. Paths may hold bytes that are not UTF-8 (`os.fsdecode`)."""

    async def intend(self, intent: Intent) -> bool:
        """Make an intent durable before its act; False if one with this id exists already."""

    async def conclude(self, conclusion: Conclusion) -> bool:
        """Store the outcome of an open intent, durably; False if it is unknown or concluded already."""

    async def open_intents(self) -> list[Intent]:
        """Intents without an outcome, oldest first: what a restart has to look at."""

    async def close(self) -> None:
        """Finish what was begun and let go of the file; twice is once. After that everything raises StoreClosed."""
