"""Limits how many transitions are stored, of each session and of all together: logs that flap must not fill the disk.

Each session may store a burst, and then one transition in an interval: the newest, with the number of those that
were left out before it. All sessions share a second, larger budget. When that is spent, the session that stored
least is next. Pure; time comes in as an argument.
"""

from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from wakeful.core.ids import SessionId
from wakeful.storage.base import Transition

# Thirty turns in a row, however short. A flapping log made 18 changes a second, 1.4 kB each: 2 GB a day.
BURST_MAX: Final = 60
# Three turns a minute, for as long as they last: 12 MB a day at most.
EVERY_SECONDS: Final = 10.0
# All sessions together: the first look at 50,000 sessions, or 70 MB, and then 3 in a second, 360 MB a day.
# 150 logs that flapped all day stored 1.9 GB without it.
HOST_BURST_MAX: Final = 50_000
HOST_EVERY_SECONDS: Final = 1 / 3
# Beyond this many, sessions that have their whole burst again are forgotten.
KNOWN_MAX: Final = 1000


class TransitionLimit:
    """Decides which transitions are stored now, and which one of a session waits."""

    def __init__(self) -> None:
        # When a session could store a whole burst again.
        self._full_at: dict[SessionId, float] = {}
        self._waiting: dict[SessionId, Transition] = {}
        self._forget_at = KNOWN_MAX
        self._host_full_at = float("-inf")
        # While one waits for the budget of all, every other waits, too: the next is chosen among all of them.
        self._is_host_short = False

    @property
    def has_waiting(self) -> bool:
        return bool(self._waiting)

    def admit(self, transitions: Iterable[Transition], now: float) -> list[Transition]:
        """The transitions to store now. Of the others, the newest of each session waits, and the rest are counted."""
        admitted = []
        for each in transitions:
            earlier = self._waiting.pop(each.session_id, None)
            newest = each if earlier is None else replace(each, left_out=earlier.left_out + 1)
            if self._spend(each.session_id, now):
                admitted.append(newest)
            else:
                self._waiting[each.session_id] = newest
        return admitted

    def release(self, now: float) -> list[Transition]:
        """The waiting transitions that may be stored by now; first those of the sessions that stored least."""
        self._is_host_short = False
        waiting = sorted(self._waiting, key=lambda each: self._full_at.get(each, float("-inf")))
        return [self._waiting.pop(each) for each in waiting if self._spend(each, now)]

    def release_all(self) -> list[Transition]:
        """All waiting transitions, for the end of the writer."""
        waiting, self._waiting = self._waiting, {}
        self._is_host_short = False
        return list(waiting.values())

    def _spend(self, session_id: SessionId, now: float) -> bool:
        full_at = max(self._full_at.get(session_id, now), now) + EVERY_SECONDS
        if full_at - now > BURST_MAX * EVERY_SECONDS:
            return False
        host_full_at = max(self._host_full_at, now) + HOST_EVERY_SECONDS
        if self._is_host_short or host_full_at - now > HOST_BURST_MAX * HOST_EVERY_SECONDS:
            self._is_host_short = True
            return False
        self._host_full_at = host_full_at
        self._full_at[session_id] = full_at
        if len(self._full_at) > self._forget_at:
            self._full_at = {known: at for known, at in self._full_at.items() if at > now}
            self._forget_at = max(KNOWN_MAX, 2 * len(self._full_at))
        return True
