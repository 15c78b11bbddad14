"""The queue world in a real Redis: every act whole or not at all, and what a lost answer means."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import pytest
from msgspec.structs import replace

from support.queue_app import CHAT, SESSION, WORK, QueueAppFixture
from wakeful.watchdog.queue import (
    FenceResult,
    JobsUnreachable,
    NextJobState,
    QueueAttempt,
    QueueRevival,
    QueueRevivalStage,
)
from wakeful.watchdog.redis_connection import RedisConnection
from wakeful.watchdog.redis_queue import RecordStrange, RedisJobQueue
from wakeful.watchdog.redis_records import parse_key, unescape_field

T = TypeVar("T")


@asynccontextmanager
async def opened_jobs(bridge: QueueAppFixture) -> AsyncIterator[RedisJobQueue]:
    jobs = RedisJobQueue(RedisConnection(bridge.server.url))
    try:
        yield jobs
    finally:
        await jobs.close()


def with_jobs(bridge: QueueAppFixture, act: Callable[[RedisJobQueue], Awaitable[T]]) -> T:
    async def run() -> T:
        async with opened_jobs(bridge) as jobs:
            return await act(jobs)

    return asyncio.run(run())


def revival(watched: QueueAttempt, **fields: Any) -> QueueRevival:
    assert watched.job is not None, "it runs"
    given: dict[str, Any] = {
        "work": watched.work,
        "session_id": watched.session.session_id,
        "project_key": "popoto",
        "chat_id": CHAT,
        "reason": "silent_for_15_minutes",
        "began_at": 1_800_000_000.25,
        "stage": QueueRevivalStage.ENQUEUED,
        "job_id": "a" * 32,
        "context": "go on",
        "failed_key": watched.job.key.replace(":running", ":failed"),
    }
    return QueueRevival(**{**given, **fields})


def everything(bridge: QueueAppFixture) -> dict[bytes, object]:
    """All there is, value by value: a dump of the same hash differs while the server moves it to a larger table."""
    client = bridge.server.client()
    readers: dict[bytes, Callable[[bytes], object]] = {
        b"string": client.get,
        b"hash": client.hgetall,
        b"set": client.smembers,
        b"list": lambda key: client.lrange(key, 0, -1),
        b"zset": lambda key: client.zrange(key, 0, -1, withscores=True),
    }
    found = {key: readers[client.type(key)](key) for key in client.keys("*")}
    client.close()
    return found


async def test_a_spent_budget_changes_nothing(bridge: QueueAppFixture) -> None:
    """The same message runs again: its budget alone refuses it, and not one byte is changed."""
    bridge.active()
    client = bridge.server.client()
    client.set(f"wakeful:revival:{WORK}", "somebody else's")
    client.close()
    before = everything(bridge)
    async with opened_jobs(bridge) as jobs:
        (attempt,) = (await jobs.snapshot()).watched
        assert await jobs.is_budget_spent(attempt.work)
        assert await jobs.revive(attempt, revival(attempt)) is FenceResult.SPENT
    assert everything(bridge) == before


@pytest.mark.parametrize("gone", ["AgentSession:*", "RedisJob:*"])
def test_a_record_that_vanished_changes_nothing(bridge: QueueAppFixture, gone: str) -> None:
    """Another program ended the session or its job in between: nothing is spent, nothing made."""
    bridge.active()

    async def act(jobs: RedisJobQueue) -> tuple[FenceResult, FenceResult]:
        (attempt,) = (await jobs.snapshot()).watched
        client = bridge.server.client()
        client.delete(*client.keys(gone))
        client.close()
        return await jobs.revive(attempt, revival(attempt)), await jobs.fence(attempt)

    assert with_jobs(bridge, act) == (FenceResult.GONE, FenceResult.GONE)
    client = bridge.server.client()
    assert client.keys("wakeful:*") == []
    assert client.exists("$KeyF:RedisJob:status:pending") == 0
    client.close()


@pytest.mark.parametrize(
    "strange",
    [
        "$KeyF:RedisJob:status:pending",
        "$KeyF:AgentSession:status:failed",
        "$SortF:RedisJob:created_at:popoto",
        "wakeful:revivals",
    ],
)
async def test_a_strange_index_is_noticed_before_anything_is_changed(
    bridge: QueueAppFixture, strange: str
) -> None:
    """Redis undoes nothing of a script that fails half way; this one looks first."""
    bridge.active()
    client = bridge.server.client()
    client.delete(strange)
    client.set(strange, "a string")
    client.close()
    before = everything(bridge)
    async with opened_jobs(bridge) as jobs:
        (attempt,) = (await jobs.snapshot()).watched
        with pytest.raises(RecordStrange):
            await jobs.revive(attempt, revival(attempt))
    assert everything(bridge) == before


async def test_the_budget_lasts_a_week(bridge: QueueAppFixture) -> None:
    """One key per message, and it expires."""
    bridge.active()
    async with opened_jobs(bridge) as jobs:
        (attempt,) = (await jobs.snapshot()).watched
        assert await jobs.revive(attempt, revival(attempt)) is FenceResult.DONE
    client = bridge.server.client()
    assert 604_700 < client.ttl(f"wakeful:revival:{WORK}") <= 604_800
    assert client.zscore("$SortF:RedisJob:created_at:popoto", f"RedisJob:{'a' * 32}:popoto:pending") == (
        1_800_000_000.25
    )
    client.close()


def test_an_answer_that_was_lost_is_looked_up(
    bridge: QueueAppFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The script ran and its answer did not arrive: it counts as done, and only for the watchdog that ran it."""
    bridge.active()
    run = RedisConnection.run_script

    async def cut_after(self: RedisConnection, *arguments: Any) -> str:
        await run(self, *arguments)
        raise JobsUnreachable(place="Redis", reason="cut")

    monkeypatch.setattr(RedisConnection, "run_script", cut_after)

    async def act(jobs: RedisJobQueue) -> None:
        (attempt,) = (await jobs.snapshot()).watched
        assert await jobs.revive(attempt, revival(attempt)) is FenceResult.DONE
        with pytest.raises(JobsUnreachable):
            await jobs.revive(attempt, revival(attempt, job_id="b" * 32))
        assert await jobs.next_job_state(revival(attempt)) is NextJobState.PENDING

    with_jobs(bridge, act)
    assert bridge.statuses("RedisJob") == ["pending", "failed"]


