"""Claims about real clients: a resume that fails elsewhere is no news about the session."""

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

from support.cli_user import DONE, bash
from support.daemon_process import RunningDaemon
from support.real_clients import UNTIL_TOLD, ClaudeHome, wait_for
from wakeful.testing.scripted_model import script

Record = dict[str, Any]


def happenings(daemon: RunningDaemon) -> list[str]:
    return [event["event"] for event in daemon.run("events", "--json").json["events"]]


def killed_in_a_tool(daemon: RunningDaemon, claude: ClaudeHome, terminal: Path) -> Record:
    """Its pane stays with a shell; the record once its death was written down."""
    settings = claude.home / ".claude" / "settings.json"
    settings.parent.mkdir(exist_ok=True)
    settings.write_text(json.dumps({"permissions": {"allow": ["Bash"]}}))
    claude.in_tmux(terminal, script(bash(UNTIL_TOLD), DONE), "a", shell_wrapped=True)
    claude.wait_for_tool("sleep")
    alive = daemon.wait_for_session(lambda each: each["session_alive"], "life")
    os.kill(alive["pid"], signal.SIGKILL)
    claude.let_tool_end()
    wait_for(lambda: happenings(daemon) == ["session_unhealthy"] or None, "word of its death")
    # The tool ends a moment after it was let go; until then the record says that it still runs.
    return daemon.wait_for_session(
        lambda each: each["health"] == "dead" and "still runs" not in json.dumps(each["findings"]), "death"
    )


def test_a_resume_that_fails_elsewhere_is_no_news(
    daemon: RunningDaemon, claude: ClaudeHome, terminal: Path, tmp_path: Path
) -> None:
    """From another folder it finds no conversation: the pane is still there, and the session died when it died.

    When its log is removed, its incident closes and says that it is gone.
    """
    daemon.environ["WAKEFUL_HEAL__CONFIRM_SECONDS"] = "0.5"
    daemon.watch(**claude.environ())
    daemon.up()
    dead = killed_in_a_tool(daemon, claude, terminal)
    assert [each["code"] for each in dead["findings"]] == ["agent_exited"]
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    resume = ["claude", "--resume", dead["conversation_id"], "-p", "go on"]
    for _ in range(2):
        failed = subprocess.run(
            resume,
            check=False,
            cwd=elsewhere,
            env=claude.environ(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
        )
        assert (failed.returncode, b"No conversation found" in failed.stderr) == (1, True)
        after = daemon.wait_for_session(lambda each: not each["session_alive"], "end of the resume")
        assert (after["findings"], after["alive_to"]) == (dead["findings"], "pane_process")
        assert "attach" in [each["name"] for each in after["actions"] if each["allowed"]]
    assert happenings(daemon) == ["session_unhealthy"]
    assert len(daemon.run("incidents", "--json").json["incidents"]) == 1
    for log in claude.logs():
        log.unlink()
    wait_for(lambda: not daemon.run("incidents", "--json").json["incidents"] or None, "end of the incident")
    told = daemon.run("incidents", "--all").out
    assert ("its session is gone" in told, "recovered" in told) == (True, False), told
    assert happenings(daemon) == ["session_unhealthy"]


def test_a_resume_that_fails_elsewhere_is_no_twin_of_a_living_session(
    daemon: RunningDaemon, claude: ClaudeHome, terminal: Path, tmp_path: Path
) -> None:
    """Neither while it runs nor afterwards; and a client that asks for trust there is a session of its own."""
    daemon.environ["WAKEFUL_HEAL__CONFIRM_SECONDS"] = "0.5"
    daemon.watch(**claude.environ())
    daemon.up()
    claude.in_tmux(terminal, script({"text": "hello"}), "a")
    wait_for(lambda: any('"hello"' in each.read_text() for each in claude.logs()) or None, "answer")
    alive = daemon.wait_for_session(lambda each: each["state"] == "idle", "idle session")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    resume = ("claude", "--resume", alive["conversation_id"])
    claude.tmux_command(terminal, "b", "env", "-C", str(elsewhere), *resume)
    for _ in range(3):
        failed = subprocess.run(
            [*resume, "-p", "go on"],
            check=False,
            cwd=elsewhere,
            env=claude.environ(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
        )
        assert failed.returncode == 1
    other = daemon.wait_for_session(lambda each: each["id"] != alive["id"], "client at its dialog")
    assert (other["state"], other["attention"]) == ("waiting", "person")
    after = daemon.wait_for_session(lambda each: each["pid"] == alive["pid"], "session")
    assert (after["state"], after["findings"]) == ("idle", [])
    assert (happenings(daemon), daemon.run("incidents", "--json").json["incidents"]) == ([], [])
