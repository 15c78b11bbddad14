"""Implements the queue with the sessions and jobs that popoto keeps in Redis.

Only this module reads the records, and only its Lua scripts change them; each script runs atomically.
Wakeful's own keys all begin with `wakeful:`, such as those of budgets, claims, episodes, pending messages and events.
A request that may have been carried out is not repeated: when a revival's answer was lost, its key is read instead.
`QueueIssueLedger` keeps the last issue of each project in the queue, shared by all its watchdogs.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from wakeful.core.decoding import json_decoder
from wakeful.core.errors import BadSessionId
from wakeful.core.ids import parse_session_id
from wakeful.core.text import plain
from wakeful.healing.plan import BUDGET_SECONDS
from wakeful.linux.clock import SystemClock
from wakeful.watchdog.queue import (
    FenceResult,
    Job,
    JobQueue,
    JobsUnreachable,
    NextJobState,
    PendingMessage,
    QueueAttempt,
    QueuedSession,
    QueueRevival,
    QueueRevivalStage,
    QueueSnapshot,
    work_of,
)
from wakeful.watchdog.redis_connection import RedisConnection, RedisValue
from wakeful.watchdog.redis_records import (
    JOB_FIELDS,
    JOB_STATUSES,
    NOT_FAILED_STATUSES,
    SESSION_FIELDS,
    SESSION_STATUSES,
    KeyParts,
    decode_value,
    encode_value,
    job_of,
    parse_key,
    session_key,
    session_of,
)

_HERE: Final = Path(__file__).parent
_COMMON: Final = (_HERE / "common.lua").read_text("utf-8")


def _script(name: str) -> str:
    return f"{_COMMON}\n{(_HERE / name).read_text('utf-8')}"


REVIVE: Final = _script("revive.lua")
FENCE: Final = _script("fence.lua")
ENQUEUE: Final = _script("enqueue.lua")
WITHDRAW: Final = _script("withdraw.lua")
ADVANCE: Final = (_HERE / "advance.lua").read_text("utf-8")
RELEASE_CLAIM: Final = (_HERE / "release_claim.lua").read_text("utf-8")

# Redis takes whole seconds.
_BUDGET_SECONDS: Final = int(BUDGET_SECONDS)
# The oldest come first, and a revived job is among them: a later job is another message.
JOBS_SINCE_MAX: Final = 500
# The rest is written in the next cycle.
PENDING_EVENTS_AT_ONCE_MAX: Final = 1000
# A fence moves the record of the attempt it fences, and frees the name that an earlier failed one still has.
FENCED_STATUSES: Final = frozenset({"active", "failed"})
REVIVALS: Final = "wakeful:revivals"
EPISODES: Final = "wakeful:episodes"
PENDING_MESSAGES: Final = "wakeful:owed"
PENDING_EVENTS: Final = "wakeful:owed-events"
# Jobs that no record calls active, and when each was first seen running.
RUNNING_JOBS: Final = "wakeful:running"

_decode_revival: Final = json_decoder(QueueRevival)
_decode_message: Final = json_decoder(PendingMessage)
_encode: Final = msgspec.json.encode


class RecordStrange(JobsUnreachable):
    """{place}: {reason} differs from what popoto writes. Nothing was changed."""

    code = "record-strange"


class RedisJobQueue:
    """Implements JobQueue."""

    def __init__(self, connection: RedisConnection) -> None:
        self._connection = connection
        self._clock = SystemClock()
        self.address = connection.address

    async def snapshot(self) -> QueueSnapshot:
        await self._connection.check_reachable()
        strange: list[str] = []
        sessions = await self._sessions(await self._members("AgentSession", "active", strange), strange)
        running = await self._jobs("running", strange)
        pending = await self._jobs("pending", strange)
        by_session = _by_session(running)
        active = {each.session_id for each in sessions}
        unrecorded = [job for session_id, job in by_session.items() if session_id not in active]
        watched = [QueueAttempt(each, by_session.get(each.session_id)) for each in sessions]
        await self._forget_ended_jobs(running)
        return QueueSnapshot(
            watched=(*watched, *await self._unrecorded_attempts(unrecorded, strange)),
            pending=tuple(pending),
            running_projects=frozenset(job.project_key for job in running),
            strange=tuple(strange),
        )

    async def reread(self, attempt: QueueAttempt) -> QueueAttempt | None:
        strange: list[str] = []
        keys = [attempt.job.key] if attempt.job is not None else []
        jobs = await self._jobs_at(keys, "running", strange)
        active = [attempt.session.key] if _is_active(attempt.session.key) else []
        sessions = await self._sessions(active, strange)
        if sessions:
            return QueueAttempt(sessions[0], next(iter(jobs), None))
        return next(iter(await self._unrecorded_attempts(jobs, strange)), None)

    async def message_text(self, attempt: QueueAttempt) -> str:
        keys = [attempt.job.key] if attempt.job is not None else []
        commands = [("HGET", _raw(key), "message_text") for key in (*keys, attempt.session.key)]
        texts = [decode_value(answer) for answer in await self._connection.execute_all(commands)]
        return next((text for text in texts if isinstance(text, str) and text), "")

    async def claim(self, name: str, token: str, ttl_seconds: float) -> bool:
        milliseconds = int(ttl_seconds * 1000)
        return bool(
            await self._connection.execute("SET", f"wakeful:claim:{name}", token, "NX", "PX", milliseconds)
        )

    async def release_claim(self, name: str, token: str) -> None:
        await self._connection.run_script(RELEASE_CLAIM, [f"wakeful:claim:{name}"], [token])

    async def is_budget_spent(self, work: str) -> bool:
        return bool(await self._connection.execute("EXISTS", _budget(work)))

    async def revive(self, attempt: QueueAttempt, revival: QueueRevival) -> FenceResult:
        assert attempt.job is not None, "only a running attempt can be resumed"
        keys: list[RedisValue] = [_budget(revival.work), _record_to_fence(attempt)]
        keys += [_raw(attempt.job.key), REVIVALS]
        is_enqueued = revival.stage is QueueRevivalStage.ENQUEUED
        values: list[RedisValue] = [_encode(revival), _BUDGET_SECONDS, revival.work, repr(revival.began_at)]
        values += [
            (revival.job_id or "") if is_enqueued else "",
            encode_value(revival.began_at),
            encode_value(revival.context),
        ]
        try:
            return self._fence_result(await self._connection.run_script(REVIVE, keys, values))
        except RecordStrange:
            raise
        except JobsUnreachable:
            # Its answer may be lost. Only this watchdog can have written this revival.
            if await self._connection.execute("GET", _budget(revival.work)) == _encode(revival):
                return FenceResult.DONE
            raise

    async def fence(self, attempt: QueueAttempt) -> FenceResult:
        assert attempt.job is not None, "only a running attempt can be fenced"
        keys = [_record_to_fence(attempt), _raw(attempt.job.key)]
        return self._fence_result(await self._connection.run_script(FENCE, keys))

    async def enqueue(self, before: QueueRevival, after: QueueRevival) -> bool:
        assert after.job_id is not None, "the next job has a name before it exists"
        keys: list[RedisValue] = [_budget(before.work), _raw(before.failed_key)]
        values: list[RedisValue] = [
            *(_encode(before), _encode(after), after.job_id),
            *(encode_value(after.began_at), encode_value(after.context), repr(after.began_at)),
        ]
        answer = await self._connection.run_script(ENQUEUE, keys, values)
        return self._fence_result(answer) is FenceResult.DONE

    async def advance(self, before: QueueRevival, after: QueueRevival) -> bool:
        values = [_encode(before), _encode(after)]
        answer = await self._connection.run_script(ADVANCE, [_budget(before.work)], values)
        return self._fence_result(answer) is FenceResult.DONE

    async def withdraw(self, revival: QueueRevival, events: Sequence[bytes]) -> bool:
        failed = parse_key(revival.failed_key)
        if failed is None or revival.job_id is None:
            return False
        session = parse_key(revival.session_key)
        # Only a record that the fence took from `active` goes back there.
        was_active = session is not None and session.status == "active"
        keys: list[RedisValue] = [
            _budget(revival.work),
            _raw(f"RedisJob:{revival.job_id}:{failed.second}:pending"),
            _raw(revival.failed_key),
            _raw(session.with_status("failed") if session is not None and was_active else ""),
            REVIVALS,
            PENDING_EVENTS,
        ]
        answer = await self._connection.run_script(WITHDRAW, keys, [_encode(revival), revival.work, *events])
        return self._fence_result(answer) is FenceResult.DONE

    async def last_activity(self, revival: QueueRevival) -> float | None:
        parts = parse_key(revival.session_key)
        if parts is None:
            return None
        seconds = await self._last_activities(parts)
        return max((each for each in seconds if each is not None), default=None)

    async def has_other_runs(self, revival: QueueRevival) -> bool:
        failed = parse_key(revival.failed_key)
        if failed is None:
            return True
        (made_at,) = await self._connection.execute_all([("HGET", _raw(revival.failed_key), "created_at")])
        jobs = await self._jobs_since(failed.second, _seconds(made_at) or 0.0)
        own_jobs = {failed.first, revival.job_id}
        return any(
            parts.first not in own_jobs and parts.status != "pending"
            for job in jobs
            if job.session_id == revival.session_id and (parts := parse_key(job.key)) is not None
        )

    async def open_revivals(self) -> list[QueueRevival]:
        works = await self._connection.execute("ZRANGE", REVIVALS, 0, -1)
        bodies = await self._connection.execute_all(("GET", b"wakeful:revival:" + work) for work in works)
        revivals = [_revival(body) for body in bodies]
        over = [work for work, revival in zip(works, revivals, strict=True) if revival is None]
        if over:
            await self._connection.execute("ZREM", REVIVALS, *over)
        return [revival for revival in revivals if revival is not None]

    async def is_open(self, revival: QueueRevival) -> bool:
        commands = [("ZSCORE", REVIVALS, revival.work), ("GET", _budget(revival.work))]
        listed, body = await self._connection.execute_all(commands)
        return listed is not None and body == _encode(revival)

    async def close_revival(self, work: str) -> bool:
        return bool(await self._connection.execute("ZREM", REVIVALS, work))

    async def next_job_state(self, revival: QueueRevival) -> NextJobState:
        statuses = await self._statuses_of(revival) or await self._statuses_since(revival)
        return _furthest_state(statuses) if statuses else await self._state_by_session(revival)

    async def mark_once(self, name: str) -> bool:
        return bool(
            await self._connection.execute("SET", f"wakeful:once:{name}", "1", "NX", "EX", _BUDGET_SECONDS)
        )

    async def episodes(self) -> dict[str, str]:
        episodes = await self._connection.execute("HGETALL", EPISODES)
        return {_text(name): _text(words) for name, words in episodes.items()}

    async def begin_episode(self, name: str, words: str) -> bool:
        return bool(await self._connection.execute("HSETNX", EPISODES, name, words))

    async def set_episode(self, name: str, words: str) -> None:
        await self._connection.execute("HSET", EPISODES, name, words)

    async def end_episode(self, name: str) -> bool:
        return bool(await self._connection.execute("HDEL", EPISODES, name))

    async def store_message(self, message: PendingMessage) -> None:
        await self._connection.execute("HSET", PENDING_MESSAGES, message.name, _encode(message))

    async def take_messages(self) -> list[PendingMessage]:
        stored = await self._connection.execute("HGETALL", PENDING_MESSAGES)
        # Of several watchdogs only one deletes each message, and sends it.
        deleted = await self._connection.execute_all(("HDEL", PENDING_MESSAGES, name) for name in stored)
        return [_decode_message(body) for body, n in zip(stored.values(), deleted, strict=True) if n == 1]

    async def store_event(self, event: bytes) -> None:
        await self._connection.execute("RPUSH", PENDING_EVENTS, event)

    async def stored_events(self) -> list[bytes]:
        return list(
            await self._connection.execute("LRANGE", PENDING_EVENTS, 0, PENDING_EVENTS_AT_ONCE_MAX - 1)
        )

    async def drop_event(self, event: bytes) -> None:
        await self._connection.execute("LREM", PENDING_EVENTS, 1, event)

    async def close(self) -> None:
        await self._connection.close()

    async def _members(self, model: str, status: str, strange: list[str]) -> list[str]:
        name = f"$KeyF:{model}:status:{status}"
        (answer,) = await self._connection.execute_all([("SMEMBERS", name)])
        if isinstance(answer, Exception):
            strange.append(f"{name}: {plain(str(answer), 100)}")
            return []
        return sorted(_text(key) for key in answer)

    async def _hashes(
        self, keys: Sequence[str], fields: Sequence[str], strange: list[str]
    ) -> Iterable[tuple[str, list[Any]]]:
        """The fields of each record; a key without one is an index entry that was left behind."""
        answers = await self._connection.execute_all(("HMGET", _raw(key), *fields) for key in keys)
        records = []
        for key, answer in zip(keys, answers, strict=True):
            if isinstance(answer, Exception):
                strange.append(f"{plain(key, 120)}: {plain(str(answer), 100)}")
            elif any(field is not None for field in answer):
                records.append((key, answer))
        return records

    async def _last_activities(self, session: KeyParts) -> list[float | None]:
        """The last activity of each record of a session, in the order of NOT_FAILED_STATUSES."""
        keys = [_raw(session.with_status(status)) for status in NOT_FAILED_STATUSES]
        answers = await self._connection.execute_all(("HGET", key, "last_activity") for key in keys)
        return [_seconds(answer) for answer in answers]

    async def _sessions(self, keys: Sequence[str], strange: list[str]) -> list[QueuedSession]:
        hashes = await self._hashes(keys, SESSION_FIELDS, strange)
        sessions = [session_of(key, fields, strange) for key, fields in hashes]
        return await self._without_stale_active([each for each in sessions if each is not None])

    async def _unrecorded_attempts(self, jobs: Sequence[Job], strange: list[str]) -> list[QueueAttempt]:
        """Running jobs whose session has no active record: a worker may keep its own records.

        A record that was saved as ended after its job was made means that it ended.
        """
        # When each of these jobs was first seen running, by any watchdog.
        now = self._clock.now().wall
        await self._connection.execute_all(("HSETNX", RUNNING_JOBS, _raw(job.key), repr(now)) for job in jobs)
        times = await self._connection.execute_all(("HGET", RUNNING_JOBS, _raw(job.key)) for job in jobs)
        seen_at = {job.key: _wall(time, now) for job, time in zip(jobs, times, strict=True)}
        sessions = [(job, await self._session_of(job, seen_at[job.key], strange)) for job in jobs]
        return [QueueAttempt(session, job) for job, session in sessions if session is not None]

    async def _forget_ended_jobs(self, running: Sequence[Job]) -> None:
        over = set(await self._connection.execute("HKEYS", RUNNING_JOBS)) - {_raw(job.key) for job in running}
        if over:
            await self._connection.execute("HDEL", RUNNING_JOBS, *over)

    async def _session_of(self, job: Job, seen_at: float, strange: list[str]) -> QueuedSession | None:
        """The newest record of a job's attempt; None if that ended, or cannot be acted on."""
        keys = [session_key(job.project_key, job.session_id or "", status) for status in SESSION_STATUSES]
        records = await self._hashes(keys, SESSION_FIELDS, strange)
        found = [session_of(key, fields, strange) for key, fields in records]
        # Of two equally new records the one with the later status counts: a late save leaves an active one behind.
        newest = max(filter(None, reversed(found)), key=lambda each: each.last_activity or 0.0, default=None)
        if newest is not None and (newest.last_activity or 0.0) >= (job.created_at or 0.0):
            return newest if _is_active(newest.key) else None
        known = newest if newest is not None else _without_record(job, strange)
        if known is None:
            return None
        if job.revival_context:
            # It began with its job, and must show activity from the time it runs.
            return replace(known, started_at=None, last_activity=seen_at)
        # Activity of an earlier attempt, or while its job waited, does not count for this one.
        return replace(known, started_at=seen_at, last_activity=None)

    async def _without_stale_active(self, sessions: Sequence[QueuedSession]) -> list[QueuedSession]:
        """Without those that have an equally new or newer record with another status: a late save leaves both behind."""
        others = SESSION_STATUSES[1:]
        commands = [
            ("HGET", _raw(parts.with_status(status)), "last_activity")
            for session in sessions
            if (parts := parse_key(session.key)) is not None
            for status in others
        ]
        answers = [_seconds(answer) for answer in await self._connection.execute_all(commands)]
        groups = [answers[at : at + len(others)] for at in range(0, len(answers), len(others))]
        return [
            session
            for session, group in zip(sessions, groups, strict=True)
            if max((each for each in group if each is not None), default=-1.0)
            < (session.last_activity or 0.0)
        ]

    async def _jobs(self, status: str, strange: list[str]) -> list[Job]:
        return await self._jobs_at(await self._members("RedisJob", status, strange), status, strange)

    async def _jobs_at(self, keys: Sequence[str], status: str, strange: list[str]) -> list[Job]:
        """The jobs of these records, without those that have moved on."""
        hashes = await self._hashes(keys, JOB_FIELDS, strange)
        jobs = [job for key, fields in hashes if (job := job_of(key, fields, strange)) is not None]
        further = JOB_STATUSES[JOB_STATUSES.index(status) + 1 :]
        commands: list[Sequence[RedisValue]] = [
            ("EXISTS", *(_raw(parts.with_status(each)) for each in further))
            for job in jobs
            if (parts := parse_key(job.key)) is not None
        ]
        moved_on = await self._connection.execute_all(commands)
        return [job for job, later in zip(jobs, moved_on, strict=True) if later == 0]

    async def _statuses_of(self, revival: QueueRevival) -> list[str]:
        """The status of the job that was made for it, while it has its original name."""
        failed = parse_key(revival.failed_key)
        if failed is None or revival.job_id is None:
            return []
        stem = f"RedisJob:{revival.job_id}:{failed.second}:"
        counts = await self._connection.execute_all(
            ("EXISTS", _raw(stem + status)) for status in JOB_STATUSES
        )
        return [status for status, count in zip(JOB_STATUSES, counts, strict=True) if count == 1]

    async def _statuses_since(self, revival: QueueRevival) -> list[str]:
        """The status of jobs made for this work since it was fenced: a worker may have renamed the job it took."""
        failed = parse_key(revival.failed_key)
        if failed is None:
            return []
        jobs = await self._jobs_since(failed.second, revival.began_at)
        keys = [parse_key(job.key) for job in jobs if _is_of(revival, job)]
        return [parts.status for parts in keys if parts is not None and parts.first != failed.first]

    async def _jobs_since(self, project: str, at: float) -> list[Job]:
        """The jobs of a project, as its keys name it, that were made at this time or later."""
        name = f"$SortF:RedisJob:created_at:{project}"
        command = ("ZRANGEBYSCORE", name, repr(at), "+inf", "LIMIT", 0, JOBS_SINCE_MAX)
        (keys,) = await self._connection.execute_all([command])
        if isinstance(keys, Exception):
            return []
        hashes = await self._hashes([_text(key) for key in keys], JOB_FIELDS, [])
        return [job for key, fields in hashes if (job := job_of(key, fields, [])) is not None]

    async def _state_by_session(self, revival: QueueRevival) -> NextJobState:
        """The state of a job that is gone: the worker that removed it also saved its session's record."""
        parts = parse_key(revival.session_key)
        if parts is None or revival.job_id is None or revival.stage is QueueRevivalStage.FENCED:
            return NextJobState.MISSING
        seconds = await self._last_activities(parts)
        since = [
            status
            for status, at in zip(NOT_FAILED_STATUSES, seconds, strict=True)
            if (at or 0.0) >= revival.began_at
        ]
        if not since:
            return NextJobState.MISSING
        return NextJobState.RUNNING if since[0] == "active" else NextJobState.COMPLETED

    def _fence_result(self, answer: str) -> FenceResult:
        kind, _, what = answer.partition(" ")
        if kind == "strange":
            raise RecordStrange(place=self.address, reason=plain(what, 120))
        return FenceResult(kind)


