"""A session that needs a person causes an alert after a while, unless it was answered or is being looked at;
virtual time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from support.healing_fixture import RecordingMessenger
from support.supervisor_fixture import SupervisorFixture, subject
from wakeful.alerts.attention import RECHECK_SECONDS, AttentionMonitor
from wakeful.alerts.model import AlertKind, AlertRules
from wakeful.alerts.notifier import Notifier
from wakeful.alerts.outbox import KIND, AlertOutbox
from wakeful.core.ids import SessionId
from wakeful.judging.events import (
    CallEnded,
    CallStarted,
    Failure,
    Prompted,
    QuestionAnswered,
    QuestionAsked,
    TurnEnded,
    TurnInterrupted,
)
from wakeful.judging.session_record import SessionRecord


class AttentionFixture:
    """Sessions made by hand, and the monitor that watches them for questions."""

    def __init__(self) -> None:
        self.house = SupervisorFixture()
        self.clock = self.house.clock
        self.channel = RecordingMessenger()
        self.rules = AlertRules(frozenset(AlertKind))
        self.looked_at: set[SessionId] = set()
        self.excused: set[SessionId] = set()

    @property
    def said(self) -> list[str]:
        return self.channel.said

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """A daemon's life."""
        outbox = AlertOutbox(self.house.store, self.clock, [self.channel], self.rules, "here")
        self.asking = AttentionMonitor(
            Notifier(outbox, self.house.incidents, self.clock),
            self.clock,
            self.rules,
            self._visible,
            lambda each, _question: each.id in self.excused,
            lambda session_id: self.house.registry.sessions[session_id].activity.ended_well,
        )
        task = asyncio.create_task(outbox.run())
        await outbox.restore()
        self.asking.restore()
        try:
            yield
        finally:
            await self.asking.close()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _visible(self, session_id: SessionId) -> bool:
        return session_id in self.looked_at

    def ask(self, name: str = "a", about: str = "Bash: rm -r build") -> None:
        self.house.hear(name, Prompted(self.clock.now().wall), QuestionAsked(self.clock.now().wall, about))
        self.see(name)

    def answer(self, name: str = "a") -> None:
        self.house.hear(name, QuestionAnswered(self.clock.now().wall))
        self.see(name)

    def finish(self, name: str = "a") -> None:
        self.house.hear(name, TurnEnded(self.clock.now().wall))
        self.see(name)

    def work(self, name: str = "a") -> None:
        self.house.work(name)
        self.see(name)

    def see(self, name: str = "a") -> None:
        self.asking.on_judged(self.record(name))

    def record(self, name: str) -> SessionRecord:
        found = self.house.registry.sessions[subject(name).id].record
        assert found is not None
        return found


@pytest.fixture
def scene() -> AttentionFixture:
    scene = AttentionFixture()
    scene.house.start("a")
    return scene


async def test_an_open_question_is_told_after_ten_seconds_and_once(scene: AttentionFixture) -> None:
    """Not before, and not again for every judgement of the same session."""
    async with scene.running():
        scene.ask()
        await scene.clock.run_for(9)
        assert scene.said == []
        await scene.clock.run_for(1)
        assert scene.said == ["shop needs you\nBash: rm -r build\n→ wakeful why claude-a"]
        for _ in range(5):
            scene.see()
            await scene.clock.run_for(3600)
    assert len(scene.said) == 1


async def test_a_guessed_question_is_told_as_a_guess_and_ends_with_its_call(scene: AttentionFixture) -> None:
    """One alert says what it probably waits for, however often it is looked at; when the call comes back it is over."""
    async with scene.running():
        at = scene.clock.now().wall
        call = CallStarted(at, "c", "exec_command", input=b'{"cmd": "make"}', enforced=True, escalated=True)
        scene.house.hear("a", Prompted(at), call)
        for _ in range(5):
            scene.see()
            await scene.clock.run_for(3600)
        (told,) = scene.said
        assert told.splitlines()[:2] == [
            "shop needs you",
            "probably asks for permission: exec_command `make`",
        ]
        scene.house.hear("a", CallEnded(scene.clock.now().wall, "c"))
        scene.see()
        await scene.clock.run_for(60)
    assert len(scene.said) == 1
    assert await scene.house.store.notes(KIND) == []


async def test_a_question_that_was_answered_in_time_is_not_told(scene: AttentionFixture) -> None:
    """Nothing of it is left in the store either."""
    async with scene.running():
        scene.ask()
        await scene.clock.run_for(9)
        scene.answer()
        await scene.clock.run_for(3600)
    assert scene.said == []
    assert await scene.house.store.notes(KIND) == []


async def test_the_next_question_is_told_again(scene: AttentionFixture) -> None:
    """Each one is an episode of its own, without a cooldown, and an answer is no news."""
    async with scene.running():
        for number in range(3):
            scene.ask(about=f"question {number}")
            await scene.clock.run_for(20)
            scene.answer()
            await scene.clock.run_for(20)
    assert [text.splitlines()[1] for text in scene.said] == ["question 0", "question 1", "question 2"]
    assert await scene.house.store.notes(KIND) == []


async def test_a_question_after_a_question_is_told(scene: AttentionFixture) -> None:
    """Also if the session was not seen at work in between."""
    async with scene.running():
        scene.ask(about="the first")
        await scene.clock.run_for(20)
        scene.ask(about="the second")
        await scene.clock.run_for(20)
    assert [text.splitlines()[1] for text in scene.said] == ["the first", "the second"]


async def test_a_question_somebody_looks_at_is_not_told_until_they_turn_away(scene: AttentionFixture) -> None:
    """No alert while its pane is in front of a person."""
    async with scene.running():
        scene.looked_at.add(scene.record("a").id)
        scene.ask()
        await scene.clock.run_for(3600)
        assert scene.said == []
        scene.looked_at.clear()
        await scene.clock.run_for(RECHECK_SECONDS)
        assert len(scene.said) == 1


