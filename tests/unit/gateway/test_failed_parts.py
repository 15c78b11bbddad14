"""The gateway's own tasks: one that raises is down and tried again; it ends neither the gateway nor the others."""

import asyncio
from typing import Any

import pytest

from support.fake_sessions_and_answers import message
from support.gateway_virtual import Gateway, GatewayParts
from wakeful.alerts import failed_parts as failures
from wakeful.alerts.failed_parts import FailedParts
from wakeful.gateway import process as chatwork
from wakeful.gateway.rules.messages import IncomingMessage
from wakeful.storage.base import Note
from wakeful.testing.virtual_clock import VirtualClock


class Part:
    """Raises as often as set, then runs."""

    def __init__(self, times: int) -> None:
        self.left = times
        self.runs = asyncio.Event()

    async def run(self) -> None:
        if self.left:
            self.left -= 1
            raise RuntimeError("a bug")
        self.runs.set()
        await asyncio.Event().wait()


class PartsFixture:
    """A gateway of such parts."""

    def __init__(self, clock: VirtualClock, broken: str) -> None:
        names = ("turns", "intake", "auth", "host_watch", "people", "telling")
        self.parts = {name: Part(3 if name == broken else 0) for name in names}
        self.turns, self.intake, self.auth, self.host_watch = (self.parts[name] for name in names[:4])
        self.refresh_people = self.parts["people"].run
        self.report_failures = self.parts["telling"].run
        self.failures = FailedParts(clock)


@pytest.mark.parametrize("broken", ["turns", "intake", "auth", "host_watch", "people", "telling"])
async def test_a_part_that_raises_ends_nothing(broken: str) -> None:
    """It is down, runs again after its back-off, and works after a while; the gateway ends on request."""
    clock = VirtualClock()
    gateway: Any = PartsFixture(clock, broken)
    ended = asyncio.Event()
    running = asyncio.create_task(chatwork._run(gateway, ended, None))
    await clock.run_for(0.1)
    others = [part for name, part in gateway.parts.items() if name != broken]
    assert all(part.runs.is_set() for part in others)
    assert [each.times for each in gateway.failures.down] == [1]
    await clock.run_for(10 * failures.RETRY_SECONDS_MIN)
    assert gateway.parts[broken].runs.is_set()
    await clock.run_for(failures.STEADY_SECONDS)
    assert gateway.failures.down == ()
    assert not running.done()
    ended.set()
    await running


async def test_an_update_that_raises_is_left_out(
    caplog: pytest.LogCaptureFixture, parts: GatewayParts, gateway: Gateway
) -> None:
    """It is confirmed, so that it does not come again; the one behind it is done."""

    def prompt_of(incoming: IncomingMessage) -> str:
        if incoming.text == "poison":
            raise ValueError("a bug")
        return incoming.text

    gateway.prompt_of = prompt_of  # type: ignore[method-assign,assignment]
    await parts.receive(message(1, "poison"), message(2, "good"))
    assert (await gateway.book.find(1), (await gateway.book.find(2)) is not None) == (None, True)
    assert gateway.intake._last_update_id >= 2
    assert "update 1 was skipped" in caplog.text


async def test_an_update_that_the_store_cannot_take_is_left_out(
    caplog: pytest.LogCaptureFixture, parts: GatewayParts, gateway: Gateway
) -> None:
    """All or none is for a full disk; one row that fails by an internal error costs only itself."""
    keep = parts.store.save_new_notes

    async def keep_new_notes(notes: Any) -> Any:
        if any(b"poison" in note.body for note in notes):
            raise OverflowError("a number too large")
        return await keep(notes)

    parts.store.save_new_notes = keep_new_notes  # type: ignore[method-assign]
    await parts.receive(message(1, "poison"), message(2, "good"))
    assert (await gateway.book.find(1), (await gateway.book.find(2)) is not None) == (None, True)
    assert "update 1 was skipped" in caplog.text


async def test_a_stored_turn_that_cannot_be_read_keeps_no_gateway_from_starting() -> None:
    """It is left out; the others go on."""
    parts = GatewayParts()
    for kind in ("gateway.turn", "gateway.conversation", "gateway.question"):
        await parts.store.save_note(Note(kind, f"{parts.bot}-00000000000000000001", b"\xff{{{"))
    gateway = Gateway(parts)
    await gateway.start()
    await parts.receive(message(2, "good"))
    assert await gateway.book.find(2) is not None
    assert gateway.failed == []
    await gateway.end()
