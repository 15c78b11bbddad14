"""Follows one turn to its end, and judges whether its answer can be shown.

It shows the text as it grows and asks the turn's permission questions. Silence limits a turn, not age; an open
question adds the time that a person has to answer it. An end is either an answer or a failure with one sentence
for the user.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import aclosing
from typing import Final

from msgspec import Struct

from wakeful.client.api import SessionsApi
from wakeful.client.errors import DaemonAway, DaemonRefused
from wakeful.control.login import AuthTier, auth_tier
from wakeful.control.turn_events import (
    AnswerText,
    Ended,
    Gone,
    PermissionAsked,
    PermissionClosed,
    PromptTaken,
    PromptUnread,
    TurnEvent,
)
from wakeful.core.clock import Clock
from wakeful.core.errors import WakefulError
from wakeful.core.ids import SessionId
from wakeful.core.waiting import first_of, wait_for_event_or_deadline
from wakeful.gateway.permissions import ChatQuestions
from wakeful.gateway.prompt_delivery import CANNOT_CONTINUE
from wakeful.gateway.rules.errors import (
    AUTH_REQUIRED,
    Category,
    Fault,
    NotBegun,
    Reason,
    Rejected,
    TimedOut,
    classify,
    user_words,
)
from wakeful.gateway.rules.messages import ConversationKey
from wakeful.gateway.rules.tags import shown_so_far
from wakeful.gateway.rules.turn import Turn
from wakeful.gateway.rules.validation import Finish, Recent, validate, without_trace
from wakeful.gateway.turn_context import TurnLimits
from wakeful.storage.base import ActionOutcome

STOPPED_TEXT: Final = "Stopped."
NOT_BEGUN_TEXT: Final = "Your message did not reach the agent. Please try again in a moment."
UNSURE_TEXT: Final = (
    "It is unknown whether the agent got this message. Please check the result before you send it again."
)
GOES_ON_TEXT: Final = "The agent failed in the middle of this message and may go on with it. Please check the result before you send it again."
LOST_TEXT: Final = "This message was lost during a restart. Please send it again."
# Conversations whose last answers are remembered: many times the usual number of sessions.
KEYS_MAX: Final = 200
_FINISHES: Final = {"end_turn": Finish.COMPLETE, "max_tokens": Finish.CUT_SHORT}

log = logging.getLogger("wakeful.gateway")


class TurnStopped(Struct, frozen=True):
    """Its user stopped it, or another party interrupted it and it did not go on. `text`: its text until then."""

    text: str


class SessionLost(Struct, frozen=True):
    """Its session is unknown now."""


class LeftUnclear(Struct, frozen=True):
    """It failed with this end. It was continued, or may be, and its answer was not heard."""

    end: Ended | Gone


TurnEnd = Ended | Gone | TimedOut | NotBegun | TurnStopped | SessionLost | LeftUnclear


class AnswerJudge:
    """Remembers the last answers of every conversation: they show a loop."""

    def __init__(self) -> None:
        self._recent: dict[ConversationKey, Recent] = {}

    def judge(self, turn: Turn, end: TurnEnd) -> tuple[Fault | None, str]:
        """What failed, if anything, and the text to send, which contains nothing that a client says about a failure."""
        if isinstance(end, SessionLost):
            return Fault(Category.PROCESS_CRASH, Category.PROCESS_CRASH), LOST_TEXT
        if isinstance(end, TurnStopped):
            return None, f"{_partial_answer(end.text, turn.prompt)}\n\n{STOPPED_TEXT}".strip()
        if isinstance(end, LeftUnclear):
            return classify(end.end), GOES_ON_TEXT
        fault = classify(end)
        if fault is None and isinstance(end, Ended):
            fault = self._rejection(turn, end)
            if fault is None:
                return None, end.text
        assert fault is not None, "an end without an answer is a failure"
        if isinstance(end, NotBegun):
            return fault, NOT_BEGUN_TEXT if end.is_sure else UNSURE_TEXT
        return fault, user_words(fault)

    def forget(self, key: ConversationKey) -> None:
        """Forget the answers of a conversation that is over."""
        self._recent.pop(key, None)

    def _rejection(self, turn: Turn, end: Ended) -> Fault | None:
        recent = self._recent.pop(turn.key, Recent())
        self._recent[turn.key] = recent.after(turn.prompt, end.text)
        if len(self._recent) > KEYS_MAX:
            # A dict keeps its order: the first key is the one that was silent longest.
            del self._recent[next(iter(self._recent))]
        tier = auth_tier(end.text)
        if tier is AuthTier.SURE:
            return Fault(Category.UNKNOWN, AUTH_REQUIRED)
        finish = _FINISHES.get(end.stop_reason, Finish.UNSAID)
        reason = validate(end.text, asked=turn.prompt, recent=recent, finish=finish)
        if reason is None:
            return None
        log.warning("an answer of %s was rejected: %s", turn.session_id, reason)
        fault = classify(Rejected(reason))
        # An error about credentials: a restart does not help.
        return fault if fault is None or tier is None else Fault(fault.category, AUTH_REQUIRED)


def _partial_answer(text: str, asked: str) -> str:
    """An interrupted answer without its tags, which are not carried out, and without a client's error or a trace."""
    if auth_tier(text) is not None:
        return ""
    leaks = validate(text, asked=asked, finish=Finish.COMPLETE) is Reason.ERROR_LEAK
    return shown_so_far(without_trace(text) if leaks else text)


# An interrupted client reports that within 10 s, or never.
STOP_SECONDS_MAX: Final = 15.0
# If a doubtful prompt is in the client's log at all, it is there by now.
DOUBT_SECONDS_MAX: Final = 5.0


