"""Recovery itself killed anywhere, and disks that are full: what is decided stays the same, and nothing is accepted by half."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from crash.store_workload import every
from crash.test_store_disk import files_limited, small_tmpfs
from wakeful.checkpoints.model import ChoiceName
from wakeful.core.errors import WorldError
from wakeful.journal.api import Journal
from wakeful.journal.checkpoint_store import _with_checkpoints
from wakeful.journal.recovery_rules import RecoveryStatus, StepAction
from wakeful.journal.recovery_watch import recover_journal
from wakeful.testing.fault_plan import FaultPlan

# Nearly a second each.
EVERY = 1 if os.environ.get("WAKEFUL_ENDURANCE") else 4
CUT_OFF = """
import os, sys, wakeful
journal = wakeful.Journal(sys.argv[1], steps=["local", "push", "after"])
with journal.step("local", effects="local", temp=["half"]):
    pass
journal.step("push", effects="remote", undo=["sh", "-c", "echo undone >>undo.log"]).__enter__()
with journal.step("again", effects="local", temp=["half"]):
    (journal.root / "half").write_text("half")
    os.kill(os.getpid(), 9)
"""


@pytest.fixture
def root(journal_home: Path) -> Path:
    return journal_home / "root"


def cut_off(root: Path) -> None:
    ended = subprocess.run([sys.executable, "-c", CUT_OFF, str(root)], check=False, timeout=60)
    assert ended.returncode == -9


def state_of(root: Path) -> Path:
    return root / ".copilot" / "session_state.json"


def killed(root: Path, fault: str) -> None:
    argv = [sys.executable, "-m", "wakeful", "recover", "--session-state", str(state_of(root))]
    environ = os.environ | {"WAKEFUL_FAULTS": f"{fault}:kill"}
    ended = subprocess.run(argv, env=environ, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == -9, (fault, ended.stderr)


def assert_settled(root: Path, status: RecoveryStatus) -> None:
    recovered = recover_journal(state_of(root))
    assert recovered.status is status
    assert not (root / "half").exists()
    assert not list((root / ".tmp").glob("agent_recovery.lock*"))
    courses = {each.step: each.course for each in recovered.steps}
    assert courses.get("again", StepAction.RERUN) is StepAction.RERUN
    state = json.loads(state_of(root).read_text())
    assert state["process_map"]["again"]["last"] == "cleared"
    assert state["process_map"]["push"]["last"] == ("cleared" if status is RecoveryStatus.OK else "started")


def test_a_recovery_killed_anywhere_is_done_again_to_the_same_end(root: Path) -> None:
    """Whatever it had written by then, the next one holds the same step, by one checkpoint."""
    cut_off(root)
    origin = root.with_name("origin")
    shutil.copytree(root, origin)
    with FaultPlan() as plan:
        assert recover_journal(state_of(root)).status is RecoveryStatus.MANUAL_REVIEW
    points = [each for each in every(plan.points) if not each[0].startswith("store.")]
    assert {name for name, _ in points} >= {
        "journal.rename",
        "journal.commit",
        "critical.write",
        "checkpoint.opened",
    }
    tried = points[::EVERY]
    for name, nth in tried:
        shutil.rmtree(root)
        shutil.copytree(origin, root)
        shutil.rmtree(os.environ["WAKEFUL_HOME"])
        killed(root, f"{name}:{nth}")
        assert_settled(root, RecoveryStatus.MANUAL_REVIEW)
        assert len(_with_checkpoints(lambda desk: desk.list_checkpoints())) == 1, (name, nth)
    told = "the next one ended the same, with one checkpoint"
    sys.stdout.write(f"\nfigure: a recovery, killed at {len(tried)} of {len(points)} points: {told}\n")


def test_a_rollback_killed_anywhere_undoes_once_or_asks_again(root: Path) -> None:
    """The undoing is begun once after a person's approval; interrupted, it waits for another decision."""
    cut_off(root)
    recover_journal(state_of(root))
    _with_checkpoints(lambda desk: desk.record(1, ChoiceName.ROLLBACK, "tester"))
    origin, home = root.with_name("origin"), Path(os.environ["WAKEFUL_HOME"])
    shutil.copytree(root, origin)
    shutil.copytree(home, home.with_name("origin-home"))
    with FaultPlan() as plan:
        assert recover_journal(state_of(root)).status is RecoveryStatus.OK
    points = [each for each in every(plan.points) if each[0].startswith(("journal.", "critical."))]
    asked, tried = 0, points[::EVERY]
    for name, nth in tried:
        for folder, before in ((root, origin), (home, home.with_name("origin-home"))):
            shutil.rmtree(folder)
            shutil.copytree(before, folder)
        killed(root, f"{name}:{nth}")
        recovered = recover_journal(state_of(root))
        undone = (root / "undo.log").read_text().count("undone") if (root / "undo.log").exists() else 0
        assert undone <= 1, (name, nth)
        asked += recovered.checkpoint == 2
        assert (recovered.status is RecoveryStatus.OK and undone == 1) or recovered.checkpoint == 2, (
            name,
            nth,
            recovered,
        )
    told = f"undone once, or somebody is asked about it ({asked} times)"
    sys.stdout.write(f"\nfigure: a rollback, killed at {len(tried)} of {len(points)} points: {told}\n")
    assert 0 < asked < len(tried)


