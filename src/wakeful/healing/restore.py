"""Resumes all sessions that a reboot or a dead tmux server ended: each in its directory, under its name.

Managed sessions come back without it. This is the full list for a person's command, with sessions that are
only watched. It skips sessions that are alive, and sessions with an interrupted call that may have had
effects elsewhere.
"""

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from wakeful.control.controller import PROGRAMS, Hands
from wakeful.control.gate import Deed
from wakeful.control.ownership import Holdings
from wakeful.core.errors import OperatorError
from wakeful.core.ids import SessionId
from wakeful.core.managed_session import Hosting
from wakeful.core.process import Sight
from wakeful.healing.rate_limit import Pace
from wakeful.healing.situation import Circumstances, Place
from wakeful.incidents.model import SENTENCES, Surroundings, lost_with
from wakeful.judging.evidence import why_final
from wakeful.judging.session_record import safe
from wakeful.sessions.registry import Roster
from wakeful.sessions.session import Watched

HELD: Final = "a call that may have had effects elsewhere was cut off: `wakeful session revive {id} --yes`"


class NotLost(OperatorError):
    """{shown} is not brought back: {reason}."""

    code = "not-lost"
    exit_code = 1
    http_status = 409


class Lost(Struct, frozen=True):
    """A session that was taken along. Without `skipped` it can be brought back."""

    session_id: SessionId
    name: str
    cwd: str
    managed: bool
    because: str
    skipped: str | None = None


class Restorer:
    """Asked by a person; acts through the hands like everybody."""

    def __init__(
        self,
        roster: Roster,
        holdings: Holdings,
        hands: Hands,
        place: Place,
        pace: Pace,
        circumstances: Circumstances,
    ) -> None:
        self._roster = roster
        self._holdings = holdings
        self._hands = hands
        self._place = place
        self._pace = pace
        self._around = circumstances

    def lost(self) -> list[Lost]:
        """Every session that a reboot or a dead tmux server took along, by name."""
        found = [each for watched in self._roster.watched.values() for each in self._look(watched)]
        return sorted(found, key=lambda each: (each.name, each.session_id))

    async def bring_back(self, text: str) -> Deed:
        """One of them, in its turn. Raises NotLost, and what a resume raises."""
        watched = self._roster.find(text)
        session_id = watched.subject.id
        lost = next(self._look(watched), None)
        if lost is None or lost.skipped is not None:
            raise NotLost(
                shown=session_id, reason=lost.skipped if lost else "its host and its tmux server live"
            )
        await self._pace.turn()
        self._around.restoring.add(session_id)
        try:
            return await self._resumed(watched)
        finally:
            self._around.restoring.discard(session_id)

    async def _resumed(self, watched: Watched) -> Deed:
        session_id, pane = watched.subject.id, watched.presence.pane
        if self._holdings.find(session_id) is None:
            await self._hands.adopt(session_id, named=pane.session if pane is not None else None)
        return await self._hands.resume(session_id)

    def _look(self, watched: Watched) -> Iterator[Lost]:
        subject, presence = watched.subject, watched.presence
        if subject.provider not in PROGRAMS or presence.agent is not Sight.DEAD:
            return
        around = Surroundings(subject.provider, subject.id, self._place.host, self._place.boot_id)
        origin = lost_with(presence, around)
        if origin is None:
            return
        hosting = self._holdings.find(subject.id)
        if hosting is not None and hosting.closed:
            return
        pane_name = presence.pane.session if presence.pane is not None else None
        cwd = hosting.cwd if hosting is not None else watched.activity.cwd or presence.cwd or ""
        yield Lost(
            session_id=subject.id,
            name=(hosting.name if hosting is not None else None) or pane_name or subject.id,
            cwd=safe(cwd),
            managed=hosting is not None,
            because=SENTENCES[origin.cause].format(scope=origin.scope),
            skipped=self._skipped(watched, cwd, hosting),
        )

    def _skipped(self, watched: Watched, cwd: str, hosting: Hosting | None) -> str | None:
        if hosting is not None and hosting.is_ended:
            return why_final(hosting.heir, by_gateway=hosting.by_gateway)
        if (agent := watched.subject.agent) is not None and not watched.subject.managed:
            return f"agent {agent} hosts it: `wakeful attach {agent}`"
        if not cwd or not self._place.exists(cwd):
            return "its working directory is gone"
        if watched.activity.known == 0:
            return "nothing was said in it, so there is nothing to continue"
        if self._around.calls_elsewhere(watched):
            return HELD.format(id=watched.subject.id)
        return None
