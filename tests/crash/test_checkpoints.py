"""Claims about a daemon killed anywhere between a decision and its effect: done once, as decided, never otherwise."""

import asyncio
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from crash.forks import Ended, Forks
from crash.healing_worker import World
from support.run_program import run_program
from wakeful.storage.sqlite.store import SqliteStore

WORKER = Path(__file__).with_name("checkpoint_worker.py")
PREPARE = Path(__file__).with_name("healing_worker.py")
POINTS = (
    *("checkpoint.opened", "checkpoint.decided", "checkpoint.carried"),
    *("heal.spent", "heal.acted", "heal.concluded", "heal.kept", "act.intended", "act.done", "world.started"),
)
# Of the points of the store, which are reached again and again, so many are tried.
STORE_POINTS_TRIED = 6


def run(worker: Path, mode: str, folder: Path, faults: str = "") -> "subprocess.CompletedProcess[str]":
    return run_program(
        [sys.executable, str(worker), mode, str(folder)], env={**os.environ, "WAKEFUL_FAULTS": faults}
    )


def prepared(folder: Path) -> Path:
    folder.mkdir()
    done = run(PREPARE, "prepare", folder)
    assert done.returncode == 0, done.stderr
    return folder


async def _kept(folder: Path) -> tuple[list[str], bool]:
    """The states of its checkpoints as stored, and whether its session is stopped for good."""
    store = await SqliteStore.open(folder / "wakeful.db")
    notes, hostings = await store.notes("checkpoint"), await store.managed_sessions()
    await store.close()
    return [msgspec.json.decode(note.body)["state"] for note in notes], hostings[0].stopped


def killed_at(forks: Forks, choice: str, folder: Path, fault: str) -> Ended:
    """Killed there, started again, asked again, and let come to its end."""
    shutil.copytree(folder.parent / "prepared", folder)
    killed = forks.run(choice, folder, f"{fault}:kill")
    # The person whose answer was lost with the daemon says it again; an answer that was kept is not done twice.
    again = forks.run(choice, folder)
    assert again.returncode == 0, (fault, again.stderr[-2000:])
    assert forks.run("settle", folder).returncode == 0
    return killed


def faults_of(choice: str, tmp_path: Path) -> list[str]:
    counted = run(WORKER, f"count-{choice}", prepared(tmp_path / "count"))
    assert counted.returncode == 0, counted.stderr
    reached: dict[str, int] = msgspec.json.decode(counted.stdout)
    assert {"checkpoint.opened", "checkpoint.decided", "checkpoint.carried"} <= reached.keys()
    points = [f"{point}:1" for point in POINTS if point in reached]
    store = [
        (each, nth)
        for each, count in reached.items()
        if each.startswith("store.")
        for nth in range(1, count + 1)
    ]
    return points + [f"{each}:{nth}" for each, nth in store[:: max(1, len(store) // STORE_POINTS_TRIED)]]


@pytest.mark.parametrize(
    ("choice", "state", "acts"), [("continue", "continued", ["resume"]), ("abort", "aborted", [])]
)
def test_killed_anywhere_a_decision_is_carried_out_exactly_once(
    tmp_path: Path, choice: str, state: str, acts: list[str]
) -> None:
    """One checkpoint, one decision, and the world as it said: resumed once, or stopped and never started."""

    def outcomes_of(some: list[str]) -> list[tuple[str, bool, list[str], list[str], bool]]:
        with Forks(WORKER) as forks:
            return [outcome(forks, fault) for fault in some]

    def outcome(forks: Forks, fault: str) -> tuple[str, bool, list[str], list[str], bool]:
        folder = tmp_path / fault.replace(":", "-")
        killed = killed_at(forks, choice, folder, fault).returncode == -9
        states, stopped = asyncio.run(_kept(folder))
        return fault, killed, World.load(folder).acts, states, stopped

    faults = faults_of(choice, tmp_path)
    prepared(tmp_path / "prepared")
    with ThreadPoolExecutor(2) as pool:
        outcomes = [each for some in pool.map(outcomes_of, (faults[::2], faults[1::2])) for each in some]
    wrong = [each for each in outcomes if each[2:] != (acts, [state], choice == "abort")]
    assert wrong == []
    assert sum(killed for _, killed, *_ in outcomes) > len(POINTS) // 2


def test_a_decision_that_was_kept_needs_nobody_to_say_it_again(tmp_path: Path) -> None:
    """Killed right after the decision was stored, the next start carries it out by itself."""
    folder = prepared(tmp_path / "folder")
    assert run(WORKER, "continue", folder, "checkpoint.decided:1:kill").returncode == -9
    assert World.load(folder).acts == []
    assert run(WORKER, "settle", folder).returncode == 0
    assert World.load(folder).acts == ["resume"]
    assert asyncio.run(_kept(folder)) == (["continued"], False)
