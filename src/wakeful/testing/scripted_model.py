"""ScriptedModel: a model server that plays the script in its prompt.

Real agent clients run with it, without a model. One loopback port serves both protocols; it must never listen
anywhere else. The step to play is the number of answers since the scripted prompt: the server remembers no
conversation, so kill, resume, fork and many clients at once work. It only counts how often each step was
requested; two conversations with the same script share that count. Every request is recorded in a `RequestLog`.
"""

import json
import signal
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Final, Self

from wakeful.testing.scripted_protocols import (
    PROTOCOLS,
    ModelProtocol,
    RequestKind,
    ScriptPosition,
    error_document,
)
from wakeful.testing.scripted_steps import BadScript, Garbage, ModelStep, Point, script, step_at

_SIDE_ANSWER: Final = ModelStep(text="Side answer")
_HTML: Final = b"<html><body>Bad gateway</body></html>"
# Not UTF-8 from the first byte on.
_NOISE: Final = b"\xff\xfe\x00\x9d" * 75


@dataclass(frozen=True, slots=True)
class Request:
    """One request as it arrived; `at` is on the monotonic clock, `step` counts from 0."""

    at: float
    kind: RequestKind
    step: int | None
    attempt: int
    path: str


class RequestLog:
    """The server's requests, shared by its threads and the waiting test."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.hanging = 0
        self.stopping = threading.Event()
        self._attempts: Counter[str] = Counter()
        self._changed = threading.Condition()

    def record(self, kind: RequestKind, path: str, asked: ScriptPosition | None = None) -> int:
        """Add a request; returns which attempt at its step this is."""
        with self._changed:
            attempt, step = 1, None
            if asked is not None:
                self._attempts[repr(asked)] += 1
                attempt, step = self._attempts[repr(asked)], asked.index
            self.requests.append(Request(time.monotonic(), kind, step, attempt, path))
            self._changed.notify_all()
        return attempt

    @contextmanager
    def one_hanging(self) -> Iterator[None]:
        self._change_hanging(1)
        try:
            yield
        finally:
            self._change_hanging(-1)

    def wait_until(self, reached: Callable[[], bool], timeout_seconds: float) -> bool:
        with self._changed:
            return self._changed.wait_for(reached, timeout_seconds)

    def _change_hanging(self, by: int) -> None:
        with self._changed:
            self.hanging += by
            self._changed.notify_all()


class Server(ThreadingHTTPServer):
    """Accepts on loopback only, and can cut its open connections."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, request_log: RequestLog, port: int) -> None:
        self.request_log = request_log
        self._open: set[socket.socket] = set()
        self._open_lock = threading.Lock()
        super().__init__(("127.0.0.1", port), _Exchange)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._open_lock:
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._open_lock:
            self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        # In many scripts the client leaves in the middle of an answer.
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)

    def cut_all(self) -> None:
        with self._open_lock:
            for connection in self._open:
                _cut(connection)


