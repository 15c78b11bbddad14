"""HTTP servers: the Unix socket and the loopback port, each served by uvicorn.

Listeners are returned ready. They never have wrong permissions, not even for a moment, and are never reachable from
another machine. uvicorn runs without its timer, signal handlers and logging; one server for each listener.
"""

import asyncio
import errno
import fcntl
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import Final

import uvicorn
from uvicorn.server import ServerState

from wakeful.config.paths import SOCKET_PATH_BYTES_MAX
from wakeful.core.errors import OperatorError, WorldError
from wakeful.http.asgi import App
from wakeful.http.connection import HttpConnection, ListenerConnections, WebSocketConnection, peer_of

BACKLOG: Final = 2048
# The kernel would keep up to 4 MB for a client that does not read.
SEND_BUFFER_BYTES: Final = 256 * 1024
PROBE_SECONDS_MAX: Final = 2.0


class FolderTooOpen(OperatorError, code="folder-too-open"):
    """{folder} must be accessible only to you, because it contains the socket. {todo}"""


class SocketNotCreated(WorldError, code="socket-unmade"):
    """Cannot create the socket {path}: {reason}. Set WAKEFUL_HOME to a writable folder."""


class SocketPathTooLong(OperatorError, code="socket-path-too-long"):
    """{path} is too long for a socket (107 bytes at most). Set WAKEFUL_HOME to a shorter folder."""


class NotASocket(OperatorError, code="not-a-socket"):
    """{path} exists and is not a socket. Move it away."""


class AlreadyRunning(OperatorError, code="already-running", http_status=409):
    """Wakeful is already running (pid {pid}). Check it with `wakeful status`, stop it with `wakeful down`."""


class NotLoopback(OperatorError, code="not-loopback"):
    """{host} is reachable from other machines. Without TLS, Wakeful listens only on 127.0.0.1 or ::1."""


class PortBusy(WorldError, code="port-busy", retryable=True):
    """Port {port} of {host} is in use by another program."""


class PortRefused(WorldError, code="port-refused"):
    """Port {port} of {host} cannot be opened: {reason}"""


def bind_unix(path: Path) -> socket.socket:
    """A listening socket at `path`, for its owner only. Replaces one without a listener.

    Raises FolderTooOpen, SocketPathTooLong, SocketNotCreated, NotASocket or AlreadyRunning.
    """
    if len(os.fsencode(path)) > SOCKET_PATH_BYTES_MAX:
        raise SocketPathTooLong(path=path)
    with _lock_folder(path.parent):
        _remove_stale_socket(path)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            # On Linux the file takes its mode from the unbound socket, so it never has another one.
            os.fchmod(listener.fileno(), 0o600)
            listener.bind(os.fspath(path))
            listener.listen(BACKLOG)
        except OSError as error:
            listener.close()
            raise SocketNotCreated(path=path, reason=error.strerror) from error
    return listener


def bind_tcp(host: str, port: int) -> socket.socket | PortBusy:
    """A listening socket on loopback, or PortBusy as a value: the daemon can run with the Unix socket alone.

    Raises NotLoopback for any other host, PortRefused if the system does not open the port.
    """
    address = "127.0.0.1" if host == "localhost" else host
    family = _loopback_family(address)
    # IPPROTO_TCP is explicit: only then does asyncio turn off Nagle's delay (40 ms an answer).
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        # A restart must not wait until the kernel forgets the last connections.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Every connection inherits it.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
        listener.bind((address, port))
        listener.listen(BACKLOG)
    except (OSError, OverflowError) as error:
        listener.close()
        if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
            return PortBusy(host=host, port=port)
        raise PortRefused(host=host, port=port, reason=error) from error
    return listener


def _loopback_family(address: str) -> socket.AddressFamily:
    try:
        parsed = ip_address(address)
    except ValueError as error:
        # A name can mean another address tomorrow; only literal loopback addresses are safe.
        raise NotLoopback(host=address) from error
    # Only one of the two spellings of 127.0.0.1: whether the other is loopback depends on Python's version.
    if not parsed.is_loopback or (parsed.version == 6 and parsed.ipv4_mapped is not None):
        raise NotLoopback(host=address)
    return socket.AF_INET if parsed.version == 4 else socket.AF_INET6


