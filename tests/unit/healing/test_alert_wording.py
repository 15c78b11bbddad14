"""Claims about what alerts and events say: the agent by its name, no JSON, and that an orphan still runs."""

import pytest
from msgspec.structs import replace

from support.healing_fixture import HealingFixture, play
from support.supervisor_fixture import subject
from wakeful.control.driver import ActionResult
from wakeful.core.ids import SessionId
from wakeful.core.managed_session import ManagedSession
from wakeful.core.process import Process
from wakeful.healing.plan import AgentRecovery
from wakeful.incidents.critical_event import stamp
from wakeful.judging.events import Failure, Progressed, Prompted, TurnFailed
from wakeful.judging.evidence import Orphan
from wakeful.judging.wording import readable_text
from wakeful.storage.base import ActionOutcome

A = SessionId("claude-a")


class Watched:
    """The agent `bot` hosts session `a`, and a person brings it back."""

    def agent_name_of(self, session_id: SessionId) -> str | None:
        return "bot" if session_id == A else None

    def recovery_of(self, _session_id: SessionId) -> AgentRecovery:
        return AgentRecovery.NOTIFY

    def resume_agent(self, _session_id: SessionId) -> None: ...


def test_an_alert_of_a_hub_agent_names_it_and_leads_to_it() -> None:
    """Not "found, not handed over": an agent of the hub hosts it, and `attach` goes there."""

    async def scene(clinic: HealingFixture) -> None:
        clinic.circumstances.add_agents(Watched())
        process = clinic.start("a")
        clinic.supervisor.set_agent(A, "bot")
        clinic.work("a")
        clinic.end(process)
        await clinic.clock.run_for(60)

    (told,) = play(scene).recorder.said
    lines = told.splitlines()
    assert lines[0].startswith("bot (shop): died in the middle of a turn")
    assert lines[-1] == "→ wakeful attach bot"
    assert "found" not in told
    assert "agent bot hosts it" in told


def test_a_held_push_says_that_its_command_still_runs() -> None:
    """The agent is gone, its `git push` is not: it may yet happen before the decision."""

    async def scene(clinic: HealingFixture) -> None:
        process = await clinic.manage("a")
        clinic.work("a", "git push origin main")
        clinic.end(process)
        clinic.supervisor.on_orphans(A, (Orphan(Process(71, 1, "boot"), "git push origin main"),))
        clinic.settle()
        await clinic.clock.run_for(60)

    (told,) = play(scene).recorder.said
    assert "its command still runs as process 71 and may yet happen" in told


async def leave_a_tool(clinic: HealingFixture) -> Process:
    """Its agent dies in `make test`, which goes on."""
    process, tool = await clinic.manage("a"), Process(71, 1, "boot")
    clinic.work("a", "make test")
    clinic.end(process)
    clinic.supervisor.on_orphans(A, (Orphan(tool, "make test"),))
    clinic.settle()
    return tool


def test_no_agent_is_resumed_beside_its_command_that_could_not_be_ended() -> None:
    """One alert says that it still runs; the session is resumed when it has ended."""

    async def scene(clinic: HealingFixture) -> None:
        stop = clinic.living.stop

        async def in_vain(hosting: ManagedSession) -> ActionResult:
            return replace(await stop(hosting), outcome=ActionOutcome.INEFFECTIVE)

        clinic.living.stop = in_vain  # type: ignore[method-assign]
        tool = await leave_a_tool(clinic)
        await clinic.clock.run_for(120)
        assert "start" not in clinic.living.acts
        (told,) = clinic.recorder.said
        assert "could not resume its conversation: its command still runs as process 71" in told
        assert "and may yet happen" in told
        clinic.world.dead.add(tool)
        clinic.supervisor.on_exit(tool)
        clinic.settle()
        await clinic.clock.run_for(120)
        assert clinic.living.acts.count("start") == 1

    play(scene)


def test_a_revival_says_that_a_command_was_left_running() -> None:
    """Some are spared on purpose, such as one that keeps a terminal for others."""

    async def scene(clinic: HealingFixture) -> None:
        await leave_a_tool(clinic)
        await clinic.clock.run_for(10)
        clinic.answer("a")
        await clinic.clock.run_for(10)

    (told,) = play(scene).recorder.said
    assert "its command still runs as process 71 and may yet happen); it works again" in told


def test_a_push_that_is_over_is_not_said_to_run() -> None:
    """No process is left, and the alert mentions none."""

    async def scene(clinic: HealingFixture) -> None:
        process = await clinic.manage("a")
        clinic.work("a", "git push origin main")
        clinic.end(process)
        await clinic.clock.run_for(60)

    (told,) = play(scene).recorder.said
    assert "still runs" not in told


def test_no_alert_holds_json() -> None:
    """Neither a call's input nor a provider's error document."""

    async def scene(clinic: HealingFixture) -> None:
        process = clinic.start("a")
        clinic.work("a", "make test")
        clinic.end(process)
        clinic.start("b")
        refused = 'API Error: 529 {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}'
        clinic.hear("b", Prompted(clinic.wall()), TurnFailed(clinic.wall(), Failure.UNKNOWN, refused))
        await clinic.clock.run_for(120)

    said = play(scene).recorder.said
    assert len(said) == 2
    assert not [each for each in said if "{" in each or '":' in each]
    assert "`Bash: make test`" in said[0]
    assert "`API Error: 529 Overloaded`" in said[1]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('Bash {"command": "make"}', "Bash: make"),
        ('failed {"error": {"message": "no \\"key\\" left"}}', 'failed no "key" left'),
        ('failed {"code": 1, "x": "y"}', "failed …"),
        ("use {braces} freely", "use {braces} freely"),
        ("plain words", "plain words"),
    ],
)
def test_json_is_said_in_words(text: str, words: str) -> None:
    """Of a call what it is about, of an error its message, of anything else that there was more."""
    assert readable_text(text) == words


def test_the_last_tool_call_is_a_tool_call() -> None:
    """Text that the agent wrote two minutes later is none."""

    async def scene(clinic: HealingFixture) -> None:
        process = clinic.start("a")
        clinic.work("a")
        began = clinic.wall()
        await clinic.clock.run_for(120)
        clinic.hear("a", Progressed(clinic.wall()))
        clinic.end(process)
        await clinic.clock.run_for(60)
        (event,) = clinic.events
        assert event.session_id == subject("a").id
        assert event.details["last_tool_call"] == stamp(began)

    play(scene)
