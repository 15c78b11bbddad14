"""Claims about the real Claude Code at the dialogs of its start: seen, said, and gone from the list as they came.

The dialogs come from the client itself: each home leaves out the answer that would skip one.
"""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from support.agents_e2e import AgentsFixture, hub_with_claude
from support.cli_user import DONE, Operator, Record
from support.daemon_process import RunningDaemon
from support.real_clients import ClaudeHome, TmuxSession, end_tmux, tmux, wait_for
from wakeful.judging.available_actions import NO_CONVERSATION
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
    """A person's own tmux server, which the daemon finds by itself."""
    folder = daemon.home / f"tmux-{daemon.home.stat().st_uid}"
    folder.mkdir(mode=0o700)
    yield folder / "default"
    end_tmux(folder / "default")


@pytest.fixture
def late_operator(claude: ClaudeHome, daemon: RunningDaemon) -> Operator:
    """One whose daemon is not up yet: the first look finds what is there, the next comes ten seconds later."""
    daemon.watch(**claude.environ())
    return Operator(daemon, claude)


def test_a_client_somebody_started_is_listed_at_its_dialogs_and_becomes_one_session(
    late_operator: Operator, claude: ClaudeHome, terminal: Path
) -> None:
    """Trust, then the bypass warning, then its conversation: each is reported in its turn, and one session is left."""
    forget(claude, "projects")
    claude.tmux_command(terminal, "mine", "claude", "--dangerously-skip-permissions", script(DONE))
    late_operator.daemon.up()
    asked = at_dialog(late_operator, TRUST)
    assert (asked["attention"], asked["active_prompt"], asked["health"]) == ("person", False, "healthy")
    assert (asked["attachable"], asked["eligible_for_wake"], asked["session_alive"]) == (False, False, True)
    assert "attach" in {each["name"] for each in asked["actions"]}
    assert asked["cwd"] == str(claude.project)
    # No conversation to hand over, and nothing advises that.
    offered = {each["name"]: (each["allowed"], each["reason"]) for each in asked["actions"]}
    advice = NO_CONVERSATION
    assert offered["adopt"] == (False, advice)
    for order in (("send", asked["id"], "go on"), ("adopt", asked["id"])):
        refused = late_operator.type("session", *order)
        assert (refused.exit_code, "session adopt" in refused.err, advice in refused.err) == (
            2,
            False,
            True,
        )
    resumed = late_operator.type("resume", asked["id"])
    assert (resumed.exit_code, NO_CONVERSATION in resumed.err) == (1, True), resumed.err
    pane = TmuxSession(terminal, "mine")
    pane.press("Enter")
    at_dialog(late_operator, BYPASS)
    pane.press("2")
    pane.press("Enter")
    (conversation,) = wait_for(lambda: claude.logs() or None, "conversation")
    late_operator.wait_until(f"claude-{conversation.stem}", "turn's end", state="idle", health="healthy")
    assert [each["id"] for each in late_operator.daemon.sessions()] == [f"claude-{conversation.stem}"]
    everybody = late_operator.type("session", "list", "--all", "--json").json["sessions"]
    assert [each["id"] for each in everybody] == [f"claude-{conversation.stem}"]


def test_the_question_for_an_api_key_is_a_dialog_and_no_permission(
    operator: Operator, claude: ClaudeHome, terminal: Path
) -> None:
    """It asks "Do you want to …?" as a tool does: a client at it is listed, and nothing can allow it from afar."""
    forget(claude, "customApiKeyResponses")
    claude.tmux_command(terminal, "mine", "claude")
    found = at_dialog(operator, "Detected a custom API key")
    assert (found["attention"], found["attachable"], found["managed"]) == ("person", False, False)
    deed = operator.type("run", "--detach", "--json", "--prompt", script(DONE), "--", "claude").json
    assert "was not typed" in deed["words"]
    asked = operator.wait_until(deed["session_id"], "dialog", state="waiting", attention="person")
    assert "Detected a custom API key" in words_of(asked)
    assert operator.type("session", "questions", deed["session_id"], "--json").json["questions"] == []


def test_a_client_that_is_turned_away_leaves_nothing(
    late_operator: Operator, claude: ClaudeHome, terminal: Path
) -> None:
    """Who answers no ends the client: there was no conversation, and no session is left of it."""
    forget(claude, "projects")
    claude.tmux_command(terminal, "mine", "claude")
    late_operator.daemon.up()
    at_dialog(late_operator, TRUST)
    TmuxSession(terminal, "mine").press("Escape")
    wait_for(lambda: late_operator.daemon.sessions() == [] or None, "empty list", 20)


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
    assert (sent["outcome"], f"wakeful attach {asked['short_name']}" in sent["words"]) == ("declined", True)
    socket = operator.daemon.socket.with_name("tmux.sock")
    (name,) = wait_for(lambda: _session_names(socket) or None, "tmux session")
    TmuxSession(socket, name).press("Enter")
    ready = operator.wait_until(session_id, "ready", state="idle", attention="none", attachable=True)
    assert ready["expected_waits"] == []
    assert operator.act("send", session_id, script(DONE))["outcome"] == "recovered"
    operator.wait_until(session_id, "turn's end", state="idle", health="healthy")
    assert [each["id"] for each in operator.daemon.sessions()] == [session_id]


