"""Claims about a daemon that is killed with -9 in every phase of a wake: nobody is woken twice, and nothing stays open."""

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec

WORKER = Path(__file__).with_name("wake_worker.py")
PHASES = (
    *("daemon.judged", "wake.taken_up", "wake.reserved", "act.intended", "world.prompted"),
    *("act.done", "wake.delivered", "wake.concluded"),
)
# Before this one no prompt was given; from it on the world may have one.
FIRST_GIVEN = PHASES.index("world.prompted")


def run(mode: str, folder: Path, faults: str = "") -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, str(WORKER), mode, str(folder)],
        env={**os.environ, "WAKEFUL_FAULTS": faults, "PYTHONPATH": str(WORKER.parents[1])},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def lives(folder: Path, phase: str) -> tuple[int, list[str], Any, Any]:
    """A daemon that dies in this phase, and the next one twenty seconds later: inside the cooldown."""
    shutil.copytree(folder.parent / "prepared", folder)
    killed = run("wake", folder, f"{phase}:1:kill")
    next_one = run("wake", folder)
    assert next_one.returncode == 0, (phase, next_one.stderr)
    answer, status = msgspec.json.decode(next_one.stdout)
    prompts = folder / "prompts"
    given = prompts.read_text().splitlines() if prompts.exists() else []
    return killed.returncode, given, answer, status


def test_a_daemon_killed_in_any_phase_wakes_nobody_twice(tmp_path: Path) -> None:
    """Health is judged first; a wake is written down before its prompt, and what may have been given cools."""
    (tmp_path / "prepared").mkdir()
    assert run("prepare", tmp_path / "prepared").returncode == 0
    (tmp_path / "prepared" / "again").unlink()
    with ThreadPoolExecutor(2) as pool:
        outcomes = dict(
            zip(PHASES, pool.map(lambda phase: lives(tmp_path / phase, phase), PHASES), strict=True)
        )
    for number, phase in enumerate(PHASES):
        code, given, answer, status = outcomes[phase]
        assert code == -9, phase
        assert len(given) <= 1, (phase, given)
        # A wake that was reserved may have been given: nobody is woken on a maybe.
        sure = number < PHASES.index("wake.reserved")
        assert answer["reason"] == (None if sure else "cooldown_active"), (phase, answer)
        assert len(given) == (1 if sure or number >= FIRST_GIVEN else 0), phase
        assert status["last_audit"]["outcome"] is not None, phase
