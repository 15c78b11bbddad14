"""Watches for a full disk: one incident with one alert and one issue, however many sessions it affects.

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
# The store grows by some hundred kB between two checkpoints of its log. With less room its next write may fail.
FREE_BYTES_MIN: Final = 1024 * 1024
# The incident ends with more room than it began, so that one file that is written and removed begins no other.
FREE_BYTES_AGAIN: Final = 4 * FREE_BYTES_MIN

log = logging.getLogger("wakeful.disk")


class DiskSpace(Protocol):
    """The disk with Wakeful's state directory."""

    folder: str

    def free_bytes(self) -> int | None:
        """The free space; None if that is unknown."""


class DiskWatch:
    """`store_problem` returns the error of a store that takes no writes.

    `tracker` files one issue: at once if the store can keep its address, else when there is room again.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        host: str,
        disk: DiskSpace,
        store_problem: Callable[[], str | None],
        incidents: Incidents,
        notifier: Notifier,
        tracker: IssueTracker | None = None,
    ) -> None:
        self._clock = clock
        self._host = host
        self._tracker = tracker
        self._origin = Origin(Cause.DISK, host)
        self._disk = disk
        self._store_problem = store_problem
        self._incidents = incidents
        self._notifier = notifier
        self._open_incident: Incident | None = None

    async def run(self) -> None:
        """Check every five seconds, until cancelled."""
        while True:
            await self.check()
            await self._clock.sleep(CHECK_SECONDS)

    async def check(self) -> None:
        """Open the incident, or end it. Errors of a full disk are logged, not raised."""
        words = await self._problem()
        if words is not None and self._open_incident is None:
            self._open_incident = await self._incidents.begin(self._origin, words)
            body = disk_alert(self._open_incident, words, self._disk.folder)
            await self._notifier.raise_alert(self._open_incident.id, body, Topic((Cause.DISK,)))
            await self._file(self._open_incident)
        elif words is None:
            await self._end()

    async def _end(self) -> None:
        """End the incident, also one of an earlier daemon."""
        if self._open_incident is not None:
            await self._file(self._open_incident)
        try:
            ended = await self._incidents.end(self._origin)
        except WorldError as error:
            log.warning("there is free space again, but recording that failed: %s", error)
            return
        self._open_incident = None
        if ended is not None and not ended.is_open:
            await self._notifier.resolve_incident(replace(ended, because="there is free space again"))

    async def _file(self, incident: Incident) -> None:
        """File one issue; a session of the same incident may have filed it before."""
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
        problem = self._store_problem()
        if problem is not None:
            return problem
        free_bytes = await asyncio.to_thread(self._disk.free_bytes)
        enough = FREE_BYTES_MIN if self._open_incident is None else FREE_BYTES_AGAIN
        if free_bytes is None or free_bytes >= enough:
            return None
        return f"{free_bytes // 1024:,} KiB left for {self._disk.folder}"


def disk_alert(incident: Incident, words: str, folder: str) -> AlertBody:
    return AlertBody(
        what=cause_text(incident),
        where=words,
        since=incident.opened_at,
        did="no action: Wakeful keeps watching, holds new data in memory and resumes no session",
        otherwise="the next restart loses the data since then",
        command=f"df -h {folder}",
    )
