"""Claims about the real Claude Code at the dialogs of its start: seen, said, and gone from the list as they came.

The dialogs come from the client itself: each home leaves out the answer that would skip one.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_houses import AgentHouse
from clients import ClaudeHome, TmuxSession, end_tmux, tmux, wait_for
from daemons import RunningDaemon
from operators import DONE, Operator, Record
from wakeful.testing.scripted_model import script

TRUST, BYPASS = "Quick safety check", "Bypass Permissions mode"


def forget(home: ClaudeHome, *answers: str) -> None:
    """Take answers back that the client kept, so that it asks again."""
    path = home.home / ".claude.json"
    kept = json.loads(path.read_text())
    path.write_text(json.dumps({name: value for name, value in kept.items() if name not in answers}))


def words_of(record: Record) -> str:
    return " ".join(each["untrusted"] for each in record["expected_waits"])


def at_dialog(operator: Operator, kind: str) -> Record:
    return operator.daemon.wait_for_session(
        lambda each: each["state"] == "waiting" and kind in words_of(each), f"session at {kind!r}"
    )


@pytest.fixture
def terminal(daemon: RunningDaemon) -> Iterator[Path]:
    """Somebody's own tmux server, where the daemon looks by itself."""
    folder = daemon.home / f"tmux-{daemon.home.stat().st_uid}"
    folder.mkdir(mode=0o700)
    yield folder / "default"
    end_tmux(folder / "default")


def test_a_client_somebody_started_is_listed_at_its_dialogs_and_becomes_one_session(
    operator: Operator, claude: ClaudeHome, terminal: Path
) -> None:
    """Trust, then the bypass warning, then its conversation: each is said in its turn, and one session is left."""
    forget(claude, "projects")
    claude.tmux_command(terminal, "mine", "claude", "--dangerously-skip-permissions", script(DONE))
    asked = at_dialog(operator, TRUST)
    assert (asked["attention"], asked["active_prompt"], asked["health"]) == ("person", False, "healthy")
    assert (asked["attachable"], asked["eligible_for_wake"], asked["session_alive"]) == (False, False, True)
    assert "attach" in {each["name"] for each in asked["actions"]}
    assert asked["cwd"] == str(claude.project)
    pane = TmuxSession(terminal, "mine")
    pane.press("Enter")
    at_dialog(operator, BYPASS)
    pane.press("2")
    pane.press("Enter")
    (conversation,) = wait_for(lambda: claude.logs() or None, "conversation")
    operator.wait_until(f"claude-{conversation.stem}", "turn's end", state="idle", health="healthy")
    assert [each["id"] for each in operator.daemon.sessions()] == [f"claude-{conversation.stem}"]
    everybody = operator.type("session", "list", "--all", "--json").json["sessions"]
    assert [each["id"] for each in everybody] == [f"claude-{conversation.stem}"]


def test_a_client_that_is_turned_away_leaves_nothing(
    operator: Operator, claude: ClaudeHome, terminal: Path
) -> None:
    """Who answers no ends the client: there was no conversation, and no session is left of it."""
    forget(claude, "projects")
    claude.tmux_command(terminal, "mine", "claude")
    at_dialog(operator, TRUST)
    TmuxSession(terminal, "mine").press("Escape")
    wait_for(lambda: operator.daemon.sessions() == [] or None, "empty list", 20)


def test_one_look_without_a_daemon_sees_it_too(
    daemon: RunningDaemon, claude: ClaudeHome, terminal: Path
) -> None:
    """`wakeful ls` alone shows the dialog."""
    daemon.watch(**claude.environ())
    forget(claude, "projects")
    claude.tmux_command(terminal, "mine", "claude")
    pane = TmuxSession(terminal, "mine")
    wait_for(lambda: TRUST in pane.screen() or None, "dialog")
    (seen,) = daemon.sessions()
    assert (seen["state"], seen["attention"], TRUST in words_of(seen)) == ("waiting", "person", True)
    assert "attach" in {each["name"] for each in seen["actions"]}


