"""The hub with containers of a real engine (docs/specs/hub.md), through daemon, command, menu and terminal."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import prerequisites
from support.agents_e2e import AgentsFixture
from support.agents_soak import deaths, moves_until
from support.daemon_process import RunningDaemon
from support.docker_engine import IMAGE, DockerEngine, make_image
from support.real_clients import ClaudeHome, require_tmux, wait_for
from wakeful.testing.scripted_model import script

AGENT = """
[agents.{name}]
runtime = "docker"
image = "{image}"
command = ["sleep", "100000"]
network = "none"
"""
MISSING = AGENT.format(name="missing", image="no-such-image")
SENTENCE = "Discovered stale container for claude (container running, session dead)"


@pytest.fixture(scope="module")
def shared(docker_engine: DockerEngine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentsFixture]:
    """One daemon for all: tests leave no container behind, and it sees that."""
    require_tmux()
    daemon = RunningDaemon(tmp_path_factory.mktemp("hub") / "wakeful")
    daemon.environ["DOCKER_HOST"] = docker_engine.address
    toml = "".join(AGENT.format(name=name, image=IMAGE) for name in ("claude", "two"))
    house = AgentsFixture(daemon, toml + MISSING)
    daemon.up()
    try:
        yield house
    finally:
        daemon.end()
        house.end()


@pytest.fixture
def house(shared: AgentsFixture, docker: DockerEngine) -> Iterator[AgentsFixture]:
    yield shared
    docker.clear()
    for name in ("claude", "two"):
        shared.wait(name, state="stopped")
    shared.desk.end()


def test_a_container_whose_session_died_is_stale_restarted_and_torn_down(
    house: AgentsFixture, docker: DockerEngine
) -> None:
    """Orphan, services, restart in the existing container, teardown."""
    started = house.start("claude")
    assert (started["state"], started["session_alive"]) == ("running", True)
    house.kill("claude")
    stale = house.wait("claude", state="stale", session_alive=False, timeout_seconds=10)
    assert stale["reason"] == "container running, session dead"
    shown = house.daemon.run("services").out
    assert "(1 stale, 2 stopped)" in shown
    assert "  agent-claude    stale     (container running, session dead)\n" in shown
    again = house.daemon.run("agent", "restart-session", "claude", "--json").json
    assert (again["state"], again["container_id"]) == ("running", started["container_id"])
    assert again["epoch"] == started["epoch"] + 1
    assert house.daemon.run("agent", "stop", "claude", "--json").json["state"] == "stopped"
    assert docker.docker("ps", "-aq") == ""


@pytest.mark.alone
def test_a_death_in_a_container_is_pushed_within_a_tenth_of_a_second(
    house: AgentsFixture, docker: DockerEngine
) -> None:
    """A few deaths here, a hundred in `bench.hub_cycles`; and a container that goes is never called stale on the way."""
    house.start("two")
    told = list(deaths(house, "two", 3))
    assert max(seconds for seconds, _ in told) <= 0.1, told
    assert {died["reason"] for _, died in told} == {"container running, session dead"}
    with house.listen() as listener:
        docker.docker("rm", "-f", "agent-two")
        assert [each["state"] for each in moves_until(listener, "stopped")] == ["stopped"]


def test_a_hub_that_comes_late_discovers_the_stale_container(house: AgentsFixture) -> None:
    """A hub that restarts logs the documented sentence; without a hub the state is unknown."""
    pid = house.start("claude")["pid"]
    house.daemon.kill()
    os.kill(pid, signal.SIGKILL)
    down = house.daemon.run("services").out
    assert "agent-claude" in down
    assert "session state unknown (Hub not running)" in down
    house.daemon.up()
    assert house.agent("claude")["state"] == "stale"
    assert SENTENCE in house.daemon.said()


def test_a_container_removed_by_hand_is_stopped(house: AgentsFixture, docker: DockerEngine) -> None:
    """Running or stale: what is gone is stopped."""
    for name in ("claude", "two"):
        house.start(name)
    house.kill("claude")
    house.wait("claude", state="stale")
    docker.docker("rm", "-f", "agent-claude", "agent-two")
    for name in ("claude", "two"):
        assert "container" in house.wait(name, state="stopped", timeout_seconds=10)["reason"]


def test_the_menu_restarts_a_container_and_attaches(house: AgentsFixture, docker: DockerEngine) -> None:
    """Word for word the documented menu; R restarts, attaches through the engine, and detaching leaves the terminal clean."""
    started = house.start("claude")
    house.kill("claude")
    house.wait("claude", state="stale")
    house.sit_down("attach", "claude")
    shown = house.wait_for_screen("Choice:")
    assert "Agent 'claude' is stale (container running, session dead)." in shown
    assert "  [R] Restart session - launch sleep in a new tmux session" in shown
    assert "  [T] Teardown      - remove the container entirely" in shown
    house.type("R")
    house.wait("claude", state="running", epoch=started["epoch"] + 1)
    inside = ("exec", "agent-claude", "tmux", "list-clients")
    wait_for(lambda: docker.docker(*inside) or None, "attached terminal")
    house.press("C-b", "d")
    house.wait_for_screen("left with 0")
    after = house.agent("claude")
    assert (after["state"], after["container_id"]) == ("running", started["container_id"])


def test_a_terminal_that_closes_while_attached_leaves_nothing_in_the_container(
    house: AgentsFixture, docker: DockerEngine
) -> None:
    """Closing the window detaches that window alone; other windows stay attached, and the agent goes on."""
    started = house.start("claude")
    clients = ("exec", "agent-claude", "tmux", "list-clients", "-F", "#{client_tty}")
    marks = ("exec", "agent-claude", "tmux", "show-options", "-g")
    house.sit_down("attach", "claude")
    (first,) = wait_for(lambda: docker.docker(*clients).split() or None, "attached terminal")
    house.desk.tmux("split-window", "-t", "desk", house.command("attach", "claude"))
    wait_for(lambda: len(docker.docker(*clients).split()) == 2 or None, "second terminal")
    house.desk.tmux("kill-pane", "-t", "desk")
    wait_for(lambda: docker.docker(*clients).split() == [first] or None, "end of the second")
    house.desk.end()
    wait_for(lambda: docker.docker(*clients) == "" or None, "end of the first")
    assert (house.agent("claude")["state"], house.agent("claude")["pid"]) == ("running", started["pid"])
    wait_for(lambda: "@wakeful" not in docker.docker(*marks) or None, "end of the marks")


def test_an_image_that_is_not_there_is_an_error(house: AgentsFixture) -> None:
    """Said in one line, with the name, and it stays said."""
    spoken = house.daemon.run("agent", "start", "missing")
    assert (spoken.exit_code, "no-such-image" in spoken.err) == (2, True)
    assert house.agent("missing")["state"] == "error"


def test_an_engine_that_is_gone_is_one_incident(house: AgentsFixture, docker: DockerEngine) -> None:
    """Both agents unknown, with since and reason, one incident; the engine's return tells the truth again."""
    for name in ("claude", "two"):
        house.start(name)
    docker.crash()
    try:
        for name in ("claude", "two"):
            assert house.wait(name, state="unknown", session_alive=False, timeout_seconds=15)["reason"]
        (incident,) = house.daemon.run("incidents", "--json").json["incidents"]
        assert (incident["cause"], len(incident["sessions"])) == ("engine", 2)
        refused = house.daemon.run("agent", "start", "claude")
        assert refused.exit_code == 1
    finally:
        docker.start()
    for name in ("claude", "two"):
        wait_for(
            lambda name=name: house.agent(name)["state"] in ("running", "stopped", "stale") or None,  # type: ignore[misc]
            f"{name} to be seen again",
            30,
        )
    wait_for(lambda: house.daemon.run("incidents", "--json").json["incidents"] == [] or None, "end of it", 30)


