"""Keeps answers that the validator rejected, and shows one, once, to the person who asked or to an admin."""

import logging
from collections.abc import Callable
from typing import Final

from wakeful.control.turn_events import Ended
from wakeful.gateway.ports import Chat, ChatRefused, try_answer_press
from wakeful.gateway.rules.access import PRESS_REFUSAL_TEXTS, PressRefusal, Role
from wakeful.gateway.rules.errors import AUTH_REQUIRED, Fault
from wakeful.gateway.rules.messages import Button, ButtonPress, Buttons
from wakeful.gateway.rules.tags import shown_so_far
from wakeful.gateway.rules.turn import Turn
from wakeful.gateway.turn_context import AnswerFactory, TurnContext
from wakeful.gateway.turn_listener import TurnEnd
from wakeful.gateway.turn_store import TurnStore

PREFIX: Final = "show"
LABEL: Final = "Show it anyway"
SHOWN: Final = "Shown."
NOT_SHOWN: Final = "This message cannot show it."
# The warning above a withheld answer, so that it does not pass for a checked one.
NOTE: Final = "Withheld before, shown at your request:"

log = logging.getLogger("wakeful.gateway")


def withheld_text(end: TurnEnd, fault: Fault | None) -> str:
    """The answer of a turn that ended well and was rejected; text about a login is never shown."""
    if (
        fault is None
        or fault.pattern == AUTH_REQUIRED
        or not isinstance(end, Ended)
        or end.failure is not None
    ):
        return ""
    return shown_so_far(end.text).strip()


def show_button(turn: Turn) -> Buttons:
    return ((Button(LABEL, f"{PREFIX}:{turn.update_id}"),),)


class WithheldAnswers:
    def __init__(
        self, *, chat: Chat, answers: AnswerFactory, turn_store: TurnStore, role_of: Callable[[int], Role]
    ) -> None:
        self._chat = chat
        self._answers = answers
        self._turn_store = turn_store
        self._role_of = role_of

    async def on_press(self, press: ButtonPress) -> bool:
        """Show the withheld answer; False if the button belongs to another part."""
        prefix, _, number = press.choice.partition(":")
        if prefix != PREFIX:
            return False
        turn = await self._turn_store.find(int(number)) if number.isdecimal() and len(number) < 20 else None
        refusal = _refusal(turn, press, is_admin=self._role_of(press.user_id) is Role.ADMIN)
        words = PRESS_REFUSAL_TEXTS[refusal] if refusal is not None else ""
        if refusal is None and turn is not None:
            words = SHOWN if await self._show(turn) else NOT_SHOWN
        await try_answer_press(self._chat, press.press_id, words)
        return True

    async def _show(self, turn: Turn) -> bool:
        """Show it in the message of its turn: once, however often this is begun. Then it is dropped."""
        context = TurnContext(turn, self._turn_store, self._answers)
        words = f"{NOTE}\n\n{turn.withheld}"
        try:
            await context.answer.finish(words)
        except ChatRefused as refused:
            log.warning("%s: the withheld answer is not shown: %s", turn.key, refused)
            return False
        await context.save(withheld="", text=words)
        return True


def _refusal(turn: Turn | None, press: ButtonPress, *, is_admin: bool) -> PressRefusal | None:
    # An unfinished turn is still being sent: its button is not visible yet.
    if turn is None or turn.pressed is not None or not turn.is_over:
        return PressRefusal.FORGED
    if turn.key != press.place.key:
        return PressRefusal.ELSEWHERE
    if not is_admin and press.user_id != turn.user_id:
        return PressRefusal.NOT_ASKER
    return None if turn.withheld else PressRefusal.LATE
