"""MemoryJobs: the watchdog's queue in memory, for tests of programs that run the watchdog.

It keeps the contract of `watchdog.queue.Jobs`.
"""

from collections.abc import Collection, Sequence

from msgspec.structs import replace

from wakeful.core.ids import SessionId
from wakeful.watchdog.queue import (
    Fenced,
    Job,
    LogReading,
    Owed,
    Revival,
    Snapshot,
    Stage,
    Turn,
    Watched,
)


class MemoryJobs:
    """Implements watchdog.queue.Jobs. Claims and budgets do not run out: nobody waits a week in a test."""

    place = "a queue in memory"

    def __init__(self) -> None:
        self.watched: dict[SessionId, Watched] = {}
        self.pending: list[Job] = []
        self.failed: list[Watched] = []
        self.texts: dict[SessionId, str] = {}
        self.revivals: dict[str, Revival] = {}
        self._open: list[str] = []
        self._claims: dict[str, str] = {}
        self._said: set[str] = set()
        self._episodes: dict[str, str] = {}
        self._owed: dict[str, Owed] = {}
        self._owed_events: list[bytes] = []

    async def look(self) -> Snapshot:
        jobs = [each.job for each in self.watched.values() if each.job is not None]
        running = frozenset(job.project_key for job in jobs)
        return Snapshot(tuple(self.watched.values()), tuple(self.pending), running)

    async def look_again(self, watched: Watched) -> Watched | None:
        return self.watched.get(watched.session.session_id)

    async def message_text(self, watched: Watched) -> str:
        return self.texts.get(watched.session.session_id, "")

    async def claim(self, name: str, token: str, ttl_seconds: float) -> bool:  # noqa: ARG002 - see above
        if name in self._claims:
            return False
        self._claims[name] = token
        return True

    async def yield_(self, name: str, token: str) -> None:
        if self._claims.get(name) == token:
            del self._claims[name]

    async def is_spent(self, work: str) -> bool:
        return work in self.revivals

    async def revive(self, watched: Watched, revival: Revival) -> Fenced:
        if watched.session.session_id not in self.watched:
            return Fenced.GONE
        if revival.work in self.revivals:
            return Fenced.SPENT
        await self.fence(watched)
        self.revivals[revival.work] = revival
        self._open.append(revival.work)
        if revival.stage is Stage.ENQUEUED:
            self._make_job(watched, revival)
        return Fenced.DONE

    async def fence(self, watched: Watched) -> Fenced:
        fenced = self.watched.pop(watched.session.session_id, None)
        if fenced is None:
            return Fenced.GONE
        self.failed.append(fenced)
        return Fenced.DONE

    async def enqueue(self, before: Revival, after: Revival) -> bool:
        if self.revivals.get(before.work) != before:
            return False
        self.revivals[before.work] = after
        self._make_job(next(each for each in self.failed if each.work == before.work), after)
        return True

    async def advance(self, before: Revival, after: Revival) -> bool:
        if self.revivals.get(before.work) != before:
            return False
        self.revivals[before.work] = after
        return True

    async def withdraw(self, revival: Revival, events: Sequence[bytes]) -> bool:
        pending = [job for job in self.pending if job.job_id == revival.job_id]
        failed = [each for each in self.failed if each.work == revival.work]
        if self.revivals.get(revival.work) != revival or not pending or not failed:
            return False
        self.pending.remove(pending[0])
        self.failed.remove(failed[-1])
        self.watched[failed[-1].session.session_id] = failed[-1]
        del self.revivals[revival.work]
        self._owed_events += events
        return await self.close_revival(revival.work)

    async def others_ran(self, revival: Revival) -> bool:
        return revival.session_id in self.watched

    async def last_activity(self, revival: Revival) -> float | None:
        known = [each.session for each in self.failed if each.work == revival.work]
        return known[-1].last_activity if known else None

    async def open_revivals(self) -> list[Revival]:
        return [self.revivals[work] for work in self._open]

    async def is_open(self, revival: Revival) -> bool:
        return revival.work in self._open and self.revivals[revival.work] == revival

    async def close_revival(self, work: str) -> bool:
        was_open = work in self._open
        self._open = [each for each in self._open if each != work]
        return was_open

    async def turn_of(self, revival: Revival) -> Turn:
        running = [each.job for each in self.watched.values() if each.job is not None]
        if any(job.job_id == revival.job_id for job in running):
            return Turn.RUNNING
        return Turn.PENDING if any(job.job_id == revival.job_id for job in self.pending) else Turn.MISSING

    async def once(self, name: str) -> bool:
        first = name not in self._said
        self._said.add(name)
        return first

    async def episodes(self) -> dict[str, str]:
        return dict(self._episodes)

    async def begin(self, name: str, words: str) -> bool:
        first = name not in self._episodes
        self._episodes.setdefault(name, words)
        return first

    async def mark(self, name: str, words: str) -> None:
        self._episodes[name] = words

    async def end(self, name: str) -> bool:
        return self._episodes.pop(name, None) is not None

    async def owe(self, owed: Owed) -> None:
        self._owed[owed.name] = owed

    async def take_owed(self) -> list[Owed]:
        taken, self._owed = list(self._owed.values()), {}
        return taken

    async def owe_event(self, event: bytes) -> None:
        self._owed_events.append(event)

    async def owed_events(self) -> list[bytes]:
        return list(self._owed_events)

    async def drop_owed_event(self, event: bytes) -> None:
        self._owed_events.remove(event)

    async def close(self) -> None:
        """Nothing is held open."""

    def _make_job(self, watched: Watched, revival: Revival) -> None:
        assert watched.job is not None, "what was revived had a job"
        assert revival.job_id is not None, "the next job has a name before it exists"
        job = replace(
            watched.job,
            job_id=revival.job_id,
            created_at=revival.began_at,
            revival_context=revival.context,
        )
        self.pending.append(job)


class NoGround:
    """Implements watchdog.queue.Ground for a host that has none of the logs, and every folder."""

    async def read(self, session_ids: Sequence[SessionId]) -> dict[SessionId, LogReading]:  # noqa: ARG002 - none has one
        return {}

    def forget(self, kept: Collection[SessionId]) -> None:
        """Nothing is remembered."""

    async def folder_is_gone(self, path: str) -> bool:  # noqa: ARG002 - every folder is there
        return False
