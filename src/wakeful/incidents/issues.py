"""Files reports as issues at once, or keeps them, alerts once, and tries again later.

The tracker defines how an issue is filed; this module stores reports that could not be filed. It stores only the
newest report of each project, because a late issue must say what is true then.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from wakeful.core.clock import Clock
from wakeful.core.decoding import json_decoder
from wakeful.core.errors import WorldError
from wakeful.incidents.issue_tracker import (
    BREAKER_SECONDS,
    BreakingIssueTracker,
    FilingResult,
    IssueReport,
    IssueTracker,
)
from wakeful.storage.base import Note, Store

RETRY_SECONDS: Final = BREAKER_SECONDS
PENDING_KIND: Final = "issue_owed"
# The most projects with a pending report; `wakeful incidents` lists the problems of all.
PENDING_MAX: Final = 50
PROBLEM_KIND: Final = "issue_trouble"
# One tracker has one problem at a time: people get one alert until it works again.
_KEY: Final = "forge"
_encode: Final = msgspec.json.Encoder().encode
_decode: Final = json_decoder(IssueReport)
log: Final = logging.getLogger("wakeful.issues")

NotifyProblem = Callable[[str], Awaitable[None]]


class Issues:
    """Files reports. `tell` is called once when the tracker fails, `works` when it works again."""

    def __init__(
        self,
        tracker: IssueTracker,
        store: Store,
        clock: Clock,
        *,
        wants: Callable[[str], bool],
        tell: NotifyProblem,
        works: Callable[[], Awaitable[None]],
    ) -> None:
        self._tracker = BreakingIssueTracker(tracker, clock)
        self._store = store
        self._clock = clock
        self._is_wanted = wants
        self._notify = tell
        self._on_recovered = works

    async def file(self, report: IssueReport) -> FilingResult:
        """File it now, or keep it for later. Takes no longer than the tracker; raises the errors of the store."""
        if not self._is_wanted(report.project):
            return FilingResult(None, "no repository is configured for its project: set github.repo")
        filing = await self._tracker.file(report)
        if filing.url is None:
            await self._save(report)
            # The alert comes before the note: a crash in between repeats the alert and never loses it.
            if not await self._store.notes(PROBLEM_KIND):
                await self._notify(filing.words)
                await self._store.save_new_note(Note(PROBLEM_KIND, _KEY, filing.words.encode()))
        else:
            await self._clear_pending(report.project)
        return filing

    async def _save(self, report: IssueReport) -> None:
        """Keep it for later, unless too many projects wait: project names may come from outside."""
        pending = {note.key for note in await self._store.notes(PENDING_KIND)}
        if report.project in pending or len(pending) < PENDING_MAX:
            await self._store.save_note(Note(PENDING_KIND, report.project, _encode(report)))

    async def retry(self) -> int:
        """Try to file every waiting report; returns how many were filed."""
        done = 0
        for note in await self._store.notes(PENDING_KIND):
            report = await self._decode_report(note)
            filing = await self._tracker.file_now(report) if report is not None else None
            if report is not None and filing is not None and filing.url is not None:
                await self._clear_pending(note.key)
                done += 1
        return done

    async def run(self) -> None:
        """Retry at each interval, until cancelled."""
        while True:
            await self._clock.sleep(RETRY_SECONDS)
            try:
                await self.retry()
            except WorldError as error:
                log.warning("pending issues were not filed: %s", error)

    async def _decode_report(self, note: Note) -> IssueReport | None:
        try:
            return _decode(note.body)
        except msgspec.DecodeError:
            log.info("a report about %s is from another version", note.key)
            await self._store.drop_note(note.kind, note.key)
            return None

    async def _clear_pending(self, project: str) -> None:
        await self._store.drop_note(PENDING_KIND, project)
        if await self._store.drop_note(PROBLEM_KIND, _KEY):
            await self._on_recovered()
