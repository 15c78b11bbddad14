"""What Wakeful says about the real Claude Code and Codex, driven by a scripted model."""

import os
import shlex
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.daemon_process import RunningDaemon
from support.real_clients import UNTIL_TOLD, ClaudeHome, CodexHome, wait_for
from support.run_program import run_program
from wakeful.judging.resume_command import command_line
from wakeful.testing.scripted_model import script

WORKING = {"tool": "Bash", "input": {"command": "sleep 60"}}
ASKING = {"tool": "Bash", "input": {"command": "touch made; sleep 60"}}
DONE = {"text": "All done"}
Session = dict[str, Any]


@pytest.fixture
def watching(daemon: RunningDaemon, claude_home: ClaudeHome) -> RunningDaemon:
    daemon.watch(CLAUDE_CONFIG_DIR=claude_home.home / ".claude")
    daemon.up()
    return daemon


def is_in(state: str) -> Callable[[Session], bool]:
    return lambda session: bool(session["state"] == state)


def is_in_a_tool(session: Session) -> bool:
    return session["state"] == "prompting" and any(
        wait["kind"] == "tool" for wait in session["expected_waits"]
    )


def is_dead(session: Session) -> bool:
    return bool(session["health"] == "dead")


def codes(session: Session) -> list[str]:
    return [finding["code"] for finding in session["findings"]]


def test_claude_in_tmux_from_question_to_rest(
    watching: RunningDaemon, claude_home: ClaudeHome, tmux_socket: Path
) -> None:
    """Waiting for a person, then working, then idle; found, never managed, its pane named."""
    terminal = claude_home.in_tmux(
        tmux_socket, script({**ASKING, "input": {"command": f"touch x; {UNTIL_TOLD}"}}, DONE), "a"
    )
    waiting = watching.wait_for_session(is_in("waiting"), "session that waits")
    assert waiting["attention"] == "person"
    assert waiting["health"] == "healthy"
    assert waiting["managed"] is False
    assert waiting["active_prompt"] is True
    # A dialog is drawn a moment before it reads keys.
    wait_for(lambda: "Do you want to proceed?" in terminal.screen() or None, "dialog")
    time.sleep(0.5)
    terminal.press("Enter")
    working = watching.wait_for_session(is_in_a_tool, "session in a tool")
    assert (working["session_alive"], working["alive_to"]) == (True, "tool")
    claude_home.let_tool_end()
    idle = watching.wait_for_session(is_in("idle"), "session at rest")
    assert (idle["health"], idle["findings"], idle["active_prompt"]) == ("healthy", [], False)
    attach = watching.wait_for_session(
        lambda session: any(action["name"] == "attach" for action in session["actions"]),
        "session with its pane",
    )
    argv = next(each["argv"] for each in attach["actions"] if each["name"] == "attach")
    assert argv == ["wakeful", "attach", attach["id"]]


def test_claude_killed_inside_a_tool_in_a_shell(
    watching: RunningDaemon, claude_home: ClaudeHome, tmux_socket: Path
) -> None:
    """tmux alive is not agent alive: dead, broken at the agent, alive to the pane, the orphaned tool named."""
    terminal = claude_home.in_tmux(tmux_socket, script(ASKING, DONE), "a", shell_wrapped=True)
    watching.wait_for_session(is_in("waiting"), "session that waits")
    terminal.press("Enter")
    claude_home.wait_for_tool("sleep")
    session = watching.wait_for_session(
        lambda session: (
            is_in_a_tool(session) and any(each["name"] == "attach" for each in session["actions"])
        ),
        "session in a tool, its pane known",
    )
    os.kill(session["pid"], signal.SIGKILL)
    dead = watching.wait_for_session(
        lambda session: is_dead(session) and len(session["findings"][0]["evidence"]) > 2,
        "death with its orphan",
    )
    assert codes(dead) == ["agent_exited"]
    assert (dead["state"], dead["session_alive"]) == ("stopped", False)
    assert (dead["alive_to"], dead["broken_at"]) == ("pane_process", "agent_process")
    assert any("still runs" in line for line in dead["findings"][0]["evidence"])
    assert any("sleep 60" in line for line in dead["findings"][0]["untrusted"])
    assert watching.run("session", "health", dead["id"], "--json").exit_code == 1


def test_the_advised_command_finds_the_conversation_from_any_folder(
    watching: RunningDaemon, claude_home: ClaudeHome
) -> None:
    """Killed after its agent went into another folder: what `why` says is typed at `/`, and the client goes on."""
    going = {"tool": "Bash", "input": {"command": "mkdir -p deep/down && cd deep/down && pwd"}}
    prompt = script(going, {"tool": "Bash", "input": {"command": UNTIL_TOLD}}, DONE)
    process = claude_home.run_print(prompt, "--allowedTools", "Bash")
    claude_home.wait_for_tool("sleep")
    process.kill()
    claude_home.let_tool_end()
    dead = watching.wait_for_session(is_dead, "death")
    command = command_line(watching.run("session", "why", dead["id"], "--json").json["command"])
    assert command == f"cd {claude_home.project} && claude --resume {dead['conversation_id']}"
    typed = [*["sh", "-c"], f"{command} -p {shlex.quote(script(DONE))}"]
    ran = run_program(typed, env=claude_home.environ(), cwd="/")
    assert (ran.returncode, ran.stdout.strip()) == (0, "All done"), ran.stderr


