"""Keeps issues that could not be filed, for a watchdog without a daemon, and files them later.

A failure to file is reported once, and once more when filing works again. The newest unfiled report of each
project is kept in the queue.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from wakeful.alerts.model import format_alert, issue_tracker_alert, resolved_text
from wakeful.core.clock import Clock, iso
from wakeful.core.decoding import json_decoder
from wakeful.incidents.issue_tracker import FilingResult, IssueReport, IssueTracker
from wakeful.watchdog.parts import CycleObserver
from wakeful.watchdog.queue import JobQueue

EPISODE: Final = "forge"
UNFILED_PREFIX: Final = "unfiled:"
UNFILED_MAX: Final = 50
# Earlier versions stored reports under this prefix; it still has the addresses of issues.
_LEGACY_PREFIX: Final = "issue:"
UNFILED_ACTION_TEXT: Final = "logged the event without an issue; the issue is filed later"
_encode: Final = msgspec.json.Encoder().encode
_decode: Final = json_decoder(IssueReport)
log = logging.getLogger("wakeful.watchdog")


class QueueIssueFallback(CycleObserver):
    """Implements IssueTracker. `notify` gets the alert; an episode in the queue keeps it from being sent twice."""

    def __init__(
        self, tracker: IssueTracker, jobs: JobQueue, clock: Clock, notify: Callable[[str], Awaitable[object]]
    ) -> None:
        self._issue_tracker = tracker
        self._jobs = jobs
        self._clock = clock
        self._notify = notify

    async def file(self, report: IssueReport) -> FilingResult:
        filing = await self._issue_tracker.file(report)
        if filing.url is None:
            # Store it for later, unless too many wait: project names may come from outside.
            name = f"{UNFILED_PREFIX}{report.project}"
            unfiled = {each for each in await self._jobs.episodes() if each.startswith(UNFILED_PREFIX)}
            if name in unfiled or len(unfiled) < UNFILED_MAX:
                await self._jobs.set_episode(name, _encode(report).decode())
            await self._on_failure(filing.words)
        else:
            await self._jobs.end_episode(f"{UNFILED_PREFIX}{report.project}")
            await self._on_success()
        return filing

    async def after_cycle(self) -> None:
        """File reports that any watchdog could not file before."""
        for name, stored in (await self._jobs.episodes()).items():
            if name.startswith(UNFILED_PREFIX):
                await self._file_stored(name, stored)
            elif name.startswith(_LEGACY_PREFIX) and stored.startswith("{"):
                await self._jobs.begin_episode(f"{UNFILED_PREFIX}{name.removeprefix(_LEGACY_PREFIX)}", stored)
                await self._jobs.end_episode(name)

    async def _file_stored(self, name: str, stored: str) -> None:
        try:
            report = _decode(stored)
        except msgspec.DecodeError:
            log.info("watchdog: a report about %s is from another version", name.removeprefix(UNFILED_PREFIX))
            await self._jobs.end_episode(name)
            return
        filing = await self.file(report)
        if filing.url is not None:
            log.info("watchdog: %s was filed late: %s", report.session_id, filing.url)

    async def _on_failure(self, words: str) -> None:
        now = self._clock.now().wall
        if await self._jobs.begin_episode(EPISODE, f"{now:.3f}"):
            await self._notify(
                format_alert(issue_tracker_alert(words, "this host", now, did=UNFILED_ACTION_TEXT))
            )

    async def _on_success(self) -> None:
        if (since := (await self._jobs.episodes()).get(EPISODE)) and await self._jobs.end_episode(EPISODE):
            await self._notify(resolved_text("issue not filed", iso(float(since))))
