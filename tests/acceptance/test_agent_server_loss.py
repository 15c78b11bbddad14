"""kill -9 of Wakeful's tmux server, with many agents on it: one incident, nobody guessed dead, brought back in turn."""

import os
import re
import signal
from collections.abc import Iterator

import pytest

from agent_houses import CHEAP, AgentHouse
from clients import require_tmux, wait_for
from daemons import RunningDaemon

AUTO = [f"auto{number}" for number in range(8)]
MANUAL = [f"manual{number}" for number in range(4)]
MOVE = re.compile(r"agent (\w+): (\w+) -> (\w+) \((.*)\)")


@pytest.fixture
def house(daemon: RunningDaemon) -> Iterator[AgentHouse]:
    require_tmux()
    auto = "".join(f'{CHEAP.format(name=name)}restart = "auto"\n' for name in AUTO)
    house = AgentHouse(daemon, auto + "".join(CHEAP.format(name=name) for name in MANUAL))
    daemon.up()
    yield house
    house.end()


def moves(house: AgentHouse) -> list[tuple[str, str, str, str]]:
    """Every change of an agent's state, in order."""
    return MOVE.findall(house.daemon.said())


def test_a_killed_server_is_one_loss_and_its_agents_come_back_in_turn(house: AgentHouse) -> None:
    """Everybody is unknown at once and in one incident; then those of `auto` are started one by one, each once."""
    for name in (*AUTO, *MANUAL):
        house.start(name)
    before = len(moves(house))
    os.kill(house.server.pid, signal.SIGKILL)
    for name in (*AUTO, *MANUAL):
        record = house.wait(name, state="unknown", timeout_seconds=12)
        assert record["reason"].startswith("the tmux server ended")
    (incident,) = house.daemon.run("incidents", "--json").json["incidents"]
    assert sorted(incident["sessions"]) == sorted(f"agent-{name}" for name in (*AUTO, *MANUAL))
    for name in AUTO:
        assert house.wait(name, state="running", timeout_seconds=90)["epoch"] == 2
    for name in MANUAL:
        assert house.wait(name, state="stale")["reason"] == "its tmux server ended"
    seen = moves(house)[before:]
    assert {state for _, _, state, _ in seen[: len(AUTO) + len(MANUAL)]} == {"unknown"}
    assert [reason for _, _, state, reason in seen if state == "stale"] == ["its tmux server ended"] * 12
    started = [(name, state) for name, _, state, _ in seen if state in ("starting", "running")]
    assert started == [
        each for name, _ in started[::2] for each in ((name, "starting"), (name, "running"))
    ], "one after the other"
    assert sorted(name for name, _ in started[::2]) == AUTO
    assert all(len(house.programs(name)) == 1 for name in AUTO)
    (incident,) = house.daemon.run("incidents", "--json").json["incidents"]
    assert sorted(incident["sessions"]) == [f"agent-{name}" for name in MANUAL]
    for name in MANUAL:
        house.start(name)
    wait_for(lambda: house.daemon.run("incidents", "--json").json["incidents"] == [] or None, "its end")
