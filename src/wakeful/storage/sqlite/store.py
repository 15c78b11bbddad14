"""SqliteStore: implements the store on one SQLite file.

It translates operations to SQL. Transactions are in `writer.py`, checks and migrations of the file in
`database.py`.
"""

import asyncio
import os
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Final, Self

import msgspec

from wakeful.core.decoding import decode_json
from wakeful.core.fault_points import fault_point
from wakeful.core.ids import SessionId
from wakeful.core.leases import (
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
from wakeful.storage.sqlite import work as runs
from wakeful.storage.sqlite.database import (
    QUERIES,
    Connections,
    finished_turns_of,
    inherit_rows,
    open_database,
    transition_count_of,
)
from wakeful.storage.sqlite.errors import translate
from wakeful.storage.sqlite.work import WallClock
from wakeful.storage.sqlite.writer import Operation, T, Writer

Row = tuple[Any, ...]
# One slice of retention takes some 40 ms of the writer; other operations run between two slices.
PRUNED_PER_COMMIT_MAX: Final = 2000


def _system_wall() -> float:
    """The clock for leases, which all processes with this file share."""
    return SystemClock().now().wall


class SqliteStore:
    """The store in one file, which several processes may open. Belongs to the event loop that opened it."""

    def __init__(self, path: Path, connections: Connections, machine: Machine, now: WallClock) -> None:
        self._path = path
        self._machine = machine.id
        self._now = now
        self._writer = Writer(connections.writer, path)
        self._reader = connections.reader
        self._reading = ThreadPoolExecutor(1, thread_name_prefix="store-reader")
        self._closing: asyncio.Task[None] | None = None

    @classmethod
    async def open(cls, path: Path, *, machine: Machine | None = None, now: WallClock = _system_wall) -> Self:
        """Open or create the store at `path`, for `machine` (without one, this machine); raises as `open_database` does.

        `now` is its clock for leases, in seconds of the epoch; the writer's thread calls it.
        """
        machine = this_machine() if machine is None else machine
        return cls(path, await asyncio.to_thread(open_database, path, machine=machine), machine, now)

    async def inherit(self) -> bool:
        """Take over the rows of all other machines: only for a store that no other machine has open."""
        return await self._commit(partial(inherit_rows, self._machine), durable=True)

    async def record(self, transitions: Sequence[Transition]) -> int:
        return await self._commit(partial(_record, self._machine, transitions))

    async def sessions(self) -> list[SessionRow]:
        return await self._read(_session, "sessions", self._machine)

    async def sessions_elsewhere(self) -> list[SessionElsewhere]:
        return await self._read(_session_elsewhere, "sessions_elsewhere", self._machine)

    async def transitions(
        self, session_id: SessionId | None = None, *, after: int = 0, limit: int = 1000
    ) -> list[Transition]:
        if session_id is None:
            return await self._read(_transition, "transitions", after, self._machine, limit)
        values = (str(session_id), after, self._machine, limit)
        return await self._read(_transition, "transitions_of_session", *values)

    async def transition_counts(self, since: float) -> list[TransitionCount]:
        return await self._read(transition_count_of, "moves", since, self._machine)

    async def state_changes(self, since: float, limit: int) -> list[StateChange]:
        return (await self._read(_state_change, "state_changes", since, self._machine, limit))[::-1]

    async def finished_turns(self, since: float) -> list[FinishedTurns]:
        return await self._read(finished_turns_of, "finished_turns", since, self._machine)

    async def forget(self, session_ids: Sequence[SessionId]) -> None:
        await self._commit(partial(_write, "forget", [(self._machine, str(each)) for each in session_ids]))

    async def prune(self, before: float) -> int:
        pruned = 0
        while True:
            slice_ = await self._commit(partial(_prune, before))
            pruned += slice_
            if slice_ < PRUNED_PER_COMMIT_MAX:
                return pruned

    async def save_bookmarks(self, bookmarks: Sequence[Bookmark]) -> None:
        rows = [
            (
                self._machine,
                os.fsencode(each.path),
                str(each.inode),
                each.offset,
                each.head_hash,
                each.rule_version,
                each.folded,
            )
            for each in bookmarks
        ]
        await self._commit(partial(_write, "save_bookmark", rows))

    async def drop_bookmarks(self, paths: Sequence[str]) -> None:
        rows = [(self._machine, os.fsencode(each)) for each in paths]
        await self._commit(partial(_write, "drop_bookmark", rows))

    async def bookmarks(self) -> list[Bookmark]:
        return await self._read(_bookmark, "bookmarks", self._machine)

    async def save_intent(self, intent: Intent) -> bool:
        row = (intent.id, str(intent.session_id), intent.act, intent.evidence, intent.at, self._machine)
        return await self._commit(partial(_write, "intend", [row]), durable=True) == 1

    async def save_conclusion(self, conclusion: Conclusion) -> bool:
        row = (str(conclusion.outcome), conclusion.reason, conclusion.at, conclusion.intent_id)
        return await self._commit(partial(_write, "conclude", [row]), durable=True) == 1

    async def open_intents(self) -> list[Intent]:
        return await self._read(_intent, "open_intents", self._machine)

    async def enqueue(self, work: WorkItem) -> bool:
        return await self._commit(partial(_write, "enqueue", [runs.work_row(work)]), durable=True) == 1

    async def work(self, work_id: WorkId) -> WorkItem | None:
        found = await self._read(runs.work_of, "work", str(work_id))
        return found[0] if found else None

    async def works(
        self, state: WorkState | None = None, *, after: int = 0, limit: int = 100
    ) -> list[WorkItem]:
        if state is None:
            return await self._read(runs.work_of, "works", SUMMARY_CHARS_READ, after, limit)
        return await self._read(runs.work_of, "works_in_state", SUMMARY_CHARS_READ, after, state.value, limit)

    async def attempts(self, work_id: WorkId) -> list[Attempt]:
        return await self._read(runs.attempt_of, "attempts", str(work_id))

    async def claim_next_run(
        self,
        owner: str,
        *,
        project: str | None = None,
        ttl_seconds: float = LEASE_SECONDS,
        holder: Process | None = None,
    ) -> Run | None:
        claim = runs.LeaseRequest(owner, ttl_seconds, holder)
        operation = partial(runs.claim_next_run, project, claim, self._machine, self._now)
        return await self._commit(operation, durable=True)

    async def heartbeat_run_lease(
        self, work_id: WorkId, epoch: int, ttl_seconds: float = LEASE_SECONDS
    ) -> float | None:
        return await self._commit(partial(runs.heartbeat, work_id, epoch, ttl_seconds, self._now))

    async def complete_run(self, work_id: WorkId, epoch: int, result: str) -> bool:
        return await self._finish_run(work_id, epoch, AttemptState.DONE, result) is not None

    async def fail_run(self, work_id: WorkId, epoch: int, reason: str) -> WorkState | None:
        return await self._finish_run(work_id, epoch, AttemptState.FAILED, reason)

    async def _finish_run(
        self, work_id: WorkId, epoch: int, ending: AttemptState, result: str
    ) -> WorkState | None:
        operation = partial(runs.end_run, work_id, epoch, ending, result, self._now)
        return await self._commit(operation, durable=True)

    async def expire_runs(self) -> list[Run]:
        return await self._commit(partial(runs.expire_runs, self._machine, self._now), durable=True)

    async def next_expiry(self) -> float | None:
        until: list[float | None] = await self._read(lambda value: value, "next_expiry", self._machine)
        return until[0]

    async def claim_lease(
        self,
        key: LeaseKey,
        owner: str,
        *,
        ttl_seconds: float = LEASE_SECONDS,
        holder: Process | None = None,
        instead_of: Process | None = None,
    ) -> Lease | LeaseConflict:
        claim = runs.LeaseRequest(owner, ttl_seconds, holder, instead_of)
        return await self._commit(partial(runs.claim_lease, key, claim, self._now), durable=True)

    async def renew_lease(
        self,
        key: LeaseKey,
        epoch: int,
        ttl_seconds: float = LEASE_SECONDS,
        holder: Process | None = None,
    ) -> float | None:
        return await self._commit(partial(runs.renew_lease, key, epoch, ttl_seconds, holder, self._now))

    async def yield_lease(self, key: LeaseKey, epoch: int) -> bool:
        return await self._commit(partial(_write, "yield_lease", [(str(key), epoch)])) == 1

    async def leases(self) -> list[Lease]:
        return await self._read(runs.lease_of, "leases")

    async def save_managed_session(self, managed: ManagedSession) -> None:
        row = _managed_session_row(managed, self._machine)
        await self._commit(partial(_write, "host", [row]), durable=True)

    async def reclaim_managed_session(
        self, managed: ManagedSession, owner: str
    ) -> ManagedSession | LeaseConflict:
        claim = runs.LeaseRequest(owner, LEASE_SECONDS, None)
        operation = partial(_reclaim_managed_session, managed, claim, self._machine, self._now)
        return await self._commit(operation, durable=True)

    async def drop_managed_session(self, session_id: SessionId) -> bool:
        rows = [(str(session_id), self._machine)]
        return await self._commit(partial(_write, "unhost", rows), durable=True) == 1

    async def managed_sessions(self) -> list[ManagedSession]:
        return await self._read(_managed_session, "hostings", self._machine)

    async def save_note(self, note: Note) -> None:
        await self._commit(partial(_write, "keep_note", [self._note_row(note)]), durable=True)

    async def save_new_note(self, note: Note) -> bool:
        return await self._commit(partial(_write, "keep_new_note", [self._note_row(note)]), durable=True) == 1

    async def save_new_notes(self, notes: Sequence[Note]) -> None:
        rows = [self._note_row(note) for note in notes]
        await self._commit(partial(_write, "keep_new_note", rows), durable=True)

    async def replace_note(self, old: Note, new: Note) -> bool:
        row = (*self._note_row(old), new.body)
        return await self._commit(partial(_write, "replace_note", [row]), durable=True) == 1

    async def drop_note(self, kind: str, key: str) -> bool:
        rows = [(self._scope(kind), kind, key)]
        return await self._commit(partial(_write, "drop_note", rows), durable=True) == 1

    async def notes(self, kind: str) -> list[Note]:
        return await self._read(Note, "notes", self._scope(kind), kind)

    async def note(self, kind: str, key: str) -> Note | None:
        return next(iter(await self._read(Note, "note", self._scope(kind), kind, key)), None)

    def _scope(self, kind: str) -> str:
        return SHARED if is_shared(kind) else self._machine

    def _note_row(self, note: Note) -> Row:
        return self._scope(note.kind), str(note.kind), str(note.key), note.body

    async def spend_budget(self, key: str, note: Note, *, times_max: int, window_seconds: float) -> bool:
        row = self._note_row(note)
        operation = partial(_spend_budget, key, row, times_max, window_seconds, self._now)
        return await self._commit(operation, durable=True)

    async def refund_budget(self, key: str, note: Note) -> bool:
        return await self._commit(partial(_refund_budget, key, self._note_row(note)), durable=True)

    async def close(self) -> None:
        if self._closing is None:
            self._closing = asyncio.create_task(self._close())
        # Shielded: a cancelled caller must not leave the file half closed.
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        # The writer last: the last connection that closes merges the log into the file, which a reader cannot.
        await asyncio.get_running_loop().run_in_executor(self._reading, self._reader.close)
        self._reading.shutdown(wait=False)
        await self._writer.close()

    async def _commit(self, operation: Operation[T], *, durable: bool = False) -> T:
        if self._closing is not None:
            raise StoreClosed
        return await self._writer.commit(operation, durable=durable)

    async def _read(self, make: Callable[..., T], query: str, *values: object) -> list[T]:
        if self._closing is not None:
            raise StoreClosed
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._reading, self._fetch, make, QUERIES[query], values)

    def _fetch(self, make: Callable[..., T], query: str, values: Sequence[Any]) -> list[T]:
        try:
            fault_point("store.read")
            return [make(*row) for row in self._reader.execute(query, values)]
        except (sqlite3.Error, OSError) as error:
            raise translate(error, self._path) from error


