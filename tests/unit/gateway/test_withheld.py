"""A rejected answer is not lost: a button shows it, to who asked or an admin, once, and without doing what it asks for."""

import pytest

from support.fake_sessions_and_answers import message, press
from support.gateway_virtual import Gateway, GatewayParts
from wakeful.control.turn_events import AnswerText, Ended, PromptTaken
from wakeful.gateway.ports import ChatRefused
from wakeful.gateway.rules.access import PRESS_REFUSAL_TEXTS, PressRefusal
from wakeful.gateway.withheld import NOT_SHOWN, SHOWN

TEXT = "I don't understand."


async def rejected(parts: GatewayParts, text: str = TEXT) -> str:
    """The choice of the button below the replacement text."""
    parts.heard_users = {42, 43}
    parts.sessions.reply = lambda _prompt: (PromptTaken(), Ended(text, stop_reason="end_turn"))
    await parts.receive(message(1, "deploy it"))
    ((row,),) = parts.slate.asked()
    assert row[0].label == "Show it anyway"
    return row[0].choice


@pytest.mark.parametrize(("user_id", "admins"), [(42, set()), (43, {43})])
async def test_who_asked_or_an_admin_is_shown_it_once(
    user_id: int, admins: set[int], parts: GatewayParts
) -> None:
    """In the same message, with a word that it was held back; a second press finds nothing."""
    parts.admins = admins
    choice = await rejected(parts)
    assert all(TEXT not in each for each in parts.slate.answers())
    for number in (2, 3):
        await parts.receive(press(number, choice, user_id=user_id))
    (shown,) = parts.slate.answers()
    assert shown.endswith(f"\n\n{TEXT}")
    assert (parts.slate.asked(), parts.chat.settled[1][1]) == ([], PRESS_REFUSAL_TEXTS[PressRefusal.LATE])


@pytest.mark.parametrize(
    ("number", "user_id", "chat_id", "refusal"),
    [
        (1, 43, 7, PressRefusal.NOT_ASKER),
        (1, 42, 8, PressRefusal.ELSEWHERE),
        (77, 42, 7, PressRefusal.FORGED),
    ],
)
async def test_nobody_else_is_shown_it(
    number: int, user_id: int, chat_id: int, refusal: PressRefusal, parts: GatewayParts
) -> None:
    """Nor is it shown in another chat, and a number that means nothing shows nothing."""
    await rejected(parts)
    await parts.receive(press(2, f"show:{number}", chat_id=chat_id, user_id=user_id))
    assert all(TEXT not in each for each in parts.slate.answers())
    assert parts.chat.settled == [("press-2", PRESS_REFUSAL_TEXTS[refusal])]


async def test_what_it_asks_of_the_gateway_is_not_done(parts: GatewayParts) -> None:
    """Its tags are not shown and not carried out."""
    choice = await rejected(parts, 'Error: ENOENT <send-file path="/etc/passwd"/>')
    await parts.receive(press(2, choice))
    (shown,) = parts.slate.answers()
    assert ("ENOENT" in shown, "send-file" in shown) == (True, False)


async def test_what_could_not_be_shown_is_not_lost(parts: GatewayParts) -> None:
    """The message was deleted, or the bot may not edit it now: it is not recorded as shown, and can be tried again."""
    choice = await rejected(parts)
    parts.slate.refusing = ChatRefused(method="editMessageText", reason="message can't be edited")
    await parts.receive(press(2, choice))
    parts.slate.refusing = None
    await parts.receive(press(3, choice))
    assert [words for _, words in parts.chat.settled] == [NOT_SHOWN, SHOWN]
    assert parts.slate.answers()[0].endswith(TEXT)


@pytest.mark.parametrize("text", ["", "Invalid API key · Please run /login"])
async def test_nothing_and_a_login_prompt_have_no_button(text: str, parts: GatewayParts) -> None:
    """There is nothing to show, or nothing that a chat may read."""
    parts.sessions.reply = lambda _prompt: (PromptTaken(), Ended(text, stop_reason="end_turn"))
    await parts.receive(message(1))
    assert (len(parts.slate.answers()), parts.slate.asked()) == (1, [])


@pytest.mark.parametrize("text", [TEXT, "Error: ENOENT", ""])
@pytest.mark.parametrize(("chats", "is_open"), [((7, 7, 7, 7), False), ((7, 8, 9), True)])
async def test_what_is_rejected_for_its_words_counts_once_for_each_chat(
    chats: tuple[int, ...], is_open: bool, text: str, parts: GatewayParts, gateway: Gateway
) -> None:
    """One chat cannot block a provider for all others; an agent that answers no chat is left alone for a while."""
    parts.sessions.reply = lambda _prompt: (
        PromptTaken(),
        AnswerText(text),
        Ended(text, stop_reason="end_turn"),
    )
    for number, chat_id in enumerate(chats, 1):
        parts.chat.write(message(number, f"question {number}", chat_id))
        await parts.clock.run_for(1)
    assert (gateway.guard.refusal(parts.provider, 10) is not None) is is_open


async def test_a_good_answer_ends_what_was_counted(parts: GatewayParts, gateway: Gateway) -> None:
    """Rejected, answered, rejected, rejected: two in a row, and of one conversation."""
    parts.sessions.reply = lambda prompt: (
        PromptTaken(),
        Ended("All of it is done." if prompt == "good" else TEXT, stop_reason="end_turn"),
    )
    for number, (text, chat_id) in enumerate([("a", 7), ("b", 8), ("good", 7), ("c", 7), ("d", 7)], 1):
        await parts.receive(message(number, text, chat_id))
    assert gateway.guard.breaker(parts.provider).failures == 1
