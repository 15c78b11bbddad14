"""Claims about sessions that a person ended in the middle of a turn: nothing alarms, nothing brings them back.

A real daemon, real Claude Code in real tmux, a model that hangs; whichever way the person orders it, and whenever the
daemon is killed meanwhile.
"""

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from support.agents_e2e import AUTO_RESTART, AgentsFixture, hub_with_claude
from support.cli_user import Operator, Record, assert_ended_quietly
from support.daemon_process import RunningDaemon
from support.real_clients import ClaudeHome, wait_for
from support.telegram_sink import Telegram
from support.tmux_server import Server
from wakeful.testing.scripted_model import script

HANGING = {"hang": "mid", "loop": True}
CHAT = "77"
# Confirmed after a fifth of a second, told at once: what comes, comes within this time.
QUIET_SECONDS = 3.0


@pytest.fixture
def house(daemon: RunningDaemon, claude: ClaudeHome, telegram: Telegram) -> Iterator[AgentsFixture]:
    daemon.watch(
        WAKEFUL_ALERTS__TELEGRAM_TOKEN="123:abc",
        WAKEFUL_ALERTS__TELEGRAM_CHAT=CHAT,
        WAKEFUL_ALERTS__TELEGRAM_API=telegram.http.url,
    )
    house = hub_with_claude(daemon, claude, AUTO_RESTART)
    yield house
    house.end()


def stop(house: AgentsFixture) -> None:
    stopped = house.daemon.run("agent", "stop", "claude", "--yes")
    assert stopped.exit_code == 0, stopped.err


def tear_down(house: AgentsFixture) -> None:
    stopped = house.daemon.run("attach", "claude", "--teardown", "--yes")
    assert stopped.exit_code == 0, stopped.err


def order_by_http(house: AgentsFixture) -> None:
    transport = httpx.HTTPTransport(uds=str(house.daemon.socket))
    with httpx.Client(transport=transport, base_url="http://wakeful", timeout=60) as client:
        stopped = client.post("/api/agents/claude/stop", json={"yes": True})
        assert stopped.status_code == 200, stopped.text


def stop_and_restart(house: AgentsFixture) -> None:
    stop(house)
    house.daemon.end()
    house.daemon.up()


AGENT_WAYS: list[Callable[[AgentsFixture], None]] = [stop, tear_down, order_by_http, stop_and_restart]


@pytest.mark.parametrize("way", AGENT_WAYS, ids=lambda way: way.__name__)
def test_an_agent_that_a_person_stopped_alarms_nobody(
    house: AgentsFixture, claude: ClaudeHome, telegram: Telegram, way: Callable[[AgentsFixture], None]
) -> None:
    """Busy with a turn that will never end, and declared to be restarted: stopped by a person it stays stopped."""
    house.daemon.up()
    session = _busy(house, claude)
    way(house)
    _assert_stopped_quietly(house, telegram, session)


# The order is stored and nothing was done; the process is gone, and no record says that it is.
@pytest.mark.parametrize("point", ["hub.stop_noted:1", "act.done:2"])
def test_an_agent_that_ends_while_its_daemon_is_dead_alarms_nobody(
    house: AgentsFixture, claude: ClaudeHome, telegram: Telegram, point: str
) -> None:
    """The order is on disk before anything is done, so the next daemon knows why the process ended."""
    house.daemon.environ["WAKEFUL_FAULTS"] = f"{point}:kill"
    house.daemon.up()
    session = _busy(house, claude)
    pid = house.agent("claude")["pid"]
    assert house.daemon.run("agent", "stop", "claude", "--yes").exit_code != 0
    wait_for(lambda: house.daemon.has_ended() or None, "death of the daemon")
    if Path(f"/proc/{pid}").exists():
        os.kill(pid, signal.SIGKILL)
    del house.daemon.environ["WAKEFUL_FAULTS"]
    house.daemon.up()
    _assert_stopped_quietly(house, telegram, session)


def _busy(house: AgentsFixture, claude: ClaudeHome) -> str:
    """The agent's session, in the middle of a turn."""
    house.start("claude")
    pane = "=agent-claude:"
    text = script(HANGING)
    house.server.tmux("send-keys", "-t", pane, "-l", text)
    wait_for(lambda: text[:20] in house.server.tmux("capture-pane", "-p", "-t", pane) or None, "text")
    house.server.tmux("send-keys", "-t", pane, "Enter")
    claude.wait_for_status("busy")
    wait_for(lambda: claude.logs() or None, "transcript")
    session = f"claude-{claude.logs()[0].stem}"
    house.wait("claude", timeout_seconds=30, session_id=session)
    house.daemon.wait_for_session(lambda each: each["id"] == session and each["active_prompt"], "turn")
    return session


def _assert_stopped_quietly(house: AgentsFixture, telegram: Telegram, session: str) -> None:
    agent = house.wait("claude", timeout_seconds=30, session_alive=False)
    _assert_quiet(house.daemon, telegram, session)
    # A terminal whose program was killed is still there: that is shown, and nothing else.
    agent = house.agent("claude")
    assert agent["state"] in {"stopped", "stale"}
    assert agent["reason"].startswith("stopped by a person")


def _assert_quiet(daemon: RunningDaemon, telegram: Telegram, session: str) -> None:
    """Stopped because a person wanted it, now and after a while: no finding, event, incident or alert."""
    assert_ended_quietly(daemon, session, QUIET_SECONDS)
    assert telegram.texts(CHAT) == []


