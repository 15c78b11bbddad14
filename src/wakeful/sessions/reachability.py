"""Re-checks whether prompts can reach managed sessions as their records say.

There is no event for a connection that is lost or found again. So it is checked when a session is read, and
every few seconds while the feed has subscribers. A check costs a few file lookups, for managed sessions only.
"""

import asyncio
from typing import Final, Protocol

from wakeful.core.ids import SessionId
from wakeful.judging.findings import State
from wakeful.judging.wake_eligibility import Reachability
from wakeful.sessions.feed import Feed
from wakeful.sessions.session import TrackedSession
from wakeful.sessions.supervisor import Supervisor

# The feed reports a lost connection this late, if no more sessions are managed than are checked at once.
CHECK_SECONDS: Final = 5.0
# About 50 microseconds each: a thousandth of a core.
CHECKED_AT_ONCE_MAX: Final = 100


class ReachSource(Protocol):
    """Knows whether prompts reach a session. The supervisor's host is one."""

    def reach(self, session_id: SessionId) -> Reachability:
        """Whether Wakeful may act on a managed session, and whether a prompt would arrive there now."""


class ReachabilityChecker:
    """Compares reachability with the records, and judges sessions again where they differ."""

    def __init__(self, supervisor: Supervisor, source: ReachSource) -> None:
        self._supervisor = supervisor
        self._known = supervisor.known
        self._source = source
        self._due: list[TrackedSession] = []

    def check(self, session: TrackedSession) -> None:
        """Judge a session again if its reachability changed since it was judged."""
        record = session.record
        if record is None or not session.subject.is_managed:
            return
        reachability = self._source.reach(session.subject.id)
        was_lost = record.state is State.DETACHED
        is_lost = reachability.path_lost and (was_lost or record.state is State.IDLE)
        if (reachability.path_open, is_lost) == (record.attachable, was_lost):
            return
        self._supervisor.on_action(session.subject.id)
        while self._supervisor.judge_pending():
            pass

    def check_some(self) -> None:
        """Check the next CHECKED_AT_ONCE_MAX managed sessions, in turn."""
        self._due = self._due or list(self._known.managed)
        due, self._due = self._due[:CHECKED_AT_ONCE_MAX], self._due[CHECKED_AT_ONCE_MAX:]
        for session in due:
            self.check(session)

    async def check_all(self) -> None:
        for count, session in enumerate(list(self._known.managed), 1):
            self.check(session)
            if not count % CHECKED_AT_ONCE_MAX:
                await asyncio.sleep(0)

    async def run(self, feed: Feed) -> None:
        """Check while the feed has subscribers, until cancelled."""
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            if feed.has_subscribers:
                self.check_some()
