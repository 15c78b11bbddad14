"""Claims about the budget of healing: it belongs to what a person asked for, whatever becomes of the agent meanwhile.

Agents hang, die, fail and are cut short in any order, in a terminal and without one, over restarts of the daemon; time
is virtual.
"""

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, example, given, settings, strategies as st

from support.healing_fixture import HealingFixture, opened, written
from support.supervisor_fixture import subject
from wakeful.control.driver import ActionResult
from wakeful.core.managed_session import ManagedSession
from wakeful.incidents.critical_event import ActionTaken, CriticalEventKind
from wakeful.incidents.model import member_text
from wakeful.judging.events import ClientClosed, Failure, TurnFailed, TurnInterrupted
from wakeful.judging.summary import summarize
from wakeful.testing.virtual_clock import VirtualClock

SILENT_SECONDS = 700.0
KINDS = ("a", "codex-a", "a in tmux", "codex-a in tmux")
# What may happen to one work without ending it. `restart`: of the daemon.
MISHAPS = ("hang", "die", "exit", "cut and die", "fail", "restart", "answer and hang", "a minute")

ENDS = {"die", "exit", "cut and die"}


class SessionScript:
    """One session of a fixture and its scripted client."""

    def __init__(self, kind: str, *, stop_leaves_line: bool, brief_after_seconds: float | None) -> None:
        self.name, _, self.place = kind.partition(" in ")
        self.driver = self.place or subject(self.name).provider
        self.stop_leaves_line = stop_leaves_line
        # When its log tells of what Wakeful said to it, if ever.
        self.brief_after_seconds = brief_after_seconds
        self._reading: set[asyncio.Task[None]] = set()

    def settle_in(self, clinic: HealingFixture) -> None:
        """Its client ends and comes up in its own manner."""
        living, stop = clinic.living, clinic.living.stop
        # Codex without a terminal runs a process for each turn; a resumed session keeps its driver.
        living.name, living.per_turn = self.driver, self.driver == "codex"

        async def stopped(hosting: ManagedSession) -> ActionResult:
            if self.stop_leaves_line and clinic.registry.find(self.name).presence.living_processes:
                clinic.hear(self.name, TurnInterrupted(clinic.wall()), ClientClosed(clinic.wall()))
            return await stop(hosting)

        async def shown(name: str, prompt: str, seconds: float) -> None:
            await clinic.clock.sleep(seconds)
            HealingFixture.prompted(clinic, name, prompt)

        def prompted(name: str, prompt: str) -> None:
            if self.brief_after_seconds is not None:
                self._reading.add(asyncio.create_task(shown(name, prompt, self.brief_after_seconds)))

        living.stop, clinic.prompted = stopped, prompted  # type: ignore[method-assign]

    async def begin(self, clinic: HealingFixture) -> None:
        process = clinic.start(self.name)
        if self.place:
            clinic.show(self.name, process)
        managed = await clinic.hands.adopt(subject(self.name).id)
        assert managed.driver == self.driver
        clinic.settle()
        HealingFixture.prompted(clinic, self.name, "Fix the tests")

    async def suffer(self, clinic: HealingFixture, mishap: str) -> None:
        now = clinic.wall()
        match mishap:
            case "die":
                self._end(clinic)
            case "exit":
                clinic.hear(self.name, ClientClosed(now))
                self._end(clinic)
            case "cut and die":
                if clinic.registry.find(self.name).presence.living_processes:
                    clinic.hear(self.name, TurnInterrupted(now))
                self._end(clinic)
            case "fail" if clinic.registry.find(self.name).activity.in_turn:
                clinic.hear(self.name, TurnFailed(now, Failure.REQUEST, "it cannot be"))
            case "answer and hang" if clinic.registry.find(self.name).activity.in_turn:
                clinic.answer(self.name)
        await clinic.clock.run_for(60 if mishap == "a minute" else SILENT_SECONDS)

    def _end(self, clinic: HealingFixture) -> None:
        for process in clinic.registry.find(self.name).presence.living_processes:
            clinic.end(process.process)


