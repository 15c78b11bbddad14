"""Routes for agents: list, start, stop, restart, attach, and waking them.

The hub decides about orders; a refused order is a 409. A refused wake is an answer with its reason, not an error.
"""

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Struct

from wakeful.agents.hub import Hub
from wakeful.agents.model import AgentRecord
from wakeful.alerts.mute_pause import PauseQuery
from wakeful.core.query_result import QueryResult
from wakeful.heartbeat.model import HeartbeatStatus, WakeAnswer, WakeOutcome
from wakeful.heartbeat.service import WakeService
from wakeful.http.caller import CallerCheck
from wakeful.http.responses import EncodedResponse, encode_response
from wakeful.http.routes.control import CONFLICTS
from wakeful.http.routing import HttpRequest, Route, get, post
from wakeful.views.records import AgentList, AttachCommand

_AGENT_PATH: Final = "/api/agents/{name}"


class StopOrder(Struct, frozen=True, forbid_unknown_fields=True):
    """`yes`: even in the middle of a turn."""

    yes: bool = False


class AgentRoutes:
    def __init__(self, hub: Hub, paused: PauseQuery) -> None:
        self._hub = hub
        self._get_pause = paused

    def routes(self) -> Sequence[Route]:
        restart = f"{_AGENT_PATH}/restart-session"
        return (
            get("/api/agents", self.agents, AgentList),
            get(_AGENT_PATH, self.agent, AgentRecord),
            get(f"{_AGENT_PATH}/attach", self.attach, AttachCommand),
            post(f"{_AGENT_PATH}/start", self.start, AgentRecord, problems=CONFLICTS),
            post(f"{_AGENT_PATH}/stop", self.stop, AgentRecord, body=StopOrder, problems=CONFLICTS),
            post(restart, self.restart_session, AgentRecord, problems=CONFLICTS),
        )

    async def agents(self, _request: HttpRequest[None]) -> EncodedResponse[AgentList]:
        return encode_response(AgentList(self._hub.records, self._hub.undeclared, self._get_pause()))

    async def agent(self, request: HttpRequest[None]) -> EncodedResponse[AgentRecord]:
        """One agent. `session_alive` is true only if that was observed."""
        return encode_response(self._hub.record(request.id))

    async def attach(self, request: HttpRequest[None]) -> EncodedResponse[AttachCommand]:
        """The command that attaches to its terminal."""
        return encode_response(
            AttachCommand(self._hub.attach_argv(request.id), self._hub.program(request.id))
        )

    async def start(self, request: HttpRequest[None]) -> EncodedResponse[AgentRecord]:
        """Start it, and answer once it is ready."""
        return encode_response(await self._hub.commands.start(request.id))

    async def stop(self, request: HttpRequest[StopOrder]) -> EncodedResponse[AgentRecord]:
        """End it and remove its container. In the middle of a turn only with `yes`."""
        return encode_response(await self._hub.commands.stop(request.id, even_if_busy=request.input.yes))

    async def restart_session(self, request: HttpRequest[None]) -> EncodedResponse[AgentRecord]:
        """A new session in the container of a stale agent, and answer once it is ready."""
        return encode_response(await self._hub.commands.restart_session(request.id))


_HEARTBEAT_PATH: Final = "/api/agents/{name}/heartbeat"


class WakeOrder(Struct, frozen=True, forbid_unknown_fields=True):
    """It has no fields: the text of a wake comes from HEARTBEAT.md."""


class HeartbeatRoutes:
    def __init__(self, wakes: WakeService, callers: CallerCheck) -> None:
        self._wakes = wakes
        self._caller_check = callers

    def routes(self) -> Sequence[Route]:
        return (
            get(f"{_HEARTBEAT_PATH}/status", self.status, HeartbeatStatus),
            post(f"{_HEARTBEAT_PATH}/wake", self.wake, WakeAnswer, body=WakeOrder),
        )

    async def status(self, request: HttpRequest[None]) -> EncodedResponse[HeartbeatStatus]:
        """Whether an agent may be woken now, by which policy, and the last decision."""
        return encode_response(await self._wakes.status(request.id))

    async def wake(self, request: HttpRequest[WakeOrder]) -> EncodedResponse[WakeAnswer]:
        """Wake an agent, or answer with one reason why not. An agent cannot wake itself."""
        answer = await self._wakes.wake(
            request.id, caller=lambda: self._caller_check.caller_session(request.scope)
        )
        return EncodedResponse(
            QueryResult(msgspec.json.encode(answer), int(answer.outcome is not WakeOutcome.SENT))
        )
