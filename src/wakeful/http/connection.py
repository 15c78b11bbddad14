"""Limits for connections: peer identity, time, and bytes, added to uvicorn's connection classes.

A connection that exceeds a limit gets a problem document if that is still possible, and is closed.
"""

import asyncio
import logging
import os
import re
import resource
import socket
import struct
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Final, cast

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState
from websockets.http11 import Request, Response
from websockets.server import ServerProtocol

from wakeful.core.descriptors import shares
from wakeful.core.errors import WakefulError
from wakeful.http.asgi import PEER, Peer
from wakeful.http.errors import (
    MEDIA_TYPE,
    HeadTooLarge,
    HeadTooSlow,
    NotHttp,
    PathNotCanonical,
    TooManyConnections,
    problem_body,
)

HEAD_BYTES_MAX: Final = 64 * 1024
# From the opening of a connection, or from its last answer, to the end of the next request's headers.
HEAD_SECONDS_MAX: Final = 10
# When a listener is full, a connection that has sent no request for this long is closed for the next one.
IDLE_SECONDS_MIN: Final = 0.1
# Beyond this a second system call costs less than copying.
JOINED_BYTES_MAX: Final = 64 * 1024
# How long an answer may stay unread. A page of 10,000 sessions through a slow tunnel takes 15 s.
STALL_SECONDS_MAX: Final = 30
# Whole answers of one listener that wait for their readers: two lists of 10,000 sessions. A longer one may wait alone.
UNREAD_BYTES_MAX: Final = 32 * 1024 * 1024
_CONTENT_LENGTH: Final = re.compile(rb"\r\ncontent-length: ([0-9]+)\r\n")
_CREDENTIALS: Final = struct.Struct("iII")
_log: Final = logging.getLogger("wakeful.access")


def connections_max() -> int:
    """The limit of connections for one listener; lower where this process may have few descriptors."""
    return shares(resource.getrlimit(resource.RLIMIT_NOFILE)[0]).connections


class ListenerConnections(ServerState):
    """The connections of one listener. `idle` maps those that wait for a request, longest first, to the time
    since when, `unread` those whose client does not read, longest first, to the bytes of the answer."""

    def __init__(self) -> None:
        super().__init__()
        self.idle: dict[HttpConnection, float] = {}
        self.unread: dict[HttpConnection, int] = {}

    def close_longest_idle(self, now: float) -> bool:
        """Close the connection that waits longest. False: all are busy or opened just now."""
        longest = next(iter(self.idle), None)
        if longest is None or now - self.idle[longest] < IDLE_SECONDS_MIN:
            return False
        del self.idle[longest]
        longest.transport.abort()
        return True

    def add_unread(self, connection: "HttpConnection", answer_bytes: int) -> None:
        """Close those that have not read for longest until the answers of all that wait are few enough bytes.

        The whole answer counts: it is kept until its last part was sent.
        """
        self.unread[connection] = answer_bytes
        while len(self.unread) > 1 and sum(self.unread.values()) > UNREAD_BYTES_MAX:
            longest = next(iter(self.unread))
            del self.unread[longest]
            longest.transport.abort()


def peer_of(sock: socket.socket) -> Peer | None:
    """The process at the other end of a Unix socket; None for TCP."""
    if sock.family != socket.AF_UNIX:
        return None
    credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return Peer(*_CREDENTIALS.unpack(credentials))


def _problem_bytes(error: WakefulError) -> bytes:
    """A whole answer, for a request that no application has seen."""
    body = problem_body(error)
    head = b"content-type: %b\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
    return STATUS_LINE[error.http_status] + head % (MEDIA_TYPE.encode(), len(body)) + body


