"""WebSocket of changes: an overview first, then batches as sessions change.

The daemon never waits for a slow reader; its connection is closed.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, Final

from uvicorn.protocols.utils import ClientDisconnected

from wakeful.http.asgi import Receive, Send
from wakeful.http.errors import log_bug
from wakeful.http.routing import Route, websocket
from wakeful.sessions.feed import FeedSubscriber
from wakeful.views.sessions import SessionQueries

# RFC 6455 and its registry: "policy violation", "internal error", "service restart".
CLIENT_MESSAGE_CODE: Final = 1008
BUG_CODE: Final = 1011
FEED_ENDED_CODE: Final = 1012


class WebSocketRoute:
    """Pushes the desk's feed."""

    def __init__(self, queries: SessionQueries) -> None:
        self._queries = queries

    def route(self) -> Route:
        return websocket("/api/ws", self.stream_feed)

    async def stream_feed(self, receive: Receive, send: Send) -> None:
        """Listen before saying hello, so that nothing happens between the overview and the first batch."""
        with self._queries.feed.subscribe() as listener:
            # The client's opening.
            await receive()
            try:
                await send({"type": "websocket.accept"})
                await _send(send, b'{"hello":' + self._queries.overview().body + b"}")
                await _first_of(_wait_for_disconnect(receive, send), _send_batches(send, listener))
            except ClientDisconnected:
                return
            except Exception as error:  # noqa: BLE001 - whoever stays connected must not believe that all is told
                log_bug(error)
                await _close(send, BUG_CODE)


async def _first_of(*acts: Coroutine[Any, Any, None]) -> None:
    """Run these until one of them ends; raise what it raised. Of two that end together the first counts."""
    tasks = [asyncio.ensure_future(act) for act in acts]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    next(task for task in tasks if task in done).result()


async def _send_batches(send: Send, listener: FeedSubscriber) -> None:
    async for message in listener.batches():
        await _send(send, message)
    # The feed has given this listener up, or is closing.
    await _close(send, FEED_ENDED_CODE)


async def _wait_for_disconnect(receive: Receive, send: Send) -> None:
    """Return when the client has gone; send it away if it says anything."""
    if (await receive())["type"] == "websocket.receive":
        await _close(send, CLIENT_MESSAGE_CODE, "this door only tells")


async def _send(send: Send, body: bytes) -> None:
    await send({"type": "websocket.send", "text": body.decode()})


async def _close(send: Send, code: int, reason: str = "") -> None:
    await send({"type": "websocket.close", "code": code, "reason": reason})
