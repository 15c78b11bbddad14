"""The whole watchdog: a bridge's agent hangs, is revived in its conversation through the queue, and hangs again.

Real Redis with records by popoto, a real tmux, real Claude Code on a scripted model, a stand-in `gh`, a scripted Telegram.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import pytest

from support.cli_user import DONE
from support.daemon_process import RunningDaemon
from support.fake_gh import StandInGh
from support.queue_app import CHAT, SESSION, QueueAppFixture
from support.real_clients import ClaudeHome, end_tmux, wait_for
from support.redis_server import RedisServer, require_redis
from support.telegram_sink import Telegram
from wakeful.linux.clock import SystemClock
from wakeful.testing.scripted_model import script
from wakeful.watchdog.api import FAILURE_MESSAGE

HANGING = {"hang": "mid", "loop": True}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    require_redis()
    server = RedisServer(tmp_path / "redis")
    yield server
    server.end()


class Worker:
    """A bridge's worker: runs Claude Code in tmux for a job, in the job's conversation, and saves what it does."""

    def __init__(self, server: RedisServer, claude: ClaudeHome, folder: Path) -> None:
        self._server = server
        self._claude = claude
        self._socket = folder / "worker.sock"
        self.logs = folder / "sessions"
        self._log = self.logs / SESSION / "tool_use.jsonl"
        self._log.parent.mkdir(parents=True)
        self.conversation = str(uuid4())

    def begin(self, prompt: str, *flags: str) -> None:
        """The agent runs, its hook has written one call, and its records say that it works."""
        now = SystemClock().now().wall
        argv = ("claude", "-p", *flags, prompt)
        self._claude.tmux_command(self._socket, f"job-{now:.0f}", *argv)
        call = {"tool_name": "Read", "tool_input": {"file_path": "README.md"}}
        with self._log.open("a") as log:
            log.write(json.dumps({"event": "pre_tool_use", **call, "start_time": now}) + "\n")
            log.write(json.dumps({"event": "post_tool_use", "tool_name": "Read", "end_time": now}) + "\n")
        self._server.session(
            session_id=SESSION,
            project_key="popoto",
            status="active",
            chat_id=CHAT,
            started_at=now,
            last_activity=now,
        )

    def run_job(self, status: str = "running", **fields: Any) -> None:
        self._server.job(
            project_key="popoto",
            status=status,
            session_id=SESSION,
            chat_id=CHAT,
            message_id=4469,
            message_text="ship it",
            working_dir=str(self._claude.project),
            created_at=SystemClock().now().wall,
            **fields,
        )

    def take_pending(self) -> dict[str, Any]:
        """The job that the watchdog made, taken as a bridge does: the old agent is ended, the record saved again."""
        (job,) = wait_for(lambda: self._server.query("RedisJob", status="pending") or None, "new job", 40)
        self._server.delete("RedisJob", status="pending")
        self._server.delete("AgentSession", session_id=SESSION)
        end_tmux(self._socket)
        self.run_job(revival_context=job["revival_context"])
        return job

    def end(self) -> None:
        end_tmux(self._socket)


@pytest.fixture
def worker(server: RedisServer, claude: ClaudeHome, tmp_path: Path) -> Iterator[Worker]:
    worker = Worker(server, claude, tmp_path)
    yield worker
    worker.end()


@pytest.fixture
def watching(
    daemon: RunningDaemon, worker: Worker, server: RedisServer, telegram: Telegram, tmp_path: Path
) -> RunningDaemon:
    gh = StandInGh(tmp_path / "gh")
    daemon.watch(
        WAKEFUL_REDIS__URL=server.url,
        WAKEFUL_REDIS__LOGS=worker.logs,
        WAKEFUL_REDIS__INTERVAL_SECONDS="1",
        WAKEFUL_DETECT__SILENCE_SECONDS="5",
        WAKEFUL_HEAL__CONFIRM_SECONDS="0.1",
        WAKEFUL_GITHUB__REPO="me/agents",
        WAKEFUL_ALERTS__TELEGRAM_TOKEN="123:abc",
        WAKEFUL_ALERTS__TELEGRAM_API=telegram.http.url,
    )
    daemon.environ["PATH"] = f"{gh.bin}:{daemon.environ['PATH']}"
    daemon.up()
    return daemon


def events(daemon: RunningDaemon) -> list[dict[str, Any]]:
    log = Path(daemon.environ["WAKEFUL_HOME"]) / "logs" / "critical_events.jsonl"
    return [msgspec.json.decode(line) for line in log.read_bytes().splitlines()] if log.exists() else []


def hang_and_be_revived(watching: RunningDaemon, worker: Worker) -> dict[str, Any]:
    """The agent hangs in the middle of an answer; the job that the watchdog made for it."""
    worker.run_job()
    worker.begin(script(HANGING), "--session-id", worker.conversation)
    job = worker.take_pending()
    revived = [each for each in events(watching) if each["action_taken"] == "revival_attempted"]
    assert [(each["session_id"], each["reason"][:10]) for each in revived] == [(SESSION, "silent_for")]
    assert revived[0]["github_issue"] in job["revival_context"]
    return job


def test_a_hung_agent_is_revived_in_its_conversation_and_its_work_completes(
    watching: RunningDaemon, worker: Worker, claude: ClaudeHome, telegram: Telegram
) -> None:
    """One event, one issue, one job with the context; resumed, the same conversation comes to its end."""
    job = hang_and_be_revived(watching, worker)
    (transcript,) = claude.logs()
    worker.begin(job["revival_context"] + script(DONE), "--resume", worker.conversation)
    wait_for(lambda: "All done" in transcript.read_text() or None, "end of the work", 40)
    assert claude.logs() == [transcript]
    assert telegram.texts(CHAT) == []


def test_hung_again_the_chat_is_told_once(
    watching: RunningDaemon, worker: Worker, server: RedisServer, telegram: Telegram
) -> None:
    """No second revival: the failure message once. A job that ran and did nothing was not recovered meanwhile."""
    job = hang_and_be_revived(watching, worker)
    worker.begin(job["revival_context"] + script(HANGING), "--resume", worker.conversation)
    wait_for(lambda: telegram.texts(CHAT) or None, "message to the chat", 40)
    told = [(each["event"], each["action_taken"]) for each in watching.run("events", "--json").json["events"]]
    assert told == [
        ("session_unhealthy", "revival_attempted"),
        ("revival_failed", "failure_message_sent"),
    ]
    assert server.query("RedisJob", status="pending") == []
    assert telegram.texts(CHAT) == [FAILURE_MESSAGE]


def test_every_cycle_is_one_line_in_the_daemons_log(
    daemon: RunningDaemon, server: RedisServer, tmp_path: Path
) -> None:
    """How many were checked, healthy, unhealthy and skipped."""
    bridge = QueueAppFixture(server, tmp_path)
    bridge.active(silent_seconds=5.0)
    daemon.watch(WAKEFUL_REDIS__URL=server.url, WAKEFUL_REDIS__LOGS=bridge.logs)
    daemon.up()
    line = "watchdog: checked 1, healthy 1, unhealthy 0, skipped 0"
    wait_for(lambda: line in daemon.said() or None, "line of the first cycle", 20)
    assert daemon.said().count("watchdog: checked") == 1


def test_what_is_held_of_a_queue_is_decided_at_the_daemons_doors(
    daemon: RunningDaemon, server: RedisServer, tmp_path: Path
) -> None:
    """Cut off inside a push: a checkpoint of the daemon's own; `continue` enqueues its message once, with the note."""
    bridge = QueueAppFixture(server, tmp_path)
    bridge.active()
    bridge.call("git push origin main", 930.0, ended=False)
    daemon.watch(
        WAKEFUL_REDIS__URL=server.url, WAKEFUL_REDIS__LOGS=bridge.logs, WAKEFUL_REDIS__INTERVAL_SECONDS="1"
    )
    daemon.watch(WAKEFUL_HEAL__CONFIRM_SECONDS="0.1")
    daemon.up()
    listed = ("checkpoint", "list", "--json")
    (held,) = wait_for(lambda: daemon.run(*listed).json["checkpoints"] or None, "checkpoint", 20)
    assert (held["kind"], held["subject"], "git push" in held["may_have"][0]) == ("queue", SESSION, True)
    assert server.query("RedisJob", status="pending") == []
    decided = daemon.run("checkpoint", "continue", "1", "--json")
    # Enqueued; that a worker took it up was not seen yet.
    assert (decided.exit_code, decided.json["outcome"], decided.json["changed"]) == (5, "unverified", True)
    (job,) = server.query("RedisJob", status="pending")
    assert "git push" in job["revival_context"]
    assert daemon.run("checkpoint", "continue", "1", "--json").json["changed"] is False
    assert len(server.query("RedisJob", status="pending")) == 1
