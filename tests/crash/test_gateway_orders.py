"""Claims about what people order in a chat whose gateway is killed: done at most once, and what was said stays true."""

import asyncio

import pytest

from support.fake_sessions_and_answers import message, plainly, press, silent
from support.gateway_crash_points import CrashInjector, crashing_gateway
from support.gateway_virtual import GatewayParts
from wakeful.control.turn_events import Ended
from wakeful.gateway.rules.follow_ups import PROMPTS, Action
from wakeful.gateway.turn_listener import STOPPED_TEXT

LATE = "what nobody wanted any more"


async def ordered(parts: GatewayParts, life: CrashInjector, command: str) -> None:
    """One conversation at work and with something waiting, and an order in its middle."""
    async with crashing_gateway(parts, life) as gateway:
        await gateway.start()
        await parts.clock.run_for(5)
        await parts.receive(message(3, command), seconds=30)
        if life.is_over:
            return
        parts.sessions.say("tg-99-1", Ended(LATE, stop_reason="end_turn"))
        await parts.clock.run_for(30)


def world() -> GatewayParts:
    parts = GatewayParts()
    parts.sessions.reply = lambda prompt: silent(prompt) if prompt == "work" else plainly(prompt)
    parts.chat.write(message(1, "work"), message(2, "behind"))
    return parts


def points(command: str) -> list[tuple[str, int]]:
    """What is reached while an order is given and carried out."""
    life = CrashInjector()
    asyncio.run(ordered(world(), life, command))
    return [(point, nth) for point, count in life.reaches.items() for nth in range(1, count + 1)]


CASES = [(command, *point) for command in ("/stop", "/new") for point in points(command)]


@pytest.mark.parametrize(("command", "point", "nth"), CASES)
async def test_an_order_is_carried_out_once_or_not_at_all(command: str, point: str, nth: int) -> None:
    """Killed anywhere: a user who read that it was done never reads the old answer, and no message is sent twice."""
    parts = world()
    await ordered(parts, CrashInjector(point, nth), command)
    await ordered(parts, CrashInjector(), command)
    said = [text for _, text, _ in parts.chat.sent]
    assert len(said) <= 1
    assert len([each for each in parts.sessions.delivered if each[1] == "work"]) == 1
    if said:
        assert LATE not in parts.slate.answers()
        assert STOPPED_TEXT in parts.slate.answers()
        assert "behind" not in [each[1] for each in parts.sessions.delivered]
    parts.chat.write(message(4, "afterwards"))
    await follow(parts)
    sessions = {each[1]: each[0] for each in parts.sessions.delivered}
    if said and command == "/new":
        assert sessions["afterwards"] != sessions["work"]
        assert sessions["work"] not in parts.sessions.alive
    if command == "/stop":
        assert sessions["afterwards"] == sessions["work"]


async def follow(parts: GatewayParts) -> None:
    async with crashing_gateway(parts, CrashInjector()) as gateway:
        await gateway.start()
        await parts.clock.run_for(5)


async def pressed(parts: GatewayParts, life: CrashInjector) -> None:
    async with crashing_gateway(parts, life) as gateway:
        await gateway.start()
        await parts.clock.run_for(5)
        await parts.receive(press(2, "next:regen:1"), seconds=5)


def pressing() -> GatewayParts:
    parts = GatewayParts()
    parts.chat.write(message(1, "one"))
    return parts


def press_points() -> list[tuple[str, int]]:
    life = CrashInjector()
    asyncio.run(pressed(pressing(), life))
    return [(point, nth) for point, count in life.reaches.items() for nth in range(1, count + 1)]


@pytest.mark.parametrize(("point", "nth"), press_points())
async def test_a_press_becomes_one_turn(point: str, nth: int) -> None:
    """Killed anywhere: the button below an answer is one more prompt and one more answer."""
    parts = pressing()
    await pressed(parts, CrashInjector(point, nth))
    await pressed(parts, CrashInjector())
    assert [each[1] for each in parts.sessions.delivered] == ["one", PROMPTS[Action.REGEN]]
    assert len(parts.slate.answers()) == 2
