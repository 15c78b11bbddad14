"""Runs one turn step by step, from its placeholder to its answer.

Each step is stored before the next. A turn that is found after a crash continues where it stopped, and its
user gets exactly one final message.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Final

from wakeful.client.api import Sessions
from wakeful.control.turn_events import NOTHING, Ended
from wakeful.core.clock import Clock
from wakeful.core.errors import WakefulError
from wakeful.core.fault_points import reach
from wakeful.core.ids import SessionId
from wakeful.gateway.permissions import Questions
from wakeful.gateway.ports import ChatRefused
from wakeful.gateway.prompt_delivery import AWAY, Asking
from wakeful.gateway.provider_guard import Guard
from wakeful.gateway.rules.errors import AUTH_REQUIRED, Fault, TimedOut
from wakeful.gateway.rules.messages import Buttons, ConversationKey
from wakeful.gateway.rules.turn import Cut, Stage, Turn
from wakeful.gateway.turn_context import Answer, Answers, Finish, Limits, Passage, SeatFor, Witness
from wakeful.gateway.turn_listener import STOPPED_WORDS, Ear, End, Judging, Lost, Stopped
from wakeful.gateway.turn_store import Book
from wakeful.gateway.withheld import show_button, withheld_text

log = logging.getLogger("wakeful.gateway")

REFUSED: Final = "refused"
STOPPED: Final = "stopped"

Farewell = Callable[[ConversationKey, str], Awaitable[None]]
"""Ends the conversation of this key, and the session it was held with, if there was one."""


class Course:
    """Takes turns to their end, any number at once, one of each conversation."""

    def __init__(
        self,
        *,
        clock: Clock,
        sessions: Sessions,
        book: Book,
        asking: Asking,
        questions: Questions,
        guard: Guard,
        judging: Judging,
        answers: Answers,
        finish: Finish,
        witness: Witness,
        seat_for: SeatFor,
        limits: Limits,
    ) -> None:
        self._clock = clock
        self._sessions = sessions
        self._book = book
        self._asking = asking
        self._questions = questions
        self._guard = guard
        self._judging = judging
        self._answers = answers
        self._finish = finish
        self._witness = witness
        self._seat_for = seat_for
        self._limits = limits
        self._passages: dict[ConversationKey, Passage] = {}
        self._ears: dict[ConversationKey, Ear] = {}
        self._proposed_at: dict[ConversationKey, float] = {}

    def begin(self, turn: Turn) -> Passage:
        """From now on it can be stopped, until `over` is said."""
        passage = self._passages[turn.key] = Passage(turn, self._book, self._answers)
        return passage

    def over(self, key: ConversationKey) -> None:
        """Nothing of this key is under way any more."""
        self._passages.pop(key, None)

    async def run(self, passage: Passage, farewell: Farewell, *, found: bool = False) -> None:
        """Take it to its end. `found`: somebody began it before."""
        since = self._clock.now().awake
        key = passage.turn.key
        fault: Fault | None = None
        try:
            fault = await self._pass(passage, farewell, found=found)
        except ChatRefused as refused:
            # Nobody is there to be told: the bot was sent away, or somebody deletes what it says.
            log.warning("%s cannot be answered: %s", key, refused)
            await _close(passage, farewell, Stage.FAILED)
        finally:
            self._ears.pop(key, None)
        turn = passage.turn
        log.info("turn %d of %s: %s %s", turn.update_id, key, turn.stage, turn.fault)
        await self._witness.ended(turn, fault, self._clock.now().awake - since)

    async def stop(self, key: ConversationKey, cut: Cut = Cut.TURN) -> None:
        """Cut the turn of this key short, wherever it stands; a crash does not bring it back."""
        passage, ear = self._passages.get(key), self._ears.get(key)
        if passage is None:
            return
        await passage.keep(cut=cut)
        reach("turn.cut")
        if ear is not None:
            await self._stop(ear)

    async def replace(self, key: ConversationKey) -> bool:
        """End the process of the turn that runs; the healer has the turn go on in another. False: none is heard of.

        As a crash, not as a stop: what was stopped is over, and its turn with it. The healer keeps to its budget, and
        asks a person first where a call that reaches others was cut off.
        """
        ear = self._ears.get(key)
        if ear is None or not await self._sessions.end_process(ear.session_id):
            return False
        log.warning("the process of %s was ended in its turn: the healer goes on with it", ear.session_id)
        return True

    async def heir_of(self, key: ConversationKey, session_id: str) -> SessionId | None:
        """The session that a healer began anew in the name of this one."""
        return await self._asking.heir_of(key, session_id)

    def session_of(self, key: ConversationKey) -> str:
        """The session of the turn that is under way there, empty if there is none yet."""
        passage = self._passages.get(key)
        return passage.turn.session_id if passage is not None else ""

    def heard_within(self, key: ConversationKey, seconds: float) -> bool:
        """Whether a turn runs there of which something was heard in this time."""
        ear = self._ears.get(key)
        return ear is not None and self._clock.now().awake - ear.heard_at < seconds

    def forget(self, key: ConversationKey) -> None:
        """Another conversation begins there."""
        self._judging.forget(key)

    async def _pass(self, passage: Passage, farewell: Farewell, *, found: bool) -> Fault | None:
        fault: Fault | None = None
        if passage.turn.stage is not Stage.ANSWERING:
            await passage.place()
            async with passage.answer.writing():
                fault = await self._work(passage, found=found)
        text: str = passage.turn.text
        buttons: Buttons = ()
        if not passage.turn.fault:
            text, buttons = await self._finish.carry_out(passage.turn)
        elif passage.turn.withheld:
            buttons = show_button(passage.turn)
        await passage.answer.finish(text, buttons)
        reach("turn.said")
        await _close(passage, farewell, Stage.FAILED if passage.turn.fault else Stage.DONE)
        return fault

    async def _work(self, passage: Passage, *, found: bool) -> Fault | None:
        """Until it is known and kept what is to be said."""
        turn = passage.turn
        provider = turn.provider or self._seat_for(turn.key).provider
        if turn.stage is Stage.PLACED:
            # Nothing failed: nothing is tried.
            refusal = STOPPED_WORDS if turn.cut else self._guard.refusal(provider)
            if refusal is not None:
                await passage.decide(refusal, REFUSED)
                return None
        since = self._guard.passing(provider)
        end = await self._heard(passage, found=found)
        reach("turn.heard")
        fault, text = self._judging.judge(passage.turn, end)
        by_text = isinstance(end, Ended) and end.failure is None
        stopped = isinstance(end, Stopped)
        await self._guard.ended(turn.key, provider, since, fault, stopped=stopped, by_text=by_text)
        if fault is not None and fault.pattern == AUTH_REQUIRED:
            text = self._guard.refusal(provider) or text
        spent = end.spent if isinstance(end, Ended) else NOTHING
        pattern = fault.pattern if fault is not None else ""
        withheld = withheld_text(end, fault)
        await passage.decide(text, STOPPED if isinstance(end, Stopped) else pattern, spent, withheld)
        if isinstance(end, TimedOut):
            # What was given up must not meet the next message.
            await self._interrupt(SessionId(passage.turn.session_id))
        return fault

    async def _heard(self, passage: Passage, *, found: bool) -> End:
        if passage.turn.stage is Stage.ASKED:
            if found and await self._is_lost(passage.turn):
                await self._questions.over(passage.turn.session_id)
                return Stopped("") if passage.turn.cut else Lost()
        elif (not_begun := await self._asking.ask(passage)) is not None:
            log.warning("%s was not asked: %s", passage.turn.key, not_begun.words)
            return Stopped("") if passage.turn.cut else not_begun
        ear = self._ear(passage.turn, passage.answer)
        self._ears[passage.turn.key] = ear
        if passage.turn.cut:
            await self._stop(ear)
        return await ear.listen()

    def _ear(self, turn: Turn, answer: Answer) -> Ear:
        return Ear(
            turn=turn,
            key=self._book.key_of(turn),
            sessions=self._sessions,
            clock=self._clock,
            questions=self._questions,
            limits=self._limits,
            grow=answer.grow,
            may_propose=lambda: self._may_propose(turn.key),
        )

    async def _is_lost(self, turn: Turn) -> bool:
        try:
            return await self._sessions.standing(SessionId(turn.session_id)) is None
        except AWAY:
            return False

    async def _stop(self, ear: Ear) -> None:
        ear.stop()
        await self._interrupt(ear.session_id)

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


async def _close(passage: Passage, farewell: Farewell, stage: Stage) -> None:
    if passage.turn.cut is Cut.CONVERSATION:
        # It may have begun a session since its user had enough of it.
        await farewell(passage.turn.key, passage.turn.session_id)
    await passage.keep(stage=stage)
