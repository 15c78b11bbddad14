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
# Where reports were kept before; issues' addresses are kept there as well.
_LEGACY_PREFIX: Final = "issue:"
UNFILED_ACTION_TEXT: Final = "wrote its event without one; it is filed later"
_encode: Final = msgspec.json.Encoder().encode
_decode: Final = json_decoder(IssueReport)
log = logging.getLogger("wakeful.watchdog")


class QueueIssueFallback(CycleObserver):
    """Implements IssueTracker. `tell` gets the text; the queue stores that it was sent once."""

    def __init__(
        self, tracker: IssueTracker, jobs: JobQueue, clock: Clock, tell: Callable[[str], Awaitable[object]]
    ) -> None:
        self._issue_tracker = tracker
        self._jobs = jobs
        self._clock = clock
        self._notify = tell

    async def file(self, report: IssueReport) -> FilingResult:
        filing = await self._issue_tracker.file(report)
        if filing.url is None:
            # Keep it for later, unless too many wait: project names may come from outside.
            name = f"{UNFILED_PREFIX}{report.project}"
            owed = {each for each in await self._jobs.episodes() if each.startswith(UNFILED_PREFIX)}
            if name in owed or len(owed) < UNFILED_MAX:
                await self._jobs.set_episode(name, _encode(report).decode())
            await self._on_failure(filing.words)
        else:
            await self._jobs.end_episode(f"{UNFILED_PREFIX}{report.project}")
            await self._on_success()
        return filing

    async def after_cycle(self) -> None:
        """File reports that any watchdog could not file before."""
        for name, kept in (await self._jobs.episodes()).items():
            if name.startswith(UNFILED_PREFIX):
                await self._file_stored(name, kept)
            elif name.startswith(_LEGACY_PREFIX) and kept.startswith("{"):
                await self._jobs.begin_episode(f"{UNFILED_PREFIX}{name.removeprefix(_LEGACY_PREFIX)}", kept)
                await self._jobs.end_episode(name)

    async def _file_stored(self, name: str, kept: str) -> None:
        try:
            report = _decode(kept)
        except msgspec.DecodeError:
            log.info("watchdog: a report about %s is of another version", name.removeprefix(UNFILED_PREFIX))
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
            await self._notify(resolved_text("no issue could be filed", iso(float(since))))
