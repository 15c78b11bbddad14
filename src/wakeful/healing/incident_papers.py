"""What an incident's book says: one issue for each, and of every session in it what was done and came of it.

Whoever joins it later is told where the issue is. How one is filed is the forge's business.
"""

import asyncio
from collections import defaultdict
from typing import Protocol

from msgspec.structs import replace

from wakeful.healing.plan import Decision
from wakeful.healing.trouble import Trouble
from wakeful.healing.trouble_words import done_words, fate_of
from wakeful.incidents.incident import Incident
from wakeful.incidents.service import Incidents
from wakeful.sessions.session import Watched


class Filing(Protocol):
    """Has an issue about one trouble."""

    async def file(self, watched: Watched, trouble: Trouble) -> Trouble:
        """The trouble with its issue, where there could be one."""


class IncidentPapers:
    """Files within incidents. Sessions of one incident take turns; those of others do not wait for them."""

    def __init__(self, incidents: Incidents, filing: Filing) -> None:
        self._incidents = incidents
        self._filing = filing
        self._in_line: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def file(self, watched: Watched, trouble: Trouble) -> Trouble:
        """The trouble with the issue of its incident."""
        incident = self._incidents.of(trouble.session_id)
        if incident is None:
            return await self._filing.file(watched, trouble)
        async with self._in_line[incident.id]:
            known = self._incidents.of(trouble.session_id) or incident
            if known.issue_url is not None:
                return replace(trouble, issue_url=known.issue_url)
            filed = await self._filing.file(watched, trouble)
            if filed.issue_url is not None:
                newest = self._incidents.of(trouble.session_id) or known
                await self._incidents.keep(replace(newest, issue_url=filed.issue_url))
            return filed

    async def note(self, trouble: Trouble, decision: Decision) -> Incident | None:
        """Its incident with what was done about it, or why nothing is, as of now; None if it is in none."""
        incident = self._incidents.of(trouble.session_id)
        if incident is None:
            return None
        fate, words = fate_of(trouble, decision.step), done_words(trouble, decision)
        treated = incident.treated(trouble.session_id, fate, words)
        return incident if treated == incident else await self._incidents.keep(treated)

    def over(self, incident: Incident) -> None:
        """Nobody joins it any more."""
        self._in_line.pop(incident.id, None)
