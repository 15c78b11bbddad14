"""Claims about what alerts and events say: the agent by its name, no JSON, and that an orphan still runs."""

import pytest
from msgspec.structs import replace

from support.healing_fixture import HealingFixture
from support.supervisor_fixture import subject
from wakeful.checkpoints.model import ChoiceName
from wakeful.control.driver import ActionResult
from wakeful.core.ids import SessionId
from wakeful.core.managed_session import ManagedSession
from wakeful.core.process import Process
from wakeful.healing.plan import AgentRecovery
from wakeful.incidents.critical_event import stamp
from wakeful.incidents.service import REOPEN_SECONDS
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


async def test_an_alert_of_a_hub_agent_names_it_and_leads_to_it(clinic: HealingFixture) -> None:
    """Not "found, not handed over": an agent of the hub hosts it, and `attach` goes there."""
    clinic.circumstances.add_agents(Watched())
    process = clinic.start("a")
    clinic.supervisor.set_agent(A, "bot")
    clinic.work("a")
    clinic.end(process)
    await clinic.clock.run_for(60)
    (told,) = clinic.recorder.said
    lines = told.splitlines()
    assert lines[0].startswith("bot (shop): died in the middle of a turn")
    assert lines[-1] == "→ wakeful attach bot"
    assert "found" not in told
    assert "agent bot hosts it" in told


async def test_a_held_push_says_that_its_command_still_runs(clinic: HealingFixture) -> None:
    """The agent is gone, its `git push` is not: it may yet happen before the decision."""
    process = await clinic.manage("a")
    clinic.work("a", "git push origin main")
    clinic.end(process)
    clinic.supervisor.on_orphans(A, (Orphan(Process(71, 1, "boot"), "git push origin main"),))
    clinic.settle()
    await clinic.clock.run_for(60)
    (told,) = clinic.recorder.said
    assert (
        "the session waits for your decision; its command still runs as process 71 and may still take effect"
        in told
    )


async def test_a_closed_alert_does_not_say_that_an_ended_command_still_runs(clinic: HealingFixture) -> None:
    """A person aborted the held push, and its command has ended."""
    process, tool = await clinic.manage("a"), Process(71, 1, "boot")
    clinic.work("a", "git push origin main")
    clinic.end(process)
    clinic.supervisor.on_orphans(A, (Orphan(tool, "git push origin main"),))
    clinic.settle()
    await clinic.clock.run_for(60)
    clinic.world.dead.add(tool)
    clinic.supervisor.on_exit(tool)
    clinic.settle()
    (checkpoint,) = await clinic.checkpoints.list_checkpoints(everything=False)
    await clinic.checkpoints.decide(checkpoint.number, ChoiceName.ABORT, "ada")
    await clinic.clock.run_for(2 * REOPEN_SECONDS)
    told, closed = clinic.recorder.said
    assert "still runs" in told
    assert closed.startswith("Closed: shop")
    assert "still runs" not in closed


@pytest.mark.parametrize("is_hosted", [False, True])
async def test_an_alert_about_a_session_that_is_left_alone_says_that_its_command_still_runs(
    is_hosted: bool, clinic: HealingFixture
) -> None:
    """Found, or hosted by an agent of the hub: nothing is done about it, and its `git push` goes on."""
    if is_hosted:
        clinic.circumstances.add_agents(Watched())
    process = clinic.start("a")
    clinic.work("a", "git push origin main")
    clinic.end(process)
    clinic.supervisor.on_orphans(A, (Orphan(Process(71, 1, "boot"), "git push origin main"),))
    clinic.settle()
    await clinic.clock.run_for(60)
    (told,) = clinic.recorder.said
    assert "it stays stopped; its command still runs as process 71 and may still take effect" in told


