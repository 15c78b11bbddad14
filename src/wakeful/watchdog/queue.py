"""Interface of a queue that another program owns: its sessions, its jobs, and the atomic actions on them.

No process is signalled. An old owner is fenced: its session and its job are marked failed before the next job
exists. The queue also stores which messages and actions are done, because each happens once across watchdogs
and restarts. `QueueSessionFiles` is the interface to the logs and folders of these sessions on this host.
"""

from collections.abc import AsyncIterator, Awaitable, Collection, Sequence
from contextlib import asynccontextmanager
from enum import StrEnum
from typing import Protocol
from uuid import uuid4

from msgspec import Struct

from wakeful.core.errors import WorldError
from wakeful.core.ids import SessionId
from wakeful.judging.events import Event


class JobsUnreachable(WorldError):
    """{place} does not answer: {reason}."""

    code = "jobs-unreachable"
    retryable = True


class LogsUnreadable(WorldError):
    """The tool logs were not read: {reason}."""

    code = "logs-unreadable"
    retryable = True


class QueuedSession(Struct, frozen=True):
    """A running agent session. Missing or wrong fields of its record are None; `key` is empty without a record."""

    key: str
    session_id: SessionId
    project_key: str
    chat_id: str | None = None
    started_at: float | None = None
    last_activity: float | None = None
    tool_call_count: int = 0


class Job(Struct, frozen=True):
    """One job of the queue."""

    key: str
    job_id: str
    project_key: str
    session_id: str | None = None
    created_at: float | None = None
    chat_id: str | None = None
    # With the type that its record has; popoto writes numbers.
    message_id: int | str | None = None
    working_dir: str | None = None
    revival_context: str | None = None


def work_of(job: Job | None, session_id: str) -> str:
    """The owner of the budget: the message, else the session."""
    if job is None or job.chat_id is None or job.message_id is None:
        return session_id
    return f"{job.project_key}:{job.chat_id}:{job.message_id}"


class QueueAttempt(Struct, frozen=True):
    """An active session with the job that runs it; without one its record is stale."""

    session: QueuedSession
    job: Job | None = None

    @property
    def work(self) -> str:
        return work_of(self.job, self.session.session_id)

    @property
    def chat_id(self) -> str | None:
        return (self.job.chat_id if self.job is not None else None) or self.session.chat_id

    @property
    def began_at(self) -> float | None:
        """When this attempt began. A revived one began with its job, whatever its session's record says."""
        started = self.session.started_at
        if self.job is None or not self.job.revival_context or self.job.created_at is None:
            return started
        return max(started or 0.0, self.job.created_at)


class QueueSnapshot(Struct, frozen=True):
    """The queue at one time. `strange` lists what could not be read, in words."""

    watched: tuple[QueueAttempt, ...] = ()
    pending: tuple[Job, ...] = ()
    running_projects: frozenset[str] = frozenset()
    strange: tuple[str, ...] = ()


class Work(Struct, frozen=True):
    """A person's request, to be tried again: the original message, and a note for the next attempt."""

    project_key: str
    session_id: str
    chat_id: str | None
    message_id: int | str | None
    message_text: str
    working_dir: str | None
    revival_context: str
    issue_url: str | None


class QueueRevivalStage(StrEnum):
    """The progress of a revival. `asked`: another program's queue got the request and has not answered.

    `running`: its next job was seen to work, and may still fail.
    """

    FENCED = "fenced"
    ASKED = "asked"
    ENQUEUED = "enqueued"
    RUNNING = "running"


