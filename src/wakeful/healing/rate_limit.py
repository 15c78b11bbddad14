"""Limits how fast sessions are resumed, and sends one session first as a probe in an outage.

Fifty agents that start at once overload the host they return to. So resumes follow one at a time after a
burst. They stop for a while when the given-up sessions of the last ten minutes exceed a fifth of the resumed
ones. In an outage one session is resumed and the others wait for its reply: a task has one resume, and it would be
lost. The probe is in memory only; after a restart another session becomes the probe.
"""

import asyncio
from collections import deque
from typing import Final

from msgspec import Struct

from wakeful.core.clock import Clock
from wakeful.core.ids import SessionId
from wakeful.healing.case import is_answered
from wakeful.incidents.model import Cause, Origin
from wakeful.sessions.registry import SessionRegistry

# The breaker opens if more than a fifth were given up within ten minutes.
BREAKER_SECONDS: Final = 600.0
BREAKER_SHARE: Final = 0.2
# Below this many a share means nothing.
BREAKER_RESULTS_MIN: Final = 5


class RevivalLimiter:
    """A token bucket, refilled by time, with a circuit breaker."""

    def __init__(self, clock: Clock, every_seconds: float, burst: int) -> None:
        self._clock = clock
        self._every_seconds = every_seconds
        self._burst = burst
        self._lock = asyncio.Lock()
        # When the bucket would be full again, if nothing more were taken.
        self._full_at = 0.0
        self._results: deque[tuple[float, bool]] = deque()

    def set_pace(self, every_seconds: float, burst: int) -> None:
        """The configuration has changed."""
        self._every_seconds, self._burst = every_seconds, burst

    async def acquire(self) -> None:
        """Wait for a token; first come, first served."""
        async with self._lock:
            now = self._clock.now().awake
            full_at = max(self._full_at, now) + self._every_seconds
            free_at = full_at - self._burst * self._every_seconds
            if free_at > now:
                await self._clock.sleep_until(free_at)
            self._full_at = full_at

    def record_result(self, *, gave_up: bool) -> None:
        """Count a session that was resumed, or one that was given up after its resume."""
        self._results.append((self._clock.now().awake, gave_up))

    @property
    def breaker_seconds(self) -> float:
        """For how long no session should be resumed; 0 while most come back."""
        now = self._clock.now().awake
        while self._results and now - self._results[0][0] > BREAKER_SECONDS:
            self._results.popleft()
        failed = [at for at, gave_up in self._results if gave_up]
        revived = len(self._results) - len(failed)
        if len(self._results) < BREAKER_RESULTS_MIN or len(failed) <= BREAKER_SHARE * revived:
            return 0.0
        return failed[0] + BREAKER_SECONDS - now


# Causes that no session can change. One session can test for all whether they are over.
OUTAGES: Final = frozenset({Cause.NETWORK, Cause.PROVIDER_OUTAGE})
CHECK_SECONDS: Final = 15.0


class ProbeState(Struct):
    """The state of one outage. The probe may not have a reply yet."""

    probe_session: SessionId | None = None
    is_answered: bool = False
    closed_until: float = 0.0


class OutageProbe:
    def __init__(self, clock: Clock, registry: SessionRegistry) -> None:
        self._clock = clock
        self._registry = registry
        self._probes: dict[str, ProbeState] = {}

    def wait_seconds(self, session_id: SessionId, origin: Origin) -> float:
        """How long a session has to wait before its resume; 0: none, and it may be the probe."""
        if origin.cause not in OUTAGES:
            return 0.0
        probe = self._probes.setdefault(origin.key, ProbeState())
        self._check_probe(probe)
        if probe.is_answered or probe.probe_session == session_id:
            return 0.0
        if probe.probe_session is not None:
            return CHECK_SECONDS
        closed_seconds = probe.closed_until - self._clock.now().awake
        if closed_seconds <= 0:
            probe.probe_session = session_id
        return max(closed_seconds, 0.0)

    def on_not_revived(self, session_id: SessionId) -> None:
        """A session was not resumed: another one may become the probe."""
        for probe in self._probes.values():
            if probe.probe_session == session_id:
                probe.probe_session = None

    def on_given_up(self, session_id: SessionId, origin: Origin) -> None:
        """A resumed session failed: no other one follows for a while."""
        failed = [each for each in self._probes.values() if each.probe_session == session_id]
        failed += [probe] if (probe := self._probes.get(origin.key)) is not None else []
        for each in failed:
            each.probe_session, each.is_answered = None, False
            each.closed_until = self._clock.now().awake + BREAKER_SECONDS

    def on_resolved(self, origin: Origin) -> None:
        self._probes.pop(origin.key, None)

    def _check_probe(self, probe: ProbeState) -> None:
        if probe.probe_session is None or probe.is_answered:
            return
        session = self._registry.sessions.get(probe.probe_session)
        if session is None or session.presence.stopped:
            probe.probe_session = None
        else:
            probe.is_answered = is_answered(session.activity)
