"""Decides whether the process that sent a request may give orders: people may, agents only a few.

An agent has its user's rights and can read the token, so its place in the process tree decides. The kernel names the
process at the Unix socket; for loopback TCP it is looked up by the connection.
"""

import asyncio
import re
from collections.abc import Sequence
from enum import Enum
from typing import Any, Final, Protocol

from msgspec import Struct

from wakeful.core.errors import AgentMayNotDecide, OperatorError, WakefulError
from wakeful.core.ids import SessionId
from wakeful.core.process import ProcessGone
from wakeful.http.asgi import PEER, Scope

Address = tuple[str, int]
_SESSION_PATH: Final = r"/api/sessions/[^/]+"
# Requests that agents and programs around them need: a queue, leases, logins, and waking another agent, where
# the wake service decides which agent may.
_UNRESTRICTED_PATHS: Final = re.compile(
    rf"/api/(?:login|logout|work(?:/.*)?|agents/[^/]+/heartbeat/wake)\Z|{_SESSION_PATH}/(?:claim|renew|yield)\Z"
)
# These only make Wakeful do less.
_REDUCING_PATHS: Final = frozenset({"/api/shutdown", "/api/pause"})
# A yes or a no to a question of an agent or of Wakeful.
_APPROVAL_PATHS: Final = re.compile(
    rf"{_SESSION_PATH}/(?:answer|revive|restore)\Z|/api/checkpoints/[^/]+/(?:continue|rollback|abort)\Z|/api/lessons\Z"
)


class RequestClass(Enum):
    UNRESTRICTED = "open"
    REDUCING = "reducing"
    DECISION = "decision"
    APPROVAL = "approval"


def classify_path(path: str) -> RequestClass:
    """The class of a write request to this path. An unlisted path is a decision."""
    if _UNRESTRICTED_PATHS.match(path) is not None:
        return RequestClass.UNRESTRICTED
    if path in _REDUCING_PATHS:
        return RequestClass.REDUCING
    return RequestClass.APPROVAL if _APPROVAL_PATHS.match(path) is not None else RequestClass.DECISION


class CallerUnknown(OperatorError, code="caller-unseen", http_status=403, exit_code=1):
    """The calling process is unknown, and agents may not decide. Connect from this host and keep the connection open until the answer."""


class ApprovalOnlyInChat(OperatorError, code="only-in-chat", http_status=403, exit_code=1):
    """Approvals are allowed only in the chat (`gateway.approve_only_in_chat`). Approve it there."""


class RefusedDecision(Struct, frozen=True):
    """A refused decision: why, what was requested, by which processes, and from which session."""

    why: WakefulError
    path: str
    pids: tuple[int, ...]
    session: SessionId | None = None


class CallerContext(Protocol):
    """Facts about the processes that send requests. Only `on_refusal` is called in the loop."""

    def session_of(self, pids: Sequence[int], *, reduces: bool = False) -> SessionId | None:
        """The supervised session of one of these processes. Raises ProcessGone."""

    def tcp_callers(self, client: Address, server: Address) -> Sequence[int]:
        """The processes that hold this TCP connection."""

    def is_chat(self, pids: Sequence[int]) -> bool:
        """Whether this is the process of the chat gateway."""

    async def on_refusal(self, refusal: RefusedDecision) -> None:
        """A decision was refused."""


class CallerCheck:
    """Distinguishes people from agents."""

    def __init__(self, context: CallerContext, *, only_in_chat: bool = False) -> None:
        self._context = context
        self._only_in_chat = only_in_chat

    async def admit(self, scope: Scope) -> None:
        """Check that this caller may send the request. Raises AgentMayNotDecide, CallerUnknown, ApprovalOnlyInChat."""
        request_class, path = classify_path(scope["path"]), str(scope["path"])
        if request_class is RequestClass.UNRESTRICTED:
            return
        pids: Sequence[int] = ()
        session: SessionId | None = None
        try:
            pids = await asyncio.to_thread(self._caller_pids, scope)
            if await asyncio.to_thread(self._context.is_chat, pids):
                return
            session = await self._session_of_pids(pids, reduces=request_class is RequestClass.REDUCING)
            if session is not None:
                raise AgentMayNotDecide(session=session)
            if request_class is RequestClass.APPROVAL and self._only_in_chat:
                raise ApprovalOnlyInChat
        except OperatorError as why:
            await self._context.on_refusal(RefusedDecision(why, path, tuple(pids), session))
            raise

    async def caller_session(self, scope: Scope) -> SessionId | None:
        """The supervised session that the caller works for; None for people. Raises CallerUnknown."""
        return await self._session_of_pids(await asyncio.to_thread(self._caller_pids, scope))

    async def _session_of_pids(self, pids: Sequence[int], *, reduces: bool = False) -> SessionId | None:
        try:
            return await asyncio.to_thread(self._context.session_of, pids, reduces=reduces)
        except ProcessGone:
            raise CallerUnknown from None

    def _caller_pids(self, scope: Scope) -> Sequence[int]:
        """The processes that sent the request. Raises CallerUnknown."""
        peer, client, server = scope.get(PEER), scope.get("client"), scope.get("server")
        pids: Sequence[int] = ()
        if peer is not None:
            pids = (peer.pid,) if peer.pid > 0 else ()
        elif client and server:
            pids = self._context.tcp_callers(_address(client), _address(server))
        if not pids:
            raise CallerUnknown
        return pids


def _address(place: Any) -> Address:
    return place[0], place[1]