async def test_claims_run_out_and_are_given_back_by_their_owner_only(bridge: QueueAppFixture) -> None:
    """A claim is freed by its owner only, and a dead owner's ends by itself."""
    async with opened_jobs(bridge) as jobs:
        assert await jobs.claim("w", "me", 60.0)
        await jobs.release_claim("w", "you")
        assert not await jobs.claim("w", "you", 60.0)
        await jobs.release_claim("w", "me")
        assert await jobs.claim("w", "you", 0.001)
        await asyncio.sleep(0.05)
        assert await jobs.claim("w", "me", 60.0)


def test_every_escaped_id_is_read_back(bridge: QueueAppFixture) -> None:
    """popoto escapes colons, slashes and patterns in its keys; the parts say what the fields say."""
    ids = ["a:b", "tg_x_-1_2", "a.b@c+d", "x:y:z"]
    for number, session_id in enumerate(ids):
        bridge.server.session(
            session_id=session_id,
            project_key="p/q:[r]*",
            status="active",
            started_at=bridge.now,
            last_activity=bridge.now,
        )
        bridge.run_job(session_id, project="p/q:[r]*", chat_id="1", message_id=number)

    async def act(jobs: RedisJobQueue) -> list[QueueAttempt]:
        found = list((await jobs.snapshot()).watched)
        for each in found:
            assert await jobs.fence(each) is FenceResult.DONE
        return found

    found = with_jobs(bridge, act)
    assert sorted(each.session.session_id for each in found) == sorted(ids)
    for each in found:
        parts = parse_key(each.session.key)
        assert parts is not None
        assert (unescape_field(parts.first), unescape_field(parts.second)) == (
            "p/q:[r]*",
            each.session.session_id,
        )
        assert each.job is not None
        assert each.job.project_key == "p/q:[r]*"
    assert bridge.statuses("AgentSession") == ["failed"] * 4
    assert {
        each["session_id"] for each in bridge.server.query("AgentSession", project_key="p/q:[r]*")
    } == set(ids)


