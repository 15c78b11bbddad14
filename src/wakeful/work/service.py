"""The task queue and session leases, as encoded answers for every interface.

The store alone decides who may run what. This module remembers no lease: each request goes to the store.
"""

from secrets import token_hex
from typing import Final, Protocol

import msgspec
from msgspec import Struct

from wakeful.alerts.mute_pause_model import PauseRecord
from wakeful.core.clock import Clock, iso
from wakeful.core.errors import KeyUsed, OperatorError
from wakeful.core.ids import SessionId
from wakeful.core.leases import (
    SUMMARY_CHARS_MAX,
    Attempt,
    AttemptState,
    LeaseConflict,
    LeaseKey,
    LeaseLost,
    Run,
    WorkId,
    WorkItem,
    WorkNotFound,
    WorkState,
    conversation_held_error,
    parse_work_id,
    work_id_for,
)
from wakeful.core.process import Process
from wakeful.core.query_result import QueryResult
from wakeful.core.redaction import redact
from wakeful.core.text import plain
from wakeful.storage.base import Store

SCHEMA: Final = 1
_encode: Final = msgspec.json.Encoder().encode


class EmptyPrompt(OperatorError):
    """The prompt is empty."""

    code = "empty-prompt"


class KeyReused(KeyUsed):
    """This idempotency key already created {work_id} with another body. Use a new key for a new task."""


class WorkRequest(Struct, frozen=True):
    """A request for work."""

    prompt: str
    project: str
    session: str | None
    context: str
    attempts_max: int
    delay_seconds: float


class WorkRecord(Struct, frozen=True):
    """A work as lists show it: `summary` is the beginning of its prompt, redacted and plain."""

    schema: int
    id: WorkId
    project: str
    session_id: SessionId | None
    state: WorkState
    attempts: int
    attempts_max: int
    summary: str
    not_before: str | None
    created_at: str


class AttemptRecord(Struct, frozen=True):
    """One attempt. `untrusted` is what its owner said at the end."""

    number: int
    epoch: int
    owner: str
    state: AttemptState
    claimed_at: str
    ended_at: str | None
    untrusted: str


class WorkDetail(WorkRecord, frozen=True, kw_only=True):
    """A work whole, with every attempt of it."""

    prompt: str
    context: str
    history: tuple[AttemptRecord, ...]


class WorkList(Struct, frozen=True):
    """Works, oldest first. Pass `next_cursor` as `after` to go on; `paused` names the person who paused Wakeful, if it is paused."""

    works: tuple[WorkRecord, ...]
    next_cursor: int | None
    paused: PauseRecord | None


class RunRecord(Struct, frozen=True):
    """A claimed run: what to do, and the epoch that proves who does it."""

    work_id: WorkId
    project: str
    session_id: SessionId | None
    prompt: str
    context: str
    attempt: int
    attempts_max: int
    epoch: int
    owner: str
    lease_until: str


class ClaimedRun(Struct, frozen=True):
    """The run that was claimed; null when nothing is due."""

    run: RunRecord | None


class RenewedLease(Struct, frozen=True):
    """The lease goes on until then."""

    epoch: int
    lease_until: str


class LeaseRecord(Struct, frozen=True):
    """Who may run a conversation, and until when unless renewed."""

    session_id: SessionId
    epoch: int
    owner: str
    since: str
    lease_until: str
    holder: Process | None


class ReleasedLease(Struct, frozen=True):
    """The conversation is free."""

    session_id: SessionId
    epoch: int


class ManagedHere(OperatorError):
    """{shown} is managed by Wakeful. Release it first: `wakeful release {shown}`"""

    code = "managed-here"
    http_status = 409
    exit_code = 1


class WorkSessions(Protocol):
    """The sessions that tasks are for."""

    def resolve(self, text: str) -> SessionId:
        """The full id of a session. Raises BadSessionId, SessionNotFound or AmbiguousSession."""

    def is_managed(self, session_id: SessionId) -> bool:
        """Whether Wakeful manages this session."""


class RunDeadlines(Protocol):
    """The ends of leases; `RunExpiry` implements it."""

    def recheck_soon(self) -> None:
        """A run may end sooner than expected."""


