"""WebSocket of changes: an overview first, then batches as sessions change.

The daemon never waits for a slow reader; its connection is closed.
"""

from typing import Final

from uvicorn.protocols.utils import ClientDisconnected

from wakeful.core.waiting import first_of
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
    def __init__(self, queries: SessionQueries) -> None:
        self._queries = queries

    def route(self) -> Route:
        return websocket("/api/ws", self.stream_feed)

    async def stream_feed(self, receive: Receive, send: Send) -> None:
        """Subscribe before the overview is sent, so that no change is lost between it and the first batch."""
        with self._queries.feed.subscribe() as subscriber:
            # The client's opening request.
            await receive()
            try:
                await send({"type": "websocket.accept"})
                await _send(send, b'{"hello":' + self._queries.overview().body + b"}")
                await first_of(_wait_for_disconnect(receive, send), _send_batches(send, subscriber))
            except ClientDisconnected:
                return
            except Exception as error:  # noqa: BLE001 - a client must not stay connected to a broken feed
                log_bug(error)
                await _close(send, BUG_CODE)


async def _send_batches(send: Send, subscriber: FeedSubscriber) -> None:
    async for message in subscriber.batches():
        await _send(send, message)
    # The feed has dropped this subscriber, or is closing.
    await _close(send, FEED_ENDED_CODE)


async def _wait_for_disconnect(receive: Receive, send: Send) -> None:
    """Return when the client has gone; close the connection if it sends anything."""
    if (await receive())["type"] == "websocket.receive":
        await _close(send, CLIENT_MESSAGE_CODE, "this WebSocket is server-to-client only")


async def _send(send: Send, body: bytes) -> None:
    await send({"type": "websocket.send", "text": body.decode()})


async def _close(send: Send, code: int, reason: str = "") -> None:
    await send({"type": "websocket.close", "code": code, "reason": reason})
