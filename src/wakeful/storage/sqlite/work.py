"""SQL operations on tasks, attempts and leases, each in one transaction of the writer.

Every write to an attempt or a lease names its epoch, so a late owner changes nothing. The time is read behind
the write lock: a process that waited for the lock must not use an earlier time.
"""

import sqlite3
from collections.abc import Callable
from typing import Any, Final

import msgspec

from wakeful.core.decoding import json_decoder
from wakeful.core.fault_points import fault_point
from wakeful.core.ids import SessionId
from wakeful.core.leases import (
    LEASE_ENDED,
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
from wakeful.core.process import Process
from wakeful.storage.sqlite.database import QUERIES

Row = tuple[Any, ...]
WallClock = Callable[[], float]
_encode: Final = msgspec.json.Encoder().encode
_decode: Final = json_decoder(Process)


def work_row(work: WorkItem) -> Row:
    return (
        str(work.id),
        work.project,
        work.prompt,
        work.session_id,
        work.context,
        work.created_at,
        work.attempts_max,
        work.not_before,
        str(work.lease_key),
    )


def work_of(
    id_: str,
    project: str,
    prompt: str,
    session_id: str | None,
    context: str,
    at: float,
    state: str,
    *rest: Any,
) -> WorkItem:
    conversation = SessionId(session_id) if session_id is not None else None
    return WorkItem(WorkId(id_), project, prompt, conversation, context, at, WorkState(state), *rest)


def attempt_of(
    work_id: str, number: int, epoch: int, owner: str, state: str, claimed_at: float, *rest: Any
) -> Attempt:
    return Attempt(WorkId(work_id), number, epoch, owner, AttemptState(state), claimed_at, *rest)


def lease_of(
    key: str, epoch: int, owner: str, since: float, expires_at: float, holder: bytes | None
) -> Lease:
    process = _decode(holder) if holder is not None else None
    return Lease(LeaseKey(key), epoch, owner, since, expires_at, process)


class LeaseRequest(msgspec.Struct, frozen=True):
    owner: str
    ttl_seconds: float
    holder: Process | None
    # If this process holds the lease, the lease counts as ended.
    instead_of: Process | None = None


def claim_next_run(
    project: str | None, claim: LeaseRequest, machine: str, now: WallClock, connection: sqlite3.Connection
) -> Run | None:
    at = now()
    row = connection.execute(QUERIES["next_work"], (at, project, machine)).fetchone()
    if row is None:
        return None
    pending = work_of(*row)
    lease = _claim(pending.lease_key, claim, at, connection)
    assert isinstance(lease, Lease), "the query found this lease free, behind the same lock"
    number = pending.attempts + 1
    changed_rows = _execute("start_work", (number, pending.id), connection)
    assert changed_rows == 1, "the query found this work pending, behind the same lock"
    attempt = (pending.id, number, lease.epoch, claim.owner, at, str(lease.key), machine)
    _execute("start_attempt", attempt, connection)
    work = msgspec.structs.replace(pending, state=WorkState.RUNNING, attempts=number)
    return Run(work, number, lease.epoch, claim.owner, lease.expires_at)


def claim_lease(
    key: LeaseKey, claim: LeaseRequest, now: WallClock, connection: sqlite3.Connection
) -> Lease | LeaseConflict:
    return _claim(key, claim, now(), connection)


def _claim(
    key: LeaseKey, claim: LeaseRequest, at: float, connection: sqlite3.Connection
) -> Lease | LeaseConflict:
    until = at + claim.ttl_seconds
    holders = (_process_bytes(claim.holder), _process_bytes(claim.instead_of))
    fault_point("store.write")
    # All rows: a RETURNING statement is complete only once all its rows are read.
    rows = connection.execute(QUERIES["claim_lease"], (str(key), claim.owner, at, until, *holders)).fetchall()
    if rows:
        return Lease(key, rows[0][0], claim.owner, at, until, claim.holder)
    held = lease_of(*connection.execute(QUERIES["lease"], (str(key),)).fetchone())
    return LeaseConflict(key, held.owner, held.since, held.expires_at, held.holder)


def heartbeat(
    work_id: WorkId, epoch: int, ttl_seconds: float, now: WallClock, connection: sqlite3.Connection
) -> float | None:
    until = now() + ttl_seconds
    return until if _execute("heartbeat", (until, work_id, epoch), connection) else None


def renew_lease(
    key: LeaseKey,
    epoch: int,
    ttl_seconds: float,
    holder: Process | None,
    now: WallClock,
    connection: sqlite3.Connection,
) -> float | None:
    until = now() + ttl_seconds
    renewal = (until, _process_bytes(holder), str(key), epoch)
    return until if _execute("renew_lease", renewal, connection) else None


def _process_bytes(process: Process | None) -> bytes | None:
    return _encode(process) if process is not None else None


def end_run(
    work_id: WorkId,
    epoch: int,
    ending: AttemptState,
    result: str,
    now: WallClock,
    connection: sqlite3.Connection,
) -> WorkState | None:
    """The task's state after its attempt ended; None if the epoch has no lease any more."""
    if not _execute("end_attempt", (ending.value, now(), result, work_id, epoch), connection):
        return None
    work = work_of(*connection.execute(QUERIES["work"], (work_id,)).fetchone())
    return _finish_work(work, epoch, ending, connection).state


def expire_runs(machine: str, now: WallClock, connection: sqlite3.Connection) -> list[Run]:
    at = now()
    expired = []
    for number, epoch, owner, *row in connection.execute(QUERIES["ended_runs"], (at, machine)).fetchall():
        work = work_of(*row)
        _execute("expire_attempt", (at, LEASE_ENDED, work.id, epoch), connection)
        finished = _finish_work(work, epoch, AttemptState.EXPIRED, connection)
        expired.append(Run(finished, number, epoch, owner, lease_until=at))
    return expired


def _finish_work(
    work: WorkItem, epoch: int, ending: AttemptState, connection: sqlite3.Connection
) -> WorkItem:
    """Release the lease, if this epoch still has it, and set the task's new state."""
    state = state_after(ending, work.attempts, work.attempts_max)
    _execute("yield_lease", (str(work.lease_key), epoch), connection)
    _execute("end_work", (state.value, work.id), connection)
    return msgspec.structs.replace(work, state=state)


def _execute(query: str, values: Row, connection: sqlite3.Connection) -> int:
    """Returns the number of changed rows."""
    fault_point("store.write")
    return connection.execute(QUERIES[query], values).rowcount
