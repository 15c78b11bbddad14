"""Re-checks that prompts can reach managed sessions, as their records say.

There is no event for a connection that is lost or found again. So it is checked when a session is read, and
every few seconds while the feed has listeners: a few file lookups for each managed session that is shown, and
none for other sessions.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from wakeful.core.ids import SessionId
from wakeful.judging.findings import State
from wakeful.judging.wake_eligibility import Reach
from wakeful.sessions.session import Watched
from wakeful.sessions.supervisor import Supervisor

# Whoever listens hears of a lost way this late, as long as there are no more managed sessions than are looked at once.
PROOF_SECONDS: Final = 5.0
# Some 50 microseconds each: a thousandth of a core, however many there are.
PROVEN_AT_ONCE_MAX: Final = 100


class Proofs:
    """Looks, and has a session judged anew where it saw something else than its record says."""

    def __init__(self, supervisor: Supervisor, reach: Callable[[SessionId], Reach]) -> None:
        self._supervisor = supervisor
        self._roster = supervisor.roster
        self._reach = reach
        self._due: list[Watched] = []
        self._roster.prove = self.prove

    def prove(self, watched: Watched) -> None:
        """Judge a session anew whose way was opened, shut or lost since it was judged."""
        record = watched.record
        if record is None or not watched.subject.ours:
            return
        reach = self._reach(watched.subject.id)
        was_lost = record.state is State.DETACHED
        is_lost = reach.path_lost and (was_lost or record.state is State.IDLE)
        if (reach.path_open, is_lost) == (record.attachable, was_lost):
            return
        self._supervisor.acted(watched.subject.id)
        while self._supervisor.settle():
            pass

    def prove_some(self) -> None:
        """The next so many of the managed ones, in turn."""
        self._due = self._due or list(self._roster.ours)
        now, self._due = self._due[:PROVEN_AT_ONCE_MAX], self._due[PROVEN_AT_ONCE_MAX:]
        for watched in now:
            self.prove(watched)

    async def prove_all(self) -> None:
        """Every managed one, in slices."""
        for count, watched in enumerate(list(self._roster.ours), 1):
            self.prove(watched)
            if not count % PROVEN_AT_ONCE_MAX:
                await asyncio.sleep(0)

    async def run(self, is_heard: Callable[[], bool]) -> None:
        """Prove while somebody listens, until cancelled."""
        while True:
            await asyncio.sleep(PROOF_SECONDS)
            if is_heard():
                self.prove_some()