@contextmanager
def _lock_folder(folder: Path) -> Iterator[None]:
    """Lock the folder while checking and binding: two starts at once must not remove each other's socket."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        found = os.fstat(descriptor)
        if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077:
            raise FolderTooOpen(folder=folder, todo=_permission_advice(folder, found))
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _permission_advice(folder: Path, found: os.stat_result) -> str:
    """Advice about a folder that is open to others. It never advises to change the target of a link."""
    if found.st_uid == os.geteuid() and not folder.is_symlink():
        return f"Run: chmod 700 {folder}"
    what = "a symbolic link" if folder.is_symlink() else "another user's"
    return f"It is {what}: set WAKEFUL_HOME to a folder of your own."


def _remove_stale_socket(path: Path) -> None:
    """Remove a socket without a listener. Raises if a process listens there, or if it is another kind of file."""
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise NotASocket(path=path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(PROBE_SECONDS_MAX)
        try:
            probe.connect(os.fspath(path))
        except ConnectionRefusedError:
            path.unlink()
            return
        except (TimeoutError, BlockingIOError) as error:
            # A process too busy to answer is alive.
            raise AlreadyRunning(pid="unknown") from error
        listener = peer_of(probe)
        assert listener is not None, "the probe is a Unix socket"
        raise AlreadyRunning(pid=listener.pid)


KEEP_ALIVE_SECONDS: Final = 5
# Long polls are answered at shutdown; everything else takes milliseconds.
SHUTDOWN_SECONDS_MAX: Final = 1
PING_SECONDS: Final = 20.0
DRAIN_ITERATIONS: Final = 5
# Clients send nothing on a WebSocket.
CLIENT_MESSAGE_BYTES_MAX: Final = 4096
# asyncio accepts this many before the first of them is counted, and each is a descriptor.
ACCEPTED_AT_ONCE: Final = 8


class _Server(uvicorn.Server):
    """Waits for its task to be cancelled. uvicorn's own loop wakes ten times a second: 0.25 % of a core."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.server_state = ListenerConnections()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listener in sockets or ():
            # asyncio used the number that it accepts at once for the kernel's queue as well.
            listener.listen(BACKLOG)

    async def main_loop(self) -> None:
        await asyncio.get_running_loop().create_future()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """The daemon handles signals."""
        yield


async def serve(app: App, listener: socket.socket) -> None:
    """Serve this listener until cancelled; then finish the running answers, and close.

    The socket's file is removed first: while this process listens, no other can have put its own there.
    """
    server = _Server(_uvicorn_config(app))
    try:
        await server.serve(sockets=[listener])
    finally:
        _remove_file(listener)
        if server.started:
            await server.shutdown(sockets=[listener])
            await _drain_connections(server.server_state)
        listener.close()


def close_listener(listener: socket.socket) -> None:
    """Close a listener that never served, and remove its file; a closed one stays closed."""
    if listener.fileno() != -1:
        _remove_file(listener)
        listener.close()


def _uvicorn_config(app: App) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=HttpConnection,
        ws=WebSocketConnection,
        interface="asgi3",
        lifespan="off",
        log_config=None,
        backlog=ACCEPTED_AT_ONCE,
        # The gate logs; uvicorn's own lines hold query strings and are meant for a terminal.
        log_level="critical",
        access_log=False,
        # Forwarded addresses of clients are not trusted.
        proxy_headers=False,
        server_header=False,
        # Only uvicorn's timer would keep it right.
        date_header=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS_MAX,
        ws_max_size=CLIENT_MESSAGE_BYTES_MAX,
        ws_ping_interval=PING_SECONDS,
        ws_ping_timeout=PING_SECONDS,
        # A batch goes to many clients on this machine; compressing it for each costs more than sending it.
        ws_per_message_deflate=False,
    )


def _remove_file(listener: socket.socket) -> None:
    if listener.family == socket.AF_UNIX:
        Path(listener.getsockname()).unlink(missing_ok=True)


async def _drain_connections(state: ServerState) -> None:
    """Let interrupted requests answer their callers, then abort the remaining connections."""
    if state.tasks:
        await asyncio.wait(state.tasks, timeout=SHUTDOWN_SECONDS_MAX)
    # A connection accepted just before the listener closed appears a few turns of the loop later.
    for _ in range(DRAIN_ITERATIONS):
        for connection in list(state.connections):
            connection.transport.abort()
        await asyncio.sleep(0)
