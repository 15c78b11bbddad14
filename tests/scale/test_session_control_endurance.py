"""Acting on real agents, over and over: no turn lost when the daemon is killed, nothing left when sessions are stopped.

The suite does a few rounds; `WAKEFUL_ENDURANCE=10` does ten times as many (50 kills, 500 cycles).
"""

import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from support.daemon_process import RunningDaemon
from support.real_clients import ClaudeHome, end_tmux, wait_for
from support.tmux_server import Server
from wakeful.testing.scripted_model import script

FACTOR = int(os.environ.get("WAKEFUL_ENDURANCE", "1"))
KILLS = 5 * FACTOR
CYCLES = 10 if FACTOR == 1 else 50 * FACTOR


@pytest.fixture
def daemon(claude: ClaudeHome, tmp_path: Path) -> Iterator[RunningDaemon]:
    daemon = RunningDaemon(tmp_path / "wakeful")
    daemon.watch(**claude.environ())
    daemon.up()
    yield daemon
    daemon.end()
    end_tmux(state(daemon) / "tmux.sock")


def state(daemon: RunningDaemon) -> Path:
    return Path(daemon.environ["WAKEFUL_HOME"])


def started(daemon: RunningDaemon, claude: ClaudeHome, *arguments: str) -> str:
    deed = daemon.run("run", "--json", *arguments, cwd=claude.project)
    assert deed.exit_code == 0, deed.out + deed.err
    session_id: str = deed.json["session_id"]
    return session_id


def answer(number: int) -> dict[str, Any]:
    return {"text": f"answer {number}."}


def test_no_turn_is_lost_when_the_daemon_is_killed(daemon: RunningDaemon, claude: ClaudeHome) -> None:
    """Killed in the middle of every turn, the daemon finds the same process each time, and every answer was given."""
    slow = {"tool": "Bash", "input": {"command": "sleep 0.3"}}
    session_id = started(daemon, claude, "--headless", "--prompt", script(answer(0)), "--", "claude")
    pids = set()
    for number in range(1, KILLS + 1):
        daemon.run("session", "wait", session_id, "--until", "idle", "--timeout", "30s")
        sent = daemon.run("session", "send", session_id, script(slow, answer(number)), "--json")
        assert sent.json["outcome"] == "recovered", sent.out
        daemon.kill()
        daemon.up()
        pids.add(daemon.wait_for_session(lambda record: record["managed"], "managed session")["pid"])
    (transcript,) = claude.logs()
    said = wait_for(lambda: _all_said(transcript), f"{KILLS} answers")
    assert (said, len(pids)) == (KILLS, 1)


def _all_said(transcript: Path) -> int | None:
    text = transcript.read_text()
    said = sum(f'"text":"answer {number}."' in text for number in range(1, KILLS + 1))
    return said if said == KILLS else None


@pytest.mark.parametrize("place", ["--headless", "--detach"])
def test_nothing_is_left_after_many_sessions(daemon: RunningDaemon, claude: ClaudeHome, place: str) -> None:
    """No process, FIFO, run folder, descriptor or tmux session survives a stop; the tmux server stays, once."""
    descriptors, settled = Path(f"/proc/{daemon.pid}/fd"), 0
    for number in count(1):
        session_id = started(daemon, claude, place, "--", "claude")
        stopped = daemon.run("session", "stop", session_id, "--json")
        assert stopped.json["outcome"] == "recovered", (number, stopped.out)
        if number == 2:
            settled = len(list(descriptors.iterdir()))
        if number == CYCLES // 2:
            break
    servers = [Server(state(daemon) / "tmux.sock").pid] if place == "--detach" else []
    assert sorted(claude.pids()) == sorted([daemon.pid, *servers])
    assert list((state(daemon) / "run").iterdir()) == []
    assert not _children(daemon.pid)
    assert len(list(descriptors.iterdir())) <= settled + 2


def _children(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
