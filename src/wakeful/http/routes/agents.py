"""Routes for agents: list, start, stop, restart, attach, and waking them.

The hub decides about orders; a refused order is a 409. A refused wake is an answer with its reason, not an error.
"""

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Struct

from wakeful.agents.hub import Hub
from wakeful.agents.model import AgentRecord
from wakeful.agents.runtime import Found
from wakeful.alerts.mute_pause import Paused
from wakeful.alerts.mute_pause_model import PauseRecord
from wakeful.core.answer import Answer
from wakeful.heartbeat.model import HeartbeatStatus, WakeAnswer, WakeOutcome
from wakeful.heartbeat.service import WakeService
from wakeful.http.caller import Deciders
from wakeful.http.responses import Encoded, encoded
from wakeful.http.routes.control import CONFLICTS
from wakeful.http.routing import Request, Route, get, post

_ONE: Final = "/api/agents/{name}"


class AgentList(Struct, frozen=True):
    """Every declared agent, and what else looks like one: `found` is reported and never touched.

    `paused` says who stopped everything Wakeful would do by itself, if somebody did.
    """

    agents: tuple[AgentRecord, ...]
    found: tuple[Found, ...]
    paused: PauseRecord | None


class AttachCommand(Struct, frozen=True):
    """The words that hand a terminal to an agent's tmux session, and the program that runs there."""

    argv: tuple[str, ...]
    program: str


class StopOrder(Struct, frozen=True, forbid_unknown_fields=True):
    """`yes`: also in the middle of a turn."""

    yes: bool = False


class AgentRoutes:
    """The hub's doors."""

    def __init__(self, hub: Hub, paused: Paused) -> None:
        self._hub = hub
        self._paused = paused

    def routes(self) -> Sequence[Route]:
        restart = f"{_ONE}/restart-session"
        return (
            get("/api/agents", self.agents, AgentList),
            get(_ONE, self.agent, AgentRecord),
            get(f"{_ONE}/attach", self.attach, AttachCommand),
            post(f"{_ONE}/start", self.start, AgentRecord, problems=CONFLICTS),
            post(f"{_ONE}/stop", self.stop, AgentRecord, body=StopOrder, problems=CONFLICTS),
            post(restart, self.restart_session, AgentRecord, problems=CONFLICTS),
        )

    async def agents(self, _request: Request[None]) -> Encoded[AgentList]:
        """Every agent."""
        return encoded(AgentList(self._hub.records, self._hub.found, self._paused()))

    async def agent(self, request: Request[None]) -> Encoded[AgentRecord]:
        """One agent. `session_alive` is true only when that was seen."""
        return encoded(self._hub.record(request.id))

    async def attach(self, request: Request[None]) -> Encoded[AttachCommand]:
        """The command that goes to its terminal."""
        return encoded(AttachCommand(self._hub.attach_argv(request.id), self._hub.program(request.id)))

    async def start(self, request: Request[None]) -> Encoded[AgentRecord]:
        """Start it, and answer once it is ready."""
        return encoded(await self._hub.orders.start(request.id))

    async def stop(self, request: Request[StopOrder]) -> Encoded[AgentRecord]:
        """End it and remove its container. In the middle of a turn only with `yes`."""
        return encoded(await self._hub.orders.stop(request.id, even_if_busy=request.input.yes))

    async def restart_session(self, request: Request[None]) -> Encoded[AgentRecord]:
        """A new session in the container of a stale agent, and answer once it is ready."""
        return encoded(await self._hub.orders.restart_session(request.id))


_HEARTBEAT: Final = "/api/agents/{name}/heartbeat"


class WakeOrder(Struct, frozen=True, forbid_unknown_fields=True):
    """Nothing can be said with it: what a wake says comes from HEARTBEAT.md."""


class HeartbeatRoutes:
    """The wake service's doors."""

    def __init__(self, wakes: WakeService, deciders: Deciders) -> None:
        self._wakes = wakes
        self._deciders = deciders

    def routes(self) -> Sequence[Route]:
        return (
            get(f"{_HEARTBEAT}/status", self.status, HeartbeatStatus),
            post(f"{_HEARTBEAT}/wake", self.wake, WakeAnswer, body=WakeOrder),
        )

    async def status(self, request: Request[None]) -> Encoded[HeartbeatStatus]:
        """Whether an agent may be woken now, by which policy, and what was last decided."""
        return encoded(await self._wakes.status(request.id))

    async def wake(self, request: Request[WakeOrder]) -> Encoded[WakeAnswer]:
        """Wake an agent, or say with one reason why not. An agent does not wake itself."""
        answer = await self._wakes.wake(request.id, caller=lambda: self._deciders.session_of(request.scope))
        return Encoded(Answer(msgspec.json.encode(answer), int(answer.outcome is not WakeOutcome.SENT)))