@pytest.fixture
def managed(claude: ClaudeHome, daemon: RunningDaemon, telegram: Telegram) -> Operator:
    daemon.watch(
        **claude.environ(),
        WAKEFUL_HEAL__CONFIRM_SECONDS="0.2",
        WAKEFUL_ALERTS__TELEGRAM_TOKEN="123:abc",
        WAKEFUL_ALERTS__TELEGRAM_CHAT=CHAT,
        WAKEFUL_ALERTS__TELEGRAM_API=telegram.http.url,
    )
    return Operator(daemon, claude)


@pytest.mark.parametrize("place", ["--headless", "--detach"])
@pytest.mark.parametrize("fault", ["", "act.done:2:kill"])
def test_a_session_that_a_person_stopped_alarms_nobody(
    managed: Operator, telegram: Telegram, place: str, fault: str
) -> None:
    """`session stop` in the middle of a turn, in a terminal and without one; also where the daemon is killed with it."""
    daemon = managed.daemon
    daemon.environ["WAKEFUL_FAULTS"] = fault
    daemon.up()
    session = _begun(managed, place)
    assert (managed.type("session", "stop", session).exit_code == 0) is not bool(fault)
    if fault:
        wait_for(lambda: daemon.has_ended() or None, "death of the daemon")
        daemon.environ["WAKEFUL_FAULTS"] = ""
        daemon.up()
    _assert_quiet(daemon, telegram, session)


@pytest.mark.parametrize("place", ["--headless", "--detach"])
def test_work_after_a_stop_that_was_cut_off_is_not_lost(managed: Operator, place: str) -> None:
    """Nothing was done of the stop: Wakeful says so, and heals the next work of the same process when it dies."""
    daemon = managed.daemon
    daemon.environ["WAKEFUL_FAULTS"] = "act.intended:2:kill"
    daemon.up()
    session = _begun(managed, place)
    assert managed.type("session", "stop", session).exit_code != 0
    wait_for(lambda: daemon.has_ended() or None, "death of the daemon")
    daemon.environ["WAKEFUL_FAULTS"] = ""
    daemon.up()
    assert "still runs. Stop it again" in managed.type("why", "-v", session).out
    assert managed.type("interrupt", session).exit_code == 0
    assert managed.type("send", session, script(HANGING)).exit_code == 0
    assert "Stop it again" not in managed.type("why", "-v", session).out
    os.kill(managed.wait_until(session, "work", state="prompting")["pid"], signal.SIGKILL)
    log = Path(daemon.environ["WAKEFUL_HOME"], "logs/critical_events.jsonl")
    wait_for(lambda: (log.exists() and "revival_attempted" in log.read_text()) or None, "revival")


def test_a_client_that_a_person_left_by_its_keys_alarms_nobody(managed: Operator, telegram: Telegram) -> None:
    """Ctrl-C cuts the turn short, which its log tells; twice more, and the client ends."""
    daemon = managed.daemon
    daemon.up()
    session = _begun(managed, "--detach")
    server = Server(Path(daemon.environ["WAKEFUL_HOME"]) / "tmux.sock")
    (pane,) = server.tmux("list-panes", "-a", "-F", "#{pane_id}").split()
    for _ in range(3):
        server.tmux("send-keys", "-t", pane, "C-c")
        # As a person presses it: the client asks for the second one within a second.
        time.sleep(0.5)
    record = managed.wait_until(session, "end of the client", state="stopped")
    time.sleep(QUIET_SECONDS)
    assert (record["health"], record["findings"]) == ("healthy", [])
    assert daemon.run("incidents", "--json").json["incidents"] == []
    assert telegram.texts(CHAT) == []


def _begun(operator: Operator, place: str) -> str:
    session = operator.start(place, "--prompt", script(HANGING), "--", "claude")
    record: Record = operator.wait_until(session, "work", state="prompting")
    return str(record["id"])


def test_a_restart_writes_down_no_death_of_a_session_that_was_stopped(operator: Operator) -> None:
    """It died, then a person stopped it: it is stopped and healthy, and the next daemon stores no change of that."""
    session_id = operator.start("--headless", "--prompt", script(HANGING), "--", "claude")
    claude_pid = operator.wait_until(session_id, "work", state="prompting")["pid"]
    # Without its log the next daemon would not list it.
    wait_for(lambda: operator.home.logs() or None, "log")
    os.kill(claude_pid, signal.SIGKILL)
    operator.wait_until(session_id, "death", health="dead")
    assert operator.act("stop", session_id)["session_id"] == session_id
    operator.wait_until(session_id, "end", state="stopped", health="healthy")
    before = stored_changes(operator.daemon, session_id)
    for _ in range(3):
        operator.daemon.end()
        operator.daemon.up()
        operator.wait_until(session_id, "end", state="stopped", health="healthy")
    assert stored_changes(operator.daemon, session_id) == before


def stored_changes(daemon: RunningDaemon, session_id: str) -> list[Record]:
    transport = httpx.HTTPTransport(uds=str(daemon.socket))
    with httpx.Client(transport=transport, base_url="http://wakeful") as client:
        changes: list[Record] = client.get(f"/api/sessions/{session_id}/events").json()["events"]
    return changes