async def suffered(patient: SessionScript, mishaps: Sequence[str]) -> HealingFixture:
    """The fixture after all of it; a restart of its daemon keeps the observed messages."""
    clinic = HealingFixture(clock=VirtualClock())
    patient.settle_in(clinic)
    rest = list(mishaps)
    async with clinic.open():
        await patient.begin(clinic)
    while rest:
        clinic.build()
        async with clinic.open():
            while rest and (mishap := rest.pop(0)) != "restart":
                await patient.suffer(clinic, mishap)
    return clinic


def figures(clinic: HealingFixture) -> tuple[int, int, int, int]:
    """Revivals, give-ups, alerts of the problem and alerts of the give-up."""
    told = [each for each in clinic.recorder.said if not each.startswith(("Resolved", "Closed"))]
    gave_up = [each for each in told if "gave up" in each]
    events = written(clinic)
    return (
        events.count((CriticalEventKind.SESSION_UNHEALTHY, ActionTaken.REVIVAL_ATTEMPTED)),
        events.count((CriticalEventKind.REVIVAL_FAILED, ActionTaken.NONE)),
        len(told) - len(gave_up),
        len(gave_up),
    )


def reopenings(mishaps: Sequence[str]) -> int:
    """How often it was opened and left again after it had ended."""
    return sum(
        mishap == "exit" and not ENDS.isdisjoint(mishaps[:number]) for number, mishap in enumerate(mishaps)
    )


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@example(["hang", "answer and hang", "die", "exit", "fail"], False, 5.0)
@given(
    st.lists(st.sampled_from(MISHAPS), min_size=1, max_size=7),
    st.booleans(),
    st.sampled_from((None, 0.0, 5.0, 50.0)),
)
def test_one_work_is_revived_once_and_given_up_once(
    kind: str, mishaps: list[str], stop_leaves_line: bool, brief_after_seconds: float | None
) -> None:
    """However often it hangs, dies, fails or is found idle in between, also by another daemon."""
    patient = SessionScript(kind, stop_leaves_line=stop_leaves_line, brief_after_seconds=brief_after_seconds)
    clinic = asyncio.run(suffered(patient, mishaps))
    revivals, give_ups, alerts, last_alerts = figures(clinic)
    assert (revivals <= 1, give_ups <= 1) == (True, True), written(clinic)
    # one that a person opened again after its end and left: that closes its incident.
    news = mishaps.count("answer and hang") + (brief_after_seconds is None) + reopenings(mishaps)
    assert alerts + last_alerts <= 1 + news, clinic.recorder.said
    assert clinic.living.acts.count("start") <= 1
    (managed,) = clinic.holdings.all()
    assert managed.driver == patient.driver


@pytest.mark.parametrize("kind", KINDS)
async def test_a_person_who_asks_again_begins_other_work(kind: str) -> None:
    """Given up, prompted again by the person and hung again, it is revived once more."""
    patient = SessionScript(kind, stop_leaves_line=True, brief_after_seconds=5.0)
    clinic = await suffered(patient, ["hang", "hang"])
    clinic.build()
    async with clinic.open():
        HealingFixture.prompted(clinic, patient.name, "Fix it the other way")
        await clinic.clock.run_for(3 * SILENT_SECONDS)
    revivals, give_ups, _, _ = figures(clinic)
    assert (revivals, give_ups) == (2, 2)


async def poisoned(clinic: HealingFixture) -> None:
    """A conversation that fails whatever it is asked."""
    await clinic.manage("a")
    for _ in range(4):
        clinic.fail("a", "messages: at least one message is required", Failure.REQUEST)


async def test_whoever_takes_the_place_of_a_conversation_has_its_budget(clinic: HealingFixture) -> None:
    """A conversation that fails at every prompt is replaced once; the new one hangs, and is given up."""
    await poisoned(clinic)
    await clinic.clock.run_for(4 * SILENT_SECONDS)
    assert clinic.living.acts.count("start") == 1, written(clinic)
    assert figures(clinic)[:2] == (1, 1)
    # The new one was never seen at work.
    assert CriticalEventKind.SESSION_RECOVERED not in [each.event for each in clinic.events]