class TurnListener:
    """Listens to one turn."""

    def __init__(
        self,
        *,
        turn: Turn,
        key: str,
        sessions: SessionsApi,
        clock: Clock,
        questions: ChatQuestions,
        limits: TurnLimits,
        grow: Callable[[str], None],
        may_propose: Callable[[], bool],
    ) -> None:
        self._turn = turn
        self._key = key
        self._sessions = sessions
        self._clock = clock
        self._questions = questions
        self._limits = limits
        self._grow = grow
        self._may_propose = may_propose
        self.session_id = SessionId(turn.session_id)
        self._text = ""
        self.last_event_at = clock.now().awake
        self._last_event: TurnEvent | None = None
        self._wake = asyncio.Event()
        self._stopped_at: float | None = None

    def stop(self) -> None:
        """The user stopped the turn."""
        self._stopped_at = self._clock.now().awake
        self._wake.set()

    async def listen(self) -> TurnEnd:
        """Follow the turn to its end, and return that."""
        end = await first_of(self._read_events(), self._wait_for_limit())
        # Only now: if the gateway ends before, the questions stay open for the next one.
        await self._questions.on_turn_end(self.session_id)
        return end

    async def _read_events(self) -> TurnEnd:
        events = self._sessions.stream_turn(self._turn.provider, self.session_id, self._key, self._turn.epoch)
        async with aclosing(events) as stream:  # type: ignore[type-var]
            async for event in stream:
                self.last_event_at, self._last_event = self._clock.now().awake, event
                self._wake.set()
                await self._on_event(event)
                if isinstance(event, Ended) and event.is_final:
                    return event
                if isinstance(event, Ended | Gone | PromptUnread) and self._stopped_at is not None:
                    return TurnStopped(self._text)
                if isinstance(event, Ended) and event.failure is not None and await self._leave_to_user():
                    return event
                if isinstance(event, PromptUnread):
                    # A client may take a message into the running turn without reporting it.
                    return NotBegun("its process ended during other work", is_sure=False)
        return Gone("its events ended")

    async def _on_event(self, event: TurnEvent) -> None:
        match event:
            case PromptTaken():
                self._text = ""
            case AnswerText(text):
                self._text += text
                # A client's login error is never shown in the chat, not even while it is being written.
                if auth_tier(self._text) is None:
                    self._grow(without_trace(self._text))
            case PermissionAsked():
                await self._questions.ask(self._turn.place, self.session_id, event, self._turn.user_id)
            case PermissionClosed(question_id):
                await self._questions.on_answered(self.session_id, question_id)
            case Gone():
                log.warning("%s ended inside a turn: %s", self.session_id, event.last_words)
            case _:
                pass

    async def _wait_for_limit(self) -> TurnEnd:
        """Wait until the turn is over by its limits, and return its end."""
        while (until := self._deadline()) > self._clock.now().awake:
            self._wake.clear()
            await wait_for_event_or_deadline(self._clock, self._wake, until)
        last = self._last_event
        if isinstance(last, Ended) and last.failure is not None:
            # Without a stop, the daemon did not leave it to the user.
            return LeftUnclear(last) if self._stopped_at is None else TurnStopped(self._text)
        if self._stopped_at is not None or isinstance(last, Ended):
            return TurnStopped(self._text)
        if isinstance(last, Gone):
            return last if await self._leave_to_user() else LeftUnclear(last)
        if self._last_event is None and self._turn.doubt:
            return NotBegun(self._turn.doubt)
        if await self._propose_revival():
            self.last_event_at = self._clock.now().awake
            return await self._wait_for_limit()
        return TimedOut()

    def _deadline(self) -> float:
        if self._stopped_at is not None:
            return self._stopped_at + STOP_SECONDS_MAX
        if self._last_event is None and self._turn.doubt:
            return self.last_event_at + DOUBT_SECONDS_MAX
        if isinstance(self._last_event, Gone):
            return self.last_event_at + self._limits.gone
        if isinstance(self._last_event, Ended):
            return self.last_event_at + self._limits.cut_short
        question_seconds = self._limits.question if self._questions.is_open(self.session_id) else 0.0
        return self.last_event_at + self._limits.turn + question_seconds

    async def _leave_to_user(self) -> bool:
        """Whether nothing continues this failed turn, so that its user can be told to ask again. The daemon decides."""
        until = self._clock.now().awake + self._limits.cut_short
        while self._clock.now().awake < until:
            try:
                reply = await self._sessions.leave_to_user(self.session_id)
            except DaemonAway as problem:
                log.warning("%s failed, and may be continued: %s", self.session_id, problem)
                await self._clock.sleep(self._limits.retry)
            except DaemonRefused as refused:
                log.warning("%s failed: %s", self.session_id, refused)
                # What it does not manage it does not continue.
                return refused.reason in CANNOT_CONTINUE
            else:
                log.info("%s failed: %s (%s)", self.session_id, reply.outcome, reply.words)
                return reply.outcome is ActionOutcome.CONFIRMED
        return False

    async def _propose_revival(self) -> bool:
        """Propose to revive the session; the daemon decides. Returns whether the turn waits for it."""
        if not self._may_propose():
            return False
        try:
            answered = await self._sessions.revive(self.session_id)
        except WakefulError as problem:
            log.warning("%s is silent and could not be resumed: %s", self.session_id, problem)
            return False
        log.warning("%s is silent; resume: %s (%s)", self.session_id, answered.outcome, answered.words)
        return answered.outcome is ActionOutcome.CONFIRMED
