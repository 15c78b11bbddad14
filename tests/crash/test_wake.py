"""Claims about a daemon that is killed with -9 in every phase of a wake: no agent is woken twice, and nothing stays open."""

import asyncio
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from crash.wake_worker import FIRST_WALL, wake
from support.daemon_process import RunningDaemon
from support.real_clients import require_tmux, tmux, wait_for
from support.run_program import run_program
from wakeful.judging.wake_eligibility import IneligibilityReason

WORKER = Path(__file__).with_name("wake_worker.py")
PHASES = (
    *("daemon.judged", "wake.taken_up", "wake.reserved", "act.intended", "world.prompted"),
    *("act.done", "wake.delivered", "wake.concluded"),
)
# Before this one no prompt was given; from it on the world may have one.
FIRST_GIVEN = PHASES.index("world.prompted")


def run(mode: str, folder: Path, faults: str = "") -> "subprocess.CompletedProcess[str]":
    return run_program(
        [sys.executable, str(WORKER), mode, str(folder)],
        env={**os.environ, "WAKEFUL_FAULTS": faults, "PYTHONPATH": str(WORKER.parents[1])},
    )


def killed_in(folder: Path, phase: str) -> int:
    """The end of a daemon that dies in this phase."""
    shutil.copytree(folder.parent / "prepared", folder)
    return run("wake", folder, f"{phase}:1:kill").returncode


def prompts_of(folder: Path) -> list[str]:
    world = folder / "prompts"
    return world.read_text().splitlines() if world.exists() else []


def test_a_daemon_killed_in_any_phase_wakes_nobody_twice(tmp_path: Path) -> None:
    """Health is judged first; a wake is written down before its prompt, and what may have been given cools."""
    (tmp_path / "prepared").mkdir()
    assert run("prepare", tmp_path / "prepared").returncode == 0
    with ThreadPoolExecutor(2) as pool:
        codes = list(pool.map(lambda phase: killed_in(tmp_path / phase, phase), PHASES))
    assert codes == [-9] * len(PHASES)
    for number, phase in enumerate(PHASES):
        # The next daemon comes twenty seconds later: inside the cooldown.
        answer, status = asyncio.run(wake(tmp_path / phase, FIRST_WALL + 20.0))
        given = prompts_of(tmp_path / phase)
        # A wake that was reserved may have been given: a maybe wakes no agent.
        sure = number < PHASES.index("wake.reserved")
        assert answer.reason is (None if sure else IneligibilityReason.COOLDOWN_ACTIVE), phase
        assert len(given) == (1 if sure or number >= FIRST_GIVEN else 0), (phase, given)
        assert status.last_audit is not None, phase
        assert status.last_audit.outcome is not None, phase


# In this order a daemon starts; no agent is woken before its last one.
STARTING = (
    *("daemon.opened", "daemon.looked", "daemon.hands", "daemon.care"),
    *("daemon.judged", "wake.taken_up"),
)


def killed_while_starting(daemon: RunningDaemon, phase: str) -> "subprocess.CompletedProcess[str]":
    """What a daemon said that died in this phase of its start."""
    return run_program(
        daemon.argv("up", "--port", "0"), env={**daemon.environ, "WAKEFUL_FAULTS": f"{phase}:1:kill"}
    )


def test_a_daemon_killed_in_any_phase_of_its_start_wakes_nobody(daemon: RunningDaemon) -> None:
    """An agent is overdue all the while: no door opens and no prompt is given, and the first whole start gives one."""
    require_tmux()
    daemon.watch(WAKEFUL_AGENTS__HEARTBEAT__CYCLE="1s", WAKEFUL_AGENTS__HEARTBEAT__DEFAULT_INTERVAL="1s")
    daemon.up()
    assert daemon.run("run", "--detach", "--name", "wren", "--", "cat").exit_code == 0
    daemon.wait_for_session(lambda each: each["id"] == "wren" and each["attachable"], "way to it")
    daemon.kill()
    heartbeat = Path(daemon.environ["WAKEFUL_HOME"]) / "agents" / "wren" / "HEARTBEAT.md"
    heartbeat.parent.mkdir(parents=True)
    heartbeat.write_text("Say hello.\n")

    def lines() -> int:
        socket = Path(daemon.environ["WAKEFUL_HOME"]) / "tmux.sock"
        return tmux(socket, "capture-pane", "-p", "-J", "-t", "=wren:").count("Say hello.")

    for phase in STARTING:
        killed = killed_while_starting(daemon, phase)
        assert (killed.returncode, killed.stdout, lines()) == (-9, "", 0), phase
    daemon.up()
    wait_for(lambda: lines() or None, "wake")
    daemon.kill()
    daemon.up()
    status = daemon.run("agent", "heartbeat", "status", "wren", "--json").json
    assert status["ineligibility_reason"] == "cooldown_active"
    assert lines() == 2, "typed once and given back once"