def _session_names(socket: Path) -> list[str]:
    return tmux(socket, "list-sessions", "-F", "#{session_name}").split()


def test_theme_and_login_are_dialogs_too(late_operator: Operator, claude: ClaudeHome, terminal: Path) -> None:
    """The first start asks for a theme; a login that is open needs a login."""
    forget(claude, "projects", "hasCompletedOnboarding")
    claude.tmux_command(terminal, "first", "env", "ANTHROPIC_AUTH_TOKEN=t", "claude")
    late_operator.daemon.up()
    assert at_dialog(late_operator, "Choose the text style")["attention"] == "person"
    TmuxSession(terminal, "first").press("Enter")
    assert at_dialog(late_operator, "Security notes")["attention"] == "person"
    TmuxSession(terminal, "first").press("Enter")
    at_dialog(late_operator, TRUST)
    TmuxSession(terminal, "first").press("Enter")
    claude.wait_for_status("idle")
    TmuxSession(terminal, "first").type_line("/login")
    asked = at_dialog(late_operator, "Select login method")
    assert (asked["attention"], asked["attachable"], len(late_operator.daemon.sessions())) == (
        "login",
        False,
        1,
    )
    TmuxSession(terminal, "first").press("Escape")
    late_operator.wait_until(asked["id"], "end of the dialog", state="idle", attention="none")


@pytest.fixture
def house(daemon: RunningDaemon, claude: ClaudeHome) -> Iterator[AgentsFixture]:
    house = hub_with_claude(daemon, claude)
    daemon.up()
    yield house
    house.end()


def test_an_agent_of_the_hub_at_a_dialog_needs_a_person(house: AgentsFixture, claude: ClaudeHome) -> None:
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


CODEX_SCREENS: Final = (
    (
        "Welcome to Codex",
        "Sign in with ChatGPT to use Codex as part of your paid plan",
        "> 1. Sign in with ChatGPT",
    ),
    ("Trust this folder? Codex can read, edit, and run files here.", "\u203a 1. Trust and continue"),
    ("Something that no version showed before", "\u203a 1. Yes"),
    ("\u203a Ask Codex to do anything",),
)


def codex_command(folder: Path) -> tuple[str, ...]:
    """A stand-in with the client's name that shows one screen after the other, and goes on at a key."""
    program = folder / "codex"
    shutil.copy("/bin/bash", program)
    pages = [" ".join(f"{row!r}" for row in rows) for rows in CODEX_SCREENS]
    shown = "; read -rsn1; ".join(f"clear; printf '%s\\n\\n' {page}" for page in pages)
    # The cursor stands in the input line.
    return str(program), "-c", f"stty -echo; {shown}; printf '\\033[1;3H'; sleep 600; :"


def test_codex_at_its_dialogs_needs_a_person_too(
    daemon: RunningDaemon, tmp_path: Path, terminal: Path
) -> None:
    """Login, then trust, then an unknown screen: each is reported as what it is, and none is called ready."""
    home, project = tmp_path / "codex-home", tmp_path / "project"
    for folder in (home, project):
        folder.mkdir()
    daemon.watch(CODEX_HOME=str(home))
    command = ("env", f"CODEX_HOME={home}", *codex_command(tmp_path))
    tmux(terminal, "-f", "/dev/null", "new-session", "-d", "-s", "mine", "-c", str(project), *command)
    # Before the daemon, whose first look would else come ten seconds later.
    daemon.up()
    pane = TmuxSession(terminal, "mine")

    def seen(state: str, words: str) -> Record:
        return daemon.wait_for_session(
            lambda each: each["state"] == state and words in json.dumps(each), f"{state}: {words}"
        )

    login = seen("waiting", "Sign in with ChatGPT")
    assert (login["attention"], login["provider"], login["cwd"]) == ("login", "codex", str(project))
    assert (login["attachable"], login["eligible_for_wake"]) == (False, False)
    assert "attach" in {each["name"] for each in login["actions"]}
    pane.press("Enter")
    trust = seen("waiting", "Trust this folder?")
    assert (trust["attention"], trust["health"], trust["id"]) == ("person", "healthy", login["id"])
    pane.press("Enter")
    wait_for(lambda: "no version" in pane.screen() or None, "unknown screen")
    pane.press("Enter")
    wait_for(lambda: daemon.sessions() == [] or None, "empty list", 20)
