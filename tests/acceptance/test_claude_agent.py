"""An agent of the hub that is the real Claude Code, in tmux: its session is known, guarded and resumed."""

import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import ClientConnection

from support.agents_e2e import AUTO_RESTART, AgentsFixture, hub_with_claude
from support.cli_user import DONE, bash
from support.daemon_process import RunningDaemon
from support.real_clients import ClaudeHome, wait_for
from wakeful.linux import proc
from wakeful.testing.scripted_model import script


@pytest.fixture
def house(daemon: RunningDaemon, claude: ClaudeHome) -> Iterator[AgentsFixture]:
    house = hub_with_claude(daemon, claude, AUTO_RESTART)
    daemon.up()
    yield house
    house.end()


def prompt(house: AgentsFixture, text: str) -> None:
    """As a person who is attached types it."""
    house.server.tmux("send-keys", "-t", "=agent-claude:", "-l", text)
    wait_for(
        lambda: text[:20] in house.server.tmux("capture-pane", "-p", "-t", "=agent-claude:") or None, "text"
    )
    house.server.tmux("send-keys", "-t", "=agent-claude:", "Enter")


def test_a_busy_agent_asks_and_a_dead_one_is_resumed_in_its_conversation(
    house: AgentsFixture, claude: ClaudeHome
) -> None:
    """Its session is attached by its process; a turn is not cut off without a yes; killed, the same conversation goes on."""
    started = house.start("claude")
    prompt(house, script(DONE))
    wait_for(lambda: claude.logs() or None, "transcript")
    known = house.wait("claude", timeout_seconds=30, session_id=f"claude-{claude.logs()[0].stem}")
    prompt(house, script(bash("sleep 100"), DONE))
    session = known["session_id"]
    wait_for(
        lambda: house.daemon.run("session", "status", session, "--json").json["active_prompt"] or None, "turn"
    )
    asked = house.daemon.run("agent", "stop", "claude")
    assert (asked.exit_code, "wakeful agent stop claude --yes" in asked.err) == (1, True)
    # A client reports busy before its log has the prompt; killed in between there is nothing to report.
    wait_for(lambda: b'"type":"tool_use"' in claude.logs()[0].read_bytes() or None, "call in the log")
    os.kill(started["pid"], signal.SIGKILL)
    back = house.wait("claude", timeout_seconds=40, state="running", epoch=2)
    conversation = claude.logs()[0].stem
    assert f"--resume {conversation}" in " ".join(proc.command(back["pid"]))
    assert back["session_id"] == session
    assert len([each for each in claude.registry() if each.get("pid") == back["pid"]]) == 1
    brief = wait_for(lambda: briefs(claude) or None, "brief")
    assert len(brief) == 1
    assert "Begun and never answered: " in brief[0]
    assert "sleep 100" in brief[0]
    ended = house.daemon.wait_for_session(
        lambda each: each["id"] == session and each["state"] == "idle" and each["session_alive"], "its end"
    )
    assert (ended["managed"], ended["agent"]) == (True, "claude")
    assert house.daemon.run("agent", "stop", "claude", "--yes").exit_code == 0


def killed_in_call(house: AgentsFixture, claude: ClaudeHome, command: str) -> str:
    """An agent that was killed in the middle of this call; its session."""
    pid = house.start("claude")["pid"]
    prompt(house, script(bash(command), DONE))
    session = f"claude-{wait_for(lambda: claude.logs() or None, 'transcript')[0].stem}"
    house.wait("claude", timeout_seconds=30, session_id=session)
    wait_for(lambda: f'"{command}"' in claude.logs()[0].read_text() or None, "call")
    os.kill(pid, signal.SIGKILL)
    return session


def test_an_agent_killed_in_a_push_waits_for_a_person(house: AgentsFixture, claude: ClaudeHome) -> None:
    """`restart = "auto"` repeats nothing without approval: it waits for a decision, and goes on in its conversation after a yes."""
    session = killed_in_call(house, claude, "sleep 100; git push origin main")
    held = wait_for(
        lambda: house.daemon.run("checkpoint", "list", "--json").json["checkpoints"] or None, "checkpoint", 40
    )
    assert [each["subject"] for each in held] == [session]
    assert (house.agent("claude")["state"], briefs(claude)) == ("stale", [])
    done = house.daemon.run("checkpoint", "continue", "1", "--json")
    assert (done.exit_code, done.json["outcome"]) == (0, "recovered"), done.err + done.out
    assert house.agent("claude")["epoch"] == 2
    assert "git push origin main" in wait_for(lambda: briefs(claude) or None, "brief")[0]


