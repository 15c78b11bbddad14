"""ScriptedAgent: a real process that looks like Claude Code from outside and does what its script says.

For tests of whatever watches agents: registry file, transcript, tool processes and their orphans are real, only
the thinking is not. Nothing here ends a process that it did not start, or that does not carry its conversation.
"""

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self
from uuid import uuid4

from wakeful.core.errors import OwnError
from wakeful.testing.scripted_play import BadStep, Step, check, perform
from wakeful.testing.scripted_transcript import registry_path, transcript_path

__all__ = ["BadStep", "NotInTime", "RunningAgent", "ScriptedAgent", "Step"]

PATIENCE_SECONDS: Final = 10.0
_POLL_SECONDS: Final = 0.005
# Variables by which clients and Wakeful find their places and their parents: the fake is nobody's child.
_FOREIGN: Final = ("CLAUDE", "CODEX_", "WAKEFUL_", "TMUX")
# A folder that runs as a program: what looks like Claude Code has its name.
_PROGRAM: Final = Path(__file__).parent / "claude"
_NEEDED: Final = frozenset({"--home", "--cwd", "--script"})
_USAGE: Final = (
    "usage: python -m wakeful.testing.scripted_agent --home DIR --cwd DIR --script JSON [--conversation UUID]"
)


class NotInTime(OwnError):
    """The scripted agent showed no {what} within {seconds} s."""

    code = "not-in-time"


class ScriptedAgent:
    """Where an agent lives: `home` stands for `~/.claude`, `cwd` for its project."""

    def __init__(self, home: Path, cwd: Path, *, conversation: str | None = None) -> None:
        self.home = home
        self.cwd = cwd
        self.conversation = conversation or str(uuid4())

    def argv(self, *steps: Step) -> list[str]:
        """The command that plays these steps, to be started by whom you like. Raises BadStep."""
        script = json.dumps(check(steps))
        places = ["--home", str(self.home), "--cwd", str(self.cwd), "--conversation", self.conversation]
        return [sys.executable, str(_PROGRAM), *places, "--script", script]

    def start(self, *steps: Step, environ: Mapping[str, str] | None = None) -> "RunningAgent":
        """Start it; use the answer in `with`, or `close()` it. Raises BadStep."""
        self.cwd.mkdir(parents=True, exist_ok=True)
        inherited = {key: value for key, value in os.environ.items() if not key.startswith(_FOREIGN)}
        process = subprocess.Popen(
            self.argv(*steps),
            cwd=self.cwd,
            env=inherited if environ is None else environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            # A Ctrl-C in the caller's terminal is not meant for it.
            start_new_session=True,
        )
        return RunningAgent(self, process)


class RunningAgent:
    """A started agent. Closing it ends the process and every tool that it left behind."""

    def __init__(self, agent: ScriptedAgent, process: subprocess.Popen[bytes]) -> None:
        self.conversation = agent.conversation
        self.session_id = f"claude-{agent.conversation}"
        self.process = process
        self.pid = process.pid
        self.transcript = transcript_path(agent.home, agent.cwd, agent.conversation)
        self.registry = registry_path(agent.home, process.pid)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def lines(self) -> list[bytes]:
        """The transcript's complete lines so far."""
        try:
            return self.transcript.read_bytes().split(b"\n")[:-1]
        except FileNotFoundError:
            return []

    def entry(self) -> dict[str, Any] | None:
        """What the registry file says; None while there is none or it is being written."""
        try:
            return dict(json.loads(self.registry.read_bytes()))
        except (FileNotFoundError, json.JSONDecodeError):
            return None

    def tools(self) -> list[int]:
        """The pids of its living tools, orphans included."""
        return [pid for pid, _ in _carriers(self.conversation)]

    def wait_until_line(self, number: int, timeout_seconds: float = PATIENCE_SECONDS) -> bytes:
        """The transcript's line with this number, counted from 1. Raises NotInTime."""
        self._wait(lambda: len(self.lines()) >= number, f"line {number}", timeout_seconds)
        return self.lines()[number - 1]

    def wait_for_status(self, status: str, timeout_seconds: float = PATIENCE_SECONDS) -> None:
        """Return once the registry file says busy, idle or waiting. Raises NotInTime."""
        self._wait(
            lambda: (self.entry() or {}).get("status") == status, f"status {status!r}", timeout_seconds
        )

    def wait_for_tool(self, timeout_seconds: float = PATIENCE_SECONDS) -> int:
        """The pid of a running tool. Raises NotInTime."""
        self._wait(lambda: bool(self.tools()), "tool process", timeout_seconds)
        return self.tools()[0]

    def answer(self, line: str = "yes") -> None:
        """Give a waiting agent the answer it waits for."""
        assert self.process.stdin is not None, "started with a pipe"
        self.process.stdin.write(f"{line}\n".encode())
        self.process.stdin.flush()

    def kill(self) -> None:
        """`kill -9` and see it dead: registry file and running tools stay behind, as they would."""
        self.process.kill()
        self.process.wait(PATIENCE_SECONDS)

    def close(self) -> None:
        """End it and all of its tools. May be called twice."""
        self.kill()
        end_tools(self.conversation)
        if self.process.stdin is not None and not self.process.stdin.closed:
            self.process.stdin.close()

    def _wait(self, reached: Callable[[], bool], what: str, timeout_seconds: float) -> None:
        deadline = time.monotonic() + timeout_seconds
        while not reached():
            if time.monotonic() > deadline:
                raise NotInTime(what=what, seconds=timeout_seconds)
            time.sleep(_POLL_SECONDS)


def end_tools(conversation: str) -> None:
    """End every process that carries this conversation in its environment, and see it gone."""
    for pid, started in _carriers(conversation):
        try:
            pidfd = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        try:
            # Only now is the number held: look again whether it still means the one that was found.
            if (pid, started) in _carriers(conversation):
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
                select.select([pidfd], [], [], PATIENCE_SECONDS)
        finally:
            os.close(pidfd)


def _carriers(conversation: str) -> list[tuple[int, int]]:
    """Pid and start time of the tools; this costs a pass over /proc and 30 ms of imports the agent never needs."""
    from wakeful.linux import proc  # noqa: PLC0415 - see above

    found = proc.carriers("CLAUDE_CODE_SESSION_ID", conversation, os.getuid())
    return [(process.pid, process.started) for process in found]


def main(arguments: list[str]) -> int:
    """Play the script given on the command line. Exits 2 if it cannot be understood."""
    try:
        given = _options(arguments)
        steps = check(json.loads(given["--script"]))
    except (ValueError, BadStep) as problem:
        sys.stderr.write(f"{_USAGE}\n{problem}\n")
        return 2
    home, cwd = Path(given["--home"]).absolute(), Path(given["--cwd"]).absolute()
    return perform(home, cwd, given.get("--conversation") or str(uuid4()), steps)


def _options(arguments: list[str]) -> dict[str, str]:
    """Names and values. Raises ValueError; argparse would double the time a start takes."""
    given = dict(zip(arguments[::2], arguments[1::2], strict=True))
    if not _NEEDED <= given.keys() <= _NEEDED | {"--conversation"}:
        raise ValueError(f"given: {', '.join(given) or 'nothing'}")
    return given


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
