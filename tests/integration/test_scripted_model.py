"""The real clients against the scripted model: what the fixtures promise to the tests that stand on them."""

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from support import prerequisites
from support.real_clients import ClaudeHome, CodexHome, require, wait_for
from wakeful.testing.scripted_model import ScriptedModel, script

CLIENT_SECONDS_MAX = 60
TOOL_AND_TEXT = script({"text": "I will run it", "run": "echo hi | tee made"}, {"text": "All done"})
# Claude Code allows itself a bare `sleep`; Codex leaves it behind after ten seconds and asks what to do next.
LONG_TOOL = script({"run": "sleep 300", "loop": True})


def finished(process: subprocess.Popen[str]) -> tuple[int, list[dict[str, Any]]]:
    """The exit code of a client, and the JSON lines it printed."""
    output, _ = process.communicate(timeout=CLIENT_SECONDS_MAX)
    return process.returncode, [json.loads(line) for line in output.splitlines()]


def kill(pid: int) -> None:
    pidfd = os.pidfd_open(pid)
    signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    os.close(pidfd)


def test_claude_works_through_a_script(claude_home: ClaudeHome, scripted_model: ScriptedModel) -> None:
    """`claude -p` runs the scripted tool and says the scripted text."""
    process = claude_home.run_print(f"Please {TOOL_AND_TEXT}", "--allowedTools", "Bash")
    output, errors = process.communicate(timeout=CLIENT_SECONDS_MAX)
    assert (process.returncode, output, errors) == (0, "All done\n", "")
    assert (claude_home.project / "made").read_text() == "hi\n"
    assert [each.step for each in scripted_model.requests if each.kind == "messages"] == [0, 1]
    assert len(claude_home.logs()) == 1


def test_codex_works_through_a_script(codex_home: CodexHome, scripted_model: ScriptedModel) -> None:
    """`codex exec` runs the same script."""
    code, lines = finished(codex_home.exec(f"Please {TOOL_AND_TEXT}"))
    items = [line["item"] for line in lines if line["type"] == "item.completed"]
    assert code == 0
    assert [item["text"] for item in items if item["type"] == "agent_message"] == [
        "I will run it",
        "All done",
    ]
    assert [item["exit_code"] for item in items if item["type"] == "command_execution"] == [0]
    assert (codex_home.project / "made").read_text() == "hi\n"
    assert [each.step for each in scripted_model.requests if each.kind == "responses"] == [0, 1]
    assert len(codex_home.logs()) == 1


def test_claude_without_login_fails_its_turn(claude_home: ClaudeHome, scripted_model: ScriptedModel) -> None:
    """A 401 ends the turn with exit 1, `is_error` and status 401, though the subtype says success."""
    process = claude_home.run_print(script({"status": 401}), "--output-format", "stream-json", "--verbose")
    code, lines = finished(process)
    result = lines[-1]
    assert code == 1
    assert (result["type"], result["subtype"], result["is_error"]) == ("result", "success", True)
    assert result["api_error_status"] == 401
    assert result["result"] == "Invalid API key · Fix external API key"
    assert [each.attempt for each in scripted_model.requests if each.kind == "messages"] == [1]


def test_codex_without_login_fails_its_turn(codex_home: CodexHome, scripted_model: ScriptedModel) -> None:
    """A 401 ends the turn with exit 1 and `turn.failed`, and is not retried here."""
    code, lines = finished(codex_home.exec(script({"status": 401})))
    assert code == 1
    assert lines[-1]["type"] == "turn.failed"
    assert lines[-1]["error"]["message"].startswith("unexpected status 401 Unauthorized: invalid x-api-key")
    assert len(scripted_model.requests) == 1


def test_a_hang_of_claude_ends_with_it(claude_home: ClaudeHome, scripted_model: ScriptedModel) -> None:
    """A stream that hangs in the middle holds Claude Code, and is let go when that goes away."""
    process = claude_home.run_print(script({"hang": "mid"}))
    assert scripted_model.wait_until(lambda: scripted_model.hanging == 1, CLIENT_SECONDS_MAX)
    assert process.poll() is None
    process.kill()
    assert scripted_model.wait_until(lambda: scripted_model.hanging == 0, CLIENT_SECONDS_MAX)


