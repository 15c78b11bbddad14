"""Notes which managed sessions ended by themselves while whatever hosted them lived: somebody closed them.

A reboot or the end of a tmux server that comes later took nothing of them along, so nobody brings them back.
"""

from typing import Final

from msgspec.structs import replace

from wakeful.domain.hosting import Hosting
from wakeful.domain.ids import SessionId
from wakeful.domain.process import Process, Sight
from wakeful.ports.clock import Clock
from wakeful.services.circumstances import Circumstances
from wakeful.services.holdings import Holdings
from wakeful.services.roster import Roster

LOOK_SECONDS: Final = 30.0
# A host that goes down ends agents first and us within a minute: what ended then was taken along.
SURE_SECONDS: Final = 90.0


class Closing:
    """One look at the managed sessions now and then."""

    def __init__(
        self, clock: Clock, roster: Roster, holdings: Holdings, circumstances: Circumstances
    ) -> None:
        self._clock = clock
        self._roster = roster
        self._holdings = holdings
        self._around = circumstances
        # Since when a process is known to be gone.
        self._gone: dict[SessionId, tuple[Process | None, float]] = {}

    async def run(self) -> None:
        while True:
            await self._clock.sleep_until(self._clock.now().awake + LOOK_SECONDS)
            await self.look()

    async def look(self) -> None:
        """Note who has been gone for long enough."""
        now = self._clock.now().awake
        gone = {each.session_id: each for each in self._holdings.all() if self._has_ended(each)}
        self._gone = {
            session_id: self._known(session_id, each.process) or (each.process, now)
            for session_id, each in gone.items()
        }
        for session_id, hosting in gone.items():
            if now - self._gone[session_id][1] >= SURE_SECONDS:
                await self._holdings.keep(replace(hosting, closed=True))

    def _known(self, session_id: SessionId, process: Process | None) -> tuple[Process | None, float] | None:
        known = self._gone.get(session_id)
        return known if known is not None and known[0] == process else None

    def _has_ended(self, hosting: Hosting) -> bool:
        watched = self._roster.watched.get(hosting.session_id)
        if hosting.stopped or hosting.closed or hosting.process is None or watched is None:
            return False
        pane = watched.presence.pane
        return (
            watched.presence.agent is Sight.DEAD
            and watched.verdict is not None
            and not watched.verdict.findings
            and (pane is None or pane.runtime is Sight.ALIVE)
            and self._around.lost(watched) is None
        )
