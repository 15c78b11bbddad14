"""The normal flow of an agent, repeated: launch, attach, detach, attach, detach, stop. Every pushed state is recorded.

Also repeated deaths, with the time until each is reported.
"""

import json
import os
import pty
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import groupby
from typing import Any

import httpx
from websockets.sync.client import ClientConnection

from support.agents_e2e import AgentsFixture

ATTACHES = 2
PATIENCE_SECONDS = 60.0
DETACH = b"\x02d"
FLOW = ["starting", "running", "stopping", "stopped"]


def cycle(house: AgentsFixture, name: str, times: int) -> list[str]:
    """The agent's states in the order they were pushed, each once; `FLOW` repeated `times`, if nothing was wrong."""
    states: list[str] = []
    with _door(house) as client, house.listen() as heard:
        for _ in range(times):
            _launch_and_stop(house, client, f"/api/agents/{name}")
            states += _until_stopped(heard)
    return [state for state, _ in groupby(states)]


def deaths(house: AgentsFixture, name: str, times: int) -> Iterator[tuple[float, dict[str, Any]]]:
    """Kill a running agent repeatedly: the time until each death was pushed, and what was pushed."""
    with _door(house) as client, house.listen() as listener:
        agent = client.get(f"/api/agents/{name}").json()
        for _ in range(times):
            began = time.monotonic()
            os.kill(agent["pid"], signal.SIGKILL)
            *_, died = moves_until(listener, "stale")
            yield time.monotonic() - began, died
            agent = client.post(f"/api/agents/{name}/restart-session", json={}).json()
            assert agent.get("state") == "running", agent
            moves_until(listener, "running")


def _door(house: AgentsFixture) -> httpx.Client:
    transport = httpx.HTTPTransport(uds=str(house.daemon.socket))
    return httpx.Client(transport=transport, base_url="http://wakeful", timeout=90)


def moves_until(listener: ClientConnection, state: str) -> list[dict[str, Any]]:
    """The agent changes pushed up to the first one with this state."""
    heard = []
    while True:
        message = json.loads(listener.recv(PATIENCE_SECONDS))
        change = message.get("agent")
        if change is None or change["old_state"] == change["state"]:
            continue
        heard.append(change)
        if change["state"] == state:
            return heard


def _launch_and_stop(house: AgentsFixture, client: httpx.Client, agent: str) -> None:
    started = client.post(f"{agent}/start", json={}).json()
    assert started.get("state") == "running", started
    argv = client.get(f"{agent}/attach").json()["argv"]
    for _ in range(ATTACHES):
        with attached(house, argv):
            pass
    after = client.get(agent).json()
    assert (after["state"], after["pid"]) == ("running", started["pid"]), after
    stopped = client.post(f"{agent}/stop", json={"yes": True}).json()
    assert stopped.get("state") == "stopped", stopped


@contextmanager
def attached(house: AgentsFixture, argv: list[str]) -> Iterator[None]:
    """A terminal attached to the agent's session, left with Ctrl-B D."""
    outer, inner = pty.openpty()
    environ = {**house.daemon.environ, "TERM": "screen"}
    terminal = subprocess.Popen(
        argv, stdin=inner, stdout=inner, stderr=inner, env=environ, start_new_session=True
    )
    os.close(inner)
    try:
        _shown(outer, b"\x1b[")
        yield
        deadline = time.monotonic() + PATIENCE_SECONDS
        while terminal.poll() is None:
            assert time.monotonic() < deadline, "it detaches"
            os.write(outer, DETACH)
            _drained(outer)
        assert terminal.returncode == 0, terminal.returncode
    finally:
        terminal.kill()
        terminal.wait()
        os.close(outer)


def _shown(terminal: int, wanted: bytes) -> None:
    """Wait until tmux has drawn something."""
    seen, deadline = b"", time.monotonic() + PATIENCE_SECONDS
    while wanted not in seen:
        assert time.monotonic() < deadline, seen
        seen += _drained(terminal)


def _drained(terminal: int, seconds: float = 0.2) -> bytes:
    ready, _, _ = select.select([terminal], [], [], seconds)
    try:
        return os.read(terminal, 65536) if ready else b""
    except OSError:
        # Its last reader is gone.
        return b""


def _until_stopped(listener: ClientConnection) -> list[str]:
    """Every state that was pushed up to the end of a cycle."""
    states: list[str] = []
    while "stopped" not in states:
        message = json.loads(listener.recv(PATIENCE_SECONDS))
        states += [message["agent"]["state"]] if "agent" in message else []
    return states
