"""How fast we speak in one chat: one message or edit at a time, and not at all while Telegram wants rest.

Everybody who speaks in a chat shares its pace, whichever topic they are in. What is final goes before what is still
growing.
"""

from bisect import insort
from enum import IntEnum
from itertools import count
from math import inf
from typing import Final

from wakeful.core.clock import Clock

# Chats whose pace is remembered; beyond that those are forgotten where nobody speaks.
CHATS_MAX: Final = 1000


class Rank(IntEnum):
    """Who goes first."""

    FINAL = 0
    NEW = 1
    GROWING = 2


class ChatPace:
    """One chat's pace."""

    def __init__(self, clock: Clock, every_seconds: float) -> None:
        self._clock = clock
        self._every_seconds = every_seconds
        self._free_at = -inf
        self._resting_until = -inf
        self._line: list[tuple[Rank, int]] = []
        self._numbers = count()

    async def turn(self, rank: Rank) -> None:
        """Return when it is this one's turn to speak."""
        mine = (rank, next(self._numbers))
        insort(self._line, mine)
        try:
            while self._line[0] != mine or self._free_at > self._clock.now().awake:
                await self._clock.sleep_until(self._free_at)
            self._free_at = self._clock.now().awake + self._every_seconds
        finally:
            self._line.remove(mine)

    def rest(self, seconds: float) -> None:
        """Let nobody speak for so long."""
        self._resting_until = max(self._resting_until, self._clock.now().awake + seconds)
        self._free_at = max(self._free_at, self._resting_until)

    @property
    def is_resting(self) -> bool:
        return self._resting_until > self._clock.now().awake

    @property
    def is_idle(self) -> bool:
        return not self._line and self._free_at <= self._clock.now().awake


class Paces:
    """Every chat's pace."""

    def __init__(self, clock: Clock, every_seconds: float) -> None:
        self._clock = clock
        self._every_seconds = every_seconds
        self._paces: dict[int, ChatPace] = {}

    def of(self, chat_id: int) -> ChatPace:
        if chat_id not in self._paces and len(self._paces) >= CHATS_MAX:
            self._paces = {each: pace for each, pace in self._paces.items() if not pace.is_idle}
        return self._paces.setdefault(chat_id, ChatPace(self._clock, self._every_seconds))
