"""Claims about the hub over many cycles, with real tmux. `python -m bench.hub_cycles` does a thousand."""

from collections.abc import Iterator

import pytest

from support.agents_e2e import CHEAP, AgentsFixture
from support.agents_soak import FLOW, cycle
from support.daemon_process import RunningDaemon
from support.real_clients import require_tmux

CYCLES = 10


@pytest.fixture
def house(daemon: RunningDaemon) -> Iterator[AgentsFixture]:
    require_tmux()
    house = AgentsFixture(daemon, CHEAP.format(name="one"))
    daemon.up()
    yield house
    house.end()


def test_launched_detached_and_reattached_it_is_never_stale(house: AgentsFixture) -> None:
    """The normal flow of an agent, again and again: it is never reported stale or unseen."""
    assert cycle(house, "one", CYCLES) == FLOW * CYCLES
