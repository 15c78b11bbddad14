"""Recovery of a journal whose program was killed: what is cleaned, resumed, undone or asked about."""

import asyncio
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from support.journal_files import decide, events, killed_inside, recovered, state_of, state_path
from support.real_clients import wait_for
from wakeful.checkpoints.model import ChoiceName
from wakeful.core.process import ProcessState
from wakeful.journal.api import (
    Journal,
    JournalHeld,
)
from wakeful.journal.checkpoint_store import _with_checkpoints
from wakeful.journal.recovery_rules import RecoveryStatus, StepAction
from wakeful.journal.recovery_watch import (
    JournalDecisionExecutor,
    JournalWatchReport,
    RecoveryWatch,
)
from wakeful.linux import proc
from wakeful.testing.virtual_clock import VirtualClock


def left_running(root: Path, traits: str, argv: str = "['sleep', '600']") -> int:
    """A program that is killed while its step `cut` runs another one; the pid of that."""
    program = f"""
import os, threading, time, wakeful
journal = wakeful.Journal({str(root)!r}, steps=["cut", "after"])
threading.Thread(target=lambda: journal.run({argv}, step="cut", {traits}), daemon=True).start()
while not any(each.mark for each in journal._writer.state.process_map.values()):
    time.sleep(0.01)
while open(f"/proc/{{journal._writer.state.process_map['cut'].pid}}/comm").read() == "sh\\n":
    time.sleep(0.01)
os.kill(os.getpid(), 9)
"""
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=60).returncode == -9
    return int(state_of(root)["process_map"]["cut"]["pid"])


def test_local_work_is_cleaned_and_resumed(root: Path) -> None:
    """Killed inside a local step: its unfinished work is removed, and it is the next step again."""
    killed_inside(
        root,
        "effects='local', temp=['part', 'tree']",
        "(j.root / 'part').write_text('x'); (j.root / 'tree').mkdir()",
    )
    outcome = recovered(root)
    assert (outcome.status, outcome.next_immediate_step) == (RecoveryStatus.OK, "cut")
    assert not (root / "part").exists()
    assert not (root / "tree").exists()
    with Journal(root, steps=["cut", "after"]) as journal:
        assert journal.next_step() == "cut"


def test_unknown_effects_are_held_and_continued_once(root: Path) -> None:
    """A checkpoint waits; after `continue` the step may be run, and when it is cut off again, a person is asked again."""
    killed_inside(root, "")
    outcome = recovered(root)
    assert (outcome.status, outcome.approval, outcome.checkpoint) == (
        RecoveryStatus.MANUAL_REVIEW,
        "awaiting-approval",
        1,
    )
    assert (root / "CHECKPOINT_1.md").is_file()
    assert recovered(root).checkpoint == 1
    with pytest.raises(JournalHeld):
        Journal(root)
    decide(1, ChoiceName.CONTINUE)
    assert recovered(root).status is RecoveryStatus.OK
    killed_inside(root, "")
    assert recovered(root).checkpoint == 2


