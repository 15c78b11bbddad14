"""Claims about what is offered under an answer: Context always, more where the model says so, old buttons say so."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from support.fake_sessions_and_answers import FakeAnswers, ScriptedChat, press
from wakeful.gateway.follow_ups import OUTDATED, FollowUpRules, FollowUps
from wakeful.gateway.rules.errors import Category, Fault
from wakeful.gateway.rules.follow_ups import PROMPTS, Action
from wakeful.gateway.rules.messages import Buttons, ConversationKey, Place
from wakeful.gateway.rules.turn import Turn, TurnStage
from wakeful.testing.virtual_clock import VirtualClock

PLACE = Place(7, is_private=True)


class Model:
    """Implements control.provider.OneShot: answers as scripted."""

    def __init__(self, answer: str | None) -> None:
        self.answer = answer
        self.asked: list[tuple[str, float]] = []

    async def execute(self, prompt: str, seconds_max: float) -> str | None:
        self.asked.append((prompt, seconds_max))
        return self.answer


class FollowUpsFixture:
    def __init__(self, answer: str | None, *, enabled: bool = True) -> None:
        self.chat = ScriptedChat()
        self.slate = FakeAnswers()
        self.slate.messages[9] = ["because"]
        self.model = Model(answer)
        self.queued: list[Turn] = []
        self.kept: dict[int, Turn] = {}
        self.follow_ups = FollowUps(
            chat=self.chat,
            answers=self.slate,
            clock=VirtualClock(),
            models={"claude": self.model},
            rules=FollowUpRules(enabled=enabled),
            turns=self,
        )

    def describe(self, turn: Turn) -> str:
        return f"session {turn.session_id}"

    async def queue(self, turn: Turn) -> None:
        self.queued.append(turn)

    async def find(self, update_id: int) -> Turn | None:
        return self.kept.get(update_id)

    async def newest_answer(self, key: ConversationKey) -> Turn | None:
        return max(
            (turn for turn in self.kept.values() if turn.key == key), key=lambda turn: turn.at, default=None
        )

    async def answered(self, update_id: int = 1, fault: Fault | None = None) -> Buttons:
        """An answer appears; what stands under it at once."""
        turn = self.kept[update_id] = answer(update_id)
        buttons = self.follow_ups.buttons(turn, turn.text)
        await self.follow_ups.on_turn_end(turn, fault, 1.0)
        for _ in range(5):
            await asyncio.sleep(0)
        return buttons


def answer(update_id: int = 1) -> Turn:
    return Turn(
        update_id=update_id,
        place=PLACE,
        message_id=5,
        user_id=42,
        at=float(update_id),
        prompt="why",
        stage=TurnStage.DONE,
        provider="claude",
        session_id="claude-a",
        text="because",
        parts={0: 9},
    )


def labels(buttons: Buttons) -> list[str]:
    return [button.label for row in buttons for button in row]


@asynccontextmanager
async def opened(answer: str | None = None, **options: Any) -> AsyncIterator[FollowUpsFixture]:
    room = FollowUpsFixture(answer, **options)
    yield room
    await room.follow_ups.close()


@pytest.fixture
async def room() -> AsyncIterator[FollowUpsFixture]:
    async with opened() as room:
        yield room


async def test_context_is_there_at_once_and_more_when_the_model_has_decided() -> None:
    """The answer does not wait; it is edited once the decision is there."""
    async with opened(answer='{"actions": ["deep", "regen"]}') as room:
        assert labels(await room.answered()) == ["Context"]
        assert room.model.asked[0][1] == 5.0
        assert labels(room.slate.buttons[9]) == ["Again", "Deeper", "Context"]


@pytest.mark.parametrize("said", [None, "", "no idea", '{"actions": ["dance"]}', '{"actions": []}'])
async def test_a_decision_that_is_not_exactly_one_adds_nothing(said: str | None) -> None:
    """Late, broken or wordy: Context stays alone."""
    async with opened(answer=said) as room:
        await room.answered()
        assert room.slate.buttons == {}


async def test_switched_off_no_model_is_asked() -> None:
    """The extra call is the operator's choice."""
    async with opened(answer='{"actions": ["deep"]}', enabled=False) as room:
        assert labels(await room.answered()) == ["Context"]
        assert room.model.asked == []


async def test_a_failure_is_offered_nothing_more() -> None:
    """There is no answer to say again."""
    async with opened(answer='{"actions": ["deep"]}') as room:
        await room.answered(fault=Fault(Category.TIMEOUT, Category.TIMEOUT))
        assert room.model.asked == []


async def test_a_press_becomes_a_turn_of_whoever_pressed(room: FollowUpsFixture) -> None:
    """With the prompt of its action, under the number of the press."""
    await room.answered(1)
    assert await room.follow_ups.on_press(press(2, "next:short:1"))
    (turn,) = room.queued
    assert (turn.update_id, turn.prompt, turn.user_id) == (2, PROMPTS[Action.SHORT], 42)


async def test_context_says_where_an_answer_comes_from(room: FollowUpsFixture) -> None:
    """One message and no turn, under an older answer too, and whichever gateway gave it."""
    await room.answered(1)
    await room.answered(3)
    room.kept[2] = answer(2)
    for number in (1, 2, 3):
        await room.follow_ups.on_press(press(4, f"next:context:{number}"))
    assert [text for _, text, _ in room.chat.sent] == ["session claude-a"] * 3
    assert room.queued == []


@pytest.mark.parametrize("number", ["9", "x", ""])
async def test_context_of_nothing_or_of_another_chat_says_nothing(
    number: str, room: FollowUpsFixture
) -> None:
    """The content of a press is untrusted."""
    await room.answered(1)
    await room.follow_ups.on_press(press(4, f"next:context:{number}"))
    await room.follow_ups.on_press(press(4, "next:context:1", chat_id=8))
    assert (room.chat.sent, {words for _, words in room.chat.settled}) == ([], {OUTDATED})


async def test_a_button_of_an_older_answer_says_so(room: FollowUpsFixture) -> None:
    """`Shorter` would be about the newest answer, which is not the one it stands under."""
    await room.answered(1)
    await room.answered(3)
    for choice in ("next:short:1", "next:dance:3"):
        await room.follow_ups.on_press(press(4, choice))
    assert room.queued == []
    assert {words for _, words in room.chat.settled} == {OUTDATED}
    assert not await room.follow_ups.on_press(press(5, "ask:x:once"))


async def test_after_a_restart_the_book_knows_which_answer_is_the_newest(room: FollowUpsFixture) -> None:
    """A button that stands under another one says so, and one of which nothing is known as well."""
    room.kept = {1: answer(1), 3: answer(3)}
    await room.follow_ups.on_press(press(4, "next:short:1"))
    await room.follow_ups.on_press(press(5, "next:short:3", chat_id=8))
    assert (room.queued, [words for _, words in room.chat.settled]) == ([], [OUTDATED, OUTDATED])
    await room.follow_ups.on_press(press(6, "next:short:3"))
    assert [turn.update_id for turn in room.queued] == [6]
