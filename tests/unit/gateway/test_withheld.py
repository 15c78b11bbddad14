"""A rejected answer is not lost: a button shows it, to who asked or an admin, once, and without doing what it asks for."""

import pytest

from support.fake_sessions_and_answers import message, press
from support.gateway_virtual import Gateway, GatewayParts, play
from wakeful.control.turn_events import AnswerText, Ended, PromptTaken
from wakeful.gateway.ports import ChatRefused
from wakeful.gateway.rules.access import PRESS_REFUSAL_TEXTS, PressRefusal
from wakeful.gateway.withheld import NOT_SHOWN, SHOWN

TEXT = "I don't understand."


async def rejected(parts: GatewayParts, text: str = TEXT) -> str:
    """The choice of the button below the replacement text."""
    parts.heard_users = {42, 43}
    parts.sessions.reply = lambda _prompt: (PromptTaken(), Ended(text, stop_reason="end_turn"))
    parts.chat.write(message(1, "deploy it"))
    await parts.clock.run_for(1)
    ((row,),) = parts.slate.asked()
    assert row[0].label == "Show it anyway"
    return row[0].choice


@pytest.mark.parametrize(("user_id", "admins"), [(42, set()), (43, {43})])
def test_who_asked_or_an_admin_is_shown_it_once(user_id: int, admins: set[int]) -> None:
    """In the same message, with a word that it was held back; a second press finds nothing."""

    async def scene(parts: GatewayParts, _gateway: Gateway) -> None:
        parts.admins = admins
        choice = await rejected(parts)
        assert all(TEXT not in each for each in parts.slate.answers())
        for number in (2, 3):
            parts.chat.write(press(number, choice, user_id=user_id))
            await parts.clock.run_for(1)
        (shown,) = parts.slate.answers()
        assert shown.endswith(f"\n\n{TEXT}")
        assert (parts.slate.asked(), parts.chat.settled[1][1]) == ([], PRESS_REFUSAL_TEXTS[PressRefusal.LATE])

    play(scene)


@pytest.mark.parametrize(
    ("number", "user_id", "chat_id", "refusal"),
    [
        (1, 43, 7, PressRefusal.NOT_ASKER),
        (1, 42, 8, PressRefusal.ELSEWHERE),
        (77, 42, 7, PressRefusal.FORGED),
    ],
)
def test_nobody_else_is_shown_it(number: int, user_id: int, chat_id: int, refusal: PressRefusal) -> None:
    """Nor is it shown in another chat, and a number that means nothing shows nothing."""

    async def scene(parts: GatewayParts, _gateway: Gateway) -> None:
        await rejected(parts)
        parts.chat.write(press(2, f"show:{number}", chat_id=chat_id, user_id=user_id))
        await parts.clock.run_for(1)
        assert all(TEXT not in each for each in parts.slate.answers())
        assert parts.chat.settled == [("press-2", PRESS_REFUSAL_TEXTS[refusal])]

    play(scene)


def test_what_it_asks_of_the_gateway_is_not_done() -> None:
    """Its tags are not shown and not carried out."""

    async def scene(parts: GatewayParts, _gateway: Gateway) -> None:
        choice = await rejected(parts, 'Error: ENOENT <send-file path="/etc/passwd"/>')
        parts.chat.write(press(2, choice))
        await parts.clock.run_for(1)
        (shown,) = parts.slate.answers()
        assert ("ENOENT" in shown, "send-file" in shown) == (True, False)

    play(scene)


def test_what_could_not_be_shown_is_not_lost() -> None:
    """The message was deleted, or the bot may not edit it now: it is not recorded as shown, and can be tried again."""

    async def scene(parts: GatewayParts, _gateway: Gateway) -> None:
        choice = await rejected(parts)
        parts.slate.refusing = ChatRefused(method="editMessageText", reason="message can't be edited")
        parts.chat.write(press(2, choice))
        await parts.clock.run_for(1)
        parts.slate.refusing = None
        parts.chat.write(press(3, choice))
        await parts.clock.run_for(1)
        assert [words for _, words in parts.chat.settled] == [NOT_SHOWN, SHOWN]
        assert parts.slate.answers()[0].endswith(TEXT)

    play(scene)


@pytest.mark.parametrize("text", ["", "Invalid API key · Please run /login"])
def test_nothing_and_a_login_prompt_have_no_button(text: str) -> None:
    """There is nothing to show, or nothing that a chat may read."""

    async def scene(parts: GatewayParts, _gateway: Gateway) -> None:
        parts.sessions.reply = lambda _prompt: (PromptTaken(), Ended(text, stop_reason="end_turn"))
        parts.chat.write(message(1))
        await parts.clock.run_for(1)
        assert (len(parts.slate.answers()), parts.slate.asked()) == (1, [])

    play(scene)


@pytest.mark.parametrize(("chats", "is_open"), [((7, 7, 7, 7), False), ((7, 8, 9), True)])
def test_what_is_rejected_for_its_words_counts_once_for_each_conversation(
    chats: tuple[int, ...], is_open: bool
) -> None:
    """One chat cannot block a provider for all others; an agent that understands nothing is left alone for a while."""

    async def scene(parts: GatewayParts, gateway: Gateway) -> None:
        parts.sessions.reply = lambda _prompt: (
            PromptTaken(),
            AnswerText(TEXT),
            Ended(TEXT, stop_reason="end_turn"),
        )
        for number, chat_id in enumerate(chats, 1):
            parts.chat.write(message(number, f"question {number}", chat_id))
            await parts.clock.run_for(1)
        assert (gateway.guard.refusal(parts.provider) is not None) is is_open

    play(scene)


def test_a_good_answer_ends_what_was_counted() -> None:
    """Rejected, answered, rejected, rejected: two in a row, and of one conversation."""

    async def scene(parts: GatewayParts, gateway: Gateway) -> None:
        parts.sessions.reply = lambda prompt: (
            PromptTaken(),
            Ended("All of it is done." if prompt == "good" else TEXT, stop_reason="end_turn"),
        )
        for number, (text, chat_id) in enumerate([("a", 7), ("b", 8), ("good", 7), ("c", 7), ("d", 7)], 1):
            parts.chat.write(message(number, text, chat_id))
            await parts.clock.run_for(1)
        assert gateway.guard.breaker(parts.provider).failures == 1

    play(scene)
