"""Runs one turn step by step, from its placeholder to its answer.

Each step is stored before the next. A turn that is found after a crash continues where it stopped, and its
user gets exactly one final message.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Final

from msgspec import Struct

from wakeful.client.api import SessionsApi
from wakeful.client.errors import DaemonAway
from wakeful.control.turn_events import NO_COST, Ended
from wakeful.core.clock import Clock
from wakeful.core.errors import WakefulError
from wakeful.core.fault_points import fault_point
from wakeful.core.ids import SessionId
from wakeful.gateway.permissions import ChatQuestions
from wakeful.gateway.ports import ChatRefused
from wakeful.gateway.prompt_delivery import PromptDelivery
from wakeful.gateway.provider_guard import ProviderGuard
from wakeful.gateway.rules.errors import AUTH_REQUIRED, Fault, TimedOut
from wakeful.gateway.rules.messages import Buttons, ConversationKey
from wakeful.gateway.rules.turn import StopScope, Turn, TurnStage
from wakeful.gateway.turn_context import (
    AnswerFactory,
    AnswerFinishing,
    TurnContext,
    TurnLimits,
    TurnObserver,
)
from wakeful.gateway.turn_listener import (
    STOPPED_TEXT,
    AnswerJudge,
    SessionLost,
    TurnEnd,
    TurnListener,
    TurnStopped,
)
from wakeful.gateway.turn_store import TurnStore
from wakeful.gateway.withheld import show_button, withheld_text
from wakeful.storage.base import ActionOutcome

log = logging.getLogger("wakeful.gateway")

REFUSED: Final = "refused"
STOPPED: Final = "stopped"

OnConversationEnd = Callable[[ConversationKey, str], Awaitable[None]]
"""Ends the conversation of this key, and its session, if it has one."""


class TurnChecks(Struct, frozen=True):
    """Checks before and after a turn: may its provider be asked, and is the answer good."""

    guard: ProviderGuard
    judge: AnswerJudge


class TurnOutput(Struct, frozen=True):
    """Where the answer of a turn goes, and the observers of its end."""

    answers: AnswerFactory
    finish: AnswerFinishing
    observer: TurnObserver


class TurnRunner:
    """Runs turns to their end, any number at once, one of each conversation."""

    def __init__(
        self,
        *,
        clock: Clock,
        sessions: SessionsApi,
        turn_store: TurnStore,
        prompt_delivery: PromptDelivery,
        questions: ChatQuestions,
        checks: TurnChecks,
        output: TurnOutput,
        limits: TurnLimits,
    ) -> None:
        self._clock = clock
        self._sessions = sessions
        self._turn_store = turn_store
        self._prompt_delivery = prompt_delivery
        self._questions = questions
        self._guard = checks.guard
        self._judge = checks.judge
        self._answers = output.answers
        self._finish = output.finish
        self._observer = output.observer
        self._limits = limits
        self._contexts: dict[ConversationKey, TurnContext] = {}
        self._listeners: dict[ConversationKey, TurnListener] = {}
        self._proposed_at: dict[ConversationKey, float] = {}

    def begin(self, turn: Turn) -> TurnContext:
        """From now on `stop` finds this turn, until `finish` is called."""
        context = self._contexts[turn.key] = TurnContext(turn, self._turn_store, self._answers)
        return context

    def finish(self, key: ConversationKey) -> None:
        """The turn of this key is over."""
        self._contexts.pop(key, None)

    async def run(
        self, context: TurnContext, on_conversation_end: OnConversationEnd, *, is_begun: bool = False
    ) -> None:
        """Run a turn to its end. `is_begun`: an earlier run began it."""
        since = self._clock.now().awake
        key = context.turn.key
        fault: Fault | None = None
        try:
            fault = await self._run_steps(context, on_conversation_end, is_begun=is_begun)
        except ChatRefused as refused:
            # The chat takes no messages: the bot was removed, or a person deletes its messages.
            log.warning("%s cannot be answered: %s", key, refused)
            await _close(context, on_conversation_end, TurnStage.FAILED)
        finally:
            self._listeners.pop(key, None)
        turn = context.turn
        log.info("turn %d of %s: %s %s", turn.update_id, key, turn.stage, turn.fault)
        await self._observer.on_turn_end(turn, fault, self._clock.now().awake - since)

    async def stop(self, key: ConversationKey, cut: StopScope = StopScope.TURN) -> None:
        """Interrupt the turn of this key at any stage; a crash does not bring it back."""
        context, listener = self._contexts.get(key), self._listeners.get(key)
        if context is None:
            return
        await context.save(cut=cut)
        fault_point("turn.cut")
        if listener is not None:
            await self._stop_listener(listener)

    async def replace_process(self, key: ConversationKey) -> bool:
        """End the process of the running turn, which the healer continues in another one. False: it was not ended.

        It counts as a crash: a stop would end the turn, too. The daemon decides: it leaves alone what it could not
        bring back by itself.
        """
        listener = self._listeners.get(key)
        if listener is None:
            return False
        session_id = listener.session_id
        reply = await self._sessions.end_runaway(session_id)
        if reply.outcome is not ActionOutcome.CONFIRMED:
            log.info("the process of %s was not ended: %s", session_id, reply.words)
            return False
        log.warning("the process of %s ended during its turn; healing resumes it", session_id)
        return True

    async def replacement_of(self, key: ConversationKey, session_id: str) -> SessionId | None:
        """The session that a healer started as a replacement for this one."""
        return await self._prompt_delivery.replacement_of(key, session_id)

    def session_of(self, key: ConversationKey) -> str:
        """The session of the running turn of this key; empty if there is none yet."""
        context = self._contexts.get(key)
        return context.turn.session_id if context is not None else ""

    def is_starting(self, key: ConversationKey) -> bool:
        """Whether the turn of this key is being given to a session that has no id yet."""
        context = self._contexts.get(key)
        return context is not None and context.turn.stage is TurnStage.ASKING and not context.turn.session_id

    def is_active_within(self, key: ConversationKey, seconds: float) -> bool:
        """Whether a turn runs there that had an event within this time."""
        listener = self._listeners.get(key)
        return listener is not None and self._clock.now().awake - listener.last_event_at < seconds

    def forget(self, key: ConversationKey) -> None:
        """Forget the answers of a conversation that is over."""
        self._judge.forget(key)

    async def _run_steps(
        self, context: TurnContext, on_conversation_end: OnConversationEnd, *, is_begun: bool
    ) -> Fault | None:
        fault: Fault | None = None
        if context.turn.stage is not TurnStage.ANSWERING:
            await context.answer.send_placeholder(context.turn.message_id)
            async with context.answer.writing():
                fault = await self._produce_answer(context, is_begun=is_begun)
        text: str = context.turn.text
        buttons: Buttons = ()
        if not context.turn.fault:
            text, buttons = await self._finish.carry_out(context.turn)
        elif context.turn.withheld:
            buttons = show_button(context.turn)
        await context.answer.finish(text, buttons)
        fault_point("turn.said")
        stage = TurnStage.FAILED if context.turn.fault else TurnStage.DONE
        await _close(context, on_conversation_end, stage)
        return fault

    async def _produce_answer(self, context: TurnContext, *, is_begun: bool) -> Fault | None:
        """Get the text to send, and store it; returns what went wrong."""
        turn = context.turn
        provider = turn.provider or self._prompt_delivery.provider_of(turn.key)
        chat_id = turn.place.chat_id
        if turn.stage is TurnStage.PLACED:
            # A refusal is no fault: the provider was not asked.
            refusal = STOPPED_TEXT if turn.cut else self._guard.refusal(provider, chat_id)
            if refusal is not None:
                await context.save_answer(refusal, REFUSED)
                return None
        since = self._guard.begin_request(provider, chat_id)
        end = await self._deliver_and_listen(context, is_begun=is_begun)
        fault_point("turn.heard")
        fault, text = self._judge.judge(context.turn, end)
        by_text = isinstance(end, Ended) and end.failure is None
        stopped = isinstance(end, TurnStopped)
        await self._guard.end_request(chat_id, provider, since, fault, stopped=stopped, by_text=by_text)
        if fault is not None and fault.pattern == AUTH_REQUIRED:
            text = self._guard.refusal(provider, chat_id) or text
        spent = end.spent if isinstance(end, Ended) else NO_COST
        pattern = fault.pattern if fault is not None else ""
        withheld = withheld_text(end, fault)
        await context.save_answer(text, STOPPED if stopped else pattern, spent, withheld)
        if isinstance(end, TimedOut):
            # A turn that was given up must not meet the next message.
            await self._interrupt(SessionId(context.turn.session_id))
        return fault

    async def _deliver_and_listen(self, context: TurnContext, *, is_begun: bool) -> TurnEnd:
        if context.turn.stage is TurnStage.ASKED:
            if is_begun and await self._is_lost(context.turn):
                await self._questions.on_turn_end(context.turn.session_id)
                return TurnStopped("") if context.turn.cut else SessionLost()
        elif (not_begun := await self._prompt_delivery.deliver(context)) is not None:
            log.warning("%s did not get its message: %s", context.turn.key, not_begun.words)
            return TurnStopped("") if context.turn.cut else not_begun
        turn = context.turn
        listener = TurnListener(
            turn=turn,
            key=self._turn_store.key_of(turn),
            sessions=self._sessions,
            clock=self._clock,
            questions=self._questions,
            limits=self._limits,
            grow=context.answer.grow,
            may_propose=lambda: self._may_propose(turn.key),
        )
        self._listeners[turn.key] = listener
        if context.turn.cut:
            await self._stop_listener(listener)
        return await listener.listen()

    async def _is_lost(self, turn: Turn) -> bool:
        try:
            return await self._sessions.summary(SessionId(turn.session_id)) is None
        except DaemonAway:
            return False

    async def _stop_listener(self, listener: TurnListener) -> None:
        listener.stop()
        await self._interrupt(listener.session_id)

    async def _interrupt(self, session_id: SessionId) -> None:
        try:
            answered = await self._sessions.interrupt(session_id)
            log.info("%s was interrupted: %s", session_id, answered.words)
        except WakefulError as problem:
            log.warning("%s could not be interrupted: %s", session_id, problem)

    def _may_propose(self, key: ConversationKey) -> bool:
        now, last = self._clock.now().awake, self._proposed_at.get(key)
        if last is not None and now - last < self._limits.proposal_cooldown:
            return False
        self._proposed_at[key] = now
        return True


async def _close(context: TurnContext, on_conversation_end: OnConversationEnd, stage: TurnStage) -> None:
    if context.turn.cut is StopScope.CONVERSATION:
        # The turn may have started a session after its user ended the conversation.
        await on_conversation_end(context.turn.key, context.turn.session_id)
    await context.save(stage=stage)
