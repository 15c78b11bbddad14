"""Everybody who wants to know how turns end, behind one door."""

from collections.abc import Awaitable, Callable

from wakeful.domain.gateway.classifier import Fault
from wakeful.domain.gateway.turn import Turn

Ended = Callable[[Turn, Fault | None, float], Awaitable[None]]
"""Told of a turn, how it failed if it did, and how many seconds it took."""


class Witnesses:
    """Implements needs.Witness."""

    def __init__(self, *told: Ended) -> None:
        self._told = told

    async def ended(self, turn: Turn, fault: Fault | None, seconds: float) -> None:
        for each in self._told:
            await each(turn, fault, seconds)
