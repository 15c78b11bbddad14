"""Tasks, attempts and leases: values and rules. Pure.

A lease says who may run a conversation and until when. Each claim raises its epoch, which never falls, so a
late owner is known by its older epoch. Budgets belong to the task: a failed or expired attempt is repeated
only while the budget lasts. The default budget is one, so nothing is repeated without approval.
"""

import re
from enum import StrEnum
from hashlib import sha256
from typing import Final, NewType
from uuid import UUID, uuid5

from msgspec import Struct

from wakeful.core.clock import iso
from wakeful.core.errors import OperatorError, WorldError
from wakeful.core.ids import SessionId
from wakeful.core.process import Process
from wakeful.core.redaction import redact
from wakeful.core.text import plain

# An owner that heartbeats every 20 s may miss two of them.
OWNER_CHARS_MAX: Final = 300
LEASE_SECONDS: Final = 60.0
# Lists show this much of a prompt; a person recognises it, and a thousand long ones still fit an answer.
SUMMARY_CHARS_MAX: Final = 200
# What is read for that: it is redacted first, and half a secret would not be recognised.
SUMMARY_CHARS_READ: Final = 1000
# What an attempt says that expired: nobody else was there to say it.
LEASE_ENDED: Final = "the lease ended"
_PROMPTS: Final = UUID("8d1ba1b0-6c7b-4a52-9a1c-5b3f0c6d7e21")
_CONVERSATIONS: Final = UUID("8d1ba1b0-6c7b-4a52-9a1c-5b3f0c6d7e22")
_WORK_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}\Z")

WorkId = NewType("WorkId", str)
"""One work; made by us or derived from an idempotency key."""

LeaseKey = NewType("LeaseKey", str)
"""What a lease is about: a session id, or `work/` and the id of a work that continues none."""


class BadWorkId(OperatorError):
    """{shown!r} is not the id of a work: `wakeful work list` shows them."""

    code = "bad-work-id"


class WorkNotFound(OperatorError):
    """No work {shown!r}. `wakeful work list` shows every one."""

    code = "work-not-found"
    http_status = 404


class LeaseLost(WorldError):
    """The lease on {shown} with epoch {epoch} is over: it was given back, ended, or somebody else has it. Nothing was changed."""

    code = "lease-lost"
    exit_code = 1
    http_status = 409


class ConversationHeld(WorldError):
    """{shown} is held by {owner} since {since}, until {until} unless renewed."""

    code = "conversation-held"
    exit_code = 1
    http_status = 409
    retryable = True


class WorkState(StrEnum):
    """Where a work stands. `failed`: its budget is spent and no attempt was completed."""

    PENDING = "pending"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


class AttemptState(StrEnum):
    """Where one attempt stands. `expired`: its lease ended before anybody said how it went."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    EXPIRED = "expired"


class WorkItem(Struct, frozen=True):
    """What a person asked for. `session_id` is the conversation it continues; `seq` is given by the store."""

    id: WorkId
    project: str
    prompt: str
    session_id: SessionId | None
    context: str
    created_at: float
    state: WorkState = WorkState.PENDING
    attempts: int = 0
    attempts_max: int = 1
    not_before: float = 0.0
    seq: int = 0

    @property
    def lease_key(self) -> LeaseKey:
        # No session id holds a slash, so the two kinds never meet.
        return LeaseKey(self.session_id if self.session_id is not None else f"work/{self.id}")


class Attempt(Struct, frozen=True):
    """One run of a work. `result` is what its owner said at the end, or why there was no end."""

    work_id: WorkId
    number: int
    epoch: int
    owner: str
    state: AttemptState
    claimed_at: float
    ended_at: float | None = None
    result: str = ""


class Run(Struct, frozen=True):
    """An attempt that was claimed: everything its owner needs to do it, and to prove that it is the owner."""

    work: WorkItem
    attempt: int
    epoch: int
    owner: str
    lease_until: float


class Lease(Struct, frozen=True):
    """Who may run a conversation. Past `expires_at` it stays its owner's until somebody else claims it."""

    key: LeaseKey
    epoch: int
    owner: str
    since: float
    expires_at: float
    holder: Process | None = None


class LeaseConflict(Struct, frozen=True):
    """Why a claim was refused. Without the epoch: only the owner can write with it."""

    key: LeaseKey
    owner: str
    since: float
    expires_at: float
    holder: Process | None = None


def parse_work_id(text: str) -> WorkId:
    """The one door for ids from outside: accept `text` or raise BadWorkId, which shows 40 characters of it."""
    if _WORK_ID.match(text) is None:
        raise BadWorkId(shown=text[:40])
    return WorkId(text)


def work_id_for(idempotency_key: str) -> WorkId:
    """The id of the one work this key may make."""
    return WorkId(f"w-{sha256(idempotency_key.encode()).hexdigest()[:24]}")


def prompt_id_for(key: str) -> UUID:
    """The id that a prompt asked for by this key carries, so that it is known again in what its client says."""
    return uuid5(_PROMPTS, key)


def conversation_id_for(key: str) -> UUID:
    """The conversation that this key may begin, with clients that let it be named."""
    return uuid5(_CONVERSATIONS, key)


def state_after(ending: AttemptState, attempts: int, attempts_max: int) -> WorkState:
    """Where a work stands once an attempt of it has ended so."""
    assert ending is not AttemptState.RUNNING, "an attempt that runs has not ended"
    if ending is AttemptState.DONE:
        return WorkState.DONE
    return WorkState.PENDING if attempts < attempts_max else WorkState.FAILED


def conversation_held_error(lease: LeaseConflict) -> ConversationHeld:
    """The refusal that names the owner. Owners name themselves: what they say is shown plain."""
    return ConversationHeld(
        shown=lease.key,
        owner=plain(redact(lease.owner), OWNER_CHARS_MAX),
        since=iso(lease.since),
        until=iso(lease.expires_at),
    )
