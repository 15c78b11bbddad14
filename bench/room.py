"""A throw-away home with everything a client or Wakeful might look for inside, and a real daemon in it.

Whatever is started here is ended here. CPU is read from the kernel's clock of a process: wall time lies on
shared machines.
"""

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Final, Self

from wakeful.core.errors import WorldError

START_SECONDS_MAX: Final = 120.0
END_SECONDS_MAX: Final = 30.0
ANSWER_SECONDS_MAX: Final = 60.0
# Ticks and timers stay below it, work does not.
REST_SHARE: Final = 0.01
_POLL_SECONDS: Final = 0.02


class NotReady(WorldError):
    """{what} was not ready within {seconds:.0f} s."""

    code = "bench-not-ready"


class Room:
    """The folders of one row. Entering makes them this process's own home; leaving removes them."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="wakeful-bench-")
        self.path = Path(self._folder.name).resolve()
        self.claude = self.path / "claude"
        self.tmux = self.path / "tmux"
        self.state = self.path / "state"
        for folder in (self.claude, self.tmux, self.state):
            folder.mkdir(mode=0o700)
        self._before: dict[str, str] = {}

    def __enter__(self) -> Self:
        self._before = dict(os.environ)
        for name in [name for name in os.environ if name.startswith(("WAKEFUL_", "TMUX"))]:
            del os.environ[name]
        os.environ.update(
            HOME=str(self.path),
            CLAUDE_CONFIG_DIR=str(self.claude),
            CODEX_HOME=str(self.path / "codex"),
            WAKEFUL_HOME=str(self.state),
            TMUX_TMPDIR=str(self.tmux),
        )
        return self

    def __exit__(self, *problem: object) -> None:
        os.environ.clear()
        os.environ.update(self._before)
        self._folder.cleanup()

    @contextmanager
    def daemon(self) -> Iterator["Daemon"]:
        """A `wakeful up` of this room, until the end of the block."""
        with (self.path / "daemon.log").open("ab") as words:
            argv = [sys.executable, "-P", "-m", "wakeful", "up", "--no-tcp"]
            process = subprocess.Popen(
                argv, cwd=self.path, stdin=subprocess.DEVNULL, stdout=words, stderr=words
            )
        try:
            daemon = Daemon(process, self.state / "wakeful.sock")
            wait_until(daemon.answers, "the daemon", START_SECONDS_MAX)
            yield daemon
        finally:
            process.terminate()
            process.wait(END_SECONDS_MAX)


class Daemon:
    """A running daemon, seen from outside."""

    def __init__(self, process: subprocess.Popen[bytes], socket_path: Path) -> None:
        self.pid = process.pid
        self._process = process
        self._socket_path = socket_path

    def answers(self) -> bool:
        assert self._process.poll() is None, "the daemon ended; its words are in daemon.log"
        try:
            with closing(self.connect()) as connection:
                return connection.fetch("/healthz") == b"ok"
        except OSError:
            return False

    def connect(self) -> "Connection":
        return Connection(self._socket_path)

    def rest(self, quiet_seconds: float = 0.3) -> None:
        """Return once it has done next to nothing for a while."""
        wait_until(lambda: self.cpu_share(quiet_seconds) < REST_SHARE, "the daemon's rest", START_SECONDS_MAX)

    def cpu_share(self, seconds: float) -> float:
        """The part of a core it takes over the next seconds."""
        before = cpu_seconds(self.pid)
        time.sleep(seconds)
        return (cpu_seconds(self.pid) - before) / seconds

    def rss_bytes(self) -> int:
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise NotReady(what="the daemon's memory", seconds=0)


class Connection(HTTPConnection):
    """One kept HTTP connection over a Unix socket: the same client for every server."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=ANSWER_SECONDS_MAX)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))

    def fetch(self, target: str) -> bytes:
        """The body of the answer, whatever its status."""
        self.request("GET", target)
        return self.getresponse().read()


def cpu_seconds(pid: int) -> float:
    """CPU time a process has used so far, all threads, in nanoseconds: clock_getcpuclockid(3) by hand."""
    return time.clock_gettime((~pid << 3) | 2)


def wait_until(reached: Callable[[], bool], what: str, seconds_max: float) -> None:
    """Return once it is so. Raises NotReady."""
    deadline = time.monotonic() + seconds_max
    while not reached():
        if time.monotonic() > deadline:
            raise NotReady(what=what, seconds=seconds_max)
        time.sleep(_POLL_SECONDS)