def test_a_first_prompt_that_met_a_dialog_was_not_typed_and_that_is_said(
    operator: Operator, claude: ClaudeHome
) -> None:
    """Nothing answers the dialog for a person; the command, the record and a later send say what to do."""
    forget(claude, "projects")
    done = operator.type("run", "--detach", "--json", "--prompt", script(DONE), "--", "claude")
    deed = done.json
    session_id = deed["session_id"]
    assert deed["outcome"] == "unverified"
    assert "folder trust" in deed["words"]
    assert "was not typed" in deed["words"]
    assert f"wakeful attach {session_id}" in deed["words"]
    asked = operator.wait_until(session_id, "dialog", state="waiting", attention="person", managed=True)
    assert (TRUST in words_of(asked), asked["attachable"], asked["eligible_for_wake"]) == (True, False, False)
    assert asked["ineligibility_reason"] == "session_not_attachable"
    send = next(each for each in asked["actions"] if each["name"] == "send")
    assert (send["allowed"], "dialog" in send["reason"]) == (False, True)
    why = operator.type("session", "why", session_id).out
    assert "was not typed" in why
    sent = operator.act("send", session_id, script(DONE))
    assert (sent["outcome"], f"wakeful attach {session_id}" in sent["words"]) == ("declined", True)
    socket = Path(next(each["argv"][2] for each in asked["actions"] if each["name"] == "attach"))
    (name,) = wait_for(lambda: _session_names(socket) or None, "tmux session")
    TmuxSession(socket, name).press("Enter")
    ready = operator.wait_until(session_id, "ready", state="idle", attention="none", attachable=True)
    assert ready["expected_waits"] == []
    assert operator.act("send", session_id, script(DONE))["outcome"] == "recovered"
    operator.wait_until(session_id, "turn's end", state="idle", health="healthy")
    assert [each["id"] for each in operator.daemon.sessions()] == [session_id]


def _session_names(socket: Path) -> list[str]:
    return tmux(socket, "list-sessions", "-F", "#{session_name}").split()


def test_theme_and_login_are_dialogs_too(operator: Operator, claude: ClaudeHome, terminal: Path) -> None:
    """The first start asks for a theme; a login that is open needs a login."""
    forget(claude, "projects", "hasCompletedOnboarding")
    claude.tmux_command(terminal, "first", "env", "ANTHROPIC_AUTH_TOKEN=t", "claude")
    assert at_dialog(operator, "Choose the text style")["attention"] == "person"
    TmuxSession(terminal, "first").press("Enter")
    assert at_dialog(operator, "Security notes")["attention"] == "person"
    TmuxSession(terminal, "first").press("Enter")
    at_dialog(operator, TRUST)
    TmuxSession(terminal, "first").press("Enter")
    claude.wait_for_status("idle")
    TmuxSession(terminal, "first").type_line("/login")
    asked = at_dialog(operator, "Select login method")
    assert (asked["attention"], asked["attachable"], len(operator.daemon.sessions())) == ("login", False, 1)
    TmuxSession(terminal, "first").press("Escape")
    operator.wait_until(asked["id"], "end of the dialog", state="idle", attention="none")


@pytest.fixture
def house(daemon: RunningDaemon, claude: ClaudeHome) -> Iterator[AgentHouse]:
    environ = claude.environ()
    names = [name for name in environ if name not in ("HOME", "PATH", "LANG", "SHELL")]
    toml = f"""
[agents.claude]
runtime = "tmux"
command = ["claude"]
workdir = "{claude.project}"
env = {names!r}
"""
    daemon.environ |= environ
    house = AgentHouse(daemon, toml)
    daemon.up()
    yield house
    house.end()


def test_an_agent_of_the_hub_at_a_dialog_needs_a_person(house: AgentHouse, claude: ClaudeHome) -> None:
    """Its session is the agent's from its dialog on, is not woken, and is one session when its conversation begins."""
    forget(claude, "projects")
    house.start("claude")
    asked = house.daemon.wait_for_session(
        lambda each: TRUST in words_of(each) and each["agent"] == "claude", "agent at its dialog"
    )
    assert (asked["state"], asked["attention"], asked["managed"]) == ("waiting", "person", True)
    assert (asked["attachable"], asked["ineligibility_reason"]) == (False, "session_not_attachable")
    house.server.tmux("send-keys", "-t", "=agent-claude:", "Enter")
    ready = house.daemon.wait_for_session(
        lambda each: each["agent"] == "claude" and each["state"] == "idle" and each["attachable"],
        "ready agent",
    )
    assert [each["id"] for each in house.daemon.sessions()] == [ready["id"]]
    assert house.daemon.run("agent", "stop", "claude").exit_code == 0