IN_A_CONTAINER = """
[agents.bot]
runtime = "docker"
image = "with-claude"
command = ["/opt/client/claude", "--allowedTools", "Bash"]
env = {env}
workdir = "/code"
mounts = ["{program}:/opt/client:ro"]
ready = "for shortcuts"
# The scripted model listens on this host's loopback.
network = "host"
"""


def image_with_claude(docker: DockerEngine, claude: ClaudeHome) -> Path:
    """An image for Claude Code that has answered the questions of a first start; the folder of its program."""
    program = prerequisites.clients_dir() / "node_modules" / f"{prerequisites.CLAUDE.package}-linux-x64"
    make_image(docker, "with-claude", more=("bash",), mounted=(program / "claude",))
    answers = json.loads((claude.home / ".claude.json").read_text())
    answers["projects"] = {"/code": {"hasTrustDialogAccepted": True}}
    (claude.home / ".claude.json").write_text(json.dumps(answers))
    docker.docker("create", "--name", "answering", "with-claude", "sleep", "1")
    docker.docker("cp", str(claude.home / ".claude.json"), "answering:/root/.claude.json")
    docker.docker("commit", "answering", "with-claude")
    docker.docker("rm", "answering")
    return program


def test_claude_code_in_a_container_is_woken_and_its_loop_is_found(
    daemon: RunningDaemon, docker: DockerEngine, claude: ClaudeHome
) -> None:
    """The real client, its home inside: attachable, woken in its pane, and the `loop` it falls into seen from this host."""
    program = image_with_claude(docker, claude)
    passed = {name: value for name, value in claude.environ().items() if name not in ("HOME", "PATH")}
    daemon.environ |= {**passed, "DOCKER_HOST": docker.address}
    house = AgentsFixture(daemon, IN_A_CONTAINER.format(env=json.dumps([*passed]), program=program))
    daemon.up()
    pid = house.start("bot")["pid"]
    idle = daemon.wait_for_session(lambda each: each["eligible_for_wake"], "eligible session")
    assert (idle["agent"], idle["managed"], idle["attachable"], idle["pid"]) == ("bot", True, True, pid)
    heartbeat = Path(daemon.environ["WAKEFUL_HOME"]) / "agents" / "bot" / "HEARTBEAT.md"
    heartbeat.parent.mkdir(parents=True)
    heartbeat.write_text(script({"tool": "Bash", "input": {"command": "cat missing"}, "loop": True}))
    woken = daemon.run("agent", "heartbeat", "wake", "bot", "--json")
    assert (woken.exit_code, woken.json["session_id"]) == (0, idle["id"]), woken.out
    found = daemon.wait_for_session(
        lambda each: "loop" in [finding["code"] for finding in each["findings"]], "loop"
    )
    assert (found["health"], found["agent"], found["pid"]) == ("degraded", "bot", pid)
    assert house.agent("bot")["session_id"] == found["id"]
    assert "is running a turn" in daemon.run("agent", "stop", "bot").err
    assert daemon.run("agent", "stop", "bot", "--yes").exit_code == 0
