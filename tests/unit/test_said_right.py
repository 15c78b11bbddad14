"""Claims about what alerts and events say: the agent by its name, no JSON, and that an orphan still runs."""

import pytest

from clinics import Clinic, play
from desks import subject
from wakeful.domain.critical import stamp
from wakeful.domain.events import Failure, Progressed, Prompted, TurnFailed
from wakeful.domain.evidence import Orphan
from wakeful.domain.ids import SessionId
from wakeful.domain.process import Process
from wakeful.domain.wording import in_words

A = SessionId("claude-a")


def test_an_alert_of_a_hub_agent_names_it_and_leads_to_it() -> None:
    """Not "found, not handed over": an agent of the hub hosts it, and `attach` goes there."""

    async def scene(clinic: Clinic) -> None:
        clinic.circumstances.agent_of = {A: "bot"}.get
        process = clinic.start("a")
        clinic.supervisor.lodge(A, "bot")
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
    """The agent is gone, its `git push` is not: it may yet happen while somebody decides."""

    async def scene(clinic: Clinic) -> None:
        process = await clinic.manage("a")
        clinic.work("a", "git push origin main")
        clinic.end(process)
        clinic.supervisor.left_behind(A, (Orphan(Process(71, 1, "boot"), "git push origin main"),))
        clinic.settle()
        await clinic.clock.run_for(60)

    (told,) = play(scene).recorder.said
    assert "its command still runs as process 71 and may yet happen" in told


def test_a_push_that_is_over_is_not_said_to_run() -> None:
    """Nothing was left behind: nothing is said of it."""

    async def scene(clinic: Clinic) -> None:
        process = await clinic.manage("a")
        clinic.work("a", "git push origin main")
        clinic.end(process)
        await clinic.clock.run_for(60)

    (told,) = play(scene).recorder.said
    assert "still runs" not in told


def test_no_alert_holds_json() -> None:
    """Neither a call's input nor a provider's error document."""

    async def scene(clinic: Clinic) -> None:
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
    assert in_words(text) == words


def test_the_last_tool_call_is_a_tool_call() -> None:
    """Text that the agent wrote two minutes later is none."""

    async def scene(clinic: Clinic) -> None:
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
