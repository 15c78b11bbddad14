"""The course of one turn, step by step, from its placeholder to its answer: each is written down before the next.

A turn that is found after a crash goes on where it stands. Whoever asked is told exactly one thing in the end.
"""

import logging
from typing import Final

from msgspec.structs import replace

from wakeful.domain.errors import WakefulError
from wakeful.domain.gateway.classifier import AUTH_REQUIRED, Fault, NotBegun, TimedOut
from wakeful.domain.gateway.heard import Ended, Spent
from wakeful.domain.gateway.messages import Buttons, ConversationKey
from wakeful.domain.gateway.turn import Stage, Turn
from wakeful.domain.ids import SessionId
from wakeful.faults import reach
from wakeful.ports.chat import ChatRefused
from wakeful.ports.clock import Clock
from wakeful.ports.sessions import Sessions
from wakeful.services.gateway.asking import AWAY, Asking
from wakeful.services.gateway.book import Book
from wakeful.services.gateway.ear import Ear
from wakeful.services.gateway.guard import Guard
from wakeful.services.gateway.judging import STOPPED_WORDS, End, Judging, Lost, Stopped
from wakeful.services.gateway.needs import Answer, Answers, Finish, Limits, SeatFor, Witness
from wakeful.services.gateway.questions import Questions

log = logging.getLogger("wakeful.gateway")

REFUSED: Final = "refused"
NOTHING: Final = Spent()


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
        self._ears: dict[ConversationKey, Ear] = {}
        # Stopped before anything could be heard of it.
        self._stopping: set[ConversationKey] = set()
        self._proposed_at: dict[ConversationKey, float] = {}

    async def run(self, turn: Turn, *, found: bool = False) -> Turn:
        """Take it to its end. `found`: an earlier gateway began it."""
        since = self._clock.now().awake
        passage = _Passage(turn, self._book, self._answers)
        fault: Fault | None = None
        try:
            fault = await self._pass(passage, found=found)
        except ChatRefused as refused:
            # Nobody is there to be told: the bot was sent away, or somebody deletes what it says.
            log.warning("%s cannot be answered: %s", turn.key, refused)
            await passage.keep(stage=Stage.FAILED)
        finally:
            self._ears.pop(turn.key, None)
            self._stopping.discard(turn.key)
        turn = passage.turn
        log.info("turn %d of %s: %s %s", turn.update_id, turn.key, turn.stage, turn.fault)
        await self._witness.ended(turn, fault, self._clock.now().awake - since)
        return turn

    async def stop(self, key: ConversationKey) -> None:
        """Cut the turn of this key short, wherever it stands."""
        self._stopping.add(key)
        ear = self._ears.get(key)
        if ear is None:
            return
        ear.stop()
        await self._interrupt(ear.session_id)

    async def replace(self, key: ConversationKey) -> bool:
        """End the process of the turn that runs, and have its conversation go on in another. False: none is heard of."""
        ear = self._ears.get(key)
        if ear is None:
            return False
        await self._sessions.stop(ear.session_id)
        resumed = await self._sessions.resume(ear.session_id, self._seat_for(key).environ)
        log.warning("%s was replaced: %s", ear.session_id, resumed.words)
        return True

    def heard_within(self, key: ConversationKey, seconds: float) -> bool:
        """Whether a turn runs there of which something was heard in this time."""
        ear = self._ears.get(key)
        return ear is not None and self._clock.now().awake - ear.heard_at < seconds

    def forget(self, key: ConversationKey) -> None:
        """Another conversation begins there."""
        self._judging.forget(key)

    async def _pass(self, passage: "_Passage", *, found: bool) -> Fault | None:
        fault: Fault | None = None
        if passage.turn.stage is not Stage.ANSWERING:
            await passage.place()
            async with passage.answer.writing():
                fault = await self._work(passage, found=found)
        text: str = passage.turn.text
        buttons: Buttons = ()
        if not passage.turn.fault:
            text, buttons = await self._finish.carry_out(passage.turn)
        await passage.answer.finish(text, buttons)
        reach("turn.said")
        await passage.keep(stage=Stage.FAILED if passage.turn.fault else Stage.DONE)
        return fault

    async def _work(self, passage: "_Passage", *, found: bool) -> Fault | None:
        """Until it is known and kept what is to be said."""
        turn = passage.turn
        provider = turn.provider or self._seat_for(turn.key).provider
        if turn.stage is Stage.PLACED:
            # Nothing failed: nothing is tried.
            refusal = STOPPED_WORDS if turn.key in self._stopping else self._guard.refusal(provider)
            if refusal is not None:
                await passage.decide(refusal, REFUSED)
                return None
        since = self._guard.passing(provider)
        end = await self._heard(passage, found=found)
        reach("turn.heard")
        fault, text = self._judging.judge(passage.turn, end)
        by_text = isinstance(end, Ended) and end.failure is None
        await self._guard.ended(provider, since, fault, stopped=isinstance(end, Stopped), by_text=by_text)
        if fault is not None and fault.pattern == AUTH_REQUIRED:
            text = self._guard.refusal(provider) or text
        spent = end.spent if isinstance(end, Ended) else NOTHING
        await passage.decide(text, fault.pattern if fault is not None else "", spent)
        if isinstance(end, TimedOut):
            # What was given up must not meet the next message.
            await self._interrupt(SessionId(passage.turn.session_id))
        return fault

    async def _heard(self, passage: "_Passage", *, found: bool) -> End:
        if passage.turn.stage is Stage.ASKED:
            if found and await self._is_lost(passage.turn):
                await self._questions.over(passage.turn.session_id)
                return Lost()
        else:
            given = await self._asking.ask(passage.turn)
            if isinstance(given, NotBegun):
                log.warning("%s was not asked: %s", passage.turn.key, given.words)
                return given
            passage.turn = given
        ear = self._ear(passage.turn, passage.answer)
        self._ears[passage.turn.key] = ear
        if passage.turn.key in self._stopping:
            await self.stop(passage.turn.key)
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


class _Passage:
    """One turn on its way: what is kept of it, and the messages that will say it."""

    def __init__(self, turn: Turn, book: Book, answers: Answers) -> None:
        self.turn = turn
        self._book = book
        self.answer = answers.of(turn.place, self._keep_part, turn.parts)

    async def keep(self, stage: Stage) -> None:
        self.turn = await self._book.keep(replace(self.turn, stage=stage))

    async def place(self) -> None:
        """A placeholder, and its number kept."""
        await self.answer.place(self.turn.message_id)

    async def decide(self, text: str, fault: str, spent: Spent = NOTHING) -> None:
        """What will be said is kept before it is said."""
        tokens = (spent.input_tokens, spent.output_tokens)
        decided = replace(self.turn, stage=Stage.ANSWERING, text=text, fault=fault)
        self.turn = await self._book.keep(replace(decided, cost_usd=spent.cost_usd, tokens=tokens))

    async def _keep_part(self, number: int, message_id: int) -> None:
        reach("turn.sent")
        stage = Stage.PLACED if self.turn.stage is Stage.ACCEPTED else self.turn.stage
        parts = {**self.turn.parts, number: message_id}
        self.turn = await self._book.keep(replace(self.turn, stage=stage, parts=parts))
