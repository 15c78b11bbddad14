"""Eight daemons with homes of their own on one store: they all see the same agents die, and each comes back once.

Real daemons and real processes; the agents are cheap ones that write down every start. `WAKEFUL_RACES` says how many
deaths there are, a hundredth of it at least.
"""

import os
import re
import signal
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from support import stub_claude
from support.daemon_process import RunningDaemon
from support.real_clients import wait_for

DAEMONS = 8
AGENTS = max(8, int(os.environ.get("WAKEFUL_RACES", "100")) // 100)


class House:
    """The daemons, the one store, and a `claude` that notes in a file who was started and how."""

    def __init__(self, folder: Path) -> None:
        self._starts = folder / "starts"
        self._project = folder / "agents" / "shop"
        self._project.mkdir(parents=True)
        self._install(folder / "bin")
        self.daemons = [RunningDaemon(folder / f"home-{number}") for number in range(DAEMONS)]
        for each in self.daemons:
            each.watch(
                HOME=folder / "agents",
                WAKEFUL_STORE__URL=f"sqlite:///{folder}/shared.db",
                WAKEFUL_HEAL__CONFIRM_SECONDS="1",
                WAKEFUL_HEAL__PACE_SECONDS="0.1",
                PATH=f"{folder / 'bin'}:{os.environ['PATH']}",
            )

    def _install(self, folder: Path) -> None:
        program = Path(stub_claude.install(folder))
        noting = f'open({str(self._starts)!r}, "a").write(f"{{os.getpid()}} {{sys.argv}}\\n")'
        program.write_text(program.read_text().replace("\nRecord = ", f"\n{noting}\nRecord = ", 1))

    def run(self, number: int) -> None:
        """An agent that hangs in its first turn, started through one of the daemons."""
        words = ("run", "--json", "--headless", "--prompt", "hang here", "--", "claude")
        done = self.daemons[number % DAEMONS].run(*words, cwd=self._project)
        assert done.exit_code == 0, done.err

    @property
    def starts(self) -> list[tuple[int, str]]:
        lines = self._starts.read_text().splitlines() if self._starts.exists() else []
        return [(int(pid), argv) for pid, _, argv in (line.partition(" ") for line in lines)]

    @property
    def resumed(self) -> Counter[str]:
        """How often each conversation was gone on with."""
        found = [re.search(r"--resume', '([\w-]+)", argv) for _, argv in self.starts]
        return Counter(each[1] for each in found if each is not None)

    @property
    def attempts(self) -> Counter[str]:
        """How many revivals of each session stand in all their logs together."""
        logs = [Path(each.environ["WAKEFUL_HOME"], "logs/critical_events.jsonl") for each in self.daemons]
        lines = [line for log in logs if log.exists() for line in log.read_bytes().splitlines()]
        events: list[dict[str, Any]] = [msgspec.json.decode(line) for line in lines]
        return Counter(each["session_id"] for each in events if each["action_taken"] == "revival_attempted")

    def kill_agents(self) -> None:
        for pid, _ in self.starts:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue

    def end(self) -> None:
        for each in self.daemons:
            each.end()
        self.kill_agents()


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    house = House(tmp_path)
    yield house
    house.end()


def test_each_agent_comes_back_once_whoever_sees_it_die(house: House) -> None:
    """All daemons watch all agents and heal them; one process each is started, and one attempt is written down."""
    for each in house.daemons:
        each.up()
    for number in range(AGENTS):
        house.run(number)
    for each in (house.daemons[0], house.daemons[-1]):
        wait_for(partial(_are_at_work, each), "all agents at work", 30)
    house.kill_agents()
    wait_for(lambda: len(house.resumed) == AGENTS or None, "every agent", 60)
    wait_for(lambda: house.attempts.total() >= AGENTS or None, "every line", 30)
    # A late daemon would act now: nothing is found any more that one could act on.
    for each in house.daemons:
        wait_for(partial(_are_well, each), "all well", 30)
    assert set(house.resumed.values()) == {1}
    assert set(house.attempts.values()) == {1}


def _are_at_work(daemon: RunningDaemon) -> bool | None:
    return [each["state"] for each in daemon.sessions()] == ["prompting"] * AGENTS or None


def _are_well(daemon: RunningDaemon) -> bool | None:
    return not any(each["findings"] for each in daemon.sessions()) or None
