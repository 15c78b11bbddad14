"""uvicorn without its tick and without its hands on signals, logs and text/plain. One server per door."""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import uvicorn
from uvicorn.server import ServerState

from wakeful.http.asgi import App
from wakeful.http.binding import BACKLOG
from wakeful.http.connection import Connected, HttpConnection, LiveConnection

KEEP_ALIVE_SECONDS: Final = 5
# Long polls are told that we go; everything else is done in milliseconds.
FAREWELL_SECONDS_MAX: Final = 1
PING_SECONDS: Final = 20.0
LAST_TURNS: Final = 5
# Clients have nothing to say on a WebSocket.
CLIENT_MESSAGE_BYTES_MAX: Final = 4096
# asyncio accepts this many before the first of them is counted, and each of them is a descriptor.
ACCEPTED_AT_ONCE: Final = 8


class _Server(uvicorn.Server):
    """Waits for its task to be cancelled. uvicorn's own loop wakes ten times a second: 0.25 % of a core."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.server_state = Connected()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listener in sockets or ():
            # asyncio took the number that it accepts at once for the kernel's queue as well.
            listener.listen(BACKLOG)

    async def main_loop(self) -> None:
        await asyncio.get_running_loop().create_future()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are the daemon's."""
        yield


async def serve(app: App, listener: socket.socket) -> None:
    """Answer at this door until cancelled; then finish what is being answered, and close.

    The socket's file is removed first: as long as we listen nobody else can have put another one there.
    """
    server = _Server(_config(app))
    try:
        await server.serve(sockets=[listener])
    finally:
        _remove_file(listener)
        if server.started:
            await server.shutdown(sockets=[listener])
            await _see_off(server.server_state)
        listener.close()


def shut(listener: socket.socket) -> None:
    """Close a door at which nobody was served yet, and remove its file; one that is closed stays so."""
    if listener.fileno() != -1:
        _remove_file(listener)
        listener.close()


def _config(app: App) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=HttpConnection,
        ws=LiveConnection,
        interface="asgi3",
        lifespan="off",
        log_config=None,
        backlog=ACCEPTED_AT_ONCE,
        # The gate logs; uvicorn's own lines hold query strings and are written for a terminal.
        log_level="critical",
        access_log=False,
        # A client's word about where it comes from counts for nothing.
        proxy_headers=False,
        server_header=False,
        # Only the tick would keep it right.
        date_header=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=FAREWELL_SECONDS_MAX,
        ws_max_size=CLIENT_MESSAGE_BYTES_MAX,
        ws_ping_interval=PING_SECONDS,
        ws_ping_timeout=PING_SECONDS,
        # A batch goes to many clients on this machine; compressing it for each costs more than sending it.
        ws_per_message_deflate=False,
    )


def _remove_file(listener: socket.socket) -> None:
    if listener.family == socket.AF_UNIX:
        Path(listener.getsockname()).unlink(missing_ok=True)


async def _see_off(state: ServerState) -> None:
    """Let requests that were cut short tell their callers, then drop whoever is left."""
    if state.tasks:
        await asyncio.wait(state.tasks, timeout=FAREWELL_SECONDS_MAX)
    # One that was accepted just before the listener closed is known a few turns of the loop later.
    for _ in range(LAST_TURNS):
        for connection in list(state.connections):
            connection.transport.abort()
        await asyncio.sleep(0)
