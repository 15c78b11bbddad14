"""Sessions that agents of the hub host, as the one healer treats them: by their declaration, with alerts and
checkpoints like all others."""

from collections.abc import Coroutine

import pytest

from support.healing_fixture import HealingFixture, written
from support.supervisor_fixture import subject
from wakeful.control.gate import ActionKind, ActionRecord
from wakeful.control.ownership import HostedByAgent
from wakeful.core.ids import ConversationId, SessionId
from wakeful.core.managed_session import ManagedSession
from wakeful.core.process import Process
from wakeful.healing.plan import AgentRecovery
from wakeful.incidents.critical_event import ActionTaken, CriticalEventKind
from wakeful.judging.events import TurnEnded
from wakeful.sessions.session import TrackedSession
from wakeful.storage.base import ActionOutcome

A = SessionId("claude-a")
# The hub acts on the agent, whose name no session has.
KEY = SessionId("agent-bot")


class Bot:
    """The agent `bot`, which hosts session `a`, as the hub would speak for it."""

    def __init__(self, clinic: HealingFixture, way: AgentRecovery = AgentRecovery.REVIVE) -> None:
        self.clinic = clinic
        self.way = way
        self.starts = 0
        # How it ends when it is started, if not well.
        self.refusal: str | None = None
        clinic.supervisor.set_agent(A, "bot")
        clinic.circumstances.add_agents(self)
        clinic.reviver.add_agents(self)
        clinic.agent_sessions.guest = self.guest

    def agent_name_of(self, _session_id: SessionId) -> str:
        return "bot"

    def recovery_of(self, _session_id: SessionId) -> AgentRecovery:
        return self.way

    def resume_agent(self, _session_id: SessionId) -> Coroutine[None, None, ActionRecord]:
        return self.start()

    async def start(self) -> ActionRecord:
        if self.refusal is not None:
            return ActionRecord("", ActionKind.RESUME, KEY, ActionOutcome.DECLINED, self.refusal)
        self.starts += 1
        self.clinic.come_up("a", Process(70_000 + self.starts, 1, self.clinic.place.boot_id))
        return ActionRecord("", ActionKind.RESUME, KEY, ActionOutcome.CONFIRMED, "started")

    def guest(self, watched: TrackedSession) -> ManagedSession | None:
        living = watched.presence.living_processes
        if len(living) != 1:
            return None
        return ManagedSession(A, ConversationId("a"), "claude", "/", (), 0, 0.0, process=living[0].process)

    def die(self, command: str = "make test") -> None:
        """In the middle of a turn."""
        process = self.clinic.start("a")
        self.clinic.work("a", command)
        self.clinic.end(process)


async def test_a_killed_agent_of_the_hub_is_started_and_told_what_was_cut_off(clinic: HealingFixture) -> None:
    """Once, by its agent, in its conversation; its budget, its event and its alerts are those of any revival."""
    bot = Bot(clinic)
    bot.die()
    await clinic.clock.run_for(5)
    assert bot.starts == 1
    assert clinic.healer.case_of(KEY) is None
    clinic.hear("a", TurnEnded(clinic.wall()))
    await clinic.clock.run_for(3600)
    assert bot.starts == 1
    (prompt,) = clinic.living.prompts
    assert "`make test`" in prompt
    assert "Why: died in the middle of a turn" in prompt, prompt
    assert len(clinic.living.acts) == 1, "told once, started by its agent alone"
    assert written(clinic) == [
        (CriticalEventKind.SESSION_UNHEALTHY, ActionTaken.REVIVAL_ATTEMPTED),
        (CriticalEventKind.SESSION_RECOVERED, ActionTaken.NONE),
    ]


async def test_an_agent_that_dies_again_in_the_same_work_is_given_up(clinic: HealingFixture) -> None:
    """The budget belongs to the task, whichever part starts the process."""
    bot = Bot(clinic)
    bot.die()
    await clinic.clock.run_for(5)
    session = clinic.registry.sessions[A]
    clinic.end(session.presence.living_processes[0].process)
    await clinic.clock.run_for(3600)
    assert bot.starts == 1
    assert (CriticalEventKind.REVIVAL_FAILED, ActionTaken.NONE) in written(clinic)
    assert "gave up" in clinic.recorder.said[-1]
    assert clinic.recorder.said[-1].endswith("→ wakeful attach bot"), "its agent's command, not a session's"


@pytest.mark.parametrize("shown", [True, False], ids=["shows it later", "never shows it"])
async def test_an_agent_without_an_input_line_yet_is_told_once_it_has_one(
    *, shown: bool, clinic: HealingFixture
) -> None:
    """A client calls itself idle before its terminal shows that: the turn is not lost for that. No attempt after 30 s."""
    clinic.living.outcome = ActionOutcome.DECLINED
    bot = Bot(clinic)
    bot.die()
    await clinic.clock.run_for(10)
    assert bot.starts == 1
    if shown:
        clinic.living.outcome = ActionOutcome.CONFIRMED
    await clinic.clock.run_for(60)
    assert bot.starts == 1
    case = clinic.healer.case_of(A)
    assert case is not None
    outcome = "" if shown else ": unconfirmed"
    assert case.did.startswith(f"resumed its conversation{outcome} (")
    assert len(set(clinic.living.prompts)) == 1
    assert len(clinic.living.prompts) < 35


async def test_a_call_elsewhere_holds_an_agent_until_a_person_says_yes(clinic: HealingFixture) -> None:
    """`restart = "auto"` is no approval."""
    bot = Bot(clinic)
    bot.die("git push origin main")
    await clinic.clock.run_for(3600)
    assert bot.starts == 0
    assert (await clinic.healer.revive("a", approved=True)).outcome is ActionOutcome.CONFIRMED
    assert bot.starts == 1
    assert "git push origin main" in clinic.living.prompts[0]


async def test_an_agent_that_cannot_be_seen_is_waited_for(clinic: HealingFixture) -> None:
    """While its runtime is lost there is no attempt, no cost and no alert; then it is started."""
    bot = Bot(clinic, AgentRecovery.WAIT)
    bot.die()
    await clinic.clock.run_for(60)
    assert (bot.starts, clinic.recorder.said) == (0, [])
    bot.way = AgentRecovery.REVIVE
    await clinic.clock.run_for(10)
    assert bot.starts == 1


@pytest.mark.parametrize("mode", ["mine", "all"])
async def test_an_agent_whose_restart_is_manual_is_told_about_as_managed(
    mode: str, clinic: HealingFixture
) -> None:
    """Whatever the mode is: never called found, named by its agent, and only its agent's commands act on it."""
    bot = Bot(clinic, AgentRecovery.NOTIFY)
    bot.die()
    clinic.rules = type(clinic.rules)(mode=mode)
    await clinic.clock.run_for(3600)
    assert bot.starts == 0
    with pytest.raises(HostedByAgent):
        await clinic.healer.revive("a", approved=True)
    record = clinic.registry.sessions[subject("a").id].record
    assert record is not None
    assert (record.managed, record.agent) == (True, "bot")
    (told,) = clinic.recorder.said
    assert "handed over" not in told
    assert "agent bot hosts it" in told
