"""A real `wakeful up` for tests, and the commands that a person types."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from support.real_clients import wait_for

END_SECONDS_MAX = 30


class CommandResult:
    """Output and exit code of a command."""

    def __init__(self, done: subprocess.CompletedProcess[str]) -> None:
        self.exit_code = done.returncode
        self.out = done.stdout
        self.err = done.stderr

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class RunningDaemon:
    """Starts nothing until `up`. Its home holds everything it may read or write."""

    def __init__(self, home: Path) -> None:
        home.mkdir()
        self.home = home
        self.environ = {
            "HOME": str(home),
            "WAKEFUL_HOME": str(home / "state"),
            "PATH": os.environ["PATH"],
            "TMUX_TMPDIR": str(home),
            "LANG": "C.UTF-8",
            # Other tests decide themselves whether dead sessions are resumed.
            "WAKEFUL_HEAL__CONFIRM_SECONDS": "86400",
        }
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None, "the daemon was started"
        return self._process.pid

    @property
    def socket(self) -> Path:
        return Path(self.environ["WAKEFUL_HOME"]) / "wakeful.sock"

    def watch(self, **environ: str | Path) -> None:
        """The log folders, as the clients' own variables: CLAUDE_CONFIG_DIR, CODEX_HOME."""
        self.environ |= {name: str(value) for name, value in environ.items()}

    def up(self, *arguments: str, port: int | None = 0) -> None:
        """Start it and wait until it answers; without a port it takes the configured one."""
        asked_for = [] if port is None else ["--port", str(port)]
        with (self.home / "daemon.log").open("ab") as log:
            self._process = subprocess.Popen(
                self.argv("up", *asked_for, *arguments),
                env=self.environ,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.home,
            )
        wait_for(lambda: self._answers() or None, "daemon")

    def _answers(self) -> bool:
        assert self._process is not None, "the daemon was started"
        assert self._process.poll() is None, self.said()
        if not self.socket.exists():
            return False
        status = self.run("status", "--json")
        return status.exit_code == 0 and status.json["daemon"]["pid"] == self.pid

    def said(self) -> str:
        """All output of the daemon."""
        return (self.home / "daemon.log").read_text()

    def argv(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "wakeful", *arguments]

    def run(
        self, *arguments: str, environ: Mapping[str, str] | None = None, cwd: Path | None = None
    ) -> CommandResult:
        """Run a command."""
        done = subprocess.run(
            self.argv(*arguments),
            env={**self.environ, **(environ or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            cwd=cwd or self.home,
            check=False,
        )
        return CommandResult(done)

    def spawn(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start a command without waiting for it."""
        nothing = subprocess.DEVNULL
        return subprocess.Popen(
            self.argv(*arguments),
            env=self.environ,
            stdin=nothing,
            stdout=nothing,
            stderr=nothing,
            cwd=self.home,
        )

    def sessions(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.run("session", "list", "--json").json["sessions"]
        return found

    def wait_for_session(
        self, fits: Callable[[dict[str, Any]], bool], what: str, timeout_seconds: float = 60
    ) -> dict[str, Any]:
        """The first matching session as soon as there is one; a failure shows the last listing."""
        last: list[dict[str, Any]] = []

        def look() -> dict[str, Any] | None:
            last[:] = self.sessions()
            return next((each for each in last if fits(each)), None)

        try:
            return wait_for(look, what, timeout_seconds)
        except AssertionError as error:
            error.add_note(f"seen last: {json.dumps(last, indent=1)}")
            raise

    def pid_of(self, session_id: str, unlike: int | None = None) -> int:
        """The process of a live session, once it differs from `unlike`."""
        seen = self.wait_for_session(
            lambda each: (
                each["id"] == session_id and each["session_alive"] and each["pid"] not in (None, unlike)
            ),
            f"life of {session_id}",
        )
        pid: int = seen["pid"]
        return pid

    def has_ended(self) -> bool:
        """Whether it ended by itself; then it can be started again."""
        if self._process is not None and self._process.poll() is not None:
            self._process = None
        return self._process is None

    def signal(self, number: int) -> None:
        assert self._process is not None, "the daemon was started"
        self._process.send_signal(number)

    def kill(self) -> None:
        """As a crash would."""
        assert self._process is not None, "the daemon was started"
        self.signal(signal.SIGKILL)
        self._process.wait()
        self._process = None

    def end(self) -> int | None:
        """Ask it to end, as Ctrl-C does; returns its exit code."""
        if self._process is None:
            return None
        self.signal(signal.SIGINT)
        try:
            return self._process.wait(END_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.signal(signal.SIGKILL)
            raise
        finally:
            self._process = None
