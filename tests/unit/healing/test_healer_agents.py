"""Sessions that agents of the hub host, as the one healer treats them: by their declaration, told and held like all others."""

import pytest

from support.healing_fixture import Clinic, play, written
from support.supervisor_fixture import subject
from wakeful.control.gate import Act, Deed
from wakeful.control.ownership import HostedByAgent
from wakeful.core.ids import ConversationId, SessionId
from wakeful.core.managed_session import Hosting
from wakeful.core.process import Process
from wakeful.healing.plan import AgentWay
from wakeful.incidents.critical_event import ActionTaken, Happening
from wakeful.judging.events import TurnEnded
from wakeful.sessions.session import Watched
from wakeful.storage.base import Outcome

A = SessionId("claude-a")
# The hub acts on the agent, whose name no session has.
KEY = SessionId("agent-bot")


class Bot:
    """The agent `bot`, which hosts session `a`, as the hub would speak for it."""

    def __init__(self, clinic: Clinic, way: AgentWay = AgentWay.REVIVE) -> None:
        self.clinic = clinic
        self.way = way
        self.starts = 0
        # How it ends when it is started, if not well.
        self.refusal: str | None = None
        clinic.supervisor.lodge(A, "bot")
        clinic.circumstances.agent_of = lambda _session_id: "bot"
        clinic.circumstances.agent_way = lambda _session_id: self.way
        clinic.reviver.start_agent = lambda _session_id: self.start()
        clinic.hands.guest_of = clinic.own_hands.guest_of = self.guest

    async def start(self) -> Deed:
        if self.refusal is not None:
            return Deed("", Act.RESUME, KEY, Outcome.DECLINED, self.refusal)
        self.starts += 1
        self.clinic.come_up("a", Process(70_000 + self.starts, 1, self.clinic.place.boot_id))
        return Deed("", Act.RESUME, KEY, Outcome.RECOVERED, "started")

    def guest(self, watched: Watched) -> Hosting | None:
        living = watched.presence.living
        if len(living) != 1:
            return None
        return Hosting(A, ConversationId("a"), "claude", "/", (), 0, 0.0, process=living[0].process)

    def die(self, command: str = "make test") -> None:
        """In the middle of a turn."""
        process = self.clinic.start("a")
        self.clinic.work("a", command)
        self.clinic.end(process)


def test_a_killed_agent_of_the_hub_is_started_and_told_what_was_cut_off() -> None:
    """Once, by its agent, in its conversation; its budget, its event and its alerts are those of any revival."""

    async def scene(clinic: Clinic) -> None:
        bot = Bot(clinic)
        bot.die()
        await clinic.clock.run_for(5)
        assert bot.starts == 1
        assert clinic.healer.trouble_of(KEY) is None
        clinic.hear("a", TurnEnded(clinic.wall()))
        await clinic.clock.run_for(3600)
        assert bot.starts == 1

    clinic = play(scene)
    (prompt,) = clinic.living.prompts
    assert "`make test`" in prompt
    assert "Why: died in the middle of a turn" in prompt, prompt
    assert len(clinic.living.acts) == 1, "told once, started by its agent alone"
    assert written(clinic) == [
        (Happening.SESSION_UNHEALTHY, ActionTaken.REVIVAL_ATTEMPTED),
        (Happening.SESSION_RECOVERED, ActionTaken.NONE),
    ]


def test_an_agent_that_dies_again_in_the_same_work_is_given_up() -> None:
    """The budget is the work's, whoever starts the process."""

    async def scene(clinic: Clinic) -> None:
        bot = Bot(clinic)
        bot.die()
        await clinic.clock.run_for(5)
        watched = clinic.roster.watched[A]
        clinic.end(watched.presence.living[0].process)
        await clinic.clock.run_for(3600)
        assert bot.starts == 1

    clinic = play(scene)
    assert (Happening.REVIVAL_FAILED, ActionTaken.NONE) in written(clinic)
    assert "gave up" in clinic.recorder.said[-1]
    assert clinic.recorder.said[-1].endswith("→ wakeful attach bot"), "its agent's command, not a session's"


@pytest.mark.parametrize("shown", [True, False], ids=["shows it later", "never shows it"])
def test_an_agent_without_an_input_line_yet_is_told_once_it_has_one(*, shown: bool) -> None:
    """A client calls itself idle before its terminal shows that: the turn is not lost for that. No attempt after 30 s."""

    async def scene(clinic: Clinic) -> None:
        clinic.living.outcome = Outcome.DECLINED
        bot = Bot(clinic)
        bot.die()
        await clinic.clock.run_for(10)
        assert bot.starts == 1
        if shown:
            clinic.living.outcome = Outcome.RECOVERED
        await clinic.clock.run_for(60)
        assert bot.starts == 1
        trouble = clinic.healer.trouble_of(A)
        assert trouble is not None
        outcome = Outcome.RECOVERED if shown else Outcome.UNVERIFIED
        assert trouble.did.startswith(f"resumed its conversation: {outcome}")

    clinic = play(scene)
    assert len(set(clinic.living.prompts)) == 1
    assert len(clinic.living.prompts) < 35


def test_a_call_elsewhere_holds_an_agent_until_a_person_says_yes() -> None:
    """`restart = "auto"` is no approval."""

    async def scene(clinic: Clinic) -> None:
        bot = Bot(clinic)
        bot.die("git push origin main")
        await clinic.clock.run_for(3600)
        assert bot.starts == 0
        assert (await clinic.healer.revive("a", approved=True)).outcome is Outcome.RECOVERED
        assert bot.starts == 1

    clinic = play(scene)
    assert "git push origin main" in clinic.living.prompts[0]


def test_an_agent_that_cannot_be_seen_is_waited_for() -> None:
    """Nothing is tried, spent or told while its runtime is lost; then it is started."""

    async def scene(clinic: Clinic) -> None:
        bot = Bot(clinic, AgentWay.WAIT)
        bot.die()
        await clinic.clock.run_for(60)
        assert (bot.starts, clinic.recorder.said) == (0, [])
        bot.way = AgentWay.REVIVE
        await clinic.clock.run_for(10)
        assert bot.starts == 1

    play(scene)


@pytest.mark.parametrize("mode", ["mine", "all"])
def test_an_agent_whose_restart_is_manual_is_told_about_as_managed(mode: str) -> None:
    """Whatever the mode is: never called found, named by its agent, and only its agent's commands act on it."""

    async def scene(clinic: Clinic) -> None:
        bot = Bot(clinic, AgentWay.TELL)
        bot.die()
        clinic.rules = type(clinic.rules)(mode=mode)
        await clinic.clock.run_for(3600)
        assert bot.starts == 0
        with pytest.raises(HostedByAgent):
            await clinic.healer.revive("a", approved=True)
        record = clinic.roster.watched[subject("a").id].record
        assert record is not None
        assert (record.managed, record.agent) == (True, "bot")

    clinic = play(scene)
    (told,) = clinic.recorder.said
    assert "handed over" not in told
    assert "agent bot hosts it" in told
