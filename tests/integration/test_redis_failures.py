"""A Redis that is down, slow, restarted or closed to us: said once, waited for, and the loop goes on."""

import asyncio
import logging
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

import pytest

import wakeful
from support.queue_app import CHAT, SESSION, WORK, QueueAppFixture
from support.redis_server import RedisServer, require_redis
from support.run_program import run_program
from wakeful.linux.clock import SystemClock
from wakeful.watchdog.api import attempt_revival, check_all_sessions
from wakeful.watchdog.loop import connect
from wakeful.watchdog.queue import QueueRevival, QueueRevivalStage
from wakeful.watchdog.redis_connection import BadRedisUrl, RedisConnection
from wakeful.watchdog.rules import FAILURE_MESSAGE


async def test_a_redis_that_is_down_is_said_once_and_used_when_it_is_back(
    bridge: QueueAppFixture, caplog: pytest.LogCaptureFixture
) -> None:
    """Three cycles without it, one line about it; restarted without any script, it is watched again."""
    with caplog.at_level(logging.INFO, "wakeful.watchdog"):
        watch = bridge.watch()
        try:
            await watch.check()
            bridge.server.stop()
            for _ in range(3):
                assert (await watch.check()).trouble is not None
            bridge.server.start()
            await asyncio.to_thread(bridge.active)
            assert (await watch.check()).unhealthy == 1
        finally:
            await watch.close()
    assert caplog.text.count("it keeps checking") == 1
    assert ".." not in caplog.text
    assert caplog.text.count("answers again") == 1
    assert caplog.text.count("watchdog: checked ") == 5
    assert bridge.outline() == [("session_unhealthy", "silent_for_15_minutes", "revival_attempted")]


async def test_a_redis_restarted_between_two_cycles_costs_none_of_them(bridge: QueueAppFixture) -> None:
    """The connection it closed is opened again; nothing is reported, nothing is missed."""
    watch = bridge.watch()
    try:
        await watch.check()
        bridge.server.stop()
        bridge.server.start()
        await asyncio.to_thread(bridge.active)
        cycle = await watch.check()
        assert (cycle.trouble, cycle.unhealthy) == (None, 1)
    finally:
        await watch.close()
    assert bridge.statuses("RedisJob") == ["pending", "failed"]


async def test_a_redis_that_does_not_answer_costs_one_deadline(bridge: QueueAppFixture) -> None:
    """Frozen, it is given up on in time; woken up, it is used again."""
    bridge.active()
    watch = bridge.watch(deadline_seconds=0.5)
    clock = SystemClock()
    try:
        os.kill(bridge.server.pid, signal.SIGSTOP)
        began = clock.now().awake
        assert "no answer" in str((await watch.check()).trouble)
        assert clock.now().awake - began < 5.0
        os.kill(bridge.server.pid, signal.SIGCONT)
        assert (await watch.check()).unhealthy == 1
    finally:
        os.kill(bridge.server.pid, signal.SIGCONT)
        await watch.close()
    assert bridge.statuses("RedisJob") == ["pending", "failed"]


def test_a_wrong_password_is_said_and_not_shown(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, caplog: pytest.LogCaptureFixture
) -> None:
    """The trouble names the place and the reason, never the password."""
    require_redis()
    server = RedisServer(tmp_path_factory.mktemp("r"), "--requirepass", "the-right-one")
    bridge = QueueAppFixture(server, tmp_path)

    async def run(url: str) -> str | None:
        watch = bridge.watch(url=url)
        try:
            return [(await watch.check()).trouble for _ in range(2)][-1]
        finally:
            await watch.close()

    try:
        with caplog.at_level(logging.INFO, "wakeful.watchdog"):
            assert "invalid" in str(asyncio.run(run(f"unix://:guessed-secret@{server.socket}"))).lower()
            assert asyncio.run(run(server.url)) is not None
            assert asyncio.run(run(f"unix://:the-right-one@{server.socket}")) is None
    finally:
        server.end()
    assert caplog.text.count("it keeps checking") == 2
    assert "guessed-secret" not in caplog.text


def test_an_address_that_is_none_is_refused() -> None:
    """The operator's mistake is reported at once, without what may be a password."""
    with pytest.raises(BadRedisUrl) as refused:
        connect("http://user:secret@host:80")
    assert "secret" not in str(refused.value)