async def test_a_restart_tells_no_question_twice(scene: AttentionFixture) -> None:
    """A question answered meanwhile is over, so that the next one causes an alert."""
    async with scene.running():
        scene.ask()
        await scene.clock.run_for(20)
    async with scene.running():
        scene.see()
        await scene.clock.run_for(20)
        assert len(scene.said) == 1
    scene.house.hear("a", QuestionAnswered(scene.clock.now().wall))
    await scene.clock.run_for(20)
    async with scene.running():
        scene.see()
        await scene.clock.run_for(11)
        assert await scene.house.store.notes(KIND) == []
        scene.ask(about="another")
        await scene.clock.run_for(20)
    assert len(scene.said) == 2


async def test_a_question_that_is_dated_by_the_next_daemons_first_look_is_the_same(
    scene: AttentionFixture,
) -> None:
    """A stream has no times: read again after a restart, its question seems new, and is worded poorly at first."""
    async with scene.running():
        scene.ask()
        await scene.clock.run_for(20)
    await scene.clock.run_for(20)
    async with scene.running():
        await scene.clock.run_for(1)
        scene.house.hear("a", QuestionAsked(scene.clock.now().wall, "a question"))
        scene.see()
        await scene.clock.run_for(1)
        scene.ask()
        await scene.clock.run_for(60)
        assert len(scene.said) == 1
        scene.answer()
        await scene.clock.run_for(1)
        assert await scene.house.store.notes(KIND) == []


async def test_the_same_words_asked_again_while_nobody_watched_are_told(scene: AttentionFixture) -> None:
    """Its log dates the second question after the first alert."""
    async with scene.running():
        scene.ask()
        await scene.clock.run_for(20)
    scene.house.hear("a", QuestionAnswered(scene.clock.now().wall))
    await scene.clock.run_for(20)
    scene.house.ask("a")
    await scene.clock.run_for(20)
    async with scene.running():
        scene.see()
        await scene.clock.run_for(20)
    assert len(scene.said) == 2


async def test_a_question_asked_while_nobody_watched_is_told(scene: AttentionFixture) -> None:
    """The alert before the restart does not suppress it."""
    async with scene.running():
        scene.ask(about="the first")
        await scene.clock.run_for(20)
    scene.house.hear("a", QuestionAnswered(scene.clock.now().wall))
    await scene.clock.run_for(20)
    scene.house.ask("a", "the second")
    async with scene.running():
        scene.see()
        await scene.clock.run_for(20)
        (left,) = await scene.house.store.notes(KIND)
    assert [text.splitlines()[1] for text in scene.said] == ["the first", "the second"]
    assert scene.record("a").expected_waits[0].since in left.key


async def test_what_is_muted_or_told_by_an_incident_is_not_told_here(scene: AttentionFixture) -> None:
    """Mutes and incidents are checked when the alert would be sent."""
    async with scene.running():
        scene.house.fail("a", "401", Failure.AUTH)
        scene.see()
        await scene.clock.run_for(5)
        scene.excused.add(scene.record("a").id)
        await scene.clock.run_for(3600)
    assert scene.said == []


async def test_a_question_is_told_when_its_mute_has_ended(scene: AttentionFixture) -> None:
    """Once, if it is still open then."""
    scene.excused.add(scene.record("a").id)
    async with scene.running():
        scene.ask()
        await scene.clock.run_for(7200)
        assert scene.said == []
        scene.excused.clear()
        await scene.clock.run_for(7200)
    assert len(scene.said) == 1


async def test_what_a_person_cut_short_or_refused_has_not_finished(scene: AttentionFixture) -> None:
    """The person knows; a turn after that is reported as usual."""
    async with scene.running():
        scene.work()
        scene.house.hear("a", TurnInterrupted(scene.clock.now().wall))
        scene.see()
        await scene.clock.run_for(60)
        at = scene.clock.now().wall
        scene.house.hear("a", Prompted(at), CallStarted(at, "c1", "Bash"))
        scene.see()
        scene.house.hear("a", CallEnded(at, "c1", is_error=True, refused=True))
        scene.finish()
        await scene.clock.run_for(60)
        assert scene.said == []
        scene.work()
        scene.finish()
        await scene.clock.run_for(60)
    assert len(scene.said) == 1


async def test_a_turn_that_ended_well_is_told_and_one_that_goes_on_is_not(scene: AttentionFixture) -> None:
    """Once for each turn; a session that was idle when we came has finished nothing."""
    async with scene.running():
        scene.see()
        await scene.clock.run_for(60)
        assert scene.said == []
        scene.work()
        scene.finish()
        await scene.clock.run_for(5)
        scene.work()
        await scene.clock.run_for(60)
        assert scene.said == []
        scene.finish()
        for _ in range(3):
            await scene.clock.run_for(60)
            scene.see()
    assert [text.splitlines()[0] for text in scene.said] == ["shop finished"]


async def test_a_turn_that_failed_has_not_finished(scene: AttentionFixture) -> None:
    """It is a problem, and reported as one."""
    async with scene.running():
        scene.work()
        scene.house.fail("a")
        scene.see()
        await scene.clock.run_for(60)
    assert scene.said == []


async def test_a_kind_that_is_switched_off_is_silent(scene: AttentionFixture) -> None:
    """`needs_you` alone: finished turns are not reported."""
    scene.rules = AlertRules(frozenset({AlertKind.NEEDS_YOU}))
    async with scene.running():
        scene.work()
        scene.finish()
        await scene.clock.run_for(60)
    assert scene.said == []