EVENT = b'{"event":"session_recovered"}'


def fenced(bridge: QueueAppFixture) -> QueueRevival:
    """A session that was fenced and whose next job waits, with the record that a watchdog of an earlier version keeps."""
    bridge.active()

    async def act(jobs: RedisJobQueue) -> QueueRevival:
        (attempt,) = (await jobs.snapshot()).watched
        made = revival(attempt, session_key=attempt.session.key)
        assert await jobs.revive(attempt, made) is FenceResult.DONE
        return made

    made = with_jobs(bridge, act)
    client = bridge.server.client()
    # Byte by byte what the version before `running_at` and `stopped` wrote.
    assert set(json.loads(client.get(f"wakeful:revival:{WORK}"))) == {
        "work", "session_id", "project_key", "chat_id", "reason", "began_at", "stage", "job_id", "context",
        "failed_key", "session_key",
    }  # fmt: skip
    client.close()
    return made


def test_two_watchdogs_withdraw_a_revival_once(bridge: QueueAppFixture) -> None:
    """One of them does it, and what tells of it is owed once; the records are as before the fence."""
    made = fenced(bridge)

    async def act(jobs: RedisJobQueue) -> tuple[list[bool], list[bytes]]:
        both = await asyncio.gather(jobs.withdraw(made, [EVENT]), jobs.withdraw(made, [EVENT]))
        return sorted(both), await jobs.stored_events()

    assert with_jobs(bridge, act) == ([False, True], [EVENT])
    assert (bridge.statuses("RedisJob"), bridge.statuses("AgentSession")) == (["running"], ["active"])


@pytest.mark.parametrize("status", ["running", "completed", "failed"])
def test_a_revival_whose_next_job_was_taken_in_the_same_moment_is_not_withdrawn(
    bridge: QueueAppFixture, status: str
) -> None:
    """The worker has saved the job further on, whether it has taken the waiting record away yet or not."""
    made = fenced(bridge)
    bridge.server.job(
        job_id=made.job_id, project_key="popoto", status=status, session_id=made.session_id,
        created_at=made.began_at,
    )  # fmt: skip
    before = everything(bridge)
    assert with_jobs(bridge, lambda jobs: jobs.withdraw(made, [EVENT])) is False
    assert everything(bridge) == before


def test_a_revival_that_another_watchdog_moved_on_is_not_withdrawn(bridge: QueueAppFixture) -> None:
    """What was read before is not what is there: its budget ran out, or another watchdog saw its next job run."""
    made = fenced(bridge)
    assert with_jobs(bridge, lambda jobs: jobs.advance(made, replace(made, running_at=1.0))) is True
    before = everything(bridge)
    assert with_jobs(bridge, lambda jobs: jobs.withdraw(made, [EVENT])) is False
    assert everything(bridge) == before
    bridge.server.client().delete(f"wakeful:revival:{WORK}")
    assert with_jobs(bridge, lambda jobs: jobs.withdraw(made, [EVENT])) is False
    assert with_jobs(bridge, lambda jobs: jobs.open_revivals()) == []


async def test_a_fence_leaves_the_record_of_a_completed_attempt_alone(bridge: QueueAppFixture) -> None:
    """The record is an earlier message's, which ended well; only the job that hangs is marked."""
    bridge.server.session(
        session_id=SESSION, project_key="popoto", status="completed", chat_id=CHAT,
        started_at=bridge.now - 10_900, last_activity=bridge.now - 10_800,
    )  # fmt: skip
    bridge.run_job(SESSION, chat_id=CHAT, message_id=4469)
    async with opened_jobs(bridge) as jobs:
        (attempt,) = (await jobs.snapshot()).watched
        assert await jobs.fence(attempt) is FenceResult.DONE
    assert (bridge.statuses("RedisJob"), bridge.statuses("AgentSession")) == (["failed"], ["completed"])
