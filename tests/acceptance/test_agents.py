"""The hub with real tmux agents (docs/specs/hub.md), through daemon, command, menu, WebSocket and terminal."""

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.agents_e2e import CHEAP, AgentsFixture, clients_of
from support.agents_soak import deaths, moves_until
from support.daemon_process import RunningDaemon
from support.real_clients import require_tmux, wait_for
from wakeful.core.process import ProcessState

SHELLY = '[agents.shelly]\nruntime = "tmux"\ncommand = ["sh", "-c", "sleep 100000; exec sh -i"]\n'
AUTO = '[agents.auto]\nruntime = "tmux"\ncommand = ["sleep", "100000"]\nrestart = "auto"\n'
BROKEN = """
[agents.missing]
runtime = "tmux"
command = ["no-such-program-anywhere"]
[agents.brief]
runtime = "tmux"
command = ["sh", "-c", "echo I cannot work like this; sleep 0.1; exit 3"]
[agents.late]
runtime = "tmux"
command = ["sh", "-c", "sleep 1; echo now ready; exec sleep 100000"]
ready = "now ready"
[agents.never]
runtime = "tmux"
command = ["sleep", "100000"]
ready = "never said"
ready_seconds = 1
"""
KILLS = 30


@pytest.fixture
def house(daemon: RunningDaemon) -> Iterator[AgentsFixture]:
    """Three cheap agents, one that leaves a shell behind, one that is brought back, and four that have trouble."""
    require_tmux()
    cheap = "".join(CHEAP.format(name=name) for name in ("one", "two", "three"))
    house = AgentsFixture(daemon, cheap + SHELLY + AUTO + BROKEN)
    daemon.up()
    yield house
    house.end()


def test_an_agent_that_ended_is_stale_and_is_restarted(house: AgentsFixture) -> None:
    """Simulate an orphan, see it in services, restart it."""
    started = house.start("one")
    assert (started["state"], started["session_alive"], started["epoch"]) == ("running", True, 1)
    house.kill("one")
    stale = house.wait("one", state="stale", session_alive=False, timeout_seconds=10)
    assert (stale["reason"], stale["pid"]) == ("session dead", None)
    shown = house.daemon.run("services").out
    assert "(1 stale, 8 stopped)" in shown
    assert "  agent-one       stale     (session dead)\n" in shown
    assert "stale      one: session dead" in house.daemon.run("status").out
    again = house.daemon.run("agent", "restart-session", "one", "--json").json
    assert (again["state"], again["epoch"]) == ("running", 2)
    assert house.daemon.run("agent", "restart-session", "one").exit_code == 1


def test_an_agent_that_left_its_shell_behind_is_stale(house: AgentsFixture) -> None:
    """tmux alive is not agent alive."""
    pid = house.start("shelly")["pid"]
    os.kill(pid, signal.SIGTERM)
    assert house.wait("shelly", state="stale")["reason"] == "agent exited to a shell"
    assert house.server.tmux("list-sessions", "-F", "#{session_name}") == "agent-shelly"


def test_a_session_killed_by_hand_is_stale_and_not_a_dead_server(house: AgentsFixture) -> None:
    """The last session goes, and its server stays to say so."""
    house.start("one")
    house.server.tmux("kill-session", "-t", "=agent-one")
    assert house.wait("one", state="stale")["reason"] == "session dead"
    assert house.daemon.run("incidents", "--json").json["incidents"] == []


def test_a_stop_removes_it(house: AgentsFixture) -> None:
    """Stopped, its process gone, its session gone, and the server with its last agent."""
    pid = house.start("one")["pid"]
    stopped = house.daemon.run("agent", "stop", "one", "--json").json
    assert (stopped["state"], stopped["session_alive"], stopped["pid"]) == ("stopped", False, None)
    # Dead it is; its server may still have to take note of it.
    wait_for(lambda: not Path(f"/proc/{pid}").exists() or None, "end of its process")
    wait_for(lambda: house.server.look().sight is ProcessState.DEAD or None, "end of the server")
    assert house.daemon.run("agent", "stop", "one").exit_code == 1


