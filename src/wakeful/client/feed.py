"""Follows the daemon's push feed over the Unix socket, reconnects, and checks that the daemon answers.

The whole list is requested once after every hello; from then on changes are pushed. What is not pushed is in the
overview, requested every ten seconds: notes such as slow log sources, and how many sessions there are. If the numbers
differ, the whole list is requested again. Pings check the connection, so
data shown as live was confirmed at most some ten seconds ago.
"""

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

from websockets.asyncio.client import ClientConnection, connect, unix_connect
from websockets.exceptions import WebSocketException

from wakeful.client.client import decode_body
from wakeful.client.errors import DaemonVersionMismatch
from wakeful.core.errors import WakefulError
from wakeful.core.ids import SessionId
from wakeful.judging.session_record import SessionRecord
from wakeful.views.records import FEED_URL, FeedMessage, Overview, SessionList

# A daemon whose loop hangs answers no ping: the connection is lost after both.
PING_SECONDS: Final = 5.0
# As often as the page asks.
OVERVIEW_SECONDS: Final = 10.0
RETRY_SECONDS: Final = (0.2, 0.5, 1.0, 2.0, 5.0)
# Ten thousand changes at once have 15 MB.
MESSAGE_BYTES_MAX: Final = 64 << 20
_HELLO: Final = '{"hello":'


class FeedListener(Protocol):
    """Shows the feed. Its methods run in the loop of the connection."""

    def on_feed_status(self, overview: Overview) -> None: ...

    def has_sessions_of(self, overview: Overview) -> bool:
        """Whether as many sessions are shown as the daemon has."""

    def on_feed_sessions(self, page: SessionList) -> None: ...

    def on_feed_changes(self, records: list[SessionRecord]) -> None: ...

    def on_feed_gone(self, session_id: SessionId) -> None: ...

    def on_feed_agent(self, name: str, state: str) -> None: ...

    def on_feed_lost(self, reason: str) -> None: ...


async def follow_session(
    socket: str,
    session_id: SessionId,
    on_change: Callable[[SessionRecord | None], None],
    on_lost: Callable[[], None],
) -> None:
    """Report every change of one session, until cancelled; with None that it is gone, and every connection.

    A change says that there may be more to read. Changes of other sessions are not decoded.
    """
    failures = 0
    while True:
        try:
            async with _connect(socket) as connection:
                async for text in connection:
                    if session_id not in str(text) and not str(text).startswith(_HELLO):
                        continue
                    failures = 0
                    message = decode_body(text, FeedMessage)
                    if message.hello is not None or message.gone == session_id:
                        on_change(None)
                    for each in message.changes:
                        if each.record.id == session_id:
                            on_change(each.record)
        except (OSError, WebSocketException, WakefulError):
            pass
        on_lost()
        await asyncio.sleep(RETRY_SECONDS[min(failures, len(RETRY_SECONDS) - 1)])
        failures += 1


def _connect(socket: str) -> connect:
    return unix_connect(
        socket,
        FEED_URL,
        ping_interval=PING_SECONDS,
        ping_timeout=PING_SECONDS,
        close_timeout=1.0,
        max_size=MESSAGE_BYTES_MAX,
        compression=None,
    )


class FeedConnection:
    """Keeps the connection open, reconnects, and reports when it is lost."""

    def __init__(
        self,
        socket: str,
        listener: FeedListener,
        fetch: Callable[[], SessionList],
        fetch_overview: Callable[[], Overview],
    ) -> None:
        self._socket = socket
        self._listener = listener
        # Both block, so a thread runs them.
        self._fetch_blocking = fetch
        self._fetch_overview_blocking = fetch_overview
        # Changes that arrive while the list is being fetched.
        self._buffered: list[SessionRecord] | None = None
        self._fetch_task: asyncio.Task[None] | None = None
        self._failures = 0

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            try:
                await self._follow()
            except DaemonVersionMismatch as problem:
                self._listener.on_feed_lost(str(problem))
            except (OSError, WebSocketException, WakefulError):
                self._listener.on_feed_lost("")
            await asyncio.sleep(RETRY_SECONDS[min(self._failures, len(RETRY_SECONDS) - 1)])
            self._failures += 1

    async def _follow(self) -> None:
        self._buffered = None
        async with _connect(self._socket) as connection:
            checking = asyncio.create_task(self._check_overview(connection))
            try:
                async for message in connection:
                    self._on_message(message, connection)
            finally:
                checking.cancel()
                await asyncio.gather(checking, return_exceptions=True)
                await self._cancel_fetch()
        raise ConnectionResetError

    def _on_message(self, text: str | bytes, connection: ClientConnection) -> None:
        message = decode_body(text, FeedMessage)
        if message.hello is not None:
            self._failures = 0
            self._listener.on_feed_status(message.hello)
            self._fetch_soon(connection)
        if message.status is not None:
            self._listener.on_feed_status(message.status)
        if message.agent is not None:
            self._listener.on_feed_agent(message.agent.id, message.agent.state)
        if message.gone is not None:
            if self._buffered is not None:
                self._buffered = [each for each in self._buffered if each.id != message.gone]
            self._listener.on_feed_gone(message.gone)
        records = [each.record for each in message.changes]
        if self._buffered is not None:
            self._buffered += records
        elif records:
            self._listener.on_feed_changes(records)

    def _fetch_soon(self, connection: ClientConnection) -> None:
        if self._buffered is None:
            self._buffered = []
            self._fetch_task = asyncio.create_task(self._fetch_sessions(connection))

    async def _check_overview(self, connection: ClientConnection) -> None:
        """Report the overview at intervals. Without it, reconnect."""
        while True:
            await asyncio.sleep(OVERVIEW_SECONDS)
            try:
                overview = await asyncio.to_thread(self._fetch_overview_blocking)
            except WakefulError:
                await connection.close()
                return
            self._listener.on_feed_status(overview)
            if not self._listener.has_sessions_of(overview):
                self._fetch_soon(connection)

    async def _fetch_sessions(self, connection: ClientConnection) -> None:
        """Report the whole list, then the changes that arrived meanwhile. Without the list, reconnect."""
        try:
            page = await asyncio.to_thread(self._fetch_blocking)
        except WakefulError:
            await connection.close()
            return
        changes, self._buffered = self._buffered or [], None
        self._listener.on_feed_sessions(page)
        if changes:
            self._listener.on_feed_changes(changes)

    async def _cancel_fetch(self) -> None:
        if self._fetch_task is not None:
            self._fetch_task.cancel()
            await asyncio.gather(self._fetch_task, return_exceptions=True)
            self._fetch_task = None
