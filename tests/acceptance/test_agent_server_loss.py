"""kill -9 of Wakeful's tmux server under many agents: one incident, no agent guessed dead, all brought back in turn."""

import os
import re
import signal
from collections.abc import Iterator

import pytest

from support.agents_e2e import CHEAP, AgentsFixture
from support.daemon_process import RunningDaemon
from support.real_clients import require_tmux, wait_for

AUTO = [f"auto{number}" for number in range(6)]
MANUAL = [f"manual{number}" for number in range(3)]
ALL = (*AUTO, *MANUAL)
MOVE = re.compile(r"agent (\w+): (\w+) -> (\w+) \((.*)\)")


@pytest.fixture
def house(daemon: RunningDaemon) -> Iterator[AgentsFixture]:
    require_tmux()
    auto = "".join(f'{CHEAP.format(name=name)}restart = "auto"\n' for name in AUTO)
    house = AgentsFixture(daemon, auto + "".join(CHEAP.format(name=name) for name in MANUAL))
    daemon.up()
    yield house
    house.end()


def moves(house: AgentsFixture) -> list[tuple[str, str, str, str]]:
    """Every change of an agent's state, in order."""
    return MOVE.findall(house.daemon.said())


def states(house: AgentsFixture, names: tuple[str, ...] | list[str]) -> set[tuple[str, str, int]]:
    """State, reason and epoch of these agents, each once."""
    listed = house.daemon.run("agent", "list", "--json").json["agents"]
    return {(each["state"], each["reason"], each["epoch"]) for each in listed if each["name"] in names}


def start_all(house: AgentsFixture, names: tuple[str, ...] | list[str]) -> None:
    """Every one of them, at once."""
    begun = [house.daemon.spawn("agent", "start", name) for name in names]
    assert [each.wait(60) for each in begun] == [0] * len(begun)


def incidents(house: AgentsFixture) -> list[tuple[str, list[str]]]:
    found = house.daemon.run("incidents", "--json").json["incidents"]
    return [(each["cause"], sorted(each["sessions"])) for each in found]


def test_a_killed_server_is_one_loss_and_its_agents_come_back_in_turn(house: AgentsFixture) -> None:
    """Every agent is unknown at once, in one incident; then those of `auto` are started one by one, each once."""
    start_all(house, ALL)
    before = len(moves(house))
    os.kill(house.server.pid, signal.SIGKILL)
    wait_for(lambda: len(moves(house)) >= before + len(ALL) or None, "loss of every agent")
    refused = house.daemon.run("agent", "start", MANUAL[0])
    assert (refused.exit_code, "the tmux server ended" in refused.err) == (1, True)
    assert states(house, ALL) == {("unknown", "the tmux server ended", 1)}
    assert incidents(house) == [("tmux_server", [f"agent-{name}" for name in ALL])]
    back = {("running", "seen ready", 2)}
    wait_for(lambda: states(house, AUTO) == back or None, "return of the agents of `auto`")
    assert states(house, MANUAL) == {("stale", "its tmux server ended", 1)}
    _assert_paced(moves(house)[before:])
    assert all(len(house.programs(name)) == 1 for name in AUTO)
    assert incidents(house) == [("tmux_server", [f"agent-{name}" for name in MANUAL])]
    start_all(house, MANUAL[:-1])
    assert house.daemon.run("agent", "stop", MANUAL[-1]).exit_code == 0
    wait_for(lambda: incidents(house) == [] or None, "end of the incident")


def _assert_paced(seen: list[tuple[str, str, str, str]]) -> None:
    """All lost, then all stale, then one start at a time, no agent twice."""
    assert {state for _, _, state, _ in seen[: len(ALL)]} == {"unknown"}
    reasons = [reason for _, _, state, reason in seen if state == "stale"]
    assert reasons == ["its tmux server ended"] * len(ALL)
    started = [(name, state) for name, _, state, _ in seen if state in ("starting", "running")]
    assert started == [
        each for name, _ in started[::2] for each in ((name, "starting"), (name, "running"))
    ], "one after another"
    assert sorted(name for name, _ in started[::2]) == AUTO
