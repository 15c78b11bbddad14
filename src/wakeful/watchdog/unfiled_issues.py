"""Keeps issues that could not be filed, for a watchdog without a daemon, and files them later.

A failure to file is reported once, and once more when filing works again. The newest unfiled report of each
project is kept in the queue.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from wakeful.alerts.model import forge_news, resolved, text_of
from wakeful.core.clock import Clock, iso
from wakeful.core.decoding import json_decoder
from wakeful.incidents.issue_tracker import Filing, Forge, Report
from wakeful.watchdog.queue import Jobs

EPISODE: Final = "forge"
OWED: Final = "unfiled:"
OWED_MAX: Final = 50
# Where reports were kept before; issues' addresses are kept there as well.
_OWED_BEFORE: Final = "issue:"
WITHOUT_ONE: Final = "wrote its event without one; it is filed later"
_encode: Final = msgspec.json.Encoder().encode
_decode: Final = json_decoder(Report)
log = logging.getLogger("wakeful.watchdog")


class ToldForge:
    """Implements Forge. `tell` gets the words; that it is told once is kept where the queue is."""

    def __init__(
        self, forge: Forge, jobs: Jobs, clock: Clock, tell: Callable[[str], Awaitable[object]]
    ) -> None:
        self._forge = forge
        self._jobs = jobs
        self._clock = clock
        self._tell = tell

    async def file(self, report: Report) -> Filing:
        filing = await self._forge.file(report)
        if filing.url is None:
            await self._keep(report)
            await self._fails(filing.words)
        else:
            await self._jobs.end(f"{OWED}{report.project}")
            await self._works()
        return filing

    async def _keep(self, report: Report) -> None:
        """For later, unless so many wait already: their projects' names may be anybody's choice."""
        name = f"{OWED}{report.project}"
        owed = {each for each in await self._jobs.episodes() if each.startswith(OWED)}
        if name in owed or len(owed) < OWED_MAX:
            await self._jobs.mark(name, _encode(report).decode())

    async def try_again(self) -> None:
        """File what was not taken before, by whichever watchdog."""
        for name, kept in (await self._jobs.episodes()).items():
            if name.startswith(OWED):
                await self._file_kept(name, kept)
            elif name.startswith(_OWED_BEFORE) and kept.startswith("{"):
                await self._jobs.begin(f"{OWED}{name.removeprefix(_OWED_BEFORE)}", kept)
                await self._jobs.end(name)

    async def _file_kept(self, name: str, kept: str) -> None:
        try:
            report = _decode(kept)
        except msgspec.DecodeError:
            log.info("watchdog: a report about %s is of another version", name.removeprefix(OWED))
            await self._jobs.end(name)
            return
        filing = await self.file(report)
        if filing.url is not None:
            log.info("watchdog: %s was filed late: %s", report.session_id, filing.url)

    async def _fails(self, words: str) -> None:
        now = self._clock.now().wall
        if await self._jobs.begin(EPISODE, f"{now:.3f}"):
            await self._tell(text_of(forge_news(words, "this host", now, did=WITHOUT_ONE)))

    async def _works(self) -> None:
        if (since := (await self._jobs.episodes()).get(EPISODE)) and await self._jobs.end(EPISODE):
            await self._tell(resolved("no issue could be filed", iso(float(since))))