class WorkQueue:
    def __init__(self, store: Store, clock: Clock, sessions: WorkSessions, deadlines: RunDeadlines) -> None:
        self._store = store
        self._clock = clock
        self._sessions = sessions
        self._deadlines = deadlines

    async def add(self, order: WorkRequest, key: str | None) -> QueryResult:
        """Store a new task; a key names one task. Raises KeyReused, EmptyPrompt or as `resolve`."""
        if not order.prompt.strip():
            raise EmptyPrompt
        work_id = work_id_for(key) if key else WorkId(f"w-{token_hex(8)}")
        work = self._work(work_id, order)
        if not await self._store.enqueue(work):
            # The key exists: its task must have the same content.
            kept = await self._get(work_id)
            words = [
                (each.project, each.prompt, each.session_id, each.context, each.attempts_max)
                for each in (work, kept)
            ]
            if words[0] != words[1]:
                raise KeyReused(work_id=kept.id)
            work = kept
        return QueryResult(_encode(record_of(work)))

    def _work(self, work_id: WorkId, order: WorkRequest) -> WorkItem:
        now = self._clock.now().wall
        return WorkItem(
            work_id,
            order.project,
            order.prompt,
            self._sessions.resolve(order.session) if order.session is not None else None,
            order.context,
            now,
            attempts_max=order.attempts_max,
            not_before=now + order.delay_seconds if order.delay_seconds else 0.0,
        )

    async def works(
        self, state: WorkState | None, *, after: int, limit: int, paused: PauseRecord | None = None
    ) -> QueryResult:
        """A page of tasks, oldest first."""
        found = await self._store.works(state, after=after, limit=limit)
        cursor = found[-1].seq if len(found) == limit else None
        return QueryResult(_encode(WorkList(tuple(map(record_of, found)), cursor, paused)))

    async def work(self, text: str) -> QueryResult:
        """One whole task. Raises WorkNotFound."""
        work = await self._get(parse_work_id(text))
        attempts = await self._store.attempts(work.id)
        detail = WorkDetail(
            **msgspec.structs.asdict(record_of(work)),
            prompt=work.prompt,
            context=work.context,
            history=tuple(map(_attempt_record, attempts)),
        )
        return QueryResult(_encode(detail))

    async def claim(
        self, owner: str, *, project: str | None, ttl_seconds: float, holder: Process | None
    ) -> QueryResult:
        """The next run, or none: then a command exits with "no"."""
        run = await self._store.claim_next_run(owner, project=project, ttl_seconds=ttl_seconds, holder=holder)
        if run is None:
            return QueryResult(_encode(ClaimedRun(None)), exit_code=1)
        self._deadlines.recheck_soon()
        return QueryResult(_encode(ClaimedRun(_run_record(run))))

    async def heartbeat(self, text: str, epoch: int, ttl_seconds: float) -> QueryResult:
        """Raises LeaseLost or WorkNotFound."""
        work_id = parse_work_id(text)
        until = await self._store.heartbeat_run_lease(work_id, epoch, ttl_seconds)
        if until is None:
            await self._get(work_id)
            raise LeaseLost(shown=work_id, epoch=epoch)
        return QueryResult(_encode(RenewedLease(epoch, iso(until))))

    async def complete(self, text: str, epoch: int, result: str) -> QueryResult:
        """A repeated call changes nothing. Raises LeaseLost or WorkNotFound."""
        work_id = parse_work_id(text)
        ended = await self._store.complete_run(work_id, epoch, result)
        return await self._finish_attempt(work_id, epoch, AttemptState.DONE, ended=ended)

    async def fail(self, text: str, epoch: int, reason: str) -> QueryResult:
        """A repeated call changes nothing. Raises LeaseLost or WorkNotFound."""
        work_id = parse_work_id(text)
        ended = await self._store.fail_run(work_id, epoch, reason)
        return await self._finish_attempt(work_id, epoch, AttemptState.FAILED, ended=ended is not None)

    async def _finish_attempt(
        self, work_id: WorkId, epoch: int, ending: AttemptState, *, ended: bool
    ) -> QueryResult:
        work = await self._get(work_id)
        if not ended:
            # A worker that missed the first answer asks again: the same result for the same attempt is accepted.
            said = [each.state for each in await self._store.attempts(work_id) if each.epoch == epoch]
            if said != [ending]:
                raise LeaseLost(shown=work_id, epoch=epoch)
        return QueryResult(_encode(record_of(work)))

    async def claim_session(
        self, text: str, owner: str, *, ttl_seconds: float, holder: Process | None
    ) -> QueryResult:
        """Take a conversation. Raises ConversationHeld with its owner, or as `resolve`."""
        session_id = self._sessions.resolve(text)
        lease = await self._store.claim_lease(
            LeaseKey(session_id), owner, ttl_seconds=ttl_seconds, holder=holder
        )
        if isinstance(lease, LeaseConflict):
            raise conversation_held_error(lease)
        self._deadlines.recheck_soon()
        record = LeaseRecord(
            session_id, lease.epoch, lease.owner, iso(lease.since), iso(lease.expires_at), lease.holder
        )
        return QueryResult(_encode(record))

    async def renew_session(self, text: str, epoch: int, ttl_seconds: float) -> QueryResult:
        """Raises LeaseLost."""
        session_id = self._sessions.resolve(text)
        until = await self._store.renew_lease(LeaseKey(session_id), epoch, ttl_seconds)
        if until is None:
            raise LeaseLost(shown=session_id, epoch=epoch)
        return QueryResult(_encode(RenewedLease(epoch, iso(until))))

    async def yield_session(self, text: str, epoch: int) -> QueryResult:
        """Raises LeaseLost, or ManagedHere for a session that Wakeful manages."""
        session_id = self._sessions.resolve(text)
        if self._sessions.is_managed(session_id):
            # An epoch is no secret: only a person takes back a session that Wakeful owns.
            raise ManagedHere(shown=session_id)
        if not await self._store.yield_lease(LeaseKey(session_id), epoch):
            raise LeaseLost(shown=session_id, epoch=epoch)
        self._deadlines.recheck_soon()
        return QueryResult(_encode(ReleasedLease(session_id, epoch)))

    async def _get(self, work_id: WorkId) -> WorkItem:
        work = await self._store.work(work_id)
        if work is None:
            raise WorkNotFound(shown=work_id)
        return work


def record_of(work: WorkItem) -> WorkRecord:
    return WorkRecord(
        SCHEMA,
        work.id,
        work.project,
        work.session_id,
        work.state,
        work.attempts,
        work.attempts_max,
        plain(redact(work.prompt), SUMMARY_CHARS_MAX),
        iso(work.not_before) if work.not_before else None,
        iso(work.created_at),
    )


def _attempt_record(attempt: Attempt) -> AttemptRecord:
    return AttemptRecord(
        attempt.number,
        attempt.epoch,
        attempt.owner,
        attempt.state,
        iso(attempt.claimed_at),
        iso(attempt.ended_at) if attempt.ended_at is not None else None,
        attempt.result,
    )


def _run_record(run: Run) -> RunRecord:
    work = run.work
    return RunRecord(
        work.id,
        work.project,
        work.session_id,
        work.prompt,
        work.context,
        run.attempt,
        work.attempts_max,
        run.epoch,
        run.owner,
        iso(run.lease_until),
    )