def test_a_checkpoint_lies_where_the_daemon_looks(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a store of its own in the configuration, journals ask in that one."""
    shared = tmp_path / "shared.db"
    monkeypatch.setenv("WAKEFUL_STORE__URL", f"sqlite://{shared}")
    killed_inside(root, "")
    assert recovered(root).checkpoint == 1
    assert shared.exists()
    assert not (tmp_path / "home" / "wakeful.db").exists()


def test_what_somebody_saw_done_is_passed_over(root: Path) -> None:
    """After `continue --done` the step counts as completed, is not run again, and the journal goes on after it."""
    killed_inside(root, "")
    recovered(root)
    said = (root / "CHECKPOINT_1.md").read_text()
    assert "wakeful checkpoint continue 1 --done" in said
    assert "cut counts as completed and is not run again" in said
    decide(1, ChoiceName.DONE)
    for _ in range(2):
        outcome = recovered(root)
        assert (outcome.status, outcome.steps_completed) == (RecoveryStatus.OK, ("cut",))
    with Journal(root, steps=["cut", "after"]) as journal:
        assert journal.next_step() == "after"
    told = [json.loads(line) for line in (root / "events.ndjson").read_text().splitlines()]
    (decision,) = [each["details"] for each in told if each["event"] == "checkpoint.counted_done"]
    assert decision == {"attempt": 1, "number": 1, "by": "tester"}
    assert events(root).count("action.completed") == 1


def test_a_word_is_for_the_steps_it_was_asked_about(root: Path) -> None:
    """A step that still ran when a person was asked, and is in doubt now, is a question of its own."""
    root.mkdir()
    (root / "answer").write_text("1")
    program = f"""
import os, threading, time, wakeful
journal = wakeful.Journal({str(root)!r})
ask = ["sh", "-c", "exit $(cat answer)"]
beside = dict(step="beside", effects="remote", key="k", query=ask)
threading.Thread(target=lambda: journal.run(["sleep", "600"], **beside), daemon=True).start()
while not any(each.mark for each in journal._writer.state.process_map.values()):
    time.sleep(0.01)
journal.step("cut").__enter__()
os.kill(os.getpid(), 9)
"""
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=60).returncode == -9
    outcome = recovered(root)
    assert {each.step: each.course for each in outcome.steps} == {
        "beside": StepAction.WAIT,
        "cut": StepAction.CHECKPOINT,
    }
    os.kill(state_of(root)["process_map"]["beside"]["pid"], 9)
    (root / "answer").write_text("11")
    decide(1, ChoiceName.DONE)
    outcome = recovered(root)
    assert (outcome.status, outcome.checkpoint) == (RecoveryStatus.REQUIRED_ROLLBACK, 2)
    assert outcome.steps_completed == ("cut",)


def test_an_aborted_journal_stays_closed_until_it_is_begun_anew(root: Path) -> None:
    """Nothing is run after `abort`; `fresh` begins another trace."""
    killed_inside(root, "")
    recovered(root)
    decide(1, ChoiceName.ABORT)
    outcome = recovered(root)
    assert (outcome.status, outcome.approval) == (RecoveryStatus.MANUAL_REVIEW, "aborted")
    with pytest.raises(JournalHeld):
        Journal(root)
    with Journal(root, fresh=True) as journal:
        assert journal.trace_id != outcome.trace_id
        assert not journal.is_completed("cut")


def test_a_rollback_undoes_once_and_the_step_counts_as_not_begun(root: Path) -> None:
    """The step's own command is run by a person's word, and its end is recorded."""
    killed_inside(root, "undo=['sh', '-c', 'echo undone >>undo.log']")
    recovered(root)
    decide(1, ChoiceName.ROLLBACK)
    outcome = recovered(root)
    assert (outcome.status, outcome.next_immediate_step) == (RecoveryStatus.OK, "cut")
    assert recovered(root).status is RecoveryStatus.OK
    assert (root / "undo.log").read_text() == "undone\n"
    assert events(root).count("recovery.undone") == 1


def test_an_undoing_that_says_much_is_not_ended_for_it(root: Path) -> None:
    """Two megabytes of words are in its log, and it succeeded."""
    killed_inside(root, "undo=['sh', '-c', 'yes undoing | head -c 2000000; echo undone >>undo.log']")
    recovered(root)
    decide(1, ChoiceName.ROLLBACK)
    assert recovered(root).status is RecoveryStatus.OK
    assert (root / "undo.log").read_text() == "undone\n"
    assert (root / ".tmp/logs/cut-undo-1.out").stat().st_size == 2_000_000


def test_an_undoing_that_fails_or_is_cut_off_is_asked_about_again(root: Path) -> None:
    """Nothing is undone twice without an order."""
    killed_inside(root, "undo=['sh', '-c', 'echo tried >>undo.log; echo no such release; exit 1']")
    recovered(root)
    decide(1, ChoiceName.ROLLBACK)
    outcome = recovered(root)
    assert (outcome.status, outcome.checkpoint) == (RecoveryStatus.REQUIRED_ROLLBACK, 2)
    assert recovered(root).checkpoint == 2
    assert (root / "undo.log").read_text() == "tried\n"
    assert (root / ".tmp/logs/cut-undo-1.out").read_text() == "no such release\n"
    assert "its undo step failed and wrote .tmp/logs/cut-undo-1.out" in (root / "CHECKPOINT_2.md").read_text()
    decide(2, ChoiceName.ROLLBACK)
    assert recovered(root).checkpoint == 3
    assert (root / ".tmp/logs/cut-undo-2.out").exists()
    assert (root / "undo.log").read_text() == "tried\ntried\n"


@pytest.mark.parametrize(
    ("exit_code", "course"),
    [
        (0, StepAction.COUNT_DONE),
        (10, StepAction.RERUN),
        (11, StepAction.ROLLBACK),
        (1, StepAction.CHECKPOINT),
        (127, StepAction.CHECKPOINT),
    ],
)
def test_the_other_side_is_asked_by_the_steps_own_command(
    root: Path, exit_code: int, course: StepAction
) -> None:
    """Done, absent and partial are said on purpose; a command that merely fails has said nothing."""
    killed_inside(root, f"effects='remote', query=['sh', '-c', 'exit {exit_code}']")
    assert recovered(root).steps[0].course is course


def test_a_query_that_hangs_is_no_answer(root: Path) -> None:
    """The deadline ends it, and what it started."""
    killed_inside(root, "effects='remote'")

    def query(_step: str, _key: str | None) -> str:
        hanging.wait(30)
        return "done"

    hanging = threading.Event()
    with pytest.raises(JournalHeld):
        Journal(root, query=query, query_seconds=0.2)
    hanging.set()


@pytest.mark.parametrize("how", ["plain", "coroutine"])
def test_a_query_of_the_program_itself_is_asked(root: Path, how: str) -> None:
    """Plain or async, with the step and its key."""
    killed_inside(root, "effects='remote', key='k7'")
    asked: list[tuple[str, str | None]] = []

    def plainly(step: str, key: str | None) -> str:
        asked.append((step, key))
        return "done"

    async def later(step: str, key: str | None) -> str:
        return plainly(step, key)

    with Journal(root, query=plainly if how == "plain" else later) as journal:
        assert journal.is_completed("cut")
    assert asked == [("cut", "k7")]


def test_a_living_process_is_waited_for(root: Path) -> None:
    """Nothing else is begun while it runs; once it is gone the step is run again."""
    pid = left_running(root, "effects='local'")
    process = proc.identify(pid)
    assert process is not None
    assert recovered(root).steps[0].course is StepAction.WAIT
    assert proc.state_of(process) is ProcessState.ALIVE
    os.kill(pid, 9)
    assert recovered(root, wait_seconds=10.0).steps[0].course is StepAction.RERUN


def test_a_living_process_is_ended_by_identity_with_what_it_started(root: Path) -> None:
    """`rerun` ends the tree before the step may begin again."""
    argv = "['sh', '-c', 'sleep 601 & echo $! >child; exec sleep 602']"
    pid = left_running(root, "effects='local', on_alive='rerun'", argv)
    wait_for(lambda: ((root / "child").exists() and (root / "child").read_text()) or None, "child")
    child = int((root / "child").read_text())
    assert recovered(root).steps[0].course is StepAction.END_AND_RERUN
    assert proc.identify(pid) is None
    assert proc.identify(child) is None


def test_a_detachable_process_is_left_and_its_step_counts(root: Path) -> None:
    """A detachable process that may be an orphan is left running and recorded."""
    pid = left_running(root, "effects='local', detachable=True, orphanable=True")
    outcome = recovered(root)
    assert (outcome.status, outcome.steps[0].course) == (RecoveryStatus.OK, StepAction.LEAVE)
    assert outcome.steps_completed == ("cut",)
    os.kill(pid, 9)


def test_a_living_process_with_effects_elsewhere_is_left_alone_and_asked_about(root: Path) -> None:
    """It is neither ended nor repeated; a person decides, and `continue` ends it first."""
    pid = left_running(root, "effects='remote', on_alive='rerun'")
    process = proc.identify(pid)
    assert process is not None
    outcome = recovered(root)
    assert (outcome.steps[0].course, outcome.checkpoint) == (StepAction.CHECKPOINT, 1)
    assert proc.state_of(process) is ProcessState.ALIVE
    decide(1, ChoiceName.CONTINUE)
    assert recovered(root).status is RecoveryStatus.OK
    assert proc.state_of(process) is ProcessState.DEAD


def test_what_still_runs_is_ended_before_it_is_undone(root: Path) -> None:
    """Else it could do once more what was just undone; the checkpoint says so for each choice."""
    look = "grep -qs sleep /proc/$(cat pid)/cmdline && echo lives >seen || echo gone >seen"
    pid = left_running(root, f"effects='remote', undo=['sh', '-c', {look!r}]")
    (root / "pid").write_text(str(pid))
    recovered(root)
    said = (root / "CHECKPOINT_1.md").read_text()
    assert said.count(f"What still runs (process {pid}) is ended first.") == 2
    assert said.count(f"What still runs (process {pid}) is left alone.") == 2
    decide(1, ChoiceName.ROLLBACK)
    assert recovered(root).status is RecoveryStatus.OK
    assert (root / "seen").read_text() == "gone\n"


def test_a_pid_that_changed_hands_is_not_touched(root: Path) -> None:
    """The pid lives, but it is another program's: the step's process is dead."""
    killed_inside(root, "effects='local', on_alive='rerun'")
    state = state_of(root)
    with subprocess.Popen(["sleep", "600"]) as stranger:
        try:
            state["process_map"]["cut"] |= {"pid": stranger.pid}
            state_path(root).write_text(json.dumps(state))
            assert recovered(root).steps[0].course is StepAction.RERUN
            assert stranger.poll() is None
        finally:
            stranger.kill()


def test_another_programs_bare_pid_proves_nothing(root: Path) -> None:
    """A state with the five process fields only: no such pid is dead, an existing pid is unknown, and unknown is remote."""
    Journal(root).close()
    state = state_of(root)
    entry = {"pid": os.getpid(), "cmd": ["make"], "started_at": "", "stdout_path": None, "stderr_path": None}
    state |= {"current_task_id": "make", "process_map": {"make": entry}}
    state_path(root).write_text(json.dumps(state))
    assert recovered(root).steps[0].sight is ProcessState.UNKNOWN
    assert recovered(root).checkpoint == 1


def test_the_watch_recovers_what_was_registered_and_tells_once(root: Path, tmp_path: Path) -> None:
    """A program that is gone is recovered without a request; a checkpoint is reported once."""
    program = f"import os, wakeful; j = wakeful.Journal({str(root)!r}, register=True); j.step('cut').__enter__(); os._exit(9)"
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=60).returncode == 9
    told: list[JournalWatchReport] = []

    async def tell(sighting: JournalWatchReport) -> None:
        told.append(sighting)

    async def rounds() -> None:
        watch = RecoveryWatch([], registry=tmp_path / "home" / "journals", clock=VirtualClock(), report=tell)
        await watch.check()
        await watch.check()
        decide(1, ChoiceName.CONTINUE)
        await watch.check()
        await watch.check()

    asyncio.run(rounds())
    assert [each.recovered.status for each in told if each.recovered] == [
        RecoveryStatus.MANUAL_REVIEW,
        RecoveryStatus.OK,
    ]


def test_a_decision_is_carried_out_by_recovering(root: Path) -> None:
    """What the desk of checkpoints calls when a person has decided about a journal."""
    killed_inside(root, "")
    recovered(root)
    decide(1, ChoiceName.CONTINUE)
    checkpoint = _with_checkpoints(lambda desk: desk.get(1))
    done = asyncio.run(JournalDecisionExecutor().carry_out(checkpoint, ChoiceName.CONTINUE))
    assert done.outcome == "recovered"
    assert state_of(root)["process_map"]["cut"]["last"] == "cleared"