def _without_record(job: Job, strange: list[str]) -> QueuedSession | None:
    try:
        session_id = parse_session_id(job.session_id or "")
    except BadSessionId as problem:
        strange.append(f"{plain(job.key, 120)}: {problem}")
        return None
    return QueuedSession(key="", session_id=session_id, project_key=job.project_key, chat_id=job.chat_id)


def _record_to_fence(attempt: QueueAttempt) -> bytes:
    """The record that a fence moves; empty if only another attempt has one."""
    parts = parse_key(attempt.session.key)
    return _raw(attempt.session.key) if parts is not None and parts.status in FENCED_STATUSES else b""


def _is_active(key: str) -> bool:
    parts = parse_key(key)
    return parts is not None and parts.status == "active"


def _by_session(running: Sequence[Job]) -> dict[str, Job]:
    """The newest running job of each session."""
    oldest_first = sorted(running, key=lambda job: job.created_at or 0.0)
    return {job.session_id: job for job in oldest_first if job.session_id is not None}


def _is_of(revival: QueueRevival, job: Job) -> bool:
    """Whether a job is for this work. Another program's queue may have stored no message id."""
    if job.message_id is None:
        return job.session_id == revival.session_id
    return work_of(job, job.session_id or "") == revival.work


def _furthest_state(statuses: Sequence[str]) -> NextJobState:
    known = [status for status in JOB_STATUSES if status in statuses]
    return NextJobState(known[-1]) if known else NextJobState.MISSING


