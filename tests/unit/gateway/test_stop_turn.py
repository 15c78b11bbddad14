"""Claims about a stop, and about a new conversation, that comes while its turn is on its way."""

import logging

import pytest

from support.fake_sessions_and_answers import held_up, message, plainly, silent
from support.gateway_virtual import Gateway, GatewayParts, opened
from wakeful.control.turn_events import AnswerText, PromptTaken
from wakeful.gateway.rules.pool import PoolLimits
from wakeful.gateway.turn_listener import STOPPED_TEXT

# As for turns: each claim is made of both providers.
pytestmark = pytest.mark.usefixtures("provider")


@pytest.mark.parametrize("order", ["/new", "/stop"])
async def test_a_session_that_starts_behind_an_order_is_what_the_order_says(
    order: str, parts: GatewayParts
) -> None:
    """After /new it is ended and the next message begins another one; after /stop it goes on with that message."""
    parts.sessions.reply = lambda prompt: silent(prompt) if prompt == "one" else plainly(prompt)
    free = held_up(parts.sessions, "start")
    await parts.receive(message(1, "one"))
    await parts.receive(message(2, order))
    free.set()
    await parts.clock.run_for(20)
    await parts.receive(message(3, "two"))
    assert parts.slate.answers() == [STOPPED_TEXT, "Answer to: two."]
    went_on = f"{parts.provider}-1" if order == "/stop" else f"{parts.provider}-2"
    assert [each[0] for each in parts.sessions.delivered] == [f"{parts.provider}-1", went_on]
    assert parts.sessions.alive == {went_on}


async def test_an_ended_conversation_is_not_resumed_for_a_prompt_that_was_on_its_way(
    parts: GatewayParts,
) -> None:
    """/new overtakes a prompt: its session is gone when it arrives, and stays so."""
    await parts.receive(message(1, "one"))
    free = held_up(parts.sessions, "send")
    await parts.receive(message(2, "two"))
    await parts.receive(message(3, "/new"))
    free.set()
    await parts.clock.run_for(1)
    await parts.receive(message(4, "three"))
    assert [each[:2] for each in parts.sessions.delivered] == [
        (f"{parts.provider}-1", "one"),
        (f"{parts.provider}-2", "three"),
    ]
    assert ("resume", f"{parts.provider}-1") not in parts.sessions.acts
    assert parts.slate.answers() == ["Answer to: one.", STOPPED_TEXT, "Answer to: three."]


