"""The journal library with real files and processes."""

import asyncio
import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import wakeful
from support.journal_files import audited, events, killed_inside, recovered, state_of
from support.real_clients import wait_for
from wakeful.journal.api import (
    Journal,
    JournalClosed,
    JournalHeld,
    JournalInUse,
    KeyChanged,
    StepCompleted,
    StepFailed,
    StepRuns,
)
from wakeful.journal.event_file import OutsideRoot
from wakeful.journal.model import (
    BadStepName,
    BadTrait,
)
from wakeful.journal.processes import GatedProcess
from wakeful.journal.recovery_rules import StepAction
from wakeful.linux import proc

KEYS = [
    "current_task_id",
    "steps_completed",
    "next_immediate_step",
    "last_sync",
    "trace_id",
    "process_map",
    "events_cursor",
    "notes",
]


def test_the_state_has_exactly_the_eight_keys(root: Path) -> None:
    """Eight keys, in the documented order, from the first moment on."""
    with wakeful.Journal(root):
        assert list(state_of(root)) == KEYS


def test_a_step_is_on_the_disk_before_it_begins_and_after_it_ends(root: Path) -> None:
    """Normal operation: state and traces around every step, one trace id in all of them."""
    with Journal(root, steps=["build", "ship"]) as journal:
        with journal.step("build", effects="local", key="k"):
            during = state_of(root)
            assert (during["current_task_id"], during["next_immediate_step"]) == ("build", "build")
            assert during["process_map"]["build"]["pid"] == os.getpid()
            assert events(root)[-1] == "action.started"
        after = state_of(root)
        assert after["steps_completed"] == ["build"]
        assert after["next_immediate_step"] == "ship"
        assert after["process_map"] == {}
        assert after["events_cursor"] == (root / "events.ndjson").stat().st_size
        assert (journal.is_completed("build"), journal.next_step()) == (True, "ship")
    assert events(root) == audited(root)
    assert events(root) == ["session.start", "recovery.sync", "action.started", "action.completed"]
    traces = {json.loads(line)["trace_id"] for line in (root / "events.ndjson").read_text().splitlines()}
    assert traces == {journal.trace_id} == {after["trace_id"]}


def test_a_journal_works_the_same_in_a_loop(root: Path) -> None:
    """Opened, entered and run without blocking; steps may overlap."""

    async def program() -> str:
        async with await Journal.open(root) as journal:
            async with journal.step("outer", effects="none"), journal.step("inner", effects="local"):
                assert list(state_of(root)["process_map"]) == ["outer", "inner"]
            ran = await journal.run_async(["sh", "-c", "echo hello"], step="said", effects="none")
            return ran.stdout_path

    said = asyncio.run(program())
    assert Path(said).read_text() == "hello\n"
    assert state_of(root)["steps_completed"] == ["inner", "outer", "said"]


def test_a_cancelled_run_ends_its_program(root: Path) -> None:
    """A cancelled task leaves no orphan."""

    async def program() -> int:
        async with await Journal.open(root) as journal:
            task = asyncio.create_task(journal.run_async(["sleep", "600"], step="long", effects="none"))
            await asyncio.to_thread(wait_for, lambda: state_of(root)["process_map"] or None, "started step")
            pid: int = state_of(root)["process_map"]["long"]["pid"]
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert state_of(root)["process_map"]["long"]["last"] == "failed"
            return pid

    assert proc.identify(asyncio.run(program())) is None


