"""Watches for a full disk: one incident with one alert and one issue, however many sessions suffer from it.

A full disk blocks writes to the store, so the alert is sent from memory and nothing here waits for the store.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final, Protocol

from msgspec.structs import replace

from wakeful.alerts.model import AlertBody, Topic
from wakeful.alerts.notifier import Notifier
from wakeful.core.clock import Clock
from wakeful.core.errors import WorldError
from wakeful.core.ids import SessionId
from wakeful.incidents.issue_tracker import IssueReport, IssueTracker
from wakeful.incidents.model import Cause, Incident, Origin, cause_text
from wakeful.incidents.service import Incidents

CHECK_SECONDS: Final = 5.0
# A store that is written to grows by some hundred kB between two checkpoints of its log; below that it soon refuses.
FREE_BYTES_MIN: Final = 1024 * 1024
# Room again only with some to spare, so that one file written and removed is no new episode.
FREE_BYTES_AGAIN: Final = 4 * FREE_BYTES_MIN

log = logging.getLogger("wakeful.disk")


class DiskSpace(Protocol):
    """The disk that holds our state."""

    folder: str

    def free_bytes(self) -> int | None:
        """How much can be written there; None if that is unknown."""


class DiskWatch:
    """`refused` gives the store's own words while it takes nothing.

    `tracker` files one issue: at once where that can be written down, else when there is room again.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        host: str,
        room: DiskSpace,
        refused: Callable[[], str | None],
        incidents: Incidents,
        notifier: Notifier,
        tracker: IssueTracker | None = None,
    ) -> None:
        self._clock = clock
        self._host = host
        self._tracker = tracker
        self._origin = Origin(Cause.DISK, host)
        self._disk = room
        self._store_problem = refused
        self._incidents = incidents
        self._notifier = notifier
        self._open_incident: Incident | None = None

    async def run(self) -> None:
        """Look now and then, until cancelled."""
        while True:
            await self.check()
            await self._clock.sleep(CHECK_SECONDS)

    async def check(self) -> None:
        """Open the incident, or end it. Raises nothing the disk could be the reason of."""
        words = await self._problem()
        if words is not None and self._open_incident is None:
            self._open_incident = await self._incidents.begin(self._origin, words)
            body = disk_alert(self._open_incident, words, self._disk.folder)
            await self._notifier.raise_alert(self._open_incident.id, body, Topic((Cause.DISK,)))
            await self._file(self._open_incident)
        elif words is None:
            await self._end()

    async def _end(self) -> None:
        """Also of an incident that an earlier daemon left open."""
        if self._open_incident is not None:
            await self._file(self._open_incident)
        try:
            ended = await self._incidents.end(self._origin)
        except WorldError as error:
            log.warning("there is room again, but that could not be written: %s", error)
            return
        self._open_incident = None
        if ended is not None and not ended.is_open:
            await self._notifier.resolve_incident(replace(ended, because="there is room again"))

    async def _file(self, incident: Incident) -> None:
        """One issue; a session that failed for want of room may have had it filed before."""
        known = self._incidents.newest(incident)
        if self._tracker is None or known.issue_url is not None:
            return
        report = IssueReport(
            project=self._host,
            session_id=SessionId(self._host),
            reason=str(Cause.DISK),
            summary=f"{cause_text(known)}: {known.summary}",
            duration_seconds=self._clock.now().wall - known.opened_at,
            others=known.sessions,
        )
        try:
            filing = await self._tracker.file(report)
            if filing.url is not None:
                await self._incidents.update(replace(self._incidents.newest(known), issue_url=filing.url))
        except WorldError as error:
            log.warning("no issue about the disk is kept yet: %s", error)

    async def _problem(self) -> str | None:
        """The problem as text; None without one."""
        refused = self._store_problem()
        if refused is not None:
            return refused
        free_bytes = await asyncio.to_thread(self._disk.free_bytes)
        enough = FREE_BYTES_MIN if self._open_incident is None else FREE_BYTES_AGAIN
        if free_bytes is None or free_bytes >= enough:
            return None
        return f"{free_bytes // 1024:,} KiB are left for {self._disk.folder}"


def disk_alert(incident: Incident, words: str, folder: str) -> AlertBody:
    return AlertBody(
        what=cause_text(incident),
        where=words,
        since=incident.opened_at,
        did="it goes on watching and keeps in memory what it cannot write; nothing is revived",
        otherwise="what happens meanwhile is forgotten with the next restart",
        command=f"df -h {folder}",
    )
