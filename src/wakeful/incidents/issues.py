"""Files reports as issues at once, or keeps them, alerts once, and tries again later.

How an issue is filed is the tracker's business; this module remembers reports that could not be filed. It
keeps one report for each project, the newest: an issue is about a project, and a late one says what is true
then.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from wakeful.core.clock import Clock
from wakeful.core.decoding import json_decoder
from wakeful.core.errors import WorldError
from wakeful.incidents.issue_breaker import SPARED_SECONDS, SparedForge
from wakeful.incidents.issue_tracker import Filing, Forge, Report
from wakeful.storage.base import Note, Store

RETRY_SECONDS: Final = SPARED_SECONDS
OWED: Final = "issue_owed"
# So many projects have a report waiting; `wakeful incidents` lists the problems of all.
OWED_MAX: Final = 50
TROUBLE: Final = "issue_trouble"
# One forge, one trouble: whatever is wrong with it is told once until it works again.
_KEY: Final = "forge"
_encode: Final = msgspec.json.Encoder().encode
_decode: Final = json_decoder(Report)
log: Final = logging.getLogger("wakeful.issues")

Tell = Callable[[str], Awaitable[None]]
Filed = Callable[[Report, Filing], Awaitable[None]]


class Issues:
    """Files reports. `tell` hears of a forge that does not work, once, `works` that it does again.

    `filed` hears of every report filed late.
    """

    def __init__(
        self,
        forge: Forge,
        store: Store,
        clock: Clock,
        *,
        wants: Callable[[str], bool],
        tell: Tell,
        works: Callable[[], Awaitable[None]],
        filed: Filed,
    ) -> None:
        self._forge = SparedForge(forge, clock)
        self._store = store
        self._clock = clock
        self._wants = wants
        self._tell = tell
        self._works = works
        self._filed = filed

    async def file(self, report: Report) -> Filing:
        """File it now, or keep it for later. Takes no longer than the forge does; raises what the store raises."""
        if not self._wants(report.project):
            return Filing(None, "no repository is configured for its project: set github.repo")
        filing = await self._forge.file(report)
        if filing.url is None:
            await self._keep(report)
            await self._say_once(filing.words)
        else:
            await self._settled(report.project)
        return filing

    async def _keep(self, report: Report) -> None:
        """For later, unless so many wait already: their projects' names may be anybody's choice."""
        owed = {note.key for note in await self._store.notes(OWED)}
        if report.project in owed or len(owed) < OWED_MAX:
            await self._store.keep_note(Note(OWED, report.project, _encode(report)))

    async def retry(self) -> int:
        """Try everything that is owed once more; how many reports were filed."""
        done = 0
        for note in await self._store.notes(OWED):
            report = await self._report(note)
            filing = await self._forge.ask(report) if report is not None else None
            if report is not None and filing is not None and filing.url is not None:
                await self._settled(note.key)
                await self._filed(report, filing)
                done += 1
        return done

    async def run(self) -> None:
        """Try again now and then, until cancelled."""
        while True:
            await self._clock.sleep_until(self._clock.now().awake + RETRY_SECONDS)
            try:
                await self.retry()
            except WorldError as error:
                log.warning("issues that are owed were not filed: %s", error)

    async def _report(self, note: Note) -> Report | None:
        try:
            return _decode(note.body)
        except msgspec.DecodeError:
            log.info("a report about %s is of another version", note.key)
            await self._store.drop_note(note.kind, note.key)
            return None

    async def _say_once(self, words: str) -> None:
        """Told before it is noted: a crash in between tells it twice, and never not at all."""
        if not await self._store.notes(TROUBLE):
            await self._tell(words)
            await self._store.keep_new_note(Note(TROUBLE, _KEY, words.encode()))

    async def _settled(self, project: str) -> None:
        await self._store.drop_note(OWED, project)
        if await self._store.drop_note(TROUBLE, _KEY):
            await self._works()