async def test_a_run_cancelled_while_it_starts_leaves_nothing(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that starts the program cannot be cancelled: what it started is ended."""
    starting, go_on = threading.Event(), threading.Event()
    let_through = GatedProcess.release

    def held_up(gated: GatedProcess) -> None:
        starting.set()
        assert go_on.wait(60)
        let_through(gated)

    monkeypatch.setattr(GatedProcess, "release", held_up)
    async with await Journal.open(root) as journal:
        task = asyncio.create_task(journal.run_async(["sleep", "600"], step="long", effects="none"))
        await asyncio.to_thread(starting.wait, 10)
        task.cancel()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task
    entry = state_of(root)["process_map"]["long"]
    assert (entry["last"], proc.identify(entry["pid"])) == ("failed", None)


def test_a_program_is_run_after_its_pid_is_known_and_logs_are_kept(root: Path) -> None:
    """Its words go to files named after the step and the time, its key into its environment."""
    with Journal(root) as journal:
        ran = journal.run(["sh", "-c", "echo out-$WAKEFUL_JOURNAL_KEY; echo err >&2"], step="say", key="k1")
        assert Path(ran.stdout_path).read_text() == "out-k1\n"
        assert Path(ran.stderr_path).read_text() == "err\n"
        assert re.fullmatch(r"say-\d{8}T\d{9}Z\.out", Path(ran.stdout_path).name)
        with pytest.raises(StepFailed, match="exit code 3"):
            journal.run(["sh", "-c", "exit 3"], step="bad", effects="none")
        assert events(root)[-1] == "action.failed"


def test_a_program_whose_starter_dies_at_the_gate_is_never_run(root: Path) -> None:
    """Killed between the start of the process and the word to go on, nothing of it happens."""
    program = f"""
import os, wakeful
from wakeful.journal.processes import GatedProcess
GatedProcess.release = lambda self: os.kill(os.getpid(), 9)
wakeful.Journal({str(root)!r}).run(["touch", "happened"], step="cut", effects="local")
"""
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=60).returncode == -9
    assert recovered(root).steps[0].course is StepAction.RERUN
    assert not (root / "happened").exists()


def test_a_completed_step_is_refused_and_a_failed_local_one_begins_anew(root: Path) -> None:
    """What is done is not done again by accident; what failed here is cleaned and tried again."""
    with Journal(root) as journal:
        with pytest.raises(ValueError, match="no"), journal.step("try", effects="local", temp=["half"]):
            raise ValueError((root / "half").write_text("half") and "no")
        with journal.step("try", effects="local", temp=["half"]) as step:
            assert step.attempt == 2
            assert not (root / "half").exists()
        with pytest.raises(StepCompleted), journal.step("try"):
            pass


def test_a_failed_remote_step_is_not_tried_again_without_a_person(root: Path) -> None:
    """Inside one program, too: an exception says nothing about the other side."""
    with Journal(root) as journal:
        with pytest.raises(OSError, match="reset"), journal.step("push", effects="remote"):
            raise OSError("reset")
        with pytest.raises(JournalHeld, match=r"CHECKPOINT_1\.md"), journal.step("push", effects="remote"):
            pass


def test_a_key_must_stay_the_same(root: Path) -> None:
    """With another key the other side would take a replay for something new."""
    killed_inside(root, "effects='remote', key='one'")
    with Journal(root) as journal:
        with pytest.raises(KeyChanged), journal.step("cut", effects="remote", key="two"):
            pass
        with journal.step("cut", effects="remote", key="one") as step:
            assert (step.key, step.attempt) == ("one", 2)


def test_two_programs_cannot_have_one_journal(root: Path) -> None:
    """The second gets the owner's name."""
    with Journal(root), pytest.raises(JournalInUse, match=str(os.getpid())):
        Journal(root)
    Journal(root).close()


def test_a_closed_journal_takes_nothing(root: Path) -> None:
    """After close nothing is written, because the lock is no longer held."""
    journal = Journal(root)
    journal.close()
    with pytest.raises(JournalClosed), journal.step("late"):
        pass


@pytest.mark.parametrize(
    "path", ["../x", "/etc/passwd", ".", ".copilot/session_state.json", ".tmp", "events.ndjson"]
)
def test_nothing_outside_the_root_can_be_declared_temporary(root: Path, path: str) -> None:
    """What recovery removes lies in the journal's folder and is not the journal."""
    with Journal(root) as journal, pytest.raises(OutsideRoot):
        journal.step("x", effects="local", temp=[path])


def test_mistakes_are_named(root: Path) -> None:
    """Names, effects and commands are checked before anything begins."""
    with Journal(root) as journal:
        for name in ("", "a/b", "../x", "-a", "x" * 101):
            with pytest.raises(BadStepName):
                journal.step(name)
        with pytest.raises(BadTrait, match="effects"):
            journal.step("x", effects="maybe")
        with pytest.raises(BadTrait, match="undo"):
            journal.step("x", undo="rm -rf /")
    with pytest.raises(BadTrait, match="kind"):
        Journal(root, kind="weekly")


@pytest.mark.parametrize("effects", ["none", "local", "remote"])
def test_a_step_that_runs_already_is_refused_to_another_task(root: Path, effects: str) -> None:
    """Two tasks of one program want the same step at once: one runs it, the other gets an error, and no person is asked."""

    async def program() -> list[object]:
        async with await Journal.open(root) as journal:
            inside, told = asyncio.Event(), asyncio.Event()

            async def first() -> str:
                async with journal.step("ship", effects=effects):
                    inside.set()
                    await told.wait()
                    return "ran"

            async def second() -> None:
                await inside.wait()
                try:
                    async with journal.step("ship", effects=effects):
                        pytest.fail("it ran twice")
                finally:
                    told.set()

            return list(await asyncio.gather(first(), second(), return_exceptions=True))

    ran, refused = asyncio.run(program())
    assert ran == "ran"
    assert isinstance(refused, StepRuns), refused
    assert not list(root.glob("CHECKPOINT_*"))


def test_a_step_that_was_cancelled_before_its_block_began_can_be_run(root: Path) -> None:
    """Nothing of it ran: it is neither running for ever nor a question to a person."""

    async def program() -> int:
        async with await Journal.open(root) as journal:

            async def ship() -> None:
                async with journal.step("ship", effects="remote"):
                    pytest.fail("it was cancelled before")

            task = asyncio.create_task(ship())
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            async with journal.step("ship", effects="remote") as step:
                return step.attempt

    assert asyncio.run(program()) == 2
    assert not list(root.glob("CHECKPOINT_*"))
