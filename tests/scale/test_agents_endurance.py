"""Claims about the hub over many cycles, with real tmux. `python -m bench.hub_cycles` does a thousand."""

from collections.abc import Iterator

import pytest

from agent_cycles import FLOW, cycle
from agent_houses import CHEAP, AgentHouse
from clients import require_tmux
from daemons import RunningDaemon

CYCLES = 10


@pytest.fixture
def house(daemon: RunningDaemon) -> Iterator[AgentHouse]:
    require_tmux()
    house = AgentHouse(daemon, CHEAP.format(name="one"))
    daemon.up()
    yield house
    house.end()


def test_launched_detached_and_reattached_it_is_never_stale(house: AgentHouse) -> None:
    """The normal flow of an agent, again and again: it is never reported stale or unseen."""
    assert cycle(house, "one", CYCLES) == FLOW * CYCLES
