"""Claims about an act by a key whose daemon is killed in the middle: asked again, it is done exactly once.

Real daemon, real Claude Code, scripted model.
"""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.daemon_process import RunningDaemon
from support.real_clients import ClaudeHome, wait_for
from wakeful.client.client import DaemonClient
from wakeful.config.paths import StatePaths
from wakeful.core.errors import WakefulError
from wakeful.core.leases import prompt_id_for

POINTS = ("once.asked", "act.intended", "act.done", "once.done")
SECONDS_MAX = 30.0


@pytest.fixture
def daemon(tmp_path: Path, claude: ClaudeHome) -> Iterator[RunningDaemon]:
    daemon = RunningDaemon(tmp_path / "w")
    daemon.watch(CLAUDE_CONFIG_DIR=claude.home / ".claude")
    yield daemon
    for record in daemon.sessions():
        if record["pid"] is not None:
            os.kill(record["pid"], signal.SIGKILL)
    daemon.end()


def state(daemon: RunningDaemon) -> Path:
    return Path(daemon.environ["WAKEFUL_HOME"])


def post(daemon: RunningDaemon, target: str, key: str, **body: Any) -> dict[str, Any]:
    client = DaemonClient(StatePaths(str(state(daemon))))
    answer = client.post(target, json.dumps(body).encode(), key=key, timeout_seconds=SECONDS_MAX)
    deed: dict[str, Any] = json.loads(answer.body)
    return deed


def taken(daemon: RunningDaemon, session_id: str, key: str) -> int:
    """How often the client says that it has the prompt of this key."""
    lines = (state(daemon) / "run" / session_id / "out.jsonl").read_bytes().splitlines()
    records = map(json.loads, lines)
    return sum(each.get("uuid") == str(prompt_id_for(key)) and bool(each.get("isReplay")) for each in records)


def test_a_prompt_is_delivered_once_wherever_the_daemon_is_killed(
    daemon: RunningDaemon, claude: ClaudeHome
) -> None:
    """Killed before, in and after the act, asked again under the same key: the client has the prompt once."""
    daemon.up()
    begun = post(
        daemon,
        "/api/sessions",
        "first",
        argv=["claude"],
        cwd=str(claude.project),
        environ=claude.environ(),
        terminal=False,
        prompt="hello",
    )
    session_id = begun["session_id"]
    wait_for(lambda: taken(daemon, session_id, "first") or None, "the first prompt")
    for point in POINTS:
        daemon.end()
        daemon.watch(WAKEFUL_FAULTS=f"{point}:1:kill")
        daemon.up()
        target = f"/api/sessions/{session_id}/send"
        with pytest.raises(WakefulError):
            post(daemon, target, point, prompt=f"killed at {point}")
        wait_for(lambda: daemon.has_ended() or None, "death of the daemon")
        del daemon.environ["WAKEFUL_FAULTS"]
        daemon.up()
        deed = post(daemon, target, point, prompt=f"killed at {point}")
        assert deed["outcome"] == "recovered", deed
        # A client says that it has a prompt when it comes to its end at the latest.
        wait_for(lambda: taken(daemon, session_id, point) or None, "the prompt")  # noqa: B023 - called here
        assert post(daemon, target, point, prompt=f"killed at {point}") == deed
        daemon.wait_for_session(lambda record: record["state"] == "idle", "the end of the turn")
        assert taken(daemon, session_id, point) == 1