async def test_a_conversation_that_was_replaced_was_stopped_by_nobody() -> None:
    """Wakeful ended it: it says where its work goes on, to people, in its incident and where it could be brought back."""
    async with opened() as clinic:
        await poisoned(clinic)
        await clinic.clock.run_for(60)
        clinic.settle()
    session = clinic.registry.find("a")
    managed = clinic.holdings.find(subject("a").id)
    assert managed is not None
    assert session.verdict is not None
    goes_on = f"its work continues in {managed.heir}"
    told = summarize(session.activity, session.presence, session.verdict, clinic.clock.now())
    assert (managed.stopped, told) == (False, f"stopped: {goes_on}")
    assert session.record is not None
    revive = next(each for each in session.record.actions if each.name == "revive")
    assert (revive.allowed, revive.reason) == (False, f"{goes_on}, which is final")
    (incident,) = await clinic.incidents.list_incidents(include_resolved=True)
    assert member_text(incident.members[0]) == f"closed: {goes_on}"


@pytest.mark.parametrize("is_noted", [False, True])
def test_a_crash_after_a_new_conversation_was_begun_begins_no_other(is_noted: bool) -> None:
    """The next daemon knows it by the revival it was begun for, and its budget is spent."""
    clinic = HealingFixture()
    keep = clinic.holdings.save

    async def first_daemon() -> None:
        never = asyncio.Event()

        async def stuck(*_: object) -> None:
            await never.wait()

        async def stuck_at_heir(managed: ManagedSession) -> None:
            await (keep(managed) if managed.heir is None else never.wait())

        if is_noted:
            clinic.reviver._conclude = stuck  # type: ignore[method-assign, assignment]
        else:
            clinic.holdings.save = stuck_at_heir  # type: ignore[method-assign]
        async with clinic.open():
            await poisoned(clinic)
            await clinic.clock.run_for(60)

    async def next_daemon() -> None:
        clinic.holdings.save = keep  # type: ignore[method-assign]
        clinic.build()
        async with clinic.open():
            await clinic.clock.run_for(4 * SILENT_SECONDS)

    asyncio.run(first_daemon())
    assert clinic.living.acts.count("start") == 1
    asyncio.run(next_daemon())
    assert clinic.living.acts.count("start") == 1
    # The old conversation is over, which is reported at once; the new one is given up.
    assert figures(clinic) == (1, 1, 1, 1)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_restart_does_not_claim_what_a_person_did(kind: str) -> None:
    """A person cuts the revived turn short; the next daemon knows still that Wakeful had acted before."""
    patient = SessionScript(kind, stop_leaves_line=False, brief_after_seconds=0.0)
    clinic = await suffered(patient, ["hang", "a minute"])
    clinic.hear(patient.name, TurnInterrupted(clinic.wall()))
    await clinic.clock.run_for(60)
    clinic.build()
    async with clinic.open():
        await clinic.clock.run_for(SILENT_SECONDS)
        assert clinic.healer.case_of(subject(patient.name).id) is None
    assert figures(clinic) == (1, 0, 0, 0)


@pytest.mark.parametrize("kind", KINDS)
def test_an_agent_that_ends_before_it_reads_why_it_was_revived_is_given_up(kind: str) -> None:
    """Its log ends with the turn that Wakeful cut short: no finding says that its work was lost, the budget does."""
    patient = SessionScript(kind, stop_leaves_line=True, brief_after_seconds=None)
    clinic = asyncio.run(suffered(patient, ["hang", "die", "a minute", "restart", "a minute"]))
    assert figures(clinic) == (1, 1, 0, 1)


@pytest.mark.parametrize("kind", KINDS)
def test_a_revival_of_which_nothing_is_seen_is_told_once(kind: str) -> None:
    """The agent lives and its log never shows why it is back: people wait for what comes of it, and not for ever."""
    patient = SessionScript(kind, stop_leaves_line=True, brief_after_seconds=None)
    clinic = asyncio.run(suffered(patient, ["hang", *["a minute"] * 10, "restart"]))
    assert figures(clinic) == (1, 0, 0, 0)
    clinic = asyncio.run(suffered(patient, ["hang", *["a minute"] * 10, "restart", *["a minute"] * 10]))
    assert figures(clinic) == (1, 0, 1, 0)
    assert "works again" not in clinic.recorder.said[0]