def program(root: Path, sent: list[str]) -> None:
    """Three steps; `sent` is the other side, which takes a key once."""
    with Journal(root, steps=["one", "two", "three"]) as journal:
        for name in ("one", "two", "three"):
            if journal.is_completed(name):
                continue
            with journal.step(name, effects="remote", key=name) as step:
                if step.key not in sent:
                    sent.append(step.key or "")


@pytest.mark.parametrize("errno_name", ["ENOSPC", "EIO"])
def test_a_failing_write_anywhere_is_told_and_survived(root: Path, errno_name: str) -> None:
    """The program gets the error, the state stays whole, and the next run finishes what is left."""
    with FaultPlan() as plan:
        program(root, [])
    points = [each for each in every(plan.points) if each[0].startswith(("journal.", "critical."))]
    assert len(points) > 40
    tried = points[:: EVERY // 2 or 1]
    for index, (name, nth) in enumerate(tried):
        place, sent = root.with_name(f"root-{index}"), list[str]()
        with FaultPlan((name, nth, f"raise:{errno_name}")), pytest.raises(WorldError):
            program(place, sent)
        program(place, sent)
        assert sent == ["one", "two", "three"], (name, nth)
        assert json.loads(state_of(place).read_text())["steps_completed"] == ["one", "two", "three"]
        assert not (state_of(place).parent / ".session_state.json.new").exists()
    told = "told, and the next run finished"
    sys.stdout.write(f"\nfigure: {errno_name} at {len(tried)} of {len(points)} writes: {told}\n")


def test_a_full_disk_in_the_middle_is_told_and_survived(journal_home: Path) -> None:
    """On a full file system the step is refused before it begins; with space again the journal goes on."""
    with small_tmpfs(journal_home / "small", "size=400k") as disk:
        with Journal(disk / "root") as journal:
            with journal.step("first", effects="local"):
                pass
            ballast = disk / "ballast"
            with pytest.raises(OSError, match="No space"):
                ballast.write_bytes(bytes(500_000))
            with pytest.raises(WorldError), journal.step("second", effects="local"):
                raise AssertionError("it began without being on the disk")
            ballast.unlink()
        with Journal(disk / "root") as journal:
            assert journal.is_completed("first")
            with journal.step("second", effects="local"):
                pass
        assert recover_journal(state_of(disk / "root")).status is RecoveryStatus.OK


def test_a_limited_file_is_told_and_the_state_is_whole(root: Path) -> None:
    """The same where a write is cut short, with no privilege needed."""
    with Journal(root) as journal:
        with journal.step("first", effects="local"):
            pass
        before = state_of(root).read_bytes()
        with files_limited(100), pytest.raises(WorldError), journal.step("second", effects="local"):
            pass
        assert state_of(root).read_bytes() == before