def test_a_hang_of_codex_ends_with_it(codex_home: CodexHome, scripted_model: ScriptedModel) -> None:
    """An answer that never begins holds Codex, and is let go when that is interrupted."""
    process = codex_home.exec(script({"hang": "accept"}))
    assert scripted_model.wait_until(lambda: scripted_model.hanging == 1, CLIENT_SECONDS_MAX)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert scripted_model.wait_until(lambda: scripted_model.hanging == 0, CLIENT_SECONDS_MAX)


def test_claude_in_tmux_says_busy_waiting_and_idle(claude_home: ClaudeHome, tmux_socket: Path) -> None:
    """The registry file follows an interactive turn: working, asking for permission, working, done."""
    prompt = script({"run": "touch made; sleep 1"}, {"text": "All done"})
    session = claude_home.in_tmux(tmux_socket, f"Please {prompt}", "agent")
    asking = claude_home.wait_for_status("waiting")
    assert asking["waitingFor"] == "permission prompt"
    assert asking["pid"] == int(session.shown("pane_pid"))
    assert not (claude_home.project / "made").exists()
    session.press("Enter")
    assert claude_home.wait_for_status("busy")["sessionId"] == asking["sessionId"]
    assert claude_home.wait_for_status("idle")["sessionId"] == asking["sessionId"]
    wait_for(lambda: "● All done" in session.screen() or None, "answer on the screen")
    assert (claude_home.project / "made").exists()


def test_a_shell_outlives_claude(claude_home: ClaudeHome, tmux_socket: Path) -> None:
    """Killed inside a tool in a shell's pane, Claude leaves a shell, a stale registry file and an orphan."""
    session = claude_home.in_tmux(tmux_socket, f"Please {LONG_TOOL}", "agent", shell_wrapped=True)
    tool_pid = claude_home.wait_for_tool("sleep")
    entry = claude_home.wait_for_status("busy")
    assert session.shown("pane_current_command") == "claude"
    kill(entry["pid"])
    wait_for(lambda: session.shown("pane_current_command") == "bash" or None, "shell in the pane")
    assert claude_home.registry() == [entry]
    assert tool_pid in claude_home.tool_pids()


def test_two_clients_run_at_once_and_no_more(codex_home: CodexHome, scripted_model: ScriptedModel) -> None:
    """A third client is refused: it would slow the timings of the other two."""
    for _ in range(2):
        codex_home.exec(script({"hang": "accept"}))
    assert scripted_model.wait_until(lambda: scripted_model.hanging == 2, CLIENT_SECONDS_MAX)
    with pytest.raises(AssertionError, match="2 clients run already"):
        codex_home.exec("one more")


@pytest.mark.parametrize(("ci", "outcome"), [("", pytest.skip.Exception), ("true", pytest.fail.Exception)])
def test_a_missing_client_fails_only_ci(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, ci: str, outcome: type[BaseException]
) -> None:
    """A person without the clients gets a skip; CI gets a failure, so that nothing goes untested unseen."""
    monkeypatch.setenv("CI", ci)
    monkeypatch.setenv("WAKEFUL_TEST_CACHE", str(tmp_path))
    with pytest.raises(outcome, match=r"claude-code@.* is missing"):
        require(prerequisites.CLAUDE)


def test_a_home_ends_the_orphans_of_codex(codex_home: CodexHome) -> None:
    """With its wrapper killed Codex works on unseen; the end of the home finds it and its tool."""
    process = codex_home.exec(LONG_TOOL)
    tool_pid = codex_home.wait_for_tool("sleep")
    process.kill()
    process.wait(CLIENT_SECONDS_MAX)
    assert tool_pid in codex_home.pids()
    codex_home.end()
    assert codex_home.pids() == []
