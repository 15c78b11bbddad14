"""Claims about a process that the chat gateway wants ended in its turn: the plan decides, and the gate ends it."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from support.healing_fixture import HealingFixture
from wakeful.control.gate import ActionKind, ActionRecord
from wakeful.control.ownership import NotManaged
from wakeful.core.ids import SessionId
from wakeful.core.managed_session import SESSION_VARIABLE
from wakeful.core.process import Process
from wakeful.healing.plan import HealingRules
from wakeful.judging.summary import summarize
from wakeful.storage.base import ActionOutcome

SESSION = SessionId("claude-a")
Prepare = Callable[[HealingFixture], Awaitable[None]]


async def nothing(_clinic: HealingFixture) -> None: ...


async def begin_turn(clinic: HealingFixture, command: str = "make test") -> Process:
    process = await clinic.manage("a")
    clinic.work("a", command)
    clinic.world.marks[SESSION_VARIABLE, SESSION] = [process]
    return process


def ended(
    prepare: Prepare = nothing, command: str = "make test", rules: HealingRules | None = None
) -> tuple[ActionRecord, bool]:
    """What became of it, and whether its process was killed."""

    async def scene() -> tuple[ActionRecord, bool]:
        clinic = HealingFixture(rules=rules)
        async with clinic.open():
            process = await begin_turn(clinic, command)
            await prepare(clinic)
            record = await clinic.healer.end_runaway("a")
            return record, process in clinic.world.dead

    return asyncio.run(scene())


async def paused(clinic: HealingFixture) -> None:
    await clinic.calm.pause("ada")


async def stopped(clinic: HealingFixture) -> None:
    await clinic.hands.stop("a")


def test_a_runaway_is_ended_by_an_act_of_the_gate() -> None:
    """The act is written down as every other; the tools of the turn are not swept."""
    record, killed = ended()
    assert (record.act, record.outcome, killed) == (ActionKind.STOP, ActionOutcome.CONFIRMED, True)


def test_a_runaway_without_a_mark_is_ended() -> None:
    """The first process of a client that names its own conversation has none: it is the process that is known."""

    async def unmarked(clinic: HealingFixture) -> None:
        clinic.world.marks.clear()

    record, killed = ended(unmarked)
    assert (record.outcome, killed) == (ActionOutcome.CONFIRMED, True)


@pytest.mark.parametrize(
    ("prepare", "why"), [(paused, "PAUSED by ada"), (stopped, "a person stopped it, which is final")]
)
def test_what_a_person_ordered_speaks_against_it(prepare: Prepare, why: str) -> None:
    """A pause, and a stop that is final."""
    record, killed = ended(prepare)
    assert (record.outcome, why in record.words, killed) == (ActionOutcome.DECLINED, True, False)


def test_nothing_is_ended_in_the_mode_observe() -> None:
    """The daemon's own mode counts, whatever the gateway's is."""
    record, killed = ended(rules=HealingRules(mode="observe"))
    assert (record.outcome, killed) == (ActionOutcome.DECLINED, False)


def test_a_call_that_reaches_others_is_not_cut_off() -> None:
    """Cut off inside a push a person would have to decide: so nothing cuts it off."""
    record, killed = ended(command="git push origin main")
    assert (record.outcome, "effects elsewhere" in record.words, killed) == (
        ActionOutcome.DECLINED,
        True,
        False,
    )


def test_a_session_that_was_given_back_is_not_ended() -> None:
    """Nothing would bring it back, and it is a person's."""

    async def scene() -> bool:
        clinic = HealingFixture()
        async with clinic.open():
            process = await begin_turn(clinic)
            await clinic.hands.release("a")
            with pytest.raises(NotManaged):
                await clinic.healer.end_runaway("a")
            return process in clinic.world.dead

    assert not asyncio.run(scene())


def test_a_turn_whose_revival_is_spent_is_not_ended() -> None:
    """It was brought back once; ended again it would be given up, and its turn lost."""

    async def scene() -> tuple[ActionRecord, bool]:
        clinic = HealingFixture()
        async with clinic.open():
            clinic.end(await begin_turn(clinic))
            await clinic.clock.run_for(30)
            record = await clinic.healer.end_runaway("a")
            return record, bool(clinic.world.dead)

    record, killed = asyncio.run(scene())
    assert (record.outcome, killed) == (ActionOutcome.DECLINED, False), record


def test_people_read_who_ended_it() -> None:
    """Its alert, its event and its incident do not call that a death of its own; a death that follows is one."""

    async def scene() -> tuple[list[str], list[str]]:
        clinic = HealingFixture()
        async with clinic.open():
            process = await begin_turn(clinic)
            await clinic.healer.end_runaway("a")
            clinic.end(process)
            ended = summary_of(clinic)
            await clinic.clock.run_for(30)
            clinic.end(clinic.start_again("a", 4711))
            died = summary_of(clinic)
            await clinic.clock.run_for(2000)
            return [ended, died], clinic.recorder.said

    (ended_words, died_words), said = asyncio.run(scene())
    assert ended_words.startswith("ended by Wakeful in the middle of `make test`"), ended_words
    assert died_words.startswith("died in the middle of"), died_words
    assert "ended by Wakeful in the middle of a turn, to free memory or processor time" in said[0], said


def summary_of(clinic: HealingFixture) -> str:
    session = clinic.registry.find("a")
    clinic.supervisor.on_action(session.subject.id)
    assert session.verdict is not None
    return summarize(session.activity, session.presence, session.verdict, clinic.clock.now())