def _managed_session(encoded: bytes) -> ManagedSession:
    return decode_json(encoded, ManagedSession)


def _session(id_: str, version: int, record: bytes, at: float) -> SessionRow:
    return SessionRow(SessionId(id_), version, record, at)


def _session_elsewhere(id_: str, host: str, managed: bytes | None) -> SessionElsewhere:
    return SessionElsewhere(SessionId(id_), host, None if managed is None else _managed_session(managed))


def _state_change(session_id: str, *rest: Any) -> StateChange:
    return StateChange(SessionId(session_id), *rest)


def _transition(session_id: str, *rest: Any) -> Transition:
    stored = Transition(SessionId(session_id), *rest)
    # SQLite has no truth values.
    return msgspec.structs.replace(stored, alive=bool(stored.alive))


def _bookmark(path: bytes, inode: str, *rest: Any) -> Bookmark:
    return Bookmark(os.fsdecode(path), int(inode), *rest)


def _intent(id_: str, session_id: str, *rest: Any) -> Intent:
    return Intent(id_, SessionId(session_id), *rest)


def _record(machine: str, transitions: Sequence[Transition], connection: sqlite3.Connection) -> int:
    last: int = connection.execute(QUERIES["last_seq"]).fetchone()[0]
    numbered = list(enumerate(transitions, last + 1))
    _write("insert_transition", [_transition_row(machine, seq, each) for seq, each in numbered], connection)
    _write("point_session", [(machine, str(each.session_id), seq) for seq, each in numbered], connection)
    return numbered[-1][0] if numbered else 0


