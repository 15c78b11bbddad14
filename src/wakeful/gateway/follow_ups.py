"""Offers buttons under an answer: Context always; Again, Shorter and Deeper if the model advises them.

The model is asked once per answer, after the answer is shown; `response_actions.enabled = false` switches
that off. The same three words can always be typed. A press counts as a message of the person who pressed, so
it needs no secret: that person could have typed the word.
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import Final, Protocol

from msgspec import Struct

from wakeful.control.provider import OneShot
from wakeful.core.clock import Clock
from wakeful.gateway.ports import Chat, ChatFailed, send_notice, try_answer_press
from wakeful.gateway.rules.errors import Fault
from wakeful.gateway.rules.follow_ups import (
    CONTEXT_LABEL,
    LABELS,
    PROMPT_CHARS_MAX,
    PROMPTS,
    RESPONSE_CHARS_MAX,
    Action,
    decision_prompt,
    read_decision,
)
from wakeful.gateway.rules.messages import Button, ButtonPress, Buttons, ConversationKey
from wakeful.gateway.rules.turn import Turn, TurnStage
from wakeful.gateway.turn_context import AnswerFactory

PREFIX: Final = "next"
CONTEXT: Final = "context"
OUTDATED: Final = "This button belongs to an older answer. Write what you would like."
# Conversations whose newest answer is remembered.
SHOWN_MAX: Final = 200

log = logging.getLogger("wakeful.gateway")


class FollowUpRules(Struct, frozen=True):
    """The section `response_actions` of the configuration."""

    enabled: bool = True
    decision_seconds: float = 5.0
    prompt_chars_max: int = PROMPT_CHARS_MAX
    response_chars_max: int = RESPONSE_CHARS_MAX


class FollowUpTurns(Protocol):
    """The turns that follow-ups read and begin."""

    async def find(self, update_id: int) -> Turn | None:
        """The turn of this update."""

    async def newest_answer(self, key: ConversationKey) -> Turn | None:
        """The newest turn of this conversation that has an answer."""

    async def queue(self, turn: Turn) -> None:
        """Begin a turn from a pressed button."""

    def describe(self, turn: Turn) -> str:
        """The provider, session, folder and cost of a turn, for people."""


class FollowUps:
    """`buttons` for an answer, more of them after `on_turn_end`; a press of one becomes a turn."""

    def __init__(
        self,
        *,
        chat: Chat,
        answers: AnswerFactory,
        clock: Clock,
        models: Mapping[str, OneShot],
        rules: FollowUpRules,
        turns: FollowUpTurns,
    ) -> None:
        self._chat = chat
        self._answers = answers
        self._clock = clock
        self._models = models
        self._rules = rules
        self._turns = turns
        # The newest answer of each conversation: its turn, and its text as it is shown.
        self._newest: dict[ConversationKey, tuple[Turn, str]] = {}
        self._decision_tasks: set[asyncio.Task[None]] = set()

    def buttons(self, turn: Turn, text: str, actions: tuple[Action, ...] = ()) -> Buttons:
        """The buttons under this answer, which is from now on the newest one of its conversation."""
        self._newest.pop(turn.key, None)
        self._newest[turn.key] = turn, text
        while len(self._newest) > SHOWN_MAX:
            del self._newest[next(iter(self._newest))]
        row = [Button(LABELS[action], f"{PREFIX}:{action}:{turn.update_id}") for action in actions]
        return ((*row, Button(CONTEXT_LABEL, f"{PREFIX}:{CONTEXT}:{turn.update_id}")),)

    async def on_turn_end(self, turn: Turn, fault: Fault | None, _seconds: float) -> None:
        """An answer is there: ask the model which follow-ups fit it, while others go on."""
        model = self._models.get(turn.provider)
        if self._rules.enabled and fault is None and turn.stage is TurnStage.DONE and model is not None:
            task = asyncio.create_task(self._decide(turn, model))
            self._decision_tasks.add(task)
            task.add_done_callback(self._decision_tasks.discard)

    async def close(self) -> None:
        """Cancel the questions that are not answered yet."""
        for task in self._decision_tasks:
            task.cancel()
        await asyncio.gather(*self._decision_tasks, return_exceptions=True)

    async def on_press(self, press: ButtonPress) -> bool:
        """Handle a press; False if the button belongs to another part. The caller has checked who may press."""
        prefix, _, rest = press.choice.partition(":")
        name, _, number = rest.partition(":")
        if prefix != PREFIX:
            return False
        key = press.place.key
        if name in set(Action) and await self._is_newest(key, number):
            await try_answer_press(self._chat, press.press_id, LABELS[Action(name)])
            await self._turns.queue(self._turn_from(press, PROMPTS[Action(name)]))
        elif name == CONTEXT and (turn := await self._find_turn(key, number)) is not None and turn.text:
            await try_answer_press(self._chat, press.press_id)
            await send_notice(self._chat, press.place, self._turns.describe(turn))
        else:
            await try_answer_press(self._chat, press.press_id, OUTDATED)
        return True

    async def _is_newest(self, key: ConversationKey, number: str) -> bool:
        """Whether no answer of the conversation is newer than that one. After a restart the stored turns decide.

        The newest answer may be missing there: a gateway that was killed after it showed an answer, and before it
        stored that, shows the answer once more.
        """
        shown = self._newest.get(key)
        if shown is not None:
            return str(shown[0].update_id) == number
        turn, newest = await self._find_turn(key, number), await self._turns.newest_answer(key)
        return turn is not None and (newest is None or newest.at <= turn.at)

    async def _find_turn(self, key: ConversationKey, number: str) -> Turn | None:
        """The conversation's turn of this number; None if there is none, or after a day."""
        turn = await self._turns.find(int(number)) if number.isdecimal() else None
        return turn if turn is not None and turn.key == key else None

    def _turn_from(self, press: ButtonPress, prompt: str) -> Turn:
        return Turn(
            update_id=press.update_id,
            place=press.place,
            message_id=press.message_id,
            user_id=press.user_id,
            at=self._clock.now().wall,
            prompt=prompt,
        )

    async def _decide(self, turn: Turn, model: OneShot) -> None:
        shown = self._newest.get(turn.key)
        if shown is None or shown[0].update_id != turn.update_id:
            return
        question = decision_prompt(
            turn.prompt, shown[1], self._rules.prompt_chars_max, self._rules.response_chars_max
        )
        actions = read_decision(await model.execute(question, self._rules.decision_seconds) or "")
        newest = self._newest.get(turn.key)
        if not actions or newest is None or newest[0].update_id != turn.update_id:
            return
        answer = self._answers.answer_for(turn.place, _ignore_part, turn.parts)
        try:
            await answer.finish(shown[1], self.buttons(turn, shown[1], actions))
        except ChatFailed as problem:
            log.info("%s: no buttons: %s", turn.key, problem)


async def _ignore_part(_number: int, _message_id: int) -> None:
    """The messages of the answer are stored; the same text needs no others."""
