"""Claims about a daemon that is killed anywhere in a revival: exactly one revival, and nothing of it is lost."""

import asyncio
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from crash.forks import Forks
from crash.healing_worker import World
from crash.revival_racer import RACERS
from support.run_program import run_program
from wakeful.storage.sqlite.store import SqliteStore

WORKER = Path(__file__).with_name("healing_worker.py")
# Of the points that are reached again and again every so many are tried.
TRIED_PER_POINT_MAX = 4


def run(mode: str, folder: Path, faults: str = "") -> "subprocess.CompletedProcess[str]":
    environ = {**os.environ, "WAKEFUL_FAULTS": faults}
    return run_program([sys.executable, str(WORKER), mode, str(folder)], env=environ)


def prepared(folder: Path) -> Path:
    folder.mkdir()
    done = run("prepare", folder)
    assert done.returncode == 0, done.stderr
    return folder


def events(folder: Path) -> list[dict[str, object]]:
    log = folder / "critical.jsonl"
    return [msgspec.json.decode(line) for line in log.read_bytes().splitlines()] if log.exists() else []


def test_a_daemon_killed_anywhere_in_a_revival_revives_exactly_once(tmp_path: Path) -> None:
    """Every point of healing, of the act gate and of the world, and points of the store spread over all of it."""
    counted = run("count", prepared(tmp_path / "count"))
    assert counted.returncode == 0, counted.stderr
    reached: dict[str, int] = msgspec.json.decode(counted.stdout)
    assert {
        "heal.spent",
        "heal.acted",
        "heal.concluded",
        "heal.kept",
        "act.intended",
        "act.done",
    } <= reached.keys()
    faults = [
        (point, nth)
        for point, count in sorted(reached.items())
        for nth in range(1, count + 1, max(1, count // TRIED_PER_POINT_MAX))
    ]

    def outcomes_of(some: list[tuple[str, int]]) -> list[tuple[str, bool, list[str], bool]]:
        with Forks(WORKER) as forks:
            return [outcome(forks, fault) for fault in some]

    def outcome(forks: Forks, fault: tuple[str, int]) -> tuple[str, bool, list[str], bool]:
        point, nth = fault
        folder = tmp_path / f"{point}-{nth}"
        folder.mkdir()
        assert forks.run("prepare", folder).returncode == 0
        killed = forks.run("heal", folder, f"{point}:{nth}:kill").returncode == -9
        again = forks.run("heal", folder)
        assert again.returncode == 0, (fault, again.stderr)
        told = any(each["action_taken"] == "revival_attempted" for each in events(folder))
        return f"{point}:{nth}", killed, World.load(folder).acts, told

    with ThreadPoolExecutor(2) as pool:
        outcomes = [each for some in pool.map(outcomes_of, (faults[::2], faults[1::2])) for each in some]
    assert [each for each in outcomes if each[2:] != (["resume"], True)] == []
    assert sum(killed for _, killed, *_ in outcomes) > len(reached)


@pytest.mark.parametrize("point", ["heal.spent", "world.started", "heal.acted"])
def test_killed_twice_in_the_same_place_it_still_revives_once(tmp_path: Path, point: str) -> None:
    """A second crash in what settles the first changes nothing."""
    folder = prepared(tmp_path / "folder")
    run("heal", folder, f"{point}:1:kill")
    run("heal", folder, f"{point}:1:kill")
    assert run("heal", folder).returncode == 0
    assert World.load(folder).acts == ["resume"]


def test_of_eight_daemons_on_one_store_one_revives(tmp_path: Path) -> None:
    """2,000 races: each work has exactly one winner, and not always the same."""
    races, racers = 2000, RACERS
    asyncio.run(_made(tmp_path / "wakeful.db"))
    argv = [
        sys.executable,
        str(WORKER.with_name("revival_racer.py")),
        str(tmp_path / "wakeful.db"),
        str(races),
    ]
    running = [
        subprocess.Popen(
            [*argv, str(tmp_path), f"r{number}"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for number in range(racers)
    ]
    wins = []
    for process in running:
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        wins.append(int(out))
    assert sum(wins) == races
    assert len(list(tmp_path.glob("won-*"))) == races
    assert len([each for each in wins if each > 0]) > 1


async def _made(path: Path) -> None:
    await (await SqliteStore.open(path)).close()
