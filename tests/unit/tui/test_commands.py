"""Claims about what the keys of `wakeful top` refuse, and why."""

from support.supervisor_fixture import SupervisorFixture
from wakeful.control.driver import PermissionQuestion
from wakeful.core.ids import SessionId
from wakeful.core.process import Process, ProcessState
from wakeful.judging.evidence import SessionIdentity
from wakeful.tui.commands import NOT_MANAGED, question_text, refusal_reason


def test_no_key_advises_a_handover_that_would_be_refused() -> None:
    """A found session is handed over first, unless it cannot be: then every key gives that reason."""
    house = SupervisorFixture()
    house.start("a")
    program = SessionIdentity(SessionId("job-1"), "events", "h", "event-log")
    house.supervisor.on_process(program, Process(8, 1, "b"), ProcessState.ALIVE, source="a test", cwd="/p")
    house.settle()
    client, job = (house.registry.find(each).record for each in ("a", "job-1"))
    assert client is not None
    assert job is not None
    assert (refusal_reason("stop", client), refusal_reason("adopt", client)) == (NOT_MANAGED, "")
    refused = {refusal_reason(act, job) for act in ("stop", "revive", "adopt")}
    assert refused == {"only Claude Code and Codex sessions can be adopted"}


def test_a_question_shows_what_would_run() -> None:
    """A call is named by its subject; what does not begin as a call is shown as it is, whatever it quotes."""
    asked = PermissionQuestion("1", "Bash", '{"command": "rm -rf /srv", "description": "list files"}')
    assert question_text(asked) == "Bash: rm -rf /srv"
    assert question_text(PermissionQuestion("1", "Bash", "touch made")) == "Bash touch made"
    screen = 'rm -rf /srv # {"command": "ls"}'
    assert question_text(PermissionQuestion("1", "Bash command", screen)) == f"Bash command {screen}"
