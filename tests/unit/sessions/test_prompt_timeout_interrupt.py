"""Claims about prompts that time out: a silent model is interrupted, but no session with a reason to be silent."""

from collections.abc import Callable

import pytest

from support.supervisor_fixture import SupervisorFixture, subject
from wakeful.core.ids import SessionId
from wakeful.healing.closed_sessions import PromptTimeout
from wakeful.judging.events import CallStarted, Prompted, TextWritten
from wakeful.sessions.prompt_timeouts import (
    SupervisionEvent,
    SupervisionTimers,
    TimerRules,
    TimerStage,
)
from wakeful.testing.virtual_clock import settle

A = subject("a").id
# Shorter than the silence that is a finding: then healing has its own word.
RULES = TimerRules(warning_seconds=120.0, timeout_seconds=300.0)


class TimersFixture:
    """A managed session whose prompts time out."""

    def __init__(self) -> None:
        self.house = SupervisorFixture()
        self.said: list[SupervisionEvent] = []
        self.treated: set[SessionId] = set()
        cut_short = PromptTimeout(self.house.hands_in("mine"), self.house.registry, self.treated.__contains__)
        self.cut_short = cut_short
        self.timers = SupervisionTimers(self.house.clock, self.house.registry, RULES, self)

    def publish_supervision(self, event: SupervisionEvent) -> None:
        self.said.append(event)

    def on_timeout(self, session_id: SessionId) -> None:
        self.cut_short.on_timeout(session_id)

    async def begin(self) -> None:
        self.house.start("a")
        self.house.finish("a")
        await self.house.hands.adopt("a")
        self.house.settle()

    async def pass_time(self, seconds: float) -> None:
        for _ in range(int(seconds // 30)):
            self.house.clock.advance(30.0)
            self.timers.check()
            await settle()


async def test_a_model_that_says_nothing_is_interrupted_once() -> None:
    """At the timeout and not before; supervision itself writes no record."""
    timed = TimersFixture()
    await timed.begin()
    timed.house.hear("a", Prompted(timed.house._wall()))
    session = timed.house.registry.sessions[A]
    record = session.record
    await timed.pass_time(270)
    assert timed.house.driver.acts == []
    await timed.pass_time(240)
    assert timed.house.driver.acts == ["interrupt"]
    assert [each.event for each in timed.said] == [TimerStage.WARNING, TimerStage.TIMEOUT]
    assert session.record is record


def _runs_a_tool(timed: TimersFixture) -> None:
    at = timed.house._wall()
    timed.house.hear("a", Prompted(at), CallStarted(at, "c1", "Bash", input=b'{"command":"make test"}'))


def _asks(timed: TimersFixture) -> None:
    timed.house.ask("a")


def _is_treated(timed: TimersFixture) -> None:
    timed.house.hear("a", Prompted(timed.house._wall()))
    timed.treated.add(A)


def _was_only_found(timed: TimersFixture) -> None:
    timed.house.supervisor.manage(A, None)
    timed.house.hear("a", Prompted(timed.house._wall()))


@pytest.mark.parametrize("begin", [_runs_a_tool, _asks, _is_treated, _was_only_found])
async def test_whoever_may_be_silent_is_left_alone(begin: Callable[[TimersFixture], None]) -> None:
    """A running tool, a question, healing at work, a session that is not managed."""
    timed = TimersFixture()
    await timed.begin()
    begin(timed)
    timed.house.settle()
    await timed.pass_time(540)
    assert timed.house.driver.acts == []


async def test_whoever_moves_at_the_last_moment_is_left_alone() -> None:
    """The newest evidence is read inside the gate, and decides."""
    timed = TimersFixture()
    await timed.begin()
    timed.house.hear("a", Prompted(timed.house._wall()))
    timed.house.clock.advance(300.0)
    timed.cut_short.on_timeout(A)
    timed.house.hear("a", TextWritten(timed.house._wall()))
    await settle()
    assert timed.house.driver.acts == []
