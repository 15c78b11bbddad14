"""MemoryStore: the store port without a file, held to the same contract suite as the real ones.

For tests and simulations: nothing survives the process, and nothing here waits.
"""

from collections.abc import Sequence

from msgspec import structs

from wakeful.domain.ids import SessionId
from wakeful.ports.store import (
    Bookmark,
    Conclusion,
    Intent,
    OutboxRow,
    SessionRow,
    StoreClosed,
    Transition,
)


class MemoryStore:
    """Everything in dictionaries by sequence number or id; each operation is whole because nothing awaits."""

    def __init__(self) -> None:
        self._sessions: dict[SessionId, SessionRow] = {}
        self._transitions: dict[int, Transition] = {}
        self._outbox: dict[int, OutboxRow] = {}
        self._bookmarks: dict[str, Bookmark] = {}
        self._intents: dict[str, Intent] = {}
        self._conclusions: dict[str, Conclusion] = {}
        self._transition_seq = 0
        self._outbox_seq = 0
        self._closed = False

    async def record(
        self, transitions: Sequence[Transition], *, notices: Sequence[tuple[str, bytes]] = ()
    ) -> int:
        self._require_open()
        owed = [
            OutboxRow(seq, kind, payload) for seq, (kind, payload) in enumerate(notices, self._outbox_seq + 1)
        ]
        for each in transitions:
            self._transition_seq += 1
            self._transitions[self._transition_seq] = structs.replace(each, seq=self._transition_seq)
            known = self._sessions.get(each.session_id)
            version = 1 if known is None else known.version + 1
            self._sessions[each.session_id] = SessionRow(each.session_id, version, each.record, each.at)
        self._outbox.update((row.seq, row) for row in owed)
        self._outbox_seq += len(owed)
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

    async def take_outbox(self, limit: int = 100) -> list[OutboxRow]:
        self._require_open()
        return list(self._outbox.values())[:limit]

    async def settle_outbox(self, seqs: Sequence[int]) -> int:
        self._require_open()
        return sum(self._outbox.pop(seq, None) is not None for seq in seqs)

    async def save_bookmarks(self, bookmarks: Sequence[Bookmark]) -> None:
        self._require_open()
        self._bookmarks.update((each.path, each) for each in bookmarks)

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

    async def close(self) -> None:
        self._closed = True

    def _require_open(self) -> None:
        if self._closed:
            raise StoreClosed
