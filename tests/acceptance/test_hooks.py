"""Claims about installed hooks with the real clients: what they ask a person is known at once, by the hook alone."""

import json
import subprocess
import time
import uuid
from pathlib import Path
from typing import Any

import pytest

from support.cli_user import DONE, bash
from support.daemon_process import RunningDaemon
from support.real_clients import ClaudeHome, CodexHome, TmuxSession, wait_for
from wakeful.testing.scripted_model import script

OPTIONS = [{"label": "a", "description": "one"}, {"label": "b", "description": "other"}]
ASKED = {"question": "Which?", "header": "Which", "multiSelect": False, "options": OPTIONS}
QUESTION = {"tool": "AskUserQuestion", "input": {"questions": [ASKED]}}


@pytest.fixture
def blind(daemon: RunningDaemon, tmp_path: Path) -> RunningDaemon:
    """A daemon that sees no log and no registry: whatever it knows of a session, a hook has told it."""
    daemon.watch(CLAUDE_CONFIG_DIR=tmp_path / "no-claude", CODEX_HOME=tmp_path / "no-codex")
    daemon.up()
    return daemon


def install(daemon: RunningDaemon, client: ClaudeHome | CodexHome) -> None:
    name = client.client.name
    folder = client.home / f".{name}"
    folder.mkdir(exist_ok=True)
    daemon.environ |= {"CLAUDE_CONFIG_DIR" if name == "claude" else "CODEX_HOME": str(folder)}
    done = daemon.run("hooks", "install", name)
    assert done.exit_code == 0, done.err


def hooks_line(daemon: RunningDaemon, client: str) -> str:
    checks = daemon.run("doctor", "--json").json["checks"]
    return next(str(each["said"]) for each in checks if each["name"] == f"{client} hooks")


def is_waiting(session: dict[str, Any]) -> bool:
    return bool(session["state"] == "waiting" and session["attention"] == "person")


def shows(pane: TmuxSession, words: str) -> None:
    wait_for(lambda: words in pane.screen() or None, words)
    # A dialog is drawn a moment before it reads keys.
    time.sleep(0.5)


def test_what_claude_asks_is_known_by_its_hook(
    blind: RunningDaemon, claude: ClaudeHome, terminal: Path
) -> None:
    """A permission and a question are a wait for a person as soon as they are on the screen; answered, it rests."""
    install(blind, claude)
    pane = claude.in_tmux(terminal, script(bash("touch made"), DONE), "a")
    shows(pane, "Do you want to proceed?")
    blind.wait_for_session(is_waiting, "permission", timeout_seconds=2)
    pane.press("Enter")
    blind.wait_for_session(lambda each: each["state"] == "idle", "end")
    pane.type_line(script(QUESTION, DONE))
    shows(pane, "Enter to select")
    blind.wait_for_session(is_waiting, "question", timeout_seconds=2)
    pane.press("Enter")
    blind.wait_for_session(lambda each: each["state"] == "idle", "end")
    assert hooks_line(blind, "claude").startswith("installed, last report at ")


def test_what_codex_asks_is_known_by_its_hook(blind: RunningDaemon, codex: CodexHome) -> None:
    """Untrusted hooks never fire, and doctor says so; a trusted one reports, and an approval it tells of is a wait."""
    install(blind, codex)
    assert codex.exec(script(DONE)).wait(30) == 0
    assert (blind.sessions(), hooks_line(blind, "codex")) == (
        [],
        "installed, but not trusted or never run",
    )
    assert codex.exec(script(DONE), "--dangerously-bypass-hook-trust").wait(30) == 0
    wait_for(lambda: hooks_line(blind, "codex").startswith("installed, last report at ") or None, "a report")
    # `codex exec` asks no one, so the hook gets what Codex gives it at a terminal.
    asked = {"session_id": str(uuid.uuid4()), "hook_event_name": "PermissionRequest", "tool_name": "Bash"}
    fire(codex, "PermissionRequest", {**asked, "cwd": str(codex.project), "tool_input": {}})
    blind.wait_for_session(is_waiting, "approval", timeout_seconds=2)


def fire(codex: CodexHome, event: str, payload: dict[str, Any]) -> None:
    """Run the installed hook as the client would."""
    hooks = json.loads((codex.home / ".codex" / "hooks.json").read_text())["hooks"][event]
    (handler,) = [each for group in hooks for each in group["hooks"]]
    subprocess.run(
        ["sh", "-c", handler["command"]],
        input=json.dumps(payload),
        text=True,
        env=codex.environ(),
        check=True,
        timeout=10,
    )