def test_three_agents_keep_their_pids_through_restarts_of_ours(house: AgentsFixture) -> None:
    """Nothing an agent needs lives in the daemon: after a clean end and after kill -9 the agents go on unchanged."""
    names = ("one", "two", "three")
    before = {name: house.start(name) for name in names}
    for end in (house.daemon.end, house.daemon.kill):
        end()
        assert all(Path(f"/proc/{each['pid']}").exists() for each in before.values())
        house.daemon.up()
        for name in names:
            after = house.agent(name)
            kept = ("state", "pid", "epoch", "since", "session_alive")
            assert [after[key] for key in kept] == [before[name][key] for key in kept]
    assert "Discovered running session for one (seen ready)" in house.daemon.said()


def test_a_daemon_that_comes_late_discovers_the_stale(house: AgentsFixture) -> None:
    """A hub restart: what died meanwhile is found, logged and shown."""
    pid = house.start("one")["pid"]
    house.daemon.kill()
    os.kill(pid, signal.SIGKILL)
    down = house.daemon.run("services")
    assert "session state unknown (Hub not running)" in down.out
    assert "agent-one" in down.out
    house.daemon.up()
    assert house.agent("one")["state"] == "stale"
    assert "Discovered stale session for one (session dead)" in house.daemon.said()


def test_an_auto_agent_comes_back_once(house: AgentsFixture) -> None:
    """Brought back by itself; killed again at once it stays stale, for its budget is spent."""
    first = house.start("auto")
    house.kill("auto")
    back = house.wait("auto", state="running", epoch=2, timeout_seconds=15)
    assert back["pid"] != first["pid"]
    house.kill("auto")
    house.wait("auto", state="stale", timeout_seconds=10)
    wait_for(lambda: ("ended again after one restart" in house.daemon.said()) or None, "giving up")
    assert house.agent("auto")["state"] == "stale"


@pytest.mark.parametrize(
    ("name", "code", "said"),
    [
        ("missing", 2, "'no-such-program-anywhere' was not found in any folder of PATH"),
        ("brief", 3, "it ended at once: I cannot work like this"),
        ("never", 3, "its screen never showed 'never said'"),
    ],
)
def test_a_start_that_fails_says_why(house: AgentsFixture, name: str, code: int, said: str) -> None:
    """Error, with the reason, which stays; and the next order is taken."""
    spoken = house.daemon.run("agent", "start", name)
    assert (spoken.exit_code, said in spoken.err) == (code, True), spoken.err
    record = house.agent(name)
    assert (record["state"], said in record["reason"]) == ("error", True)
    assert house.daemon.run("agent", "stop", name, "--json").json["state"] == "stopped"


def test_ready_means_that_its_screen_says_so(house: AgentsFixture) -> None:
    """A start returns when the pattern is seen, not before."""
    began = time.monotonic()
    assert house.start("late")["state"] == "running"
    assert time.monotonic() - began > 1


def test_mistakes_get_one_line(house: AgentsFixture) -> None:
    """An unknown name hears the nearest, an odd one what a name is, and attach says what to run."""
    unknown = house.daemon.run("agent", "start", "tow")
    assert (unknown.exit_code, "Did you mean 'two'?" in unknown.err) == (2, True)
    assert house.daemon.run("agent", "start", "heartbeat").exit_code == 2
    stopped = house.daemon.run("attach", "one")
    assert (stopped.exit_code, "wakeful agent start one" in stopped.err) == (1, True)
    house.start("one")
    blind = house.daemon.run("attach", "one")
    assert (blind.exit_code, "In one, run: wakeful attach one" in blind.err) == (2, True)
    house.kill("one")
    house.wait("one", state="stale")
    undecided = house.daemon.run("attach", "one")
    assert undecided.exit_code == 2
    assert "wakeful attach one --restart" in undecided.err
    for _ in range(2):
        restarted = house.daemon.run("attach", "one", "--restart")
        assert (restarted.exit_code, "attach to it in a terminal: wakeful attach" in restarted.out) == (
            0,
            True,
        )
    assert house.agent("one")["epoch"] == 2
    assert house.daemon.run("attach", "one", "--teardown").exit_code == 0
    assert house.agent("one")["state"] == "stopped"
    nobody = house.daemon.run("attach", "nobody-at-all")
    assert (nobody.exit_code, "No agent or session 'nobody-at-all'. List" in nobody.err) == (2, True)
    misspelt = house.daemon.run("attach", "thre")
    assert (misspelt.exit_code, "Did you mean 'three'?" in misspelt.err) == (2, True)