class _Timer:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None

    def set(self, seconds: float, callback: Callable[[], None]) -> None:
        self.clear()
        self._timer = self._loop.call_later(seconds, callback)

    def clear(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class _HeadBufferingTransport:
    """Sends an answer's head together with its body: half the system calls of an answer."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self.transport = transport
        self.answer_bytes = 0
        self._head = b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.transport, name)

    def write(self, piece: bytes | memoryview) -> None:
        if isinstance(piece, bytes) and piece.startswith(b"HTTP/1.1 ") and piece[9:12] != b"100":
            self._head += piece
            length = _CONTENT_LENGTH.search(piece)
            self.answer_bytes = int(length[1]) if length is not None else 0
        elif self._head and len(piece) <= JOINED_BYTES_MAX:
            self.transport.write(self._head + piece)
            self._head = b""
        else:
            self.flush()
            self.transport.write(piece)

    def flush(self) -> None:
        """Send a head that has no body."""
        if self._head:
            self.transport.write(self._head)
            self._head = b""

    def close(self) -> None:
        self.flush()
        self.transport.close()


class HttpConnection(HttpToolsProtocol):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._listener_connections = cast("ListenerConnections", self.server_state)
        self._peer: Peer | None = None
        self._in_head = True
        self._head_bytes = 0
        self._parse_error: WakefulError = NotHttp()
        self._head_timer = _Timer(self.loop)
        self._stall_timer = _Timer(self.loop)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._buffering_transport = _HeadBufferingTransport(transport)
        super().connection_made(cast("asyncio.Transport", self._buffering_transport))
        self._peer = peer_of(transport.get_extra_info("socket"))
        if self._peer is not None and self._peer.uid != os.geteuid():
            _log.warning("refused uid %d (pid %d) at the socket", self._peer.uid, self._peer.pid)
            transport.abort()
            return
        limit = connections_max()
        if len(self.connections) > limit and not self._listener_connections.close_longest_idle(
            self.loop.time()
        ):
            self._refuse_and_close(TooManyConnections(connections_max=limit))
        else:
            self._start_head_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_head_timer()
        self._stop_stall_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        super().data_received(data)
        if self._in_head and not self.transport.is_closing():
            # The parser does not expose an unfinished line, so only the received bytes can be counted.
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_BYTES_MAX:
                self._refuse_and_close(HeadTooLarge(bytes_max=HEAD_BYTES_MAX))

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head, self._head_bytes = True, 0
        if self._peer is not None:
            cast("dict[str, Any]", self.scope)[PEER] = self._peer

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._stop_head_timer()
        # Four more for the colon, the space and the end of each line.
        if len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers) > HEAD_BYTES_MAX:
            # The parser replaces any exception that is raised here by an error of its own.
            self._parse_error = HeadTooLarge(bytes_max=HEAD_BYTES_MAX)
            raise self._parse_error
        if not self.url.startswith(b"/") or b"#" in self.url:
            # A whole URL names a second host, and the parser would drop the part after a #.
            self._parse_error = PathNotCanonical()
            raise self._parse_error
        super().on_headers_complete()

    def on_response_complete(self) -> None:
        self._buffering_transport.flush()
        super().on_response_complete()
        if self.transport.is_closing():
            self._close_when_sent()
        else:
            self._start_head_timer()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stall_timer.set(STALL_SECONDS_MAX, self.transport.abort)
        self._listener_connections.add_unread(self, self._buffering_transport.answer_bytes)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_stall_timer()

    def timeout_keep_alive_handler(self) -> None:
        self._close_when_sent()

    def handle_websocket_upgrade(self) -> None:
        self._stop_head_timer()
        self._stop_stall_timer()
        self.transport = self._buffering_transport.transport
        super().handle_websocket_upgrade()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - callers do not get the parser's message
        self._refuse_and_close(self._parse_error)

    def _start_head_timer(self) -> None:
        self._head_timer.set(HEAD_SECONDS_MAX, self._on_head_timeout)
        # Removed first, so that the order stays: the longest idle comes first.
        self._listener_connections.idle.pop(self, None)
        self._listener_connections.idle[self] = self.loop.time()

    def _stop_head_timer(self) -> None:
        """A head has arrived, or none will."""
        self._head_timer.clear()
        self._listener_connections.idle.pop(self, None)

    def _stop_stall_timer(self) -> None:
        """The client reads, or has gone."""
        self._stall_timer.clear()
        self._listener_connections.unread.pop(self, None)

    def _on_head_timeout(self) -> None:
        """No complete head in time. If none was begun (idle, or an unread body) there is no answer."""
        if self._in_head and self._head_bytes:
            self._refuse_and_close(HeadTooSlow(seconds_max=HEAD_SECONDS_MAX))
        else:
            self._close_when_sent()

    def _refuse_and_close(self, error: WakefulError) -> None:
        self.transport.write(_problem_bytes(error))
        self._close_when_sent()

    def _close_when_sent(self) -> None:
        """Close once everything was sent, but do not wait for it forever."""
        self._stop_head_timer()
        self.transport.close()
        self._stall_timer.set(STALL_SECONDS_MAX, self.transport.abort)


class _WebSocketHandshake(ServerProtocol):
    """The WebSocket's handshake, with refusals as problem documents."""

    def reject(self, status: HTTPStatus | int, text: str) -> Response:  # noqa: ARG002 - see send_400_response
        response = super().reject(status, problem_body(NotHttp()).decode())
        del response.headers["Content-Type"]
        response.headers["Content-Type"] = MEDIA_TYPE
        return response


class WebSocketConnection(WebSocketsSansIOProtocol):
    """One WebSocket of either listener. It only sends: messages of a client arrive without content."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.conn = _WebSocketHandshake(max_size=self.config.ws_max_size, logger=self.logger)
        self._stall_timer = _Timer(self.loop)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        # Beyond the kernel's buffer, one message at a time is kept for a client that does not read.
        self.transport.set_write_buffer_limits(high=0)

    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        peer = peer_of(self.transport.get_extra_info("socket"))
        if peer is not None and hasattr(self, "scope"):
            cast("dict[str, Any]", self.scope)[PEER] = peer

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if not self.handshake_initiated:
            # The opening request comes whole; if the HTTP parser accepted it and this one did not, waiting
            # does not help.
            self.transport.write(_problem_bytes(NotHttp()))
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stall_timer.clear()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stall_timer.set(STALL_SECONDS_MAX, self.transport.abort)
        # Every ping is answered: a client that pings and reads nothing would fill the memory with answers.
        self.transport.pause_reading()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stall_timer.clear()
        if not self.read_paused:
            self.transport.resume_reading()

    def keepalive_timeout(self) -> None:
        super().keepalive_timeout()
        # Closing waits until the peer has read everything; this one reads nothing any more.
        self.transport.abort()

    def send_receive_event_to_app(self) -> None:
        # Not decoded: bytes that are no text would only cause a traceback.
        self.frames = [b""]
        super().send_receive_event_to_app()
