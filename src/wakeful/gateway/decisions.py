"""What an admin decides by buttons: shown, asked back, carried out once.

A button carries a token that means nothing elsewhere. They live as long as this gateway and no longer than their time:
after a restart the command is given again.
"""

import logging
import secrets
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from msgspec import Struct

from wakeful.core.clock import Clock
from wakeful.core.errors import WakefulError
from wakeful.gateway.ports_chat import Chat, ChatFailed
from wakeful.gateway.rules.access import PRESS_WORDS, TOKEN_BYTES, Bound, Role, new_token, refused
from wakeful.gateway.rules.messages import Button, Buttons, ConversationKey, Place, Pressed

PREFIX: Final = "do"
# Long enough to think it over, short enough that nobody presses it by accident tomorrow.
OFFER_SECONDS: Final = 600.0
OFFERS_MAX: Final = 500
LEFT: Final = "Left as it is."

log = logging.getLogger("wakeful.gateway")

RoleOf = Callable[[int], Role]
Do = Callable[[str], Awaitable[str]]
"""Carries it out, decided by this person; what became of it, in words."""


class Choice(Struct, frozen=True):
    """One way to decide: the button, the question that is asked back, and what is done then."""

    label: str
    asks: str
    do: Do


class _Offer(Struct, frozen=True):
    bound: Bound
    choice: Choice
    # None: not asked back yet. Else what it was shown with.
    confirmed: bool | None = None


class Decisions:
    """`offer` a choice; give it what is `pressed`."""

    def __init__(
        self,
        chat: Chat,
        clock: Clock,
        role_of: RoleOf,
        new: Callable[[], str] = lambda: new_token(secrets.token_bytes(TOKEN_BYTES)),
    ) -> None:
        self._chat = chat
        self._clock = clock
        self._role_of = role_of
        self._new = new
        # The oldest first: of many the oldest are forgotten.
        self._offers: dict[str, _Offer] = {}

    async def offer(self, place: Place, text: str, choices: Sequence[Choice]) -> None:
        """Show it with a button for each. Raises ChatFailed."""
        row = tuple(self._button(place.key, each.label, each) for each in choices)
        await self._chat.send(place, text, buttons=(row,))

    async def ask_back(self, place: Place, choice: Choice) -> None:
        """The same for what was asked for in words already."""
        await self._chat.send(place, choice.asks, buttons=self._yes_or_no(place.key, choice))

    async def pressed(self, pressed: Pressed) -> bool:
        """Take a press; False if this is no button of ours."""
        prefix, _, token = pressed.choice.partition(":")
        if prefix != PREFIX:
            return False
        offer = self._offers.get(token)
        bound = offer.bound if offer is not None else None
        role = self._role_of(pressed.user_id)
        reason = refused(bound, pressed.place.key, role, self._clock.now().awake)
        try:
            if reason is not None or offer is None:
                words = PRESS_WORDS[reason] if reason is not None else ""
                await self._chat.settle_press(pressed.press_id, words)
            else:
                await self._chat.settle_press(pressed.press_id)
                await self._follow(pressed, offer)
        except ChatFailed as problem:
            log.warning("unverified in %s: %s", pressed.place.key, problem)
        return True

    async def _follow(self, pressed: Pressed, offer: _Offer) -> None:
        place, choice = pressed.place, offer.choice
        if offer.confirmed is None:
            buttons = self._yes_or_no(place.key, choice)
            await self._chat.edit(place, pressed.message_id, choice.asks, buttons=buttons)
            return
        # Whichever way, it is decided: neither button means anything from now on.
        self._forget(offer)
        words = await self._done(pressed, choice) if offer.confirmed else LEFT
        await self._chat.edit(place, pressed.message_id, f"{choice.asks}\n{words}")

    async def _done(self, pressed: Pressed, choice: Choice) -> str:
        by = f"Telegram user {pressed.user_id}"
        try:
            words = await choice.do(by)
        except WakefulError as problem:
            log.warning("%s was not done for %s: %s", choice.label, by, problem)
            return f"Not done: {problem}"
        log.warning("%s by %s: %s", choice.label, by, words)
        return words

    def _yes_or_no(self, key: ConversationKey, choice: Choice) -> Buttons:
        yes = self._button(key, f"Yes, {choice.label.lower()}", choice, confirmed=True)
        no = self._button(key, "No", choice, confirmed=False)
        return ((yes, no),)

    def _button(
        self, key: ConversationKey, label: str, choice: Choice, *, confirmed: bool | None = None
    ) -> Button:
        token = self._new()
        until = self._clock.now().awake + OFFER_SECONDS
        self._offers[token] = _Offer(Bound(key, Role.ADMIN, choice.label, until), choice, confirmed)
        while len(self._offers) > OFFERS_MAX:
            del self._offers[next(iter(self._offers))]
        return Button(label, f"{PREFIX}:{token}")

    def _forget(self, decided: _Offer) -> None:
        self._offers = {
            token: each for token, each in self._offers.items() if each.choice is not decided.choice
        }