def test_claude_print_mode_from_work_to_its_end(watching: RunningDaemon, claude_home: ClaudeHome) -> None:
    """A finished `-p` run has stopped and is healthy: it ended, and nothing is wrong."""
    step = {"tool": "Bash", "input": {"command": UNTIL_TOLD}}
    process = claude_home.run_print(script(step, DONE), "--allowedTools", "Bash")
    working = watching.wait_for_session(is_in_a_tool, "session in a tool")
    assert working["pid"] == process.pid
    # Written down before its process is there.
    claude_home.wait_for_tool("sleep")
    tree = watching.run("session", "inspect", working["id"], "--json").json["evidence"]["processes"]
    assert any(UNTIL_TOLD in each["untrusted"] for each in tree)
    claude_home.let_tool_end()
    process.wait(60)
    stopped = watching.wait_for_session(is_in("stopped"), "session that stopped")
    assert (stopped["health"], stopped["findings"]) == ("healthy", [])


def test_a_refused_login_is_no_crash(watching: RunningDaemon, claude_home: ClaudeHome) -> None:
    """A 401 turn needs a login, and is not dead."""
    claude_home.run_print(script({"status": 401})).wait(60)
    session = watching.wait_for_session(lambda session: bool(session["findings"]), "session with a finding")
    assert codes(session) == ["auth_required"]
    assert (session["health"], session["attention"]) == ("degraded", "login")
    assert session["last_error"]["code"] == "auth_required"


def test_codex_from_work_to_its_end(daemon: RunningDaemon, codex_home: CodexHome) -> None:
    """A Codex run works, its native process is the one that counts, and it ends healthy."""
    daemon.watch(CODEX_HOME=codex_home.home / ".codex")
    daemon.up()
    process = codex_home.exec(script({"run": f"{UNTIL_TOLD}; echo bye"}, DONE))
    working = daemon.wait_for_session(
        lambda each: is_in_a_tool(each) and each["pid"] is not None, "working session"
    )
    assert working["provider"] == "codex"
    assert working["pid"] != process.pid, "the node wrapper is not the agent"
    codex_home.let_tool_end()
    process.wait(60)
    stopped = daemon.wait_for_session(is_in("stopped"), "session that stopped")
    assert (stopped["health"], stopped["findings"]) == ("healthy", [])


def test_codex_killed_inside_a_tool(daemon: RunningDaemon, codex_home: CodexHome) -> None:
    """The native process killed inside a call: dead, by the lock it held."""
    daemon.watch(CODEX_HOME=codex_home.home / ".codex")
    daemon.up()
    codex_home.exec(script({"run": "sleep 60"}, DONE))
    working = daemon.wait_for_session(
        lambda each: is_in_a_tool(each) and each["pid"] is not None, "working session"
    )
    os.kill(working["pid"], signal.SIGKILL)
    dead = daemon.wait_for_session(is_dead, "death")
    assert codes(dead) == ["session_dead"]


def test_a_restarted_daemon_knows_what_died_while_it_was_down(
    watching: RunningDaemon, claude_home: ClaudeHome
) -> None:
    """Seen alive before the crash, gone after it: dead, although another start removed the registry file."""
    process = claude_home.run_print(script(WORKING, DONE), "--allowedTools", "Bash")
    session = watching.wait_for_session(is_in_a_tool, "session in a tool")
    assert watching.end() == 0
    process.kill()
    process.wait()
    for left in (claude_home.home / ".claude" / "sessions").glob("*.json"):
        left.unlink()
    watching.up()
    dead = watching.wait_for_session(is_dead, "death")
    assert dead["id"] == session["id"]


def test_restarting_the_daemon_ends_no_agent(watching: RunningDaemon, claude_home: ClaudeHome) -> None:
    """Killed -9 and started again, it finds the same session still at work."""
    process = claude_home.run_print(
        script({"tool": "Bash", "input": {"command": UNTIL_TOLD}}, DONE), "--allowedTools", "Bash"
    )
    before = watching.wait_for_session(is_in_a_tool, "session in a tool")
    watching.kill()
    watching.up()
    after = watching.wait_for_session(is_in_a_tool, "session in a tool")
    assert (after["id"], after["pid"]) == (before["id"], before["pid"])
    claude_home.let_tool_end()
    assert process.wait(60) == 0
    wait_for(lambda: watching.sessions()[0]["state"] == "stopped" or None, "session that stopped")
