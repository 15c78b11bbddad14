"""Starts that fail or are cut off, from outside: an agent that was never seen ready is never called running."""

import time
from collections.abc import Iterator

import pytest

from support.agents_e2e import AgentsFixture
from support.daemon_process import RunningDaemon
from support.docker_engine import IMAGE, DockerEngine
from support.real_clients import require_tmux, wait_for

AGENT = """
[agents.{name}]
runtime = "{runtime}"
{more}
command = ["sh", "-c", "{script}"]
ready = "now ready"
ready_seconds = {seconds}
"""
NEVER = "exec sleep 100000"
# Says so once a file is there: a test decides when.
LATE = "while [ ! -e {flag} ]; do sleep 0.1; done; echo now ready; exec sleep 100000"


def declared(runtime: str, name: str, script: str, seconds: float) -> str:
    more = f'image = "{IMAGE}"\nnetwork = "none"' if runtime == "docker" else ""
    return AGENT.format(runtime=runtime, name=name, more=more, script=script, seconds=seconds)


@pytest.fixture(params=["tmux", "docker"])
def house(daemon: RunningDaemon, request: pytest.FixtureRequest) -> Iterator[AgentsFixture]:
    """Agents that are never ready, late, or gone before they are."""
    require_tmux()
    runtime: str = request.param
    docker: DockerEngine | None = request.getfixturevalue("docker") if runtime == "docker" else None
    if docker is not None:
        daemon.environ["DOCKER_HOST"] = docker.address
    flag = "/tmp/flag" if docker is not None else str(daemon.home / "flag")
    house = AgentsFixture(
        daemon,
        declared(runtime, "never", NEVER, 1)
        + declared(runtime, "late", LATE.format(flag=flag), 60)
        + declared(runtime, "slow", LATE.format(flag=flag), 3)
        + declared(runtime, "plain", "echo now ready; exec sleep 100000", 60),
    )
    daemon.up()
    yield house
    daemon.end()
    house.end()
    if docker is not None:
        docker.clear()


def raise_flag(house: AgentsFixture, request: pytest.FixtureRequest, name: str) -> None:
    """Let an agent say that it is ready."""
    if house.agent(name)["runtime"] == "docker":
        docker: DockerEngine = request.getfixturevalue("docker")
        docker.docker("exec", f"agent-{name}", "sh", "-c", "echo >/tmp/flag")
    else:
        (house.daemon.home / "flag").touch()


def begin(house: AgentsFixture, name: str) -> None:
    """Order a start, wait until its program lives, and kill -9 the daemon in its middle."""
    started = house.daemon.spawn("agent", "start", name)
    wait_for(lambda: house.agent(name)["state"] == "starting" or None, "start")
    wait_for(lambda: house.lives(name) or None, "its program")
    house.daemon.kill()
    started.wait(20)


def test_an_agent_that_was_never_ready_is_an_error_and_stays_one(house: AgentsFixture) -> None:
    """Checks, syncs and a restart of the daemon find it alive; only its screen makes it running."""
    refused = house.daemon.run("agent", "start", "never")
    assert (refused.exit_code, "was not ready within 1 s" in refused.err) == (3, True), refused.err
    time.sleep(1)
    first = house.agent("never")
    assert (first["state"], "was not ready within 1 s" in first["reason"]) == ("error", True), first
    # It lives, and what it shows may be a dialog: a person with a terminal can go there.
    visited = house.daemon.run("attach", "never")
    assert ("wakeful attach never" in visited.err, "agent start" in visited.err) == (True, False), visited.err
    house.daemon.kill()
    house.daemon.up()
    kept = [house.agent("never")[key] for key in ("state", "reason", "since")]
    assert kept == [first[key] for key in ("state", "reason", "since")]
    before = house.programs("never")
    again = house.daemon.run("agent", "start", "never")
    assert (again.exit_code, "was not ready within 1 s" in again.err) == (3, True), again.err
    assert not set(before) & set(house.programs("never"))
    assert house.daemon.run("agent", "stop", "never", "--json").json["state"] == "stopped"


def test_a_start_that_a_crash_cut_off_goes_on_until_it_is_ready(
    house: AgentsFixture, request: pytest.FixtureRequest
) -> None:
    """After kill -9 of the daemon it is starting, since when it was ordered; once its screen says so it is running."""
    begin(house, "late")
    house.daemon.up()
    assert house.agent("late")["state"] == "starting"
    raise_flag(house, request, "late")
    running = house.wait("late", state="running", session_alive=True, timeout_seconds=15)
    assert running["pid"] is not None
    assert house.daemon.run("agent", "stop", "late", "--json").json["state"] == "stopped"


def test_a_start_that_a_crash_cut_off_has_the_rest_of_its_time(
    house: AgentsFixture, request: pytest.FixtureRequest
) -> None:
    """Not ready in time is an error with its reason; ready after that is still running."""
    begin(house, "slow")
    house.daemon.up()
    failed = house.wait("slow", state="error", timeout_seconds=20)
    assert "was not ready within 3 s" in failed["reason"]
    raise_flag(house, request, "slow")
    house.wait("slow", state="running", timeout_seconds=20)


def test_a_start_that_a_crash_cut_off_and_that_ended_is_an_error(house: AgentsFixture) -> None:
    """What ended before anybody saw it ready is neither unknown nor stale."""
    begin(house, "late")
    house.end_program("late")
    house.daemon.up()
    assert house.wait("late", state="error", timeout_seconds=15)["reason"]


@pytest.mark.parametrize("stale", [False, True], ids=["start", "restart"])
def test_a_crash_right_after_the_claim_does_not_refuse_the_next_start(
    house: AgentsFixture, stale: bool
) -> None:
    """The dead daemon's lease is taken over at once, under the next epoch, without waiting a minute for it."""
    if stale:
        house.start("plain")
        house.end_program("plain")
        house.wait("plain", state="stale")
    house.daemon.end()
    house.daemon.environ["WAKEFUL_FAULTS"] = "hub.claimed:1:kill"
    house.daemon.up()
    assert house.daemon.run("agent", "start", "plain").exit_code != 0
    wait_for(lambda: house.daemon.has_ended() or None, "kill")
    del house.daemon.environ["WAKEFUL_FAULTS"]
    house.daemon.up()
    began = time.monotonic()
    started = house.daemon.run("agent", "start", "plain", "--json")
    assert started.exit_code == 0, started.err
    assert (started.json["state"], started.json["epoch"]) == ("running", 3 if stale else 2)
    assert time.monotonic() - began < 15


def test_a_start_that_a_crash_cut_off_can_be_stopped(house: AgentsFixture) -> None:
    """`agent stop` is taken while it starts, before and after the crash."""
    begin(house, "late")
    house.daemon.up()
    assert house.daemon.run("agent", "stop", "late", "--json").json["state"] == "stopped"
    assert not house.lives("late")
    ordered = house.daemon.spawn("agent", "start", "late")
    wait_for(lambda: house.lives("late") or None, "its program")
    assert house.daemon.run("agent", "stop", "late", "--json").json["state"] == "stopped"
    assert ordered.wait(20) == 1
    assert not house.lives("late")
