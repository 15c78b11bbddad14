"""An agent of the hub that is the real Claude Code, in tmux: its session is known, guarded and resumed."""

import os
import signal
from collections.abc import Iterator

import pytest

from agent_houses import AgentHouse
from clients import ClaudeHome, wait_for
from daemons import RunningDaemon
from operators import DONE, bash
from wakeful.adapters.system import proc
from wakeful.testing.scripted_model import script


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
ready = "for shortcuts"
restart = "auto"
"""
    daemon.environ |= environ
    house = AgentHouse(daemon, toml)
    daemon.up()
    yield house
    house.end()


def prompt(house: AgentHouse, text: str) -> None:
    """As a person who is attached types it."""
    house.server.tmux("send-keys", "-t", "=agent-claude:", "-l", text)
    wait_for(
        lambda: text[:20] in house.server.tmux("capture-pane", "-p", "-t", "=agent-claude:") or None, "text"
    )
    house.server.tmux("send-keys", "-t", "=agent-claude:", "Enter")


def test_a_busy_agent_asks_and_a_dead_one_is_resumed_in_its_conversation(
    house: AgentHouse, claude: ClaudeHome
) -> None:
    """Its session is attached by its process; a turn is not cut off without a yes; killed, the same conversation goes on."""
    started = house.start("claude")
    prompt(house, script(DONE))
    wait_for(lambda: claude.logs() or None, "transcript")
    known = house.wait("claude", timeout_seconds=30, session_id=f"claude-{claude.logs()[0].stem}")
    prompt(house, script(bash("sleep 100"), DONE))
    claude.wait_for_status("busy")
    session = known["session_id"]
    wait_for(
        lambda: house.daemon.run("session", "status", session, "--json").json["active_prompt"] or None, "turn"
    )
    asked = house.daemon.run("agent", "stop", "claude")
    assert (asked.exit_code, "wakeful agent stop claude --yes" in asked.err) == (1, True)
    os.kill(started["pid"], signal.SIGKILL)
    back = house.wait("claude", timeout_seconds=40, state="running", epoch=2)
    conversation = claude.logs()[0].stem
    assert f"--resume {conversation}" in " ".join(proc.command(back["pid"]))
    assert back["session_id"] == session
    assert len([each for each in claude.registry() if each.get("pid") == back["pid"]]) == 1
    assert house.daemon.run("agent", "stop", "claude", "--yes").exit_code == 0


def test_an_agent_of_the_hub_is_woken_in_its_pane(house: AgentHouse, claude: ClaudeHome) -> None:
    """Its session is ours by its agent: attachable without being handed over, woken, and it answers."""
    house.start("claude")
    prompt(house, script(DONE))
    wait_for(lambda: claude.logs() or None, "transcript")
    session = f"claude-{claude.logs()[0].stem}"
    house.wait("claude", timeout_seconds=30, session_id=session)
    idle = house.daemon.wait_for_session(
        lambda each: each["id"] == session and each["eligible_for_wake"], "eligible session"
    )
    assert (idle["agent"], idle["managed"], idle["attachable"]) == ("claude", True, True)
    heartbeat = claude.project / ".wakeful" / "agents" / "claude" / "HEARTBEAT.md"
    heartbeat.parent.mkdir(parents=True)
    heartbeat.write_text(script({"text": "Good morning"}))
    woken = house.daemon.run("agent", "heartbeat", "wake", "claude", "--json")
    assert (woken.exit_code, woken.json["outcome"], woken.json["session_id"]) == (0, "sent", session), (
        woken.out
    )
    wait_for(lambda: "Good morning" in claude.logs()[0].read_text() or None, "answer")
    assert house.daemon.run("agent", "stop", "claude", "--yes").exit_code == 0
