"""A Unix socket that answers HTTP by a script: the daemon's socket without a daemon.

It also misbehaves on demand: no answer, a closed connection, invalid data. Only tests of the command use it;
the real socket has tests of its own.
"""

import socket
import threading
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

SILENCE: Final = b""
"""An answer that never comes, on a connection that stays open."""


def http(body: bytes, *, exit_code: int | str = 0, status: int = 200) -> bytes:
    """A whole answer as the daemon sends it."""
    head = f"HTTP/1.1 {status} Whatever\r\ncontent-length: {len(body)}\r\nx-wakeful-exit: {exit_code}\r\n\r\n"
    return head.encode() + body


@dataclass(frozen=True)
class RecordedRequest:
    method: str
    target: str


class FakeDaemonSocket:
    """Answers by the longest scripted prefix of the target; 404 otherwise."""

    def __init__(self, path: Path, script: dict[str, bytes]) -> None:
        self.asked: list[RecordedRequest] = []
        self._script = script
        self._held: list[socket.socket] = []
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(path))
        self._listener.listen()
        self._thread = threading.Thread(target=self._serve)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()
        for connection in self._held:
            connection.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._answer(connection)

    def _answer(self, connection: socket.socket) -> None:
        method, target, _ = connection.recv(65536).decode().split(" ", 2)
        self.asked.append(RecordedRequest(method, target))
        fits = [start for start in self._script if target.startswith(start)]
        answer = self._script[max(fits, key=len)] if fits else http(b"{}", status=404, exit_code=2)
        if answer == SILENCE:
            self._held.append(connection)
            return
        connection.sendall(answer)
        connection.close()
