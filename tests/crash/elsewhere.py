"""The other side of the journal's workload: a real server that counts what happened, and the program that asks it."""

import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

from crash.journal_workload import WORKLOAD


class Elsewhere:
    """The other side: it counts what happened, and a key counts once."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._keys: set[str] = set()

    def take(self, method: str, name: str, key: str) -> int:
        if method == "GET":
            return 200 if self.counts[name] else 404
        if method == "DELETE":
            self.counts[name] -= 1 if self.counts[name] else 0
        elif not key or key not in self._keys:
            self._keys.add(key)
            self.counts[name] += 1
        return 200


@contextmanager
def serving(elsewhere: Elsewhere) -> Iterator[int]:
    """A real server, one request after the other: what arrived first has happened first."""

    class Door(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            status = elsewhere.take(self.command, self.path[1:], self.headers.get("Idempotency-Key") or "")
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_GET = do_POST = do_DELETE = _answer  # noqa: N815 - the names http.server looks for

        def log_message(self, *_words: object) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Door) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


def start(
    root: Path, port: int, below: Sequence[str] = (), path: Path = WORKLOAD
) -> "subprocess.CompletedProcess[str]":
    """Run a workload to its end, possibly below another program."""
    argv, environ = starting(root, port, below, path)
    return subprocess.run(argv, env=environ, capture_output=True, text=True, timeout=60, check=False)


def starting(
    root: Path, port: int, below: Sequence[str] = (), path: Path = WORKLOAD
) -> tuple[list[str], dict[str, str]]:
    """The command of a workload, and its environment."""
    paths = [str(WORKLOAD.parents[1]), os.environ.get("PYTHONPATH", "")]
    environ = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    return [*below, sys.executable, str(path), str(root), str(port)], environ
