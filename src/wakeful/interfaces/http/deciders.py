"""Who may decide: adopt, release, and the daemon's end are a person's, so a supervised agent is refused.

An agent has its user's rights and can read the token; what gives it away is where the question comes from. The
caller's process is known at the Unix socket, and for loopback TCP it is looked up by the connection.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, cast

from litestar import Request

from wakeful.domain.errors import OperatorError
from wakeful.domain.ids import SessionId
from wakeful.interfaces.http.asgi import PEER, Scope

Address = tuple[str, int]


class AgentMayNotDecide(OperatorError):
    """This asks from inside the supervised session {session}. Decisions are for people: run the command outside of it."""

    code = "agent-may-not-decide"
    http_status = 403
    exit_code = 1


class Deciders:
    """Tells people's callers from agents'."""

    def __init__(
        self,
        supervised: Callable[[Sequence[int]], SessionId | None],
        tcp_callers: Callable[[Address, Address], Sequence[int]],
    ) -> None:
        self._supervised = supervised
        self._tcp_callers = tcp_callers

    async def admit(self, request: Request[Any, Any, Any]) -> None:
        """Let a person's question pass. Raises AgentMayNotDecide."""
        session = await self.session_of(request)
        if session is not None:
            raise AgentMayNotDecide(session=session)

    async def session_of(self, request: Request[Any, Any, Any]) -> SessionId | None:
        """The supervised session from inside of which this asks; None for people."""
        pids = await asyncio.to_thread(self._pids, cast("Scope", request.scope))
        return await asyncio.to_thread(self._supervised, pids)

    def _pids(self, scope: Scope) -> Sequence[int]:
        peer = scope.get(PEER)
        if peer is not None:
            return (peer.pid,) if peer.pid > 0 else ()
        client, server = scope.get("client"), scope.get("server")
        return self._tcp_callers(tuple(client), tuple(server)) if client and server else ()