def test_an_agent_killed_while_wakeful_is_away_waits_for_a_person(
    house: AgentsFixture, claude: ClaudeHome
) -> None:
    """Both are killed right after its first prompt: the next daemon knows whose session it was."""
    pid = house.start("claude")["pid"]
    prompt(house, script(bash("sleep 100; git push origin main"), DONE))
    session = f"claude-{wait_for(lambda: claude.logs() or None, 'transcript')[0].stem}"
    house.wait("claude", timeout_seconds=30, session_id=session)
    house.daemon.kill()
    wait_for(lambda: '"sleep 100; git push' in claude.logs()[0].read_text() or None, "call")
    os.kill(pid, signal.SIGKILL)
    house.daemon.up()
    held = wait_for(
        lambda: house.daemon.run("checkpoint", "list", "--json").json["checkpoints"] or None, "checkpoint", 40
    )
    assert [each["subject"] for each in held] == [session]
    dead = next(each for each in house.daemon.sessions() if each["id"] == session)
    assert (dead["managed"], dead["agent"]) == (True, "claude")
    agent = house.agent("claude")
    assert (agent["state"], agent["session_id"], briefs(claude)) == ("stale", session, [])


def test_an_aborted_push_of_an_agent_does_not_happen(house: AgentsFixture, claude: ClaudeHome) -> None:
    """What the killed agent left running is ended, as the question promised, and the answer says so."""
    settings = claude.home / ".claude" / "settings.json"
    settings.parent.mkdir(exist_ok=True)
    settings.write_text('{"permissions": {"allow": ["Bash"]}}')
    pid = house.start("claude")["pid"]
    prompt(house, script(bash("sleep 100; git push origin main"), DONE))
    claude.wait_for_tool("sleep")
    house.wait("claude", timeout_seconds=30, session_id=f"claude-{claude.logs()[0].stem}")
    os.kill(pid, signal.SIGKILL)
    wait_for(
        lambda: house.daemon.run("checkpoint", "list", "--json").json["checkpoints"] or None, "checkpoint", 40
    )
    assert claude.tool_pids()
    assert "What still runs is ended" in house.daemon.run("checkpoint", "show", "1").out
    done = house.daemon.run("checkpoint", "abort", "1")
    assert (done.exit_code, claude.tool_pids()) == (0, []), done.err + done.out
    assert "agent claude stays as it is" in done.out
    assert (house.agent("claude")["state"], briefs(claude)) == ("stale", [])
    assert house.daemon.run("incidents", "--json").json["incidents"] == []
    assert_given_up(house)
    house.daemon.kill()
    house.daemon.up()
    assert_given_up(house)
    # A restart that Wakeful wants begins after `heal.confirm_seconds`, which is 0.2 here.
    time.sleep(3)
    assert (house.agent("claude")["state"], house.lives("claude")) == ("stale", False)
    assert_given_up(house)
    assert house.daemon.run("incidents", "--json").json["incidents"] == [], "a restart opens nothing again"


def test_a_dead_agent_that_a_person_stops_needs_nobody(house: AgentsFixture, claude: ClaudeHome) -> None:
    """Its session died in a turn, and nothing brings it back in a pause; the stop settles that, also for the next daemon."""
    assert house.daemon.run("pause").exit_code == 0
    session = killed_in_call(house, claude, "sleep 100")
    house.wait("claude", timeout_seconds=30, state="stale")
    dead = house.daemon.wait_for_session(
        lambda each: each["id"] == session and each["health"] == "dead", "death"
    )
    assert dead["attention"] == "operator"
    assert house.daemon.run("agent", "stop", "claude", "--yes").exit_code == 0
    for _ in range(2):
        ended = house.daemon.wait_for_session(
            lambda each: each["id"] == session and each["attention"] == "none", "end of its session"
        )
        assert (ended["state"], ended["health"]) == ("stopped", "healthy")
        wait_for(
            lambda: house.daemon.run("incidents", "--json").json["incidents"] == [] or None, "end of incident"
        )
        house.daemon.kill()
        house.daemon.up()


