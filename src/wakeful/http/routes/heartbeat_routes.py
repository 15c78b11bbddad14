"""Waking agents: whether one may be woken, and an order to do it. Decided by the wake service, answered as it says.

A refusal is an answer, not an error: it has its reason, and a command that shows it ends with 1.
"""

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Struct

from wakeful.core.answer import Answer
from wakeful.heartbeat.model import HeartbeatStatus, WakeAnswer, WakeOutcome
from wakeful.heartbeat.wake import WakeService
from wakeful.http.answers import Encoded, encoded
from wakeful.http.caller import Deciders
from wakeful.http.routing import Request, Route, get, post

_ONE: Final = "/api/agents/{name}/heartbeat"


class WakeOrder(Struct, frozen=True, forbid_unknown_fields=True):
    """Nothing can be said with it: what a wake says comes from HEARTBEAT.md."""


class HeartbeatRoutes:
    """The wake service's doors."""

    def __init__(self, wakes: WakeService, deciders: Deciders) -> None:
        self._wakes = wakes
        self._deciders = deciders

    def routes(self) -> Sequence[Route]:
        return (
            get(f"{_ONE}/status", self.status, HeartbeatStatus),
            post(f"{_ONE}/wake", self.wake, WakeAnswer, body=WakeOrder),
        )

    async def status(self, request: Request[None]) -> Encoded[HeartbeatStatus]:
        """Whether an agent may be woken now, by which policy, and what was last decided."""
        return encoded(await self._wakes.status(request.id))

    async def wake(self, request: Request[WakeOrder]) -> Encoded[WakeAnswer]:
        """Wake an agent, or say with one reason why not. An agent does not wake itself."""
        answer = await self._wakes.wake(request.id, caller=lambda: self._deciders.session_of(request.scope))
        return Encoded(Answer(msgspec.json.encode(answer), int(answer.outcome is not WakeOutcome.SENT)))
