"""Claims about the hub over many cycles, with real tmux.

The suite does a few rounds; `WAKEFUL_ENDURANCE=50` does fifty times as many (1,000 cycles, twenty minutes).
"""

import json
import os
import pty
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest
from websockets.sync.client import ClientConnection

from agent_houses import CHEAP, AgentHouse, clients_of
from clients import require_tmux, wait_for
from daemons import RunningDaemon

FACTOR = int(os.environ.get("WAKEFUL_ENDURANCE", "1"))
CYCLES = 20 * FACTOR


@pytest.fixture
def house(daemon: RunningDaemon) -> Iterator[AgentHouse]:
    require_tmux()
    house = AgentHouse(daemon, CHEAP.format(name="one"))
    daemon.up()
    yield house
    house.end()


def test_launched_detached_and_reattached_it_is_never_stale(house: AgentHouse) -> None:
    """001's normal flow, again and again: nobody is ever told that it was stale or could not be seen."""
    door = httpx.HTTPTransport(uds=str(house.daemon.socket))
    with (
        httpx.Client(transport=door, base_url="http://wakeful", timeout=60) as client,
        house.listen() as heard,
    ):
        states: list[str] = []
        for _ in range(CYCLES):
            started = client.post("/api/agents/one/start", json={}).json()
            assert started["state"] == "running", started
            for _ in range(2):
                with attached(house):
                    pass
            after = client.get("/api/agents/one").json()
            assert (after["state"], after["pid"]) == ("running", started["pid"])
            assert client.post("/api/agents/one/stop", json={"yes": False}).json()["state"] == "stopped"
            states += _until_stopped(heard)
    moves = [state for number, state in enumerate(states) if number == 0 or states[number - 1] != state]
    assert moves == ["starting", "running", "stopping", "stopped"] * CYCLES


@contextmanager
def attached(house: AgentHouse) -> Iterator[None]:
    """A terminal at the agent's session; it is detached as Ctrl-B D does it."""
    outer, inner = pty.openpty()
    socket = str(house.server.socket)
    terminal = subprocess.Popen(
        ("tmux", "-u", "-S", socket, "attach-session", "-t", "=agent-one"),
        stdin=inner,
        stdout=inner,
        stderr=inner,
        env={**house.daemon.environ, "TERM": "screen"},
        start_new_session=True,
    )
    os.close(inner)
    try:
        wait_for(lambda: clients_of(house.server) == 1 or None, "attached terminal")
        yield
        house.server.tmux("detach-client", "-s", "=agent-one")
        assert terminal.wait(10) == 0
    finally:
        terminal.kill()
        terminal.wait()
        os.close(outer)


def _until_stopped(listener: ClientConnection) -> list[str]:
    """Every state that was pushed up to the end of a cycle."""
    states: list[str] = []
    while "stopped" not in states:
        message = json.loads(listener.recv(20))
        states += [message["agent"]["state"]] if "agent" in message else []
    return states
