"""Claims about a gateway that is killed at every point where it matters: one prompt, one answer, one question."""

import asyncio

import pytest

from support.fake_sessions_and_answers import message, press
from support.gateway_crash_points import CrashInjector, crashing_gateway
from support.gateway_virtual import GatewayParts
from wakeful.control.turn_events import AnswerText, Ended, PermissionAsked, PermissionClosed, PromptTaken


def asking(_prompt: str) -> tuple[PromptTaken, AnswerText, PermissionAsked]:
    return (PromptTaken(), AnswerText("Let me see. "), PermissionAsked("q1", "Bash", "touch x"))


async def one_life(parts: GatewayParts, life: CrashInjector) -> None:
    """Start a gateway and let an hour pass, or until it is killed; a person answers what it asks."""
    async with crashing_gateway(parts, life) as gateway:
        await gateway.start()
        await parts.clock.run_for(5)
        for buttons in parts.slate.asked():
            parts.chat.write(press(100, buttons[0][0].choice))
        await parts.clock.run_for(5)
        if parts.sessions.answers:
            parts.sessions.say(
                "tg-99-1", PermissionClosed("q1"), AnswerText("Done."), Ended("Let me see. Done.")
            )
        await parts.clock.run_for(5)


def reaches() -> dict[str, int]:
    """The points of one whole turn, and how often each is reached."""

    async def counted() -> dict[str, int]:
        parts, life = world(), CrashInjector()
        await one_life(parts, life)
        assert parts.slate.answers() == ["Let me see. Done."]
        return dict(life.reaches)

    return asyncio.run(counted())


def world() -> GatewayParts:
    parts = GatewayParts()
    parts.sessions.reply = asking
    parts.chat.write(message(1, "do it"))
    return parts


POINTS = [(point, nth) for point, count in reaches().items() for nth in range(1, count + 1)]


@pytest.mark.parametrize(("point", "nth"), POINTS, ids=str)
async def test_killed_anywhere_a_turn_is_asked_once_and_answered_once(point: str, nth: int) -> None:
    """The next gateway goes on: one prompt, one question, one reply, one answer; at worst an empty placeholder."""
    parts = world()
    await one_life(parts, CrashInjector(point, nth))
    await one_life(parts, CrashInjector())
    assert [each[2] for each in parts.sessions.delivered] == ["tg-99-1"]
    assert parts.slate.answers() == ["Let me see. Done."]
    # The answer, the question, and at worst a placeholder.
    assert len(parts.slate.shown) <= 3
    assert (len(parts.slate.questions()), parts.slate.asked()) == (1, [])
    assert set(parts.sessions.answers) == {("q1", "allow")}


def test_every_step_is_a_point() -> None:
    """What is tried above is all there is."""
    assert {point for point, _ in POINTS} == {
        "turn.accepted",
        "turn.sent",
        "turn.placed",
        "turn.asking",
        "turn.given",
        "turn.asked",
        "question.kept",
        "question.sent",
        "turn.heard",
        "turn.answering",
        "turn.said",
        "turn.done",
    }