@pytest.mark.parametrize("ends", ["by itself", "with the session"])
async def test_a_held_push_that_ended_is_no_longer_said_to_run(ends: str, clinic: HealingFixture) -> None:
    """Not in the list of incidents, not in `why`, and not in the message about the end."""
    process, push = await clinic.manage("a"), Process(71, 1, "boot")
    clinic.work("a", "git push origin main")
    clinic.end(process)
    clinic.supervisor.on_orphans(A, (Orphan(push, "git push origin main"),))
    clinic.settle()
    await clinic.clock.run_for(60)
    (incident,) = await clinic.incidents.list_incidents()
    assert "still runs as process 71" in incident.members[0].words
    if ends == "by itself":
        clinic.supervisor.on_orphans(A, ())
        clinic.settle()
        await clinic.clock.run_for(60)
        (incident,) = await clinic.incidents.list_incidents()
        assert "still runs" not in incident.members[0].words
    case = clinic.healer.case_of(A)
    assert case is not None
    assert case.did == ("no action: an interrupted call may have had effects elsewhere (checkpoint 1)")
    await clinic.hands.stop(A)
    clinic.settle()
    await clinic.clock.run_for(REOPEN_SECONDS + 60)
    problem, end = clinic.recorder.said
    assert "its command still runs as process 71 and may still take effect" in problem
    assert end.startswith("Closed: ")
    assert "still runs" not in end


async def leave_a_tool(clinic: HealingFixture) -> Process:
    """Its agent dies in `make test`, which goes on."""
    process, tool = await clinic.manage("a"), Process(71, 1, "boot")
    clinic.work("a", "make test")
    clinic.end(process)
    clinic.supervisor.on_orphans(A, (Orphan(tool, "make test"),))
    clinic.settle()
    return tool


async def test_no_agent_is_resumed_beside_its_command_that_could_not_be_ended(clinic: HealingFixture) -> None:
    """One alert says that it still runs; the session is resumed when it has ended."""
    stop = clinic.living.stop

    async def in_vain(hosting: ManagedSession) -> ActionResult:
        return replace(await stop(hosting), outcome=ActionOutcome.INEFFECTIVE)

    clinic.living.stop = in_vain  # type: ignore[method-assign]
    tool = await leave_a_tool(clinic)
    await clinic.clock.run_for(120)
    assert "start" not in clinic.living.acts
    (told,) = clinic.recorder.said
    assert "could not resume its conversation: its command still runs as process 71" in told
    assert "and may still take effect" in told
    clinic.world.dead.add(tool)
    clinic.supervisor.on_exit(tool)
    clinic.settle()
    await clinic.clock.run_for(120)
    assert clinic.living.acts.count("start") == 1


async def test_a_revival_says_that_a_command_was_left_running(clinic: HealingFixture) -> None:
    """Some are spared on purpose, such as one that keeps a terminal for others."""
    await leave_a_tool(clinic)
    await clinic.clock.run_for(10)
    clinic.answer("a")
    await clinic.clock.run_for(10)
    (told,) = clinic.recorder.said
    assert "its command still runs as process 71 and may still take effect); it works again" in told


async def test_a_push_that_is_over_is_not_said_to_run(clinic: HealingFixture) -> None:
    """No process is left, and the alert mentions none."""
    process = await clinic.manage("a")
    clinic.work("a", "git push origin main")
    clinic.end(process)
    await clinic.clock.run_for(60)
    (told,) = clinic.recorder.said
    assert "still runs" not in told


async def test_no_alert_holds_json(clinic: HealingFixture) -> None:
    """Neither a call's input nor a provider's error document."""
    process = clinic.start("a")
    clinic.work("a", "make test")
    clinic.end(process)
    clinic.start("b")
    refused = 'API Error: 529 {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}'
    clinic.hear("b", Prompted(clinic.wall()), TurnFailed(clinic.wall(), Failure.UNKNOWN, refused))
    await clinic.clock.run_for(120)
    said = clinic.recorder.said
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


async def test_the_last_tool_call_is_a_tool_call(clinic: HealingFixture) -> None:
    """Text that the agent wrote two minutes later is none."""
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