def _managed_session_row(managed: ManagedSession, machine: str) -> Row:
    return str(managed.session_id), msgspec.json.encode(managed), machine, managed.epoch


def _reclaim_managed_session(
    managed: ManagedSession,
    claim: runs.LeaseRequest,
    machine: str,
    now: WallClock,
    connection: sqlite3.Connection,
) -> ManagedSession | LeaseConflict:
    key = LeaseKey(managed.session_id)
    _write("yield_lease", [(str(key), managed.epoch)], connection)
    taken = runs.claim_lease(key, claim, now, connection)
    if isinstance(taken, LeaseConflict):
        return taken
    reclaimed = msgspec.structs.replace(
        managed, epoch=taken.epoch, process=None, stopped=False, by_gateway=False, heir=None, closed=False
    )
    _write("host", [_managed_session_row(reclaimed, machine)], connection)
    return reclaimed


def _prune(before: float, connection: sqlite3.Connection) -> int:
    """One slice of retention; returns the number of dropped transitions."""
    _write("prune_spendings", [(before,)], connection)
    return _write("prune", [(before, PRUNED_PER_COMMIT_MAX)], connection)


def _spend_budget(
    key: str,
    note: Row,
    times_max: int,
    window_seconds: float,
    now: WallClock,
    connection: sqlite3.Connection,
) -> bool:
    # A budget belongs to all machines if the notes about its uses do.
    at, machine = now(), note[0]
    (spent,) = connection.execute(QUERIES["spent"], (machine, key, at - window_seconds)).fetchone()
    if spent >= times_max:
        return False
    _write("spend", [(machine, key, at)], connection)
    _write("keep_note", [note], connection)
    return True


def _refund_budget(key: str, note: Row, connection: sqlite3.Connection) -> bool:
    if _write("drop_note", [note[:3]], connection) == 0:
        return False
    _write("give_back", [(note[0], key)], connection)
    return True


def _transition_row(machine: str, seq: int, each: Transition) -> Row:
    return (
        seq,
        # An exact str: for a subclass sqlite3 first searches its adapters, per value.
        str(each.session_id),
        each.at,
        each.old_state,
        each.new_state,
        each.old_health,
        each.new_health,
        each.reason,
        each.record,
        each.turn_ended_at,
        each.left_out,
        each.alive,
        machine,
    )


def _write(query: str, rows: Sequence[Row], connection: sqlite3.Connection) -> int:
    """Returns the number of changed rows."""
    if not rows:
        return 0
    fault_point("store.write")
    return connection.executemany(QUERIES[query], rows).rowcount
