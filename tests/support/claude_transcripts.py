"""Claude Code transcripts and registry files written by tests that need many, odd or old ones."""

import json
import os
import time
import uuid
from pathlib import Path
from typing import Any

START_TICKS_FIELD = 19


def iso(wall: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(wall)) + f".{int(wall * 1000) % 1000:03d}Z"


def record(
    kind: str, wall: float, conversation: str, cwd: str = "/home/u/proj", **fields: Any
) -> dict[str, Any]:
    return {
        "type": kind,
        "timestamp": iso(wall),
        "sessionId": conversation,
        "cwd": cwd,
        "version": "2.1.197",
        "uuid": str(uuid.uuid4()),
        "isSidechain": False,
        **fields,
    }


def prompt(wall: float, conversation: str, text: str = "please") -> dict[str, Any]:
    return record("user", wall, conversation, message={"role": "user", "content": text})


def answer(wall: float, conversation: str, text: str = "done") -> dict[str, Any]:
    content = [{"type": "text", "text": text}]
    return record("assistant", wall, conversation, message=_assistant(content, "end_turn"))


def call(wall: float, conversation: str, command: str, call_id: str = "toolu_1") -> dict[str, Any]:
    content = [{"type": "tool_use", "id": call_id, "name": "Bash", "input": {"command": command}}]
    return record("assistant", wall, conversation, message=_assistant(content, "tool_use"))


def _assistant(content: list[dict[str, Any]], stop_reason: str) -> dict[str, Any]:
    return {
        "id": f"msg_{uuid.uuid4().hex}",
        "role": "assistant",
        "content": content,
        "stop_reason": stop_reason,
        "usage": {"input_tokens": 5, "output_tokens": 7},
    }


def write(config: Path, conversation: str, *records: dict[str, Any], project: str = "-home-u-proj") -> Path:
    """A transcript below a Claude Code configuration folder, last written when its last record was."""
    folder = config / "projects" / project
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{conversation}.jsonl"
    path.write_text("".join(f"{json.dumps(each)}\n" for each in records))
    return path


def age(path: Path, wall: float) -> None:
    os.utime(path, (wall, wall))


def register(
    config: Path, conversation: str, pid: int, status: str | None = None, cwd: str = "/home/u/proj"
) -> Path:
    """A registry file as a running Claude Code with this pid would keep it."""
    folder = config / "sessions"
    folder.mkdir(parents=True, exist_ok=True)
    stat = Path(f"/proc/{pid}/stat").read_text()
    started = stat.rpartition(")")[2].split()[START_TICKS_FIELD]
    entry = {"pid": pid, "sessionId": conversation, "cwd": cwd, "procStart": started, "version": "2.1.197"}
    if status is not None:
        entry |= {"status": status, "statusUpdatedAt": int(time.time() * 1000)}
    path = folder / f"{pid}.json"
    path.write_text(json.dumps(entry))
    return path