def test_the_loop_runs_in_another_program_and_is_cancelled_cleanly(
    bridge: QueueAppFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`wakeful.watchdog_loop` revives beside other tasks, and leaves no task behind when it is cancelled."""
    bridge.active()
    monkeypatch.delenv("GH_REPO", raising=False)
    events = bridge.critical.path

    async def run() -> None:
        loop = asyncio.create_task(
            wakeful.watchdog_loop(
                redis=bridge.server.url,
                logs=bridge.logs,
                enqueue_job=bridge.work.append,
                critical_events=events,
                interval_seconds=0.05,
            )
        )
        async with asyncio.timeout(10):
            while not events.exists() or not bridge.events:  # noqa: ASYNC110 - another program's file
                await asyncio.sleep(0.02)
        loop.cancel()
        with suppress(asyncio.CancelledError):
            await loop
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(run())
    assert [work.session_id for work in bridge.work] == [SESSION]
    assert bridge.events[0]["github_issue"] is None
    assert "no repository is configured" in bridge.events[0]["details"]["issue"]


def test_the_parts_work_alone(bridge: QueueAppFixture) -> None:
    """One cycle, and one session's revival, without the loop."""
    bridge.active()
    bridge.active("tg_popoto_-5294327191_5000", silent_seconds=10.0)
    events = bridge.folder / "events.jsonl"
    given = {"redis": bridge.server.url, "logs": bridge.logs, "critical_events": events}
    healthy = asyncio.run(attempt_revival("tg_popoto_-5294327191_5000", **given))  # type: ignore[arg-type]
    assert healthy == "nothing"
    (record,) = bridge.server.query("AgentSession", session_id=SESSION)
    assert asyncio.run(attempt_revival(record, **given)) == "revive"  # type: ignore[arg-type]
    cycle = asyncio.run(check_all_sessions(**given))  # type: ignore[arg-type]
    assert (cycle.healthy, cycle.unhealthy) == (1, 0)


async def test_a_revival_cut_off_between_fence_and_queue_is_finished(bridge: QueueAppFixture) -> None:
    """The watchdog that fenced was ended before it enqueued: the next watchdog makes the job, and only one."""
    bridge.active()
    jobs = connect(bridge.server.url)
    (attempt,) = (await jobs.snapshot()).watched
    await jobs.revive(attempt, revival(bridge, QueueRevivalStage.FENCED, job_id="f" * 32))
    await jobs.close()
    watch = bridge.watch(stop_session=lambda _session_id: None)
    for _ in range(2):
        await watch.check()
    await watch.close()
    (job,) = bridge.server.query("RedisJob", status="pending")
    assert (job["job_id"], job["message_text"], job["revival_context"]) == ("f" * 32, "ship it", "go on")


async def test_a_queue_that_was_asked_and_made_no_job_is_a_failed_revival(bridge: QueueAppFixture) -> None:
    """Ten minutes later nothing was made of it: the chat gets one message."""
    bridge.active()
    jobs = connect(bridge.server.url)
    (attempt,) = (await jobs.snapshot()).watched
    await jobs.revive(attempt, revival(bridge, QueueRevivalStage.ASKED, job_id=None))
    await jobs.close()
    watch = bridge.watch()
    for _ in range(2):
        await watch.check()
    await watch.close()
    assert bridge.sent == [(CHAT, FAILURE_MESSAGE)]
    assert bridge.outline() == [("revival_failed", "silent_for_15_minutes", "failure_message_sent")]


def revival(bridge: QueueAppFixture, stage: QueueRevivalStage, job_id: str | None) -> QueueRevival:
    """One that began twenty minutes ago and went no further."""
    client = bridge.server.client()
    (running,) = client.smembers("$KeyF:RedisJob:status:running")
    client.close()
    return QueueRevival(
        work=WORK,
        session_id=SESSION,  # type: ignore[arg-type]
        project_key="popoto",
        chat_id=CHAT,
        reason="silent_for_15_minutes",
        began_at=bridge.now - 1200,
        stage=stage,
        job_id=job_id,
        context="go on",
        failed_key=running.decode().replace(":running", ":failed"),
    )


def test_the_example_in_the_documentation_runs(bridge: QueueAppFixture) -> None:
    """What the how-to page shows revives a session as it says."""
    bridge.active()
    page = Path(__file__).parents[2] / "docs" / "how-to" / "watchdog-in-your-program.md"
    example = page.read_text().split("```python\n")[1].split("```")[0]
    example = example.replace("redis://127.0.0.1:6379/0", bridge.server.url).replace(
        "sleep(3600)", "sleep(3)"
    )
    done = run_program(
        [sys.executable, "-c", example.replace('github_repo="acme/bots"', 'github_repo=""')],
        env={"PATH": os.environ["PATH"]},
        cwd=bridge.folder,
        timeout=30,
    )
    assert done.stdout.startswith(f"again: {SESSION} ship it Wakeful: "), done.stderr
    assert (bridge.folder / "logs" / "critical_events.jsonl").read_text().count("revival_attempted") == 1


def test_whoever_asks_can_be_cancelled_at_any_moment(bridge: QueueAppFixture) -> None:
    """A cancellation that comes in the very moment in which a command was sent is heard, too."""

    async def ask_for_ever(connection: RedisConnection) -> None:
        while True:
            await connection.execute("PING")

    async def is_heard(connection: RedisConnection, steps: int) -> bool:
        asking = asyncio.create_task(ask_for_ever(connection))
        for _ in range(steps):
            await asyncio.sleep(0)
        asking.cancel()
        await asyncio.wait({asking}, timeout=0.5)
        heard = asking.done()
        while not asking.done():
            asking.cancel()
            await asyncio.sleep(0.01)
        return heard

    async def run() -> list[int]:
        connection = RedisConnection(bridge.server.url)
        await connection.execute("PING")
        try:
            return [steps for steps in range(40) if not await is_heard(connection, steps)]
        finally:
            await connection.close()

    assert asyncio.run(run()) == []
