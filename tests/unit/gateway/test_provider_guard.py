"""Who is held back after failures: the chat that they happen in, and all chats only if several fail."""

from collections.abc import Sequence

import pytest

from support.fake_sessions_and_answers import message
from support.gateway_virtual import Gateway, GatewayParts
from wakeful.control.turn_events import AnswerText, Ended, PromptTaken, TurnEvent
from wakeful.gateway.rules.breaker import BreakerState
from wakeful.judging.events import Failure

pytestmark = pytest.mark.usefixtures("provider")

TRACE = 'Traceback (most recent call last):\n  File "/app/run.py", line 3, in <module>\nKeyError: "id"'
FAILED = (PromptTaken(), Ended("API Error: 400 prompt is too long", Failure.PROVIDER))
REJECTED = (PromptTaken(), AnswerText(TRACE), Ended(TRACE, stop_reason="end_turn"))
ANSWERED = (PromptTaken(), AnswerText("Done."), Ended("Done.", stop_reason="end_turn"))
ON_HOLD = "requests are on hold"


async def ask(
    parts: GatewayParts, number: int, chat_id: int, turn: Sequence[TurnEvent], thread_id: int | None = None
) -> str:
    """The answer in this chat to a prompt whose turn goes like this."""
    parts.sessions.reply = lambda _prompt: turn
    await parts.receive(message(number, f"question {number}", chat_id, thread_id=thread_id))
    return parts.slate.answers()[-1]


async def test_failures_of_one_chat_hold_only_that_chat_back(parts: GatewayParts, provider: str) -> None:
    """A prompt that its provider always refuses, again and again: its chat rests, every other one is answered."""
    said = [await ask(parts, number, 7, FAILED) for number in range(1, 6)]
    assert [ON_HOLD in each for each in said] == [False, False, False, True, True]
    assert len(parts.sessions.delivered) == 3, provider
    assert await ask(parts, 6, 8, ANSWERED) == "Done."
    await parts.clock.run_for(31)
    assert await ask(parts, 7, 7, ANSWERED) == "Done."


@pytest.mark.parametrize("turn", [FAILED, REJECTED], ids=["failed", "rejected"])
async def test_topics_of_one_chat_are_one_chat(parts: GatewayParts, turn: Sequence[TurnEvent]) -> None:
    """No number of topics closes a provider to other chats."""
    for number in range(1, 5):
        await ask(parts, number, 7, turn, thread_id=number)
    assert await ask(parts, 5, 8, ANSWERED) == "Done."


async def test_rejected_answers_do_not_hold_their_own_chat_back(parts: GatewayParts) -> None:
    """Its user may ask in another way."""
    for number in range(1, 5):
        assert "no usable answer" in await ask(parts, number, 7, REJECTED)
    assert await ask(parts, 5, 7, ANSWERED) == "Done."


async def test_failures_of_three_chats_hold_all_back(
    parts: GatewayParts, gateway: Gateway, provider: str
) -> None:
    """The provider is down. Then one chat at a time tests it; a failed test holds all back once more."""
    for number in (1, 2, 3):
        await ask(parts, number, number, FAILED)
    assert ON_HOLD in await ask(parts, 4, 8, ANSWERED)
    assert gateway.guard.state(provider, 8) is BreakerState.OPEN
    await parts.clock.run_for(31)
    await ask(parts, 5, 1, FAILED)
    assert ON_HOLD in await ask(parts, 6, 8, ANSWERED)
    await parts.clock.run_for(31)
    assert [await ask(parts, number, 8, ANSWERED) for number in (7, 8)] == ["Done."] * 2
    assert gateway.guard.state(provider, 8) is BreakerState.CLOSED


async def test_a_good_answer_of_any_chat_ends_what_was_counted_for_all(parts: GatewayParts) -> None:
    """Two chats fail, one is answered, and two more fail: the provider works."""
    turns = [FAILED, FAILED, ANSWERED, FAILED, FAILED, ANSWERED]
    assert [await ask(parts, number, number, turn) for number, turn in enumerate(turns, 1)][-1] == "Done."