class QueueRevival(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The one revival of a work: the reason its budget is spent, stored with the budget."""

    work: str
    session_id: SessionId
    project_key: str
    chat_id: str | None
    reason: str
    began_at: float
    stage: QueueRevivalStage
    # The id of its next job; None if another program's queue makes that job.
    job_id: str | None
    context: str
    # The failed job it repeats, and the session that ran it.
    failed_key: str
    session_key: str = ""
    issue_url: str | None = None
    # Not yet written to the log of critical events.
    unwritten: bool = False
    # When its next job was first seen running.
    running_at: float | None = None
    # Its program has ended the old attempt: later activity is only its last lines.
    stopped: bool = False

    @property
    def reasons(self) -> list[str]:
        """One for each finding."""
        return self.reason.split(", ")


class FenceResult(StrEnum):
    """The result of a fence. Only `done` changed anything, and then everything."""

    DONE = "done"
    SPENT = "spent"
    GONE = "gone"


class PendingMessage(Struct, frozen=True):
    """A message that was surely not delivered."""

    name: str
    chat_id: str
    text: str
    tries: int


class NextJobState(StrEnum):
    """The state of a revived work's next job."""

    MISSING = "missing"
    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"


class JobQueue(Protocol):
    """Every call has a deadline of its own and raises JobsUnreachable; then it is unknown whether it was done."""

    address: str

    async def snapshot(self) -> QueueSnapshot:
        """Every active session, every other one that a running job has, and every pending job."""

    async def reread(self, attempt: QueueAttempt) -> QueueAttempt | None:
        """The same session and job now; None if it is no longer active."""

    async def message_text(self, attempt: QueueAttempt) -> str:
        """The original message, unchanged."""

    async def claim(self, name: str, token: str, ttl_seconds: float) -> bool:
        """Keep other watchdogs from doing the same for a while; False if one has the claim."""

    async def release_claim(self, name: str, token: str) -> None:
        """Release a claim, if this watchdog still has it."""

    async def is_budget_spent(self, work: str) -> bool:
        """Whether this work was revived before."""

    async def revive(self, attempt: QueueAttempt, revival: QueueRevival) -> FenceResult:
        """Spend the budget, mark session and job failed and, at stage `enqueued`, make the next job: all or nothing."""

    async def fence(self, attempt: QueueAttempt) -> FenceResult:
        """Mark session and job failed, both or neither."""

    async def enqueue(self, before: QueueRevival, after: QueueRevival) -> bool:
        """Make the next job of a revival that is still as `before` says; False if it is not."""

    async def advance(self, before: QueueRevival, after: QueueRevival) -> bool:
        """Store the progress of a revival; False if it is no longer as `before` says."""

    async def withdraw(self, revival: QueueRevival, events: Sequence[bytes]) -> bool:
        """Let the old attempt run again, return its budget and store these events as pending, all or nothing.

        False if its next job was taken. An old attempt that has ended meanwhile stays ended.
        """

    async def last_activity(self, revival: QueueRevival) -> float | None:
        """The last activity in the record of its session, unless the record says that it failed."""

    async def has_other_runs(self, revival: QueueRevival) -> bool:
        """Whether its session had a later job that was taken: then it is unknown which job did something."""

    async def open_revivals(self) -> Sequence[QueueRevival]:
        """Revivals whose next job was not seen to end yet, oldest first."""

    async def is_open(self, revival: QueueRevival) -> bool:
        """Whether it is open, and has come exactly this far."""

    async def close_revival(self, work: str) -> bool:
        """Close a revival; False if it was closed before. Its budget stays spent."""

    async def next_job_state(self, revival: QueueRevival) -> NextJobState:
        """The state of the next job."""

    async def mark_once(self, name: str) -> bool:
        """True for the first caller within a week."""

    async def episodes(self) -> dict[str, str]:
        """The lasting episodes, by name, with their stored words."""

    async def begin_episode(self, name: str, words: str) -> bool:
        """Begin an episode; False if it lasts already, which stays as it is."""

    async def set_episode(self, name: str, words: str) -> None:
        """Begin an episode, or change its words."""

    async def end_episode(self, name: str) -> bool:
        """End an episode; False if it was over already."""

    async def store_message(self, message: PendingMessage) -> None:
        """Store a message for a later try."""

    async def take_messages(self) -> Sequence[PendingMessage]:
        """Messages to try again. Only one watchdog gets each."""

    async def store_event(self, event: bytes) -> None:
        """Store an event that the log did not take."""

    async def stored_events(self) -> Sequence[bytes]:
        """Events to write, oldest first. They stay until they are dropped."""

    async def drop_event(self, event: bytes) -> None:
        """Drop an event that was written, or that cannot be."""

    async def close(self) -> None:
        """Close the connection."""


@asynccontextmanager
async def claimed(jobs: JobQueue, name: str, ttl_seconds: float) -> AsyncIterator[bool]:
    """Claim a name while inside. False: another watchdog has it."""
    token = uuid4().hex
    has_claim = await jobs.claim(name, token, ttl_seconds)
    try:
        yield has_claim
    finally:
        if has_claim:
            await jobs.release_claim(name, token)


class LogReading(Struct, frozen=True):
    """The new part of one log. `reset`: it was replaced, and these are its first events."""

    events: Sequence[Event]
    reset: bool = False


class QueueSessionFiles(Protocol):
    """Files of such sessions on this host. Each call may be plain or async, and gets a deadline: files may hang."""

    def read(
        self, session_ids: Sequence[SessionId]
    ) -> dict[SessionId, LogReading] | Awaitable[dict[SessionId, LogReading]]:
        """The new entries of their logs since the last read; sessions without a readable log are left out."""

    def forget(self, kept: Collection[SessionId]) -> None:
        """Forget all other sessions; their logs are read from the start if they come back."""

    def is_folder_gone(self, path: str) -> bool | Awaitable[bool]:
        """Whether the folder is certainly missing; False in doubt."""
