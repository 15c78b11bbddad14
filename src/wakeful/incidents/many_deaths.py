"""Detects that many sessions end at once, so that they become one incident instead of one each."""

from bisect import bisect_left, bisect_right
from typing import Final

from wakeful.core.ids import SessionId

# A person who closes windows manually is slower than this.
MANY_MIN: Final = 20
AT_ONCE_SECONDS: Final = 10.0
# The incident of an older death is open already.
RETENTION_SECONDS: Final = 3600.0


class DeathCounter:
    """Stores when each session was first seen dead, by the clock that stops during suspend."""

    def __init__(self) -> None:
        self._known: dict[SessionId, tuple[float, float]] = {}
        self._times: list[float] = []

    def on_death(self, session_id: SessionId, since: float, awake: float) -> None:
        """`since` identifies the death: each death counts once, however often it is judged."""
        known = self._known.get(session_id)
        if known is not None and known[0] == since:
            return
        self._forget(awake - RETENTION_SECONDS)
        self._known[session_id] = (since, awake)
        self._times.append(awake)

    def died_with_many(self, session_id: SessionId) -> bool:
        known = self._known.get(session_id)
        if known is None:
            return False
        first = bisect_left(self._times, known[1] - AT_ONCE_SECONDS)
        return bisect_right(self._times, known[1] + AT_ONCE_SECONDS) - first >= MANY_MIN

    def _forget(self, before: float) -> None:
        if self._times and self._times[0] < before:
            self._times = self._times[bisect_left(self._times, before) :]
            self._known = {key: known for key, known in self._known.items() if known[1] >= before}
