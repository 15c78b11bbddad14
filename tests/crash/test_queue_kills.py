"""Claims about a watchdog that is killed anywhere in the revival of a queued session: once, and nothing is lost."""

import inspect
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.queue_app import CHAT, SESSION, QueueAppFixture
from support.redis_server import RedisServer, require_redis
from support.run_program import run_program
from wakeful.watchdog import healing as watchdog_healing, queue_health as watchdog_queue
from wakeful.watchdog.api import FAILURE_MESSAGE

WORKER = Path(__file__).with_name("queue_worker.py")
REVIVING = ("queue.filed", "queue.fenced", "queue.enqueued", "queue.written")
GIVING_UP = ("queue.filed", "queue.given_up", "queue.told")
STALLED = ("queue.stalled_filed", "queue.stalled_started", "queue.stalled_told")


@pytest.fixture
def bridge(tmp_path: Path) -> Iterator[QueueAppFixture]:
    require_redis()
    server = RedisServer(tmp_path / "r")
    yield QueueAppFixture(server, tmp_path)
    server.end()


def cycle(bridge: QueueAppFixture, killed_at: str = "") -> None:
    """One cycle of a process of its own; a claim that its death left behind has run out before the next one."""
    done = run_program(
        [sys.executable, str(WORKER), bridge.server.url, str(bridge.folder)],
        env={**os.environ, "WAKEFUL_FAULTS": f"{killed_at}:1:kill" if killed_at else ""},
    )
    assert done.returncode == (-9 if killed_at else 0), done.stderr
    client = bridge.server.client()
    for claim in client.keys("wakeful:claim:*"):
        client.delete(claim)
    client.close()


def test_every_point_is_tried() -> None:
    """A new point of healing a queue is one to be killed at."""
    points = re.findall(r'fault_point\("([\w.]+)"\)', inspect.getsource(watchdog_healing))
    assert set(points) == {*REVIVING, *GIVING_UP}
    points = re.findall(r'fault_point\("([\w.]+)"\)', inspect.getsource(watchdog_queue))
    assert set(points) == set(STALLED)


@pytest.mark.parametrize("point", REVIVING)
def test_killed_anywhere_in_a_revival_it_revives_once_and_says_so(
    bridge: QueueAppFixture, point: str
) -> None:
    """One next job with its context, one failed attempt, and its line in the log of critical events."""
    bridge.active()
    cycle(bridge, point)
    for _ in range(2):
        cycle(bridge)
    assert bridge.statuses("RedisJob") == ["pending", "failed"]
    assert bridge.statuses("AgentSession") == ["failed"]
    told = set(bridge.outline())
    assert told == {("session_unhealthy", "silent_for_15_minutes", "revival_attempted")}
    # Killed between a line and the note of it, the line is there twice, and never not at all.
    assert len(bridge.events) == (2 if point == "queue.written" else 1)


@pytest.mark.parametrize("point", GIVING_UP)
def test_killed_anywhere_in_giving_up_its_chat_is_told_once(bridge: QueueAppFixture, point: str) -> None:
    """Its second failure: the failure message once, no third attempt, and a line that says so."""
    bridge.active()
    cycle(bridge)
    hang_again(bridge)
    cycle(bridge, point)
    for _ in range(2):
        cycle(bridge)
    assert (bridge.folder / "sent").read_text() == f"{CHAT} {FAILURE_MESSAGE}\n"
    assert set(bridge.statuses("RedisJob")) == {"failed"}
    assert [each[0] for each in bridge.outline()] == ["session_unhealthy", "revival_failed"]


@pytest.mark.parametrize("point", STALLED)
def test_killed_anywhere_in_telling_of_a_stalled_queue_it_is_told(
    bridge: QueueAppFixture, point: str
) -> None:
    """It is written down by the next watchdog, and a worker is asked for once."""
    bridge.run_job("tg_idle_1_2", project="idle", status="pending")
    cycle(bridge, point)
    for _ in range(2):
        cycle(bridge)
    assert set(bridge.outline()) == {("queue_stalled", "queue_stalled", "none")}
    # Killed between a line and the note of it, the line is there twice, and never not at all.
    assert len(bridge.events) == (2 if point == "queue.stalled_told" else 1)
    assert (bridge.folder / "started").read_text() == "idle\n"


def hang_again(bridge: QueueAppFixture) -> None:
    """A worker took the next job a quarter of an hour ago, and nothing was heard since."""
    (job,) = bridge.server.query("RedisJob", status="pending")
    bridge.server.delete("RedisJob", status="pending")
    bridge.server.delete("AgentSession", status="failed")
    bridge.active()
    bridge.server.delete("RedisJob", status="running")
    bridge.run_job(
        SESSION, chat_id=CHAT, message_id=4469, job_id=job["job_id"], revival_context=job["revival_context"]
    )
