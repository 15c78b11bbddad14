"""Eight watchdogs on one Redis: every session in trouble is a race, and each race has exactly one winner.

`WAKEFUL_RACES` says how many; 2,000 take some minutes on two cores, the ordinary number some seconds.
"""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from support.redis_server import RedisServer, require_redis
from wakeful.linux.clock import SystemClock

RACES = int(os.environ.get("WAKEFUL_RACES", "100"))
WATCHDOGS = 8
RACER = Path(__file__).parents[1] / "support" / "watchdog_racer.py"


def race(server: RedisServer, folder: Path, part: str) -> list[list[int]]:
    """One cycle of each watchdog, all at once: unhealthy, revived, given up, messages sent."""
    racers = [
        subprocess.Popen(
            (sys.executable, str(RACER), server.url, str(folder), part),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(WATCHDOGS)
    ]
    for racer in racers:
        assert racer.stdout is not None, "it is a pipe"
        assert racer.stdout.readline() == "ready\n"
    for racer in racers:
        assert racer.stdin is not None, "it is a pipe"
        racer.stdin.write("go\n")
        racer.stdin.flush()
    return [[int(word) for word in racer.communicate(timeout=600)[0].split()] for racer in racers]


def fill(server: RedisServer, count: int) -> None:
    """Sessions that fell silent, each with its running job."""
    now = SystemClock().now().wall
    fields = {"project_key": "popoto", "chat_id": "7", "started_at": now - 960, "last_activity": now - 900}
    for number in range(count):
        server.session(session_id=f"tg_popoto_7_{number}", status="active", **fields)
        server.job(
            project_key="popoto",
            status="running",
            session_id=f"tg_popoto_7_{number}",
            chat_id="7",
            message_id=number,
            message_text="ship it",
            created_at=now - 960,
        )


@pytest.mark.parametrize("part", ["cycle", "fence"])
def test_no_work_is_revived_twice(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, part: str
) -> None:
    """Every session is revived by exactly one of eight watchdogs, with one pending job; claims or not."""
    require_redis()
    server = RedisServer(tmp_path_factory.mktemp("r"))
    try:
        fill(server, RACES)
        told = race(server, tmp_path, part)
        client = server.client()
        pending = client.smembers("$KeyF:RedisJob:status:pending")
        sessions = Counter(msgspec.msgpack.decode(client.hget(key, "session_id")) for key in pending)
        client.close()
    finally:
        server.end()
    assert sum(revived for _, revived, _, _ in told) == RACES, told
    assert len(sessions) == RACES
    assert set(sessions.values()) == {1}
    assert sum(failed + sent for _, _, failed, sent in told) == 0
    # A race needs two at least: most watchdogs saw most sessions in trouble.
    assert sum(unhealthy for unhealthy, _, _, _ in told) > 2 * RACES, told