class _Exchange(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"
    # Events are small writes: waiting to fill a packet would add 40 ms to each.
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is http.server's
        """Logs nothing: stderr is for failures, and `ScriptedModel.requests` is the log."""

    def do_HEAD(self) -> None:
        self.server.request_log.record("other", self.path)
        self._send(b"", "text/plain")

    def do_GET(self) -> None:
        self.server.request_log.record("other", self.path)
        self._send_json({"data": [], "models": []} if self._route.endswith("/models") else {})

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        protocol = next((each for each in PROTOCOLS if self._route.endswith(each.path_end)), None)
        if protocol is None:
            self.server.request_log.record("other", self.path)
            self._send_json({"input_tokens": 10} if self._route.endswith("/count_tokens") else {})
            return
        try:
            body = _body(raw)
            asked = None if protocol.is_side_call(body) else protocol.read(body)
        except BadScript as error:
            self.server.request_log.record(protocol.kind, self.path)
            self._send_json(error_document(400, str(error)), 400)
            return
        self._answer(protocol, self._step(protocol, asked), body)

    @property
    def _route(self) -> str:
        return self.path.partition("?")[0]

    def _step(self, protocol: ModelProtocol, asked: ScriptPosition | None) -> ModelStep:
        if asked is None:
            self.server.request_log.record("side", self.path)
            return _SIDE_ANSWER
        attempt = self.server.request_log.record(protocol.kind, self.path, asked)
        return step_at(asked.steps, asked.index).on_attempt(attempt)

    def _answer(self, protocol: ModelProtocol, step: ModelStep, body: Mapping[str, Any]) -> None:
        model, breaks = str(body.get("model")), step.hang or step.close
        stopped_meanwhile = self.server.request_log.stopping.wait(step.delay_seconds)
        if stopped_meanwhile or breaks is Point.ACCEPT:
            self._break_off(step)
        elif step.status is not None:
            self._send_json(step.body or error_document(step.status), step.status, step.headers)
        elif step.garbage is not None:
            if step.garbage is Garbage.JSON:
                self._send_json({"hello": "world"})
            elif step.garbage is Garbage.HTML:
                self._send(_HTML, "text/html")
            else:
                self._send(_NOISE, "text/event-stream")
        elif body.get("stream"):
            self._stream(protocol, step, model)
        elif breaks is not None:
            # Claude repeats a broken stream as a plain request. It must break again, or the fault would disappear.
            self._open_stream()
            self._break_off(step)
        else:
            self._send_json(protocol.document(step, model))

    def _stream(self, protocol: ModelProtocol, step: ModelStep, model: str) -> None:
        self._open_stream()
        if step.breaks_at(Point.HEADERS):
            self._break_off(step)
            return
        for part in protocol.answer(step, model):
            if not isinstance(part, Point):
                self.wfile.write(part.encode())
            elif step.breaks_at(part):
                self._break_off(step)
                return

    def _open_stream(self) -> None:
        self.close_connection = True
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()

    def _break_off(self, step: ModelStep) -> None:
        if step.hang is not None:
            # Until the client leaves.
            with self.server.request_log.one_hanging():
                while self.connection.recv(4096):
                    pass
        self.close_connection = True
        _cut(self.connection)

    def _send_json(
        self, document: Mapping[str, Any], status: int = 200, headers: Mapping[str, str] | None = None
    ) -> None:
        self._send(json.dumps(document).encode(), "application/json", status, headers)

    def _send(
        self, content: bytes, content_type: str, status: int = 200, headers: Mapping[str, str] | None = None
    ) -> None:
        self.send_response(status)
        self.send_header("content-type", content_type)
        self.send_header("content-length", str(len(content)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)


def _body(raw: bytes) -> Mapping[str, Any]:
    """The request as JSON. Raises BadScript, because a bad request must not look like one without a script."""
    try:
        body = json.loads(raw)
    except ValueError as error:
        raise BadScript(why=f"the request is not JSON ({error})") from error
    if not isinstance(body, dict):
        raise BadScript(why="the request is not a JSON object")
    return body


def _cut(connection: socket.socket) -> None:
    # An error means that the client has closed it already.
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


__all__ = ["Request", "ScriptedModel", "script"]

_STOP_POLL_SECONDS: Final = 0.05


class ScriptedModel:
    """The server as a context manager; `requests` grows while it runs and stays readable afterwards."""

    def __init__(self, port: int = 0) -> None:
        self._request_log = RequestLog()
        self._server = Server(self._request_log, port)
        self.port = self._server.server_port
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(_STOP_POLL_SECONDS,), name="scripted-model", daemon=True
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def requests(self) -> list[Request]:
        """Every request so far, oldest first."""
        return self._request_log.requests

    @property
    def hanging(self) -> int:
        """How many clients wait for an answer that never comes."""
        return self._request_log.hanging

    def wait_until(self, reached: Callable[[], bool], timeout_seconds: float) -> bool:
        """Whether `reached` became true in time; checked after every request and every change of `hanging`."""
        return self._request_log.wait_until(reached, timeout_seconds)

    def stop(self) -> None:
        """End the server and all open answers, hanging ones too. May be called twice."""
        if self._request_log.stopping.is_set():
            return
        self._request_log.stopping.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        self._server.cut_all()


def main(arguments: list[str]) -> int:
    """Serve until interrupted; the first line of output is the url."""
    if len(arguments) > 1 or not all(each.isdecimal() for each in arguments):
        sys.stderr.write("usage: python -m wakeful.testing.scripted_model [PORT]\n")
        return 2
    try:
        with ScriptedModel(int(arguments[0]) if arguments else 0) as model:
            sys.stdout.write(f"{model.url}\n")
            sys.stdout.flush()
            signal.pause()
    except KeyboardInterrupt:
        return 0
    except (OSError, OverflowError) as error:
        sys.stderr.write(f"cannot listen: {error}\n")
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
