"""Claims about how many transitions of a session are stored."""

import asyncio
from typing import Final

import pytest
from hypothesis import given, strategies as st

from wakeful.core.ids import SessionId
from wakeful.sessions import transition_limit, transition_writer
from wakeful.sessions.transition_limit import BURST_MAX, EVERY_SECONDS, KNOWN_MAX, TransitionLimit
from wakeful.sessions.transition_writer import TransitionWriter
from wakeful.storage.base import Transition
from wakeful.testing.memory_store import MemoryStore

A, B = SessionId("claude-a"), SessionId("claude-b")
STATES: Final = ("idle", "prompting")


def change(number: int, session_id: SessionId = A) -> Transition:
    old, new = STATES[number % 2], STATES[(number + 1) % 2]
    return Transition(session_id, float(number), old, new, "healthy", "healthy", new, b"{}")


@given(st.lists(st.floats(0.0, 5.0), max_size=400))
def test_every_change_is_stored_or_counted(gaps: list[float]) -> None:
    """However they come: the newest is never lost, the others are counted once, and no session exceeds its bound."""
    limit, now = TransitionLimit(), 0.0
    stored: list[Transition] = []
    for number, gap in enumerate(gaps):
        now += gap
        stored += [*limit.release(now), *limit.admit([change(number)], now)]
        assert len(stored) <= BURST_MAX + now / EVERY_SECONDS
    stored += limit.release_all()
    assert sum(1 + each.left_out for each in stored) == len(gaps)
    assert [each.at for each in stored] == sorted(each.at for each in stored)
    assert not gaps or stored[-1].at == len(gaps) - 1
    assert not limit.has_waiting


def test_a_session_that_flaps_takes_nothing_from_others() -> None:
    """Each has its own burst; three turns a minute are stored whole for as long as they last."""
    limit = TransitionLimit()
    assert len(limit.admit([change(number) for number in range(1000)], 0.0)) == BURST_MAX
    for number in range(1000):
        assert len(limit.admit([change(number, B)], number * EVERY_SECONDS)) == 1


def test_all_sessions_together_store_a_bounded_number_a_day() -> None:
    """150 logs that flap for a day store the host's budget, not 150 times that of one session."""
    limit, stored = TransitionLimit(), 0
    sessions = [SessionId(f"flapping-{number}") for number in range(150)]
    for second in range(0, 86_400, 30):
        changes = [change(second // 30, each) for each in sessions]
        stored += len(limit.release(second)) + len(limit.admit(changes, second))
    budget = transition_limit.HOST_BURST_MAX + 86_400 / transition_limit.HOST_EVERY_SECONDS
    assert stored <= budget < 150 * 86_400 / EVERY_SECONDS / 4
    assert stored + len(limit.release_all()) > budget * 0.9


def test_a_quiet_session_is_stored_before_those_that_flap(monkeypatch: pytest.MonkeyPatch) -> None:
    """When the host's budget is spent, the next place is for the session that stored least."""
    monkeypatch.setattr(transition_limit, "HOST_BURST_MAX", 100)
    limit = TransitionLimit()
    sessions = [SessionId(f"flapping-{number}") for number in range(150)]
    for second in range(600):
        limit.release(second)
        limit.admit([change(second, each) for each in sessions], second)
    assert not limit.admit([change(0, A)], 600.0)
    assert A in [each.session_id for each in limit.release(601.0)]


def test_sessions_at_rest_are_forgotten() -> None:
    """A session with a whole burst again costs no memory."""
    limit = TransitionLimit()
    for number in range(5 * KNOWN_MAX):
        limit.admit([change(0, SessionId(f"claude-{number}"))], number * EVERY_SECONDS)
    assert len(limit._full_at) <= KNOWN_MAX + 1


async def test_the_newest_change_is_written_in_time_and_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A flapping session's newest change is stored once its interval has passed, or when the daemon ends."""
    monkeypatch.setattr(transition_writer, "LIMITED_SECONDS", 0.01)
    now = 0.0
    monkeypatch.setattr(transition_writer, "_now", lambda: now)
    store = MemoryStore()
    writer = TransitionWriter(store)
    running = asyncio.create_task(writer.run())
    writer.enqueue([change(number) for number in range(200)])
    await writer.drain(5.0)
    assert [each.left_out for each in await store.transitions()][-2:] == [0, 200 - BURST_MAX - 1]
    writer.enqueue([change(number) for number in range(200, 300)])
    await asyncio.sleep(0.05)
    assert len(await store.transitions()) == BURST_MAX + 1
    now = EVERY_SECONDS + 1.0
    for _ in range(500):
        if len(await store.transitions()) > BURST_MAX + 1:
            break
        await asyncio.sleep(0.01)
    newest = (await store.transitions())[-1]
    assert (newest.at, newest.left_out) == (299.0, 99)
    running.cancel()
