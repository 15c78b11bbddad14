"""Row "a process dies": from `kill -9` of an agent inside a tool to `dead` read at the API.

Beside it a poller asks about the same processes once a second, as supervisors without pidfds do.
"""

import random
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from statistics import median
from typing import Final

from bench.crowd import Stage
from bench.figures import Figure, milliseconds, percentile
from bench.peers import SecondPoller
from bench.room import Connection, Daemon, Room, wait_until
from wakeful.testing.scripted_agent import RunningAgent, ScriptedAgent

ROW: Final = "process dies"
# At once alive: few enough that their start leaves the two cores to the daemon.
AGENTS_AT_ONCE: Final = 10
READY_SECONDS_MAX: Final = 60.0
NOTICED_SECONDS_MAX: Final = 5.0


def measure(stage: Stage) -> list[Figure]:
    with Room() as room, room.daemon() as daemon, SecondPoller() as poller:
        ours = [
            each for _ in range(stage.scale.kills // AGENTS_AT_ONCE) for each in _deaths(room, daemon, poller)
        ]
        wait_until(lambda: len(poller.noticed_seconds) == len(ours), "the poller", NOTICED_SECONDS_MAX)
    theirs = poller.noticed_seconds
    measured = (
        f"kill -9 to `dead` at the API, {len(ours)} kills: p50 {milliseconds(median(ours))}, "
        f"p99 {milliseconds(percentile(ours, 0.99))}, max {milliseconds(max(ours))}; "
        f"a poll each second p50 {milliseconds(median(theirs))}, max {milliseconds(max(theirs))}"
    )
    return [
        Figure(ROW, measured, percentile(ours, 0.99) * 1000, 20.0, "ms p99"),
        Figure(ROW, "the slowest of them", max(ours) * 1000, 100.0, "ms max"),
    ]


def _deaths(room: Room, daemon: Daemon, poller: SecondPoller) -> Iterator[float]:
    """Start a few agents, see each inside its tool, kill one after the other; how long each death took to show."""
    with ExitStack() as stack, closing(daemon.connect()) as connection:
        agents = [stack.enter_context(_working(room, number)) for number in range(AGENTS_AT_ONCE)]
        for agent in agents:
            _wait_for_tool(connection, agent)
            poller.watch(agent.pid)
        for agent in agents:
            # Anywhere inside the poller's second.
            time.sleep(random.uniform(0, 0.2))
            killed_at = poller.killed(agent.pid)
            agent.process.kill()
            yield _seen_dead_at(connection, agent) - killed_at


def _working(room: Room, number: int) -> RunningAgent:
    agent = ScriptedAgent(room.claude, room.path / f"project-{number}")
    return agent.start({"prompt": "go on"}, {"tool": "Bash", "input": {"command": "make"}, "seconds": 600})


def _wait_for_tool(connection: Connection, agent: RunningAgent) -> None:
    agent.wait_for_tool(READY_SECONDS_MAX)
    wait_until(
        lambda: b'"state":"prompting"' in connection.fetch(f"/api/sessions/{agent.session_id}/health"),
        "the agent",
        READY_SECONDS_MAX,
    )


def _seen_dead_at(connection: Connection, agent: RunningAgent) -> float:
    """Wait by push, then read: the moment at which a reader knows."""
    connection.fetch(f"/api/sessions/{agent.session_id}/wait?until=stopped&timeout=5")
    body = connection.fetch(f"/api/sessions/{agent.session_id}/health")
    seen_at = time.monotonic()
    assert b'"health":"dead"' in body, f"the death of {agent.session_id} was not seen: {body!r}"
    return seen_at
