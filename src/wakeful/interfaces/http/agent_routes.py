"""Agents of the hub: who there is, how each stands, and orders to start, stop or restart one.

Whether an order is taken is decided by the hub's table; what it refuses is answered with 409.
"""

from collections.abc import Sequence
from typing import Final

from litestar.handlers import HTTPRouteHandler, get, post
from litestar.params import FromPath, JSONBody
from msgspec import Struct

from wakeful.domain.agents import AgentRecord
from wakeful.domain.calm import PauseRecord
from wakeful.interfaces.http.act_routes import CONFLICTS
from wakeful.interfaces.http.answers import Encoded, encoded
from wakeful.interfaces.http.session_routes import PROBLEMS
from wakeful.ports.runtime import Found
from wakeful.services.calm import Paused
from wakeful.services.hub import Hub

_ONE: Final = "/api/agents/{name:str}"


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

    def handlers(self) -> Sequence[HTTPRouteHandler]:
        return (
            get("/api/agents", responses=PROBLEMS, sync_to_thread=False)(self.agents),
            get(_ONE, responses=PROBLEMS, sync_to_thread=False)(self.agent),
            get(f"{_ONE}/attach", responses=PROBLEMS, sync_to_thread=False)(self.attach),
            post(f"{_ONE}/start", status_code=200, responses=CONFLICTS)(self.start),
            post(f"{_ONE}/stop", status_code=200, responses=CONFLICTS)(self.stop),
            post(f"{_ONE}/restart-session", status_code=200, responses=CONFLICTS)(self.restart_session),
        )

    def agents(self) -> Encoded[AgentList]:
        """Every agent."""
        return encoded(AgentList(self._hub.records, self._hub.found, self._paused()))

    def agent(self, name: FromPath[str]) -> Encoded[AgentRecord]:
        """One agent. `session_alive` is true only when that was seen."""
        return encoded(self._hub.record(name))

    def attach(self, name: FromPath[str]) -> Encoded[AttachCommand]:
        """The command that goes to its terminal."""
        return encoded(AttachCommand(self._hub.attach_argv(name), self._hub.program(name)))

    async def start(self, name: FromPath[str]) -> Encoded[AgentRecord]:
        """Start it, and answer once it is ready."""
        return encoded(await self._hub.orders.start(name))

    async def stop(self, name: FromPath[str], data: JSONBody[StopOrder]) -> Encoded[AgentRecord]:
        """End it and remove its container. In the middle of a turn only with `yes`."""
        return encoded(await self._hub.orders.stop(name, even_if_busy=data.yes))

    async def restart_session(self, name: FromPath[str]) -> Encoded[AgentRecord]:
        """A new session in the container of a stale agent, and answer once it is ready."""
        return encoded(await self._hub.orders.restart_session(name))
