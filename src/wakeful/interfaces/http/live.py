"""The WebSocket: an overview first, then batches of changes as they happen. A slow reader is never waited for."""

import asyncio
from typing import Any, Final

from litestar import WebSocket
from litestar.exceptions import WebSocketDisconnect
from litestar.handlers import WebsocketRouteHandler, websocket
from uvicorn.protocols.utils import ClientDisconnected

from wakeful.interfaces.http.problems import bug
from wakeful.services.desk import Desk
from wakeful.services.feed import Listener

# RFC 6455 and its registry: "policy violation", "internal error", "service restart".
SPOKE_CODE: Final = 1008
BUG_CODE: Final = 1011
ENDED_CODE: Final = 1012

# The server's and the framework's way of saying that nobody listens any more.
GONE: Final = (ClientDisconnected, WebSocketDisconnect)

_Socket = WebSocket[Any, Any, Any]


class LiveRoute:
    """Pushes the desk's feed."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def handler(self) -> WebsocketRouteHandler:
        return websocket("/api/ws")(self.follow)

    async def follow(self, socket: _Socket) -> None:
        """Listen before saying hello, so that nothing happens between the overview and the first batch."""
        with self._desk.feed.listening() as listener:
            await socket.accept()
            try:
                await _send(socket, b'{"hello":' + self._desk.overview().body + b"}")
                await _first_of(_tell(socket, listener), _hear(socket))
            except GONE:
                return
            except Exception as error:  # noqa: BLE001 - whoever stays connected must not believe that all is told
                bug(error)
                await socket.close(code=BUG_CODE)


async def _first_of(*acts: Any) -> None:
    """Run these until one of them ends; raise what it raised."""
    tasks = [asyncio.ensure_future(act) for act in acts]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()


async def _tell(socket: _Socket, listener: Listener) -> None:
    async for message in listener.batches():
        await _send(socket, message)
    # The feed has given this listener up, or is closing.
    await socket.close(code=ENDED_CODE)


async def _hear(socket: _Socket) -> None:
    """Return when the client has gone; send it away if it says anything."""
    message = await socket.receive()
    if message["type"] == "websocket.receive":
        await socket.close(code=SPOKE_CODE, reason="this door only tells")


async def _send(socket: _Socket, body: bytes) -> None:
    await socket.send({"type": "websocket.send", "bytes": None, "text": body.decode()})
