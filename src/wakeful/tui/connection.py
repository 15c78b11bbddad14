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

from wakeful.cli.commands.status import Overview
from wakeful.cli.format.sessions import DaemonOfAnotherVersion, Sessions, decoded
from wakeful.core.errors import WakefulError
from wakeful.judging.session_record import SessionRecord

# A daemon whose loop hangs answers no ping: lost after both of them.
PING_SECONDS: Final = 5.0
RETRY_SECONDS: Final = (0.2, 0.5, 1.0, 2.0, 5.0)
# Ten thousand changes at once have 15 MB.
MESSAGE_BYTES_MAX: Final = 64 << 20


class Told(Protocol):
    """Whoever shows it. Called in the link's own loop."""

    def greeted(self, overview: Overview) -> None: ...

    def listed(self, page: Sessions) -> None: ...

    def changed(self, records: list[SessionRecord]) -> None: ...

    def agent_changed(self, name: str, state: str) -> None: ...

    def lost(self, reason: str) -> None: ...


class _Change(Struct, frozen=True):
    record: SessionRecord


class _AgentChange(Struct, frozen=True):
    id: str
    state: str


class _Message(Struct, frozen=True):
    """What the feed says; kinds that are not shown here are passed over."""

    hello: Overview | None = None
    changes: list[_Change] = []
    agent: _AgentChange | None = None


class Link:
    """Keeps the push open, opens it again, and says when it is not."""

    def __init__(self, socket: str, told: Told, fetch: Callable[[], Sessions]) -> None:
        self._socket = socket
        self._told = told
        # Blocks: it is run in a thread.
        self._fetch = fetch
        # What came while the list was on its way.
        self._waiting: list[SessionRecord] | None = None
        self._listing: asyncio.Task[None] | None = None
        self._failures = 0

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            try:
                await self._follow()
            except DaemonOfAnotherVersion as problem:
                self._told.lost(str(problem))
            except (OSError, WebSocketException, WakefulError):
                # Whatever it was: nothing is proven any more, and it is tried again.
                self._told.lost("")
            await asyncio.sleep(RETRY_SECONDS[min(self._failures, len(RETRY_SECONDS) - 1)])
            self._failures += 1

    async def _follow(self) -> None:
        self._waiting = None
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
                    self._hear(message, connection)
            finally:
                await self._end_listing()
        raise ConnectionResetError

    def _hear(self, message: str | bytes, connection: ClientConnection) -> None:
        said = decoded(message.encode() if isinstance(message, str) else message, _Message)
        if said.hello is not None:
            self._failures = 0
            self._told.greeted(said.hello)
            if self._waiting is None:
                self._waiting = []
                self._listing = asyncio.create_task(self._list(connection))
        if said.agent is not None:
            self._told.agent_changed(said.agent.id, said.agent.state)
        records = [each.record for each in said.changes]
        if self._waiting is not None:
            self._waiting += records
        elif records:
            self._told.changed(records)

    async def _list(self, connection: ClientConnection) -> None:
        """The whole list, and after it what changed while it was on its way. Without it the link is of no use."""
        try:
            page = await asyncio.to_thread(self._fetch)
        except WakefulError:
            await connection.close()
            return
        waiting, self._waiting = self._waiting or [], None
        self._told.listed(page)
        if waiting:
            self._told.changed(waiting)

    async def _end_listing(self) -> None:
        if self._listing is not None:
            self._listing.cancel()
            await asyncio.gather(self._listing, return_exceptions=True)
            self._listing = None
