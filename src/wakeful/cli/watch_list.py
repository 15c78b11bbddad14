"""Shows the list of `wakeful ls --watch` again whenever a session changes; the daemon pushes the changes."""

import asyncio
from contextlib import suppress
from typing import Final, Protocol

from wakeful.client.feed import FeedConnection
from wakeful.core.errors import WakefulError
from wakeful.core.ids import SessionId
from wakeful.judging.session_record import SessionRecord
from wakeful.views.records import Overview, SessionList

# Many changes at once are one new list.
REDRAW_SECONDS: Final = 0.3


class WatchedList(Protocol):
    """The list that is shown."""

    def fetch(self) -> SessionList:
        """The list as it is now."""

    def fetch_overview(self) -> Overview: ...

    def draw(self, page: SessionList, lost: str) -> None:
        """Show a list; `lost` says that it is not live any more."""


class ListWatcher:
    """A listener of the feed."""

    def __init__(self, socket: str, shown: WatchedList) -> None:
        self._shown = shown
        self._page: SessionList | None = None
        self._lost = ""
        self._redraw_task: asyncio.Task[None] | None = None
        self._connection = FeedConnection(socket, self, shown.fetch, shown.fetch_overview)

    async def run(self) -> None:
        """Until cancelled."""
        await self._connection.run()

    def on_feed_status(self, overview: Overview) -> None:
        """Every ten seconds: ages grow without a change."""
        del overview
        if self._page is not None:
            self._shown.draw(self._page, self._lost)

    def has_sessions_of(self, overview: Overview) -> bool:
        """A filtered list has fewer; it is fetched at every change."""
        del overview
        return True

    def on_feed_sessions(self, page: SessionList) -> None:
        self._page, self._lost = page, ""
        self._shown.draw(page, "")

    def on_feed_changes(self, records: list[SessionRecord]) -> None:
        del records
        self._redraw()

    def on_feed_gone(self, session_id: SessionId) -> None:
        del session_id
        self._redraw()

    def _redraw(self) -> None:
        if self._redraw_task is None or self._redraw_task.done():
            self._redraw_task = asyncio.create_task(self._redraw_soon())

    def on_feed_agent(self, name: str, state: str) -> None:
        pass

    def on_feed_lost(self, reason: str) -> None:
        if self._page is not None and not self._lost:
            self._lost = reason or "the daemon is gone; this is the last list"
            self._shown.draw(self._page, self._lost)

    async def _redraw_soon(self) -> None:
        await asyncio.sleep(REDRAW_SECONDS)
        # A lost connection is reported by the feed.
        with suppress(WakefulError):
            self.on_feed_sessions(await asyncio.to_thread(self._shown.fetch))
