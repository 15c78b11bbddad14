"""A private Redis for tests, with records written by popoto itself.

popoto binds its Redis once per process, so it writes in a process of its own: one per server, fed with JSON
lines.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest
import redis

from support import prerequisites
from support.real_clients import wait_for

END_SECONDS_MAX: Final = 30.0
_WRITER: Final = Path(__file__).with_name("popoto_writer.py")


def require_redis() -> None:
    """Skip the test when redis-server is missing; fail it in CI."""
    if not prerequisites.REDIS.present():
        missing = "redis-server is missing: run `python tests/support/prerequisites.py`"
        pytest.fail(missing) if os.environ.get("CI") == "true" else pytest.skip(missing)


class RedisServer:
    """A redis-server on a socket of its own, that keeps nothing on disk unless asked to."""

    def __init__(self, folder: Path, *options: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.socket = folder / "redis.sock"
        self._folder = folder
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None
        self._writer: subprocess.Popen[str] | None = None
        self.start()

    @property
    def url(self) -> str:
        return f"unix://{self.socket}"

    @property
    def pid(self) -> int:
        assert self._process is not None, "the server was started"
        return self._process.pid

    def client(self) -> Any:
        """Bytes in and out, which its type hints do not know."""
        return redis.Redis(unix_socket_path=str(self.socket))

    def start(self) -> None:
        command = (
            "redis-server",
            "--port",
            "0",
            "--unixsocket",
            str(self.socket),
            "--dir",
            str(self._folder),
        )
        with (self._folder / "redis.log").open("ab") as log:
            self._process = subprocess.Popen(
                (*command, "--save", "", *self._options), stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )
        wait_for(lambda: self.socket.exists() or None, "redis-server")

    def stop(self) -> None:
        """End it as a crash would; what it held is gone."""
        assert self._process is not None, "the server was started"
        self._process.kill()
        self._process.wait(END_SECONDS_MAX)
        self.socket.unlink(missing_ok=True)

    def session(self, **fields: Any) -> None:
        """An AgentSession as popoto saves it."""
        self._write("AgentSession", fields)

    def job(self, **fields: Any) -> None:
        """A RedisJob as popoto saves it."""
        self._write("RedisJob", fields)

    def query(self, model: str, **filters: Any) -> list[dict[str, Any]]:
        """What popoto itself finds."""
        found = self._ask({"query": model, "fields": filters})
        assert isinstance(found, list), found
        return found

    def delete(self, model: str, **filters: Any) -> None:
        """As an application does before it saves a changed status."""
        assert self._ask({"delete": model, "fields": filters}) == "deleted"

    def _write(self, model: str, fields: dict[str, Any]) -> None:
        said = self._ask({"create": model, "fields": fields})
        assert said == "saved", said

    def _ask(self, order: dict[str, Any]) -> Any:
        if self._writer is None:
            self._writer = subprocess.Popen(
                (sys.executable, str(_WRITER), self.url),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        assert self._writer.stdin is not None, "it is a pipe"
        assert self._writer.stdout is not None, "it is a pipe"
        self._writer.stdin.write(json.dumps(order) + "\n")
        self._writer.stdin.flush()
        return json.loads(self._writer.stdout.readline())

    def end(self) -> None:
        if self._writer is not None:
            self._writer.communicate(timeout=END_SECONDS_MAX)
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait(END_SECONDS_MAX)
