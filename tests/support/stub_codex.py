"""A stand-in for Codex at a terminal: a process with its writer lock, its tools, and a rollout that a test writes.

The real Codex runs only as `codex exec`, which asks no questions. Other records have the form of recordings.
"""

import json
import subprocess
import time
import uuid
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from support import stub_clients
from support.claude_transcripts import iso

# Holds the lock and starts a tool for every line it reads; ends with its input.
_HOLDER: Final = """
import fcntl, subprocess, sys
lock = open(sys.argv[1], "w")
fcntl.flock(lock, fcntl.LOCK_EX)
print("held", flush=True)
tools = [subprocess.Popen(line.split(), stdout=subprocess.DEVNULL) for line in sys.stdin]
for tool in tools:
    tool.kill()
"""


class ScriptedCodex:
    """One thread. `session_id` is its name for Wakeful."""

    def __init__(self, home: Path, project: Path) -> None:
        thread = str(uuid.uuid4())
        self.session_id = f"codex-{thread}"
        self._lock = home / "thread-writer-locks" / f"{thread}.lock"
        folder = home / "sessions" / "2027" / "01" / "15"
        self._rollout = folder / f"rollout-2027-01-15T08-00-00-{thread}.jsonl"
        for each in (self._lock.parent, folder, project):
            each.mkdir(parents=True, exist_ok=True)
        self._project = project
        self.write("session_meta", id=thread, cwd=str(project), cli_version="0.166.0", source="cli")

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [*stub_clients.program(self._project / "bin", _HOLDER, "codex"), str(self._lock)],
            cwd=self._project,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "held\n"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate(timeout=30)

    def write(self, kind: str, **payload: Any) -> None:
        """One record, as written now."""
        record = {"timestamp": iso(time.time()), "type": kind, "payload": payload}
        with self._rollout.open("a") as rollout:
            rollout.write(json.dumps(record) + "\n")

    def tell(self, kind: str, **payload: Any) -> None:
        """An event, such as the end of a turn."""
        self.write("event_msg", type=kind, **payload)

    def prompt(self, text: str, **context: Any) -> None:
        """A turn that a person begins."""
        self.tell("task_started", turn_id="t", root_turn_id="t", turn_attribution={"turn_trigger": None})
        self.write("turn_context", cwd=str(self._project), **context)
        self.tell("user_message", message=text)

    def start_tool(self, command: str) -> None:
        """A process below it."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()