def _revival(body: object) -> QueueRevival | None:
    try:
        return _decode_revival(body) if isinstance(body, bytes) else None
    except msgspec.DecodeError:
        return None


def _seconds(answer: object) -> float | None:
    value = decode_value(answer)
    if answer is None or isinstance(answer, Exception):
        return None
    return float(value) if isinstance(value, int | float) else 0.0


def _wall(raw: object, otherwise: float) -> float:
    try:
        return float(raw) if isinstance(raw, bytes) else otherwise
    except ValueError:
        return otherwise


def _budget(work: str) -> str:
    return f"wakeful:revival:{work}"


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def _raw(key: str) -> bytes:
    return key.encode("utf-8", "surrogateescape")


# One issue per project per hour.
ISSUE_WINDOW_SECONDS: Final = 3600.0
_OWNER: Final = "filed"


class QueueIssueLedger:
    """Implements IssueLedger of `integrations.github`."""

    def __init__(self, jobs: JobQueue) -> None:
        self._jobs = jobs

    async def claim(self, project: str) -> bool:
        return await self._jobs.claim(f"issue:{project}", _OWNER, ISSUE_WINDOW_SECONDS)

    async def release(self, project: str) -> None:
        await self._jobs.release_claim(f"issue:{project}", _OWNER)

    async def record_filed(self, project: str, url: str) -> None:
        await self._jobs.set_episode(f"issue:{project}", url)

    async def newest(self, project: str) -> str | None:
        url = (await self._jobs.episodes()).get(f"issue:{project}")
        # An earlier version stored reports under the same name.
        return None if url is None or url.startswith("{") else url