def test_a_dead_session_that_a_person_replaces_needs_nobody(house: AgentsFixture, claude: ClaudeHome) -> None:
    """A new session is begun in its place: the old one is not mentioned any more, also by the next daemon."""
    assert house.daemon.run("pause").exit_code == 0
    session = killed_in_call(house, claude, "sleep 100")
    house.wait("claude", timeout_seconds=30, state="stale")
    assert house.daemon.run("agent", "restart-session", "claude").exit_code == 0
    for _ in range(2):
        ended = house.daemon.wait_for_session(
            lambda each: each["id"] == session and each["attention"] == "none", "end of the old session"
        )
        assert (ended["state"], ended["health"]) == ("stopped", "healthy")
        wait_for(
            lambda: house.daemon.run("incidents", "--json").json["incidents"] == [] or None, "end of incident"
        )
        house.daemon.kill()
        house.daemon.up()


def assert_given_up(house: AgentsFixture) -> None:
    """Its session needs no person any more."""
    ended = house.daemon.wait_for_session(
        lambda each: each["agent"] == "claude" and each["attention"] == "none", "end of its session"
    )
    assert (ended["state"], ended["health"]) == ("stopped", "healthy")


def test_a_session_of_the_hub_is_managed_from_its_first_moment(
    house: AgentsFixture, claude: ClaudeHome
) -> None:
    """Every record of it says so, also after a restart of the daemon, and no message calls it found."""
    with house.listen() as heard:
        session = killed_in_call(house, claude, "sleep 100; git push origin main")
        wait_for(
            lambda: house.daemon.run("checkpoint", "list", "--json").json["checkpoints"] or None, "alert", 40
        )
        seen = records_of(heard, session)
    house.daemon.kill()
    house.daemon.up()
    after = next(each for each in house.daemon.sessions() if each["id"] == session)
    assert {(each["managed"], each["agent"]) for each in (*seen, after)} == {(True, "claude")}
    assert "handed over" not in house.daemon.run("incidents", "--json").out
    logs = Path(house.daemon.environ["WAKEFUL_HOME"])
    told = [path.read_text(errors="replace") for path in logs.rglob("*") if path.suffix in (".log", ".jsonl")]
    assert not [each for each in told if "handed over" in each]


def records_of(heard: ClientConnection, session: str) -> list[dict[str, Any]]:
    """Every record of a session that was pushed until now."""
    records = []
    with suppress(TimeoutError):
        while True:
            told = json.loads(heard.recv(timeout=1))
            records += [each for each in _records(told) if each["id"] == session]
    assert records
    return records


def _records(told: object) -> Iterator[dict[str, Any]]:
    """The session records anywhere in a message."""
    if isinstance(told, dict):
        if "managed" in told and "id" in told:
            yield told
        for each in told.values():
            yield from _records(each)
    elif isinstance(told, list):
        for each in told:
            yield from _records(each)


def briefs(claude: ClaudeHome) -> list[str]:
    """What Wakeful told it, once each."""
    rows = [json.loads(row) for log in claude.logs() for row in log.read_text().splitlines()]
    asked = [row["message"]["content"] for row in rows if row.get("type") == "user" and "message" in row]
    return [
        each for each in asked if isinstance(each, str) and each.startswith("Wakeful: your process ended")
    ]


def test_an_agent_of_the_hub_is_woken_in_its_pane(house: AgentsFixture, claude: ClaudeHome) -> None:
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
    assert house.daemon.run("config", "trust", str(heartbeat)).exit_code == 0
    woken = house.daemon.run("agent", "heartbeat", "wake", "claude", "--json")
    assert (woken.exit_code, woken.json["outcome"], woken.json["session_id"]) == (0, "sent", session), (
        woken.out
    )
    wait_for(lambda: "Good morning" in claude.logs()[0].read_text() or None, "answer")
    assert house.daemon.run("agent", "stop", "claude", "--yes").exit_code == 0
