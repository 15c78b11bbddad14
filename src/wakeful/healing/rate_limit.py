"""Limits how fast sessions are resumed, and sends one session first as a probe in an outage.

Fifty agents that start at once overload the host they return to. So resumes follow one at a time after a
burst, and stop for a while when the given-up ones of the last ten minutes exceed a fifth of the resumed ones.
In an outage one session is resumed and the others wait for its reply: a task has one resume, and it would be
lost. The probe is in memory only; after a restart another session becomes the probe.
"""

import asyncio
from collections import deque
from typing import Final

from msgspec import Struct

from wakeful.core.clock import Clock
from wakeful.core.ids import SessionId
from wakeful.healing.trouble import is_answered
from wakeful.incidents.model import Cause, Origin
from wakeful.sessions.registry import Roster

# The brake: more than a fifth given up within ten minutes.
BRAKE_SECONDS: Final = 600.0
BRAKE_SHARE: Final = 0.2
# Below this many a share means nothing.
BRAKE_ENDS_MIN: Final = 5


class Pace:
    """A bucket of tokens, refilled by time, with a brake."""

    def __init__(self, clock: Clock, every_seconds: float, burst: int) -> None:
        self._clock = clock
        self._every_seconds = every_seconds
        self._burst = burst
        self._in_line = asyncio.Lock()
        # When the bucket would be full again, if nobody took anything more.
        self._full_at = 0.0
        self._ends: deque[tuple[float, bool]] = deque()

    async def turn(self) -> None:
        """Return when it is this one's turn; first come, first served."""
        async with self._in_line:
            now = self._clock.now().awake
            full_at = max(self._full_at, now) + self._every_seconds
            free_at = full_at - self._burst * self._every_seconds
            if free_at > now:
                await self._clock.sleep_until(free_at)
            self._full_at = full_at

    def ended(self, *, gave_up: bool) -> None:
        """One was brought back; or one that was before is given up."""
        self._ends.append((self._clock.now().awake, gave_up))

    @property
    def braked_seconds(self) -> float:
        """For how long nothing more should be revived; 0 while most come back."""
        now = self._clock.now().awake
        while self._ends and now - self._ends[0][0] > BRAKE_SECONDS:
            self._ends.popleft()
        failed = [at for at, gave_up in self._ends if gave_up]
        revived = len(self._ends) - len(failed)
        if len(self._ends) < BRAKE_ENDS_MIN or len(failed) <= BRAKE_SHARE * revived:
            return 0.0
        return failed[0] + BRAKE_SECONDS - now


# What a session can do nothing about, and what one of them finds out for all.
OUTAGES: Final = frozenset({Cause.NETWORK, Cause.PROVIDER_OUTAGE})
LOOK_SECONDS: Final = 15.0


class Road(Struct):
    """What is known of one outage. Who went ahead may not have been answered yet."""

    ahead: SessionId | None = None
    answered: bool = False
    closed_until: float = 0.0


class Scouts:
    """Asked before a revival is spent."""

    def __init__(self, clock: Clock, roster: Roster) -> None:
        self._clock = clock
        self._roster = roster
        self._roads: dict[str, Road] = {}

    def wait_seconds(self, session_id: SessionId, origin: Origin) -> float:
        """0: it may go, perhaps as the first; else when to ask again."""
        if origin.cause not in OUTAGES:
            return 0.0
        road = self._roads.setdefault(origin.key, Road())
        self._look_out(road)
        if road.answered or road.ahead == session_id:
            return 0.0
        if road.ahead is not None:
            return LOOK_SECONDS
        rest_seconds = road.closed_until - self._clock.now().awake
        if rest_seconds <= 0:
            road.ahead = session_id
        return max(rest_seconds, 0.0)

    def came_to_nothing(self, session_id: SessionId) -> None:
        """It was not revived after all: another one may go."""
        for road in self._roads.values():
            if road.ahead == session_id:
                road.ahead = None

    def given_up(self, session_id: SessionId, origin: Origin) -> None:
        """It went and failed: nobody follows for a while."""
        failed = [each for each in self._roads.values() if each.ahead == session_id]
        failed += [road] if (road := self._roads.get(origin.key)) is not None else []
        for each in failed:
            each.ahead, each.answered = None, False
            each.closed_until = self._clock.now().awake + BRAKE_SECONDS

    def over(self, origin: Origin) -> None:
        """Nobody suffers from it any more."""
        self._roads.pop(origin.key, None)

    def _look_out(self, road: Road) -> None:
        if road.ahead is None or road.answered:
            return
        watched = self._roster.watched.get(road.ahead)
        if watched is None or watched.presence.stopped:
            road.ahead = None
        else:
            road.answered = is_answered(watched.activity)
