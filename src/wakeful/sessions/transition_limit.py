"""Limits how many transitions of one session are stored: a log that flaps must not fill the disk.

Each session may store a burst, and then one transition in an interval: the newest, with the number of those that
were left out before it. Pure; time comes in as an argument.
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
# Beyond this many, sessions with a full burst again are forgotten.
KNOWN_MAX: Final = 1000


class TransitionLimit:
    """Decides which transitions are stored now, and which one of a session waits."""

    def __init__(self) -> None:
        # When a session could store a whole burst again.
        self._full_at: dict[SessionId, float] = {}
        self._held: dict[SessionId, Transition] = {}
        self._forget_at = KNOWN_MAX

    @property
    def holds_any(self) -> bool:
        return bool(self._held)

    def admit(self, transitions: Iterable[Transition], now: float) -> list[Transition]:
        """The transitions to store now. Of the others, each session's newest waits, and the rest are counted."""
        admitted = []
        for each in transitions:
            held = self._held.pop(each.session_id, None)
            newest = each if held is None else replace(each, left_out=held.left_out + 1)
            if self._spend(each.session_id, now):
                admitted.append(newest)
            else:
                self._held[each.session_id] = newest
        return admitted

    def release(self, now: float) -> list[Transition]:
        """The waiting transitions that may be stored by now."""
        return [self._held.pop(each) for each in list(self._held) if self._spend(each, now)]

    def release_all(self) -> list[Transition]:
        """All waiting transitions, for the end of the writer."""
        held, self._held = self._held, {}
        return list(held.values())

    def _spend(self, session_id: SessionId, now: float) -> bool:
        full_at = max(self._full_at.get(session_id, now), now) + EVERY_SECONDS
        if full_at - now > BURST_MAX * EVERY_SECONDS:
            return False
        self._full_at[session_id] = full_at
        if len(self._full_at) > self._forget_at:
            self._full_at = {known: at for known, at in self._full_at.items() if at > now}
            self._forget_at = max(KNOWN_MAX, 2 * len(self._full_at))
        return True
