"""MemoryJobs: the watchdog's queue in memory, for tests of programs that run the watchdog.

It keeps the contract of `watchdog.queue.JobQueue`.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from wakeful.core.ids import SessionId
from wakeful.watchdog.queue import (
    FenceResult,
    Job,
    NextJobState,
    PendingMessage,
    QueueAttempt,
    QueueRevival,
    QueueRevivalStage,
    QueueSnapshot,
)


class MemoryJobs:
    """Implements watchdog.queue.JobQueue. Claims and budgets do not expire: no test waits a week."""

    address = "a queue in memory"

    def __init__(self) -> None:
        self.watched: dict[SessionId, QueueAttempt] = {}
        self.pending: list[Job] = []
        self.failed: list[QueueAttempt] = []
        self.texts: dict[SessionId, str] = {}
        self.revivals: dict[str, QueueRevival] = {}
        self._open_works: list[str] = []
        self._claims: dict[str, str] = {}
        self._once_names: set[str] = set()
        self._episodes: dict[str, str] = {}
        self._pending_messages: dict[str, PendingMessage] = {}
        self._pending_events: list[bytes] = []

    async def snapshot(self) -> QueueSnapshot:
        jobs = [each.job for each in self.watched.values() if each.job is not None]
        running = frozenset(job.project_key for job in jobs)
        return QueueSnapshot(tuple(self.watched.values()), tuple(self.pending), running)

    async def reread(self, attempt: QueueAttempt) -> QueueAttempt | None:
        return self.watched.get(attempt.session.session_id)

    async def message_text(self, attempt: QueueAttempt) -> str:
        return self.texts.get(attempt.session.session_id, "")

    async def claim(self, name: str, token: str, ttl_seconds: float) -> bool:  # noqa: ARG002 - see above
        if name in self._claims:
            return False
        self._claims[name] = token
        return True

    async def release_claim(self, name: str, token: str) -> None:
        if self._claims.get(name) == token:
            del self._claims[name]

    async def is_budget_spent(self, work: str) -> bool:
        return work in self.revivals

    async def revive(self, attempt: QueueAttempt, revival: QueueRevival) -> FenceResult:
        if attempt.session.session_id not in self.watched:
            return FenceResult.GONE
        if revival.work in self.revivals:
            return FenceResult.SPENT
        await self.fence(attempt)
        self.revivals[revival.work] = revival
        self._open_works.append(revival.work)
        if revival.stage is QueueRevivalStage.ENQUEUED:
            self._make_job(attempt, revival)
        return FenceResult.DONE

    async def fence(self, attempt: QueueAttempt) -> FenceResult:
        fenced = self.watched.pop(attempt.session.session_id, None)
        if fenced is None:
            return FenceResult.GONE
        self.failed.append(fenced)
        return FenceResult.DONE

    async def enqueue(self, before: QueueRevival, after: QueueRevival) -> bool:
        if self.revivals.get(before.work) != before:
            return False
        self.revivals[before.work] = after
        self._make_job(next(each for each in self.failed if each.work == before.work), after)
        return True

    async def advance(self, before: QueueRevival, after: QueueRevival) -> bool:
        if self.revivals.get(before.work) != before:
            return False
        self.revivals[before.work] = after
        return True

    async def withdraw(self, revival: QueueRevival, events: Sequence[bytes]) -> bool:
        pending = [job for job in self.pending if job.job_id == revival.job_id]
        failed = [each for each in self.failed if each.work == revival.work]
        if self.revivals.get(revival.work) != revival or not pending or not failed:
            return False
        self.pending.remove(pending[0])
        self.failed.remove(failed[-1])
        self.watched[failed[-1].session.session_id] = failed[-1]
        del self.revivals[revival.work]
        self._pending_events += events
        return await self.close_revival(revival.work)

    async def has_other_runs(self, revival: QueueRevival) -> bool:
        return revival.session_id in self.watched

    async def last_activity(self, revival: QueueRevival) -> float | None:
        sessions = [each.session for each in self.failed if each.work == revival.work]
        return sessions[-1].last_activity if sessions else None

    async def open_revivals(self) -> list[QueueRevival]:
        return [self.revivals[work] for work in self._open_works]

    async def is_open(self, revival: QueueRevival) -> bool:
        return revival.work in self._open_works and self.revivals[revival.work] == revival

    async def close_revival(self, work: str) -> bool:
        was_open = work in self._open_works
        self._open_works = [each for each in self._open_works if each != work]
        return was_open

    async def next_job_state(self, revival: QueueRevival) -> NextJobState:
        running = [each.job for each in self.watched.values() if each.job is not None]
        if any(job.job_id == revival.job_id for job in running):
            return NextJobState.RUNNING
        is_pending = any(job.job_id == revival.job_id for job in self.pending)
        return NextJobState.PENDING if is_pending else NextJobState.MISSING

    async def mark_once(self, name: str) -> bool:
        first = name not in self._once_names
        self._once_names.add(name)
        return first

    async def episodes(self) -> dict[str, str]:
        return dict(self._episodes)

    async def begin_episode(self, name: str, words: str) -> bool:
        first = name not in self._episodes
        self._episodes.setdefault(name, words)
        return first

    async def set_episode(self, name: str, words: str) -> None:
        self._episodes[name] = words

    async def end_episode(self, name: str) -> bool:
        return self._episodes.pop(name, None) is not None

    async def store_message(self, message: PendingMessage) -> None:
        self._pending_messages[message.name] = message

    async def take_messages(self) -> list[PendingMessage]:
        taken, self._pending_messages = list(self._pending_messages.values()), {}
        return taken

    async def store_event(self, event: bytes) -> None:
        self._pending_events.append(event)

    async def stored_events(self) -> list[bytes]:
        return list(self._pending_events)

    async def drop_event(self, event: bytes) -> None:
        self._pending_events.remove(event)

    async def close(self) -> None:
        """Nothing is open."""

    def _make_job(self, attempt: QueueAttempt, revival: QueueRevival) -> None:
        assert attempt.job is not None, "a revived attempt had a job"
        assert revival.job_id is not None, "the id of the next job is chosen before the job exists"
        job = replace(
            attempt.job, job_id=revival.job_id, created_at=revival.began_at, revival_context=revival.context
        )
        self.pending.append(job)
