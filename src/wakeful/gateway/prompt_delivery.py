"""Delivers a turn's prompt to the session of its conversation.

That is the current session, resumed if it ended, or a new one. Every request carries the turn's idempotency
key, so that a lost answer is asked for again and nothing happens twice.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from msgspec.structs import replace

from wakeful.client.api import ActionReply, SessionsApi, Workspace
from wakeful.client.errors import DaemonAway, DaemonRefused
from wakeful.core.clock import Clock
from wakeful.core.fault_points import fault_point
from wakeful.core.ids import SessionId
from wakeful.gateway.rules.errors import NotBegun
from wakeful.gateway.rules.messages import ConversationKey
from wakeful.gateway.rules.turn import StopScope, Turn, TurnStage
from wakeful.gateway.turn_context import TurnContext, TurnLimits, WorkspaceFor
from wakeful.gateway.turn_store import Conversations, TurnStore
from wakeful.storage.base import ActionOutcome

# The daemon's reasons why a conversation cannot continue: its message starts a new one.
CANNOT_CONTINUE: Final = frozenset(
    {"session-not-found", "not-managed", "conversation-unknown", "cannot-resume"}
)
# In these states a prompt without a confirmed delivery is being worked on.
AT_WORK: Final = frozenset({"prompting", "waiting"})

log = logging.getLogger("wakeful.gateway")
T = TypeVar("T")


class PromptDelivery:
    def __init__(
        self,
        *,
        sessions: SessionsApi,
        clock: Clock,
        turn_store: TurnStore,
        conversations: Conversations,
        workspace_for: WorkspaceFor,
        limits: TurnLimits,
    ) -> None:
        self._sessions = sessions
        self._clock = clock
        self._turn_store = turn_store
        self._conversations = conversations
        self._workspace_for = workspace_for
        self._limits = limits

    def provider_of(self, key: ConversationKey) -> str:
        return self._workspace_for(key).provider

    async def deliver(self, context: TurnContext) -> NotBegun | None:
        """Give the prompt to the session of its conversation; returns why that failed, else None."""
        key = context.turn.key
        workspace = self._workspace_for(key)
        try:
            if context.turn.stage is TurnStage.PLACED:
                session_id = await self._session_of(key, workspace)
                await context.save(stage=TurnStage.ASKING, provider=workspace.provider, session_id=session_id)
            answered = await self._send_or_start(context, workspace)
            if _cannot_continue(answered) and not context.turn.cut:
                # The old conversation is lost; its user still wants an answer.
                log.warning("%s cannot resume %s: new conversation", key, context.turn.session_id)
                await context.save(session_id="")
                answered = await self._send_or_start(context, workspace)
        except DaemonAway as problem:
            return NotBegun(str(problem))
        fault_point("turn.given")
        return await self._save_result(context, workspace, answered)

    async def replacement_of(self, key: ConversationKey, session_id: str) -> SessionId | None:
        """The session that a healer started as a replacement for this one."""
        name = self._workspace_for(key).name
        replacement = await self._sessions.find_by_name(name) if name else None
        return None if replacement == session_id else replacement

    async def _session_of(self, key: ConversationKey, workspace: Workspace) -> str:
        """The session of a key, if it matches the configuration. Else it is ended: its permissions may differ."""
        known = self._conversations.get(key)
        if known is None or not known.session_id or known.held_as == workspace.fingerprint:
            return known.session_id if known is not None else ""
        log.warning("%s: new conversation, because its provider, folder or permissions changed", key)
        session_id = SessionId(known.session_id)
        try:
            await self._retry_while_away(lambda: self._sessions.stop(session_id, by_itself=True))
        except DaemonRefused as refused:
            log.info("%s could not be ended: %s", session_id, refused)
        return ""

    async def _send_or_start(self, context: TurnContext, workspace: Workspace) -> ActionReply | DaemonRefused:
        turn = context.turn
        try:
            if not turn.session_id:
                return await self._retry_while_away(
                    lambda: self._sessions.start(workspace, turn.prompt, self._turn_store.key_of(turn))
                )
            answered = await self._send(turn)
            if answered.outcome is not ActionOutcome.DECLINED or context.turn.cut:
                return answered
            # Its process is gone: evicted, lost while idle, or replaced by the healer.
            session_id = SessionId(turn.session_id)
            replacement = await self._retry_while_away(lambda: self.replacement_of(turn.key, session_id))
            if replacement is not None:
                log.warning("%s continues with %s; %s was replaced", turn.key, replacement, session_id)
                return await self._send(replace(turn, session_id=replacement))
            await self._retry_while_away(lambda: self._sessions.resume(session_id, workspace.environ))
            return await self._send(turn)
        except DaemonRefused as refused:
            return refused

    async def _send(self, turn: Turn) -> ActionReply:
        key = self._turn_store.key_of(turn)
        return await self._retry_while_away(
            lambda: self._sessions.send(SessionId(turn.session_id), turn.prompt, key)
        )

    async def _save_result(
        self, context: TurnContext, workspace: Workspace, answered: ActionReply | DaemonRefused
    ) -> NotBegun | None:
        turn = context.turn
        if isinstance(answered, DaemonRefused):
            return NotBegun(str(answered))
        session_id = answered.session_id or turn.session_id
        if answered.outcome is ActionOutcome.DECLINED:
            return NotBegun(answered.words)
        if not session_id:
            # A start that named no session: there is nothing to check.
            return NotBegun(answered.words, is_sure=answered.outcome is not ActionOutcome.UNVERIFIED)
        if turn.cut is not StopScope.CONVERSATION:
            await self._conversations.assign_session(turn.key, workspace, session_id)
        if answered.outcome is ActionOutcome.UNVERIFIED and not await self._is_at_work(session_id):
            return NotBegun(answered.words, is_sure=False)
        # The turn itself may say why there was no effect, such as a refused login.
        doubt = answered.words if answered.outcome is ActionOutcome.INEFFECTIVE else ""
        await context.save(stage=TurnStage.ASKED, session_id=session_id, doubt=doubt, epoch=answered.epoch)
        return None

    async def _is_at_work(self, session_id: str) -> bool:
        summary = await self._retry_while_away(lambda: self._sessions.summary(SessionId(session_id)))
        return summary is not None and summary.state in AT_WORK

    async def _retry_while_away(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask a daemon that may be away for a while. Raises its refusals, and DaemonAway in the end."""
        until = self._clock.now().awake + self._limits.away
        while True:
            try:
                return await ask()
            except DaemonAway as problem:
                if self._clock.now().awake >= until:
                    raise
                log.info("retry in %g s: %s", self._limits.retry, problem)
                await self._clock.sleep(self._limits.retry)


def _cannot_continue(answered: ActionReply | DaemonRefused) -> bool:
    return isinstance(answered, DaemonRefused) and answered.reason in CANNOT_CONTINUE
