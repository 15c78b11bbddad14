"""Folders of logs that are deleted while the daemon watches them, and created again."""

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest

from support import claude_transcripts
from support.daemon_process import RunningDaemon
from support.real_clients import wait_for
from support.stub_clients import stand_in


def _claude_log(root: Path) -> str:
    conversation = str(uuid4())
    claude_transcripts.write(root.parent, conversation, claude_transcripts.prompt(time.time(), conversation))
    return f"claude-{conversation}"


def _event_log(root: Path) -> str:
    name = f"job-{uuid4()}"
    root.mkdir(parents=True, exist_ok=True)
    (root / f"{name}.jsonl").write_text(json.dumps({"at": time.time(), "event": "prompt"}) + "\n")
    return name


@pytest.mark.parametrize(
    ("folder", "write"), [("claude/projects", _claude_log), ("state/events", _event_log)]
)
def test_a_root_that_is_deleted_and_created_again_is_watched(
    daemon: RunningDaemon, folder: str, write: Callable[[Path], str]
) -> None:
    """Also if nothing else waits for a folder beside it."""
    root = daemon.home / folder
    # Both exist, so nothing waits for a folder in the one above them.
    for name in ("sessions", "projects"):
        (daemon.home / "claude" / name).mkdir(parents=True)
    daemon.watch(CLAUDE_CONFIG_DIR=daemon.home / "claude")
    daemon.up()
    first = write(root)
    daemon.wait_for_session(lambda each: each["id"] == first, "session before")
    shutil.rmtree(root)
    wait_for(lambda: first not in [each["id"] for each in daemon.sessions()] or None, "its end")
    second = write(root)
    daemon.wait_for_session(lambda each: each["id"] == second, "session after")


def test_a_registry_that_is_deleted_and_created_again_is_watched(
    daemon: RunningDaemon, tmp_path: Path
) -> None:
    """A client that registers afterwards is seen."""
    config, conversation = daemon.home / "claude", str(uuid4())
    (config / "sessions").mkdir(parents=True)
    (config / "projects").mkdir()
    daemon.watch(CLAUDE_CONFIG_DIR=config)
    daemon.up()
    shutil.rmtree(config / "sessions")
    time.sleep(1)
    with stand_in(tmp_path / "bin") as client:
        claude_transcripts.write(config, conversation, claude_transcripts.prompt(time.time(), conversation))
        claude_transcripts.register(config, conversation, client.pid, "busy")
        daemon.wait_for_session(lambda each: each["pid"] == client.pid, "registered session")