def test_attach_hands_the_terminal_over_and_leaves_it_clean(house: AgentsFixture) -> None:
    """A person attaches, detaches with Ctrl-B D, and sits at the same prompt; the agent never noticed."""
    before = house.start("one")
    house.sit_down("attach", "one")
    wait_for(lambda: clients_of(house.server) or None, "attached terminal")
    house.press("C-b", "d")
    house.wait_for_screen("[detached (from session agent-one)]", "left with 0")
    house.type("stty -a | grep -c ' echo ' ; echo done")
    house.wait_for_screen("1\ndone")
    after = house.agent("one")
    assert (after["state"], after["pid"], after["since"]) == ("running", before["pid"], before["since"])


def test_a_terminal_that_closes_while_attached_harms_nobody(house: AgentsFixture) -> None:
    """Closing the window is detaching."""
    before = house.start("one")
    house.sit_down("attach", "one")
    wait_for(lambda: clients_of(house.server) or None, "attached terminal")
    house.desk.end()
    wait_for(lambda: clients_of(house.server) == 0 or None, "end of the terminal")
    assert house.agent("one")["pid"] == before["pid"]


def test_the_menu_restarts_and_attaches(house: AgentsFixture) -> None:
    """The documented menu, word for word but for the container; R restarts the session and goes there."""
    house.start("one")
    house.kill("one")
    house.wait("one", state="stale")
    house.sit_down("attach", "one")
    shown = house.wait_for_screen("Choice:")
    assert "Agent 'one' is stale (session dead)." in shown
    assert "  [R] Restart session - launch sleep in a new tmux session" in shown
    assert "  [T] Teardown      - remove the tmux session entirely" in shown
    assert "  [C] Cancel" in shown
    house.type("x")
    house.wait_for_screen("Type R, T or C.")
    house.type("R")
    wait_for(lambda: clients_of(house.server) or None, "attached terminal")
    assert house.wait("one", state="running")["epoch"] == 2
    house.press("C-b", "d")
    house.wait_for_screen("left with 0")


def test_the_menu_left_with_a_key_leaves_the_terminal_clean(house: AgentsFixture) -> None:
    """Ctrl-C and Ctrl-D do nothing to the agent, and the next prompt has a line of its own."""
    house.start("one")
    house.kill("one")
    house.wait("one", state="stale")
    house.sit_down("attach", "one")
    house.wait_for_screen("Choice:")
    house.press("C-c")
    house.wait_for_screen("\nleft with 130\n")
    house.type("clear")
    house.enter("attach", "one")
    house.wait_for_screen("Choice:")
    house.press("C-d")
    house.wait_for_screen("\nleft with 0\n")
    assert house.agent("one")["state"] == "stale"


@pytest.mark.parametrize(("choice", "state"), [("t", "stopped"), ("c", "stale"), ("", "stale")])
def test_the_menu_tears_down_or_leaves_alone(house: AgentsFixture, choice: str, state: str) -> None:
    """T removes it; C, or nothing, does nothing."""
    house.start("one")
    house.kill("one")
    house.wait("one", state="stale")
    house.sit_down("attach", "one")
    house.wait_for_screen("Choice:")
    house.type(choice)
    house.wait_for_screen("left with 0")
    assert house.agent("one")["state"] == state


@pytest.mark.alone
def test_every_change_is_pushed_and_a_death_within_a_tenth_of_a_second(house: AgentsFixture) -> None:
    """Old and new state, reason and time; 30 deaths, the slowest of 99 in 100 within 100 ms."""
    with house.listen() as listener:
        assert json.loads(listener.recv(10))["hello"]["agents"]["counts"] == {"stopped": 9}
        house.start("one")
        moves = [(each["old_state"], each["state"]) for each in moves_until(listener, "running")]
    assert moves == [("stopped", "starting"), ("starting", "running")]
    told = list(deaths(house, "one", KILLS))
    for _, died in told:
        assert (died["old_state"], died["reason"]) == ("running", "session dead")
        assert died["at"] == died["record"]["since"]
    # 99 of 100 are all of 30.
    seconds = sorted(each for each, _ in told)
    assert seconds[-1] <= 0.1, seconds[-5:]


def test_two_starts_from_two_terminals_start_one(house: AgentsFixture) -> None:
    """One wins, the other hears why, and one process runs."""
    codes: list[int] = []
    threads = [
        threading.Thread(target=lambda: codes.append(house.daemon.run("agent", "start", "one").exit_code))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(codes) == [0, 1]
    assert len(house.server.tmux("list-panes", "-a").splitlines()) == 1
