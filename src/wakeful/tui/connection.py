"""Connects `wakeful top` to the daemon: receives changes over the Unix socket and checks that it answers.

Nothing is polled. The whole list is requested once after every hello; from then on changes are pushed. Pings
check the connection, so data shown as live was confirmed at most some ten seconds ago.
"""

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

from msgspec import Struct
from websockets.asyncio.client import ClientConnection, unix_connect
from websockets.exceptions import WebSocketException

from wakeful.cli.commands.status import StatusBody
from wakeful.cli.format.sessions import DaemonVersionMismatch, SessionListBody, decode_body
from wakeful.core.errors import WakefulError
from wakeful.judging.session_record import SessionRecord

# A daemon whose loop hangs answers no ping: lost after both of them.
PING_SECONDS: Final = 5.0
RETRY_SECONDS: Final = (0.2, 0.5, 1.0, 2.0, 5.0)
# Ten thousand changes at once have 15 MB.
MESSAGE_BYTES_MAX: Final = 64 << 20


class FeedListener(Protocol):
    """Whoever shows it. Called in the link's own loop."""

    def on_feed_status(self, overview: StatusBody) -> None: ...

    def on_feed_sessions(self, page: SessionListBody) -> None: ...

    def on_feed_changes(self, records: list[SessionRecord]) -> None: ...

    def on_feed_agent(self, name: str, state: str) -> None: ...

    def on_feed_lost(self, reason: str) -> None: ...


class _ChangeBody(Struct, frozen=True):
    record: SessionRecord


class _AgentChangeBody(Struct, frozen=True):
    id: str
    state: str


class _FeedMessageBody(Struct, frozen=True):
    """What the feed says; kinds that are not shown here are passed over."""

    hello: StatusBody | None = None
    changes: list[_ChangeBody] = []
    agent: _AgentChangeBody | None = None


class FeedConnection:
    """Keeps the push open, opens it again, and says when it is not."""

    def __init__(self, socket: str, told: FeedListener, fetch: Callable[[], SessionListBody]) -> None:
        self._socket = socket
        self._listener = told
        # Blocks: it is run in a thread.
        self._fetch_blocking = fetch
        # What came while the list was on its way.
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
                # Whatever it was: nothing is proven any more, and it is tried again.
                self._listener.on_feed_lost("")
            await asyncio.sleep(RETRY_SECONDS[min(self._failures, len(RETRY_SECONDS) - 1)])
            self._failures += 1

    async def _follow(self) -> None:
        self._buffered = None
        async with unix_connect(
            self._socket,
            "ws://localhost/api/ws",
            ping_interval=PING_SECONDS,
            ping_timeout=PING_SECONDS,
            close_timeout=1.0,
            max_size=MESSAGE_BYTES_MAX,
            compression=None,
        ) as connection:
            try:
                async for message in connection:
                    self._on_message(message, connection)
            finally:
                await self._cancel_fetch()
        raise ConnectionResetError

    def _on_message(self, message: str | bytes, connection: ClientConnection) -> None:
        said = decode_body(message.encode() if isinstance(message, str) else message, _FeedMessageBody)
        if said.hello is not None:
            self._failures = 0
            self._listener.on_feed_status(said.hello)
            if self._buffered is None:
                self._buffered = []
                self._fetch_task = asyncio.create_task(self._fetch_sessions(connection))
        if said.agent is not None:
            self._listener.on_feed_agent(said.agent.id, said.agent.state)
        records = [each.record for each in said.changes]
        if self._buffered is not None:
            self._buffered += records
        elif records:
            self._listener.on_feed_changes(records)

    async def _fetch_sessions(self, connection: ClientConnection) -> None:
        """The whole list, and after it what changed while it was on its way. Without it the link is of no use."""
        try:
            page = await asyncio.to_thread(self._fetch_blocking)
        except WakefulError:
            await connection.close()
            return
        waiting, self._buffered = self._buffered or [], None
        self._listener.on_feed_sessions(page)
        if waiting:
            self._listener.on_feed_changes(waiting)

    async def _cancel_fetch(self) -> None:
        if self._fetch_task is not None:
            self._fetch_task.cancel()
            await asyncio.gather(self._fetch_task, return_exceptions=True)
            self._fetch_task = None