@pytest.mark.parametrize("reason", ["idle_ttl", "lru_limit"])
async def test_a_session_that_is_being_ended_gets_no_prompt(
    reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Its conversation's next message waits for that end and resumes it: nothing is asked that is ended in its middle."""

    def world() -> GatewayParts:
        parts = GatewayParts()
        parts.pool_limits = PoolLimits(active_max=1 if reason == "lru_limit" else 24)
        return parts

    with caplog.at_level(logging.INFO, "wakeful.gateway"):
        async with opened(world) as (parts, _):
            await parts.receive(message(1, "one"))
            free = held_up(parts.sessions, "stop")
            if reason == "lru_limit":
                parts.chat.write(message(2, "of another", 8))
            await parts.clock.run_for(1 if reason == "lru_limit" else 1801)
            await parts.receive(message(3, "two"))
            assert (f"evictionReason={reason}" in caplog.text, len(parts.sessions.delivered)) == (True, 1)
            free.set()
            await parts.clock.run_for(5)
            assert [each[0] for each in parts.sessions.delivered if each[1] == "two"] == [
                f"{parts.provider}-1"
            ]
            assert parts.sessions.acts[-1] == ("resume", f"{parts.provider}-1")
            assert f"{parts.provider}-1" in parts.sessions.alive


async def test_what_waits_for_a_place_is_stopped_there() -> None:
    """All places are busy: a message that waits for one and is stopped is never asked."""

    def world() -> GatewayParts:
        parts = GatewayParts()
        parts.pool_limits = PoolLimits(active_max=1)
        parts.sessions.reply = silent
        return parts

    async with opened(world) as (parts, gateway):
        await parts.receive(message(1, "busy", 1), message(2, "waits", 2), message(3, "/stop", 2))
        assert [text for _, text, _ in parts.chat.sent] == [STOPPED_TEXT]
        await parts.receive(message(4, "/stop", 1), seconds=20)
        assert [each[1] for each in parts.sessions.delivered] == ["busy"]
        assert not gateway.turns.pool.is_busy(message(2, "", 2).place.key)


async def test_all_are_stopped_also_those_in_their_first_turn(parts: GatewayParts, gateway: Gateway) -> None:
    """A session belongs to its conversation from its first turn on: it is interrupted and ended like any other."""
    parts.sessions.reply = silent
    await parts.receive(message(1, "one", 1), message(2, "two", 2), message(3, "waits", 2))
    assert gateway.turns.session_of(message(1, "", 1).place.key) == f"{parts.provider}-1"
    assert await gateway.turns.stop_all() == (2, 0)
    await parts.clock.run_for(20)
    assert parts.sessions.alive == set()
    assert parts.slate.answers() == [STOPPED_TEXT, STOPPED_TEXT]
    assert [each[1] for each in parts.sessions.delivered] == ["one", "two"]


async def test_a_session_that_is_starting_when_all_are_stopped_is_ended(
    parts: GatewayParts, gateway: Gateway
) -> None:
    """It has no name yet, so it is ended once it has one; the next message resumes its conversation."""
    parts.sessions.reply = lambda prompt: silent(prompt) if prompt == "one" else plainly(prompt)
    free = held_up(parts.sessions, "start")
    await parts.receive(message(1, "one"))
    assert await gateway.turns.stop_all() == (0, 1)
    free.set()
    await parts.clock.run_for(20)
    assert parts.sessions.alive == set()
    assert parts.sessions.evicted == [], "a person did that"
    await parts.receive(message(2, "two"))
    assert parts.slate.answers() == [STOPPED_TEXT, "Answer to: two."]
    assert [each[0] for each in parts.sessions.delivered] == [f"{parts.provider}-1"] * 2


async def test_what_waited_before_a_restart_waits_after_it_however_much_it_is() -> None:
    """The bound of a queue is for who writes now: nothing that was accepted is left behind."""
    parts = GatewayParts()
    parts.pool_limits = PoolLimits(queue_max=3)
    parts.sessions.reply = silent
    first = Gateway(parts)
    await first.start()
    await parts.receive(message(1))
    await parts.receive(*(message(n) for n in range(2, 5)))
    await first.end()
    second = Gateway(parts)
    assert await second.turns.restore() == 4
    assert second.turns.pool.waiting(message(1).place.key) == 4


TRACE = 'Traceback (most recent call last):\n  File "/app/run.py", line 3, in <module>\n    main()\nKeyError: "id"'


@pytest.mark.parametrize(
    ("asked", "text", "shown"),
    [
        ("deploy it", f"It failed.\n{TRACE}", f"It failed.\n\n{STOPPED_TEXT}"),
        ("deploy it", TRACE, STOPPED_TEXT),
        ("show me the trace", TRACE, f"{TRACE}\n\n{STOPPED_TEXT}"),
        ("deploy it", f"{TRACE}\n\nThe id is missing in line 3.", f"{TRACE}\n\nThe id is missing in line 3.\n\n{STOPPED_TEXT}"),
    ],
)  # fmt: skip
async def test_a_trace_stays_hidden_when_its_turn_is_stopped(
    asked: str, text: str, shown: str, parts: GatewayParts
) -> None:
    """What was not seen while it was written is not seen afterwards; an answer with a trace in it stays whole."""
    parts.sessions.reply = lambda _prompt: (PromptTaken(), AnswerText(text))
    await parts.receive(message(1, asked))
    await parts.receive(message(2, "/stop"), seconds=20)
    assert parts.slate.answers()[0] == shown
