"""The journal library with real files and processes, and recovery from outside."""

import asyncio
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import wakeful
from support.real_clients import wait_for
from wakeful.checkpoints.model import ChoiceName
from wakeful.core.process import ProcessState
from wakeful.journal import files
from wakeful.journal.api import (
    Journal,
    JournalClosed,
    JournalHeld,
    JournalInUse,
    KeyChanged,
    StateLost,
    StepCompleted,
    StepFailed,
    StepRuns,
)
from wakeful.journal.checkpoint_store import _with_checkpoints
from wakeful.journal.event_file import OutsideRoot
from wakeful.journal.locks import RecoveryRuns, recovery_lock
from wakeful.journal.model import (
    BadStepName,
    BadTrait,
    SessionState,
    StateForeign,
    StateMissing,
    StateOutdated,
)
from wakeful.journal.processes import GatedProcess
from wakeful.journal.recovery_rules import RecoveryResult, RecoveryStatus, StepAction
from wakeful.journal.recovery_watch import (
    JournalDecisionExecutor,
    JournalWatchReport,
    RecoveryWatch,
    recover_journal,
)
from wakeful.linux import proc
from wakeful.testing.virtual_clock import VirtualClock

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


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for a journal, and a home of its own for checkpoints."""
    monkeypatch.setenv("WAKEFUL_HOME", str(tmp_path / "home"))
    return tmp_path / "root"


def state_of(root: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(state_path(root).read_text())
    return found


def state_path(root: Path) -> Path:
    return root / ".copilot" / "session_state.json"


def events(root: Path) -> list[str]:
    return [json.loads(line)["event"] for line in (root / "events.ndjson").read_text().splitlines()]


def audited(root: Path) -> list[str]:
    with closing(sqlite3.connect(root / "gaia.db")) as rows:
        return [row[0] for row in rows.execute("SELECT event FROM audit ORDER BY events_end")]


def recovered(root: Path, **how: Any) -> RecoveryResult:
    return recover_journal(state_path(root), **how)


def decide(number: int, choice: ChoiceName) -> None:
    _with_checkpoints(lambda desk: desk.record(number, choice, "tester"))


def killed_inside(root: Path, traits: str, inside: str = "") -> None:
    """A program that is killed inside its step `cut`."""
    program = f"import os, wakeful; j = wakeful.Journal({str(root)!r}, steps=['cut', 'after'])\n"
    program += f"with j.step('cut', {traits}): {inside or 'pass'}; os.kill(os.getpid(), 9)\n"
    ended = subprocess.run([sys.executable, "-c", program], check=False, timeout=60)
    assert ended.returncode == -9


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
    """Whoever cancels the task does not leave an orphan."""

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


def test_a_run_cancelled_while_it_starts_leaves_nothing(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that starts the program cannot be cancelled: what it started is ended."""
    starting, go_on = threading.Event(), threading.Event()
    let_through = GatedProcess.release

    def held_up(gated: GatedProcess) -> None:
        starting.set()
        assert go_on.wait(60)
        let_through(gated)

    monkeypatch.setattr(GatedProcess, "release", held_up)

    async def program() -> None:
        async with await Journal.open(root) as journal:
            task = asyncio.create_task(journal.run_async(["sleep", "600"], step="long", effects="none"))
            await asyncio.to_thread(starting.wait, 10)
            task.cancel()
            go_on.set()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(program())
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
    """The second is told who has it."""
    with Journal(root), pytest.raises(JournalInUse, match=str(os.getpid())):
        Journal(root)
    Journal(root).close()


def test_a_closed_journal_takes_nothing(root: Path) -> None:
    """After close nothing is written for which nobody holds the lock."""
    journal = Journal(root)
    journal.close()
    with pytest.raises(JournalClosed), journal.step("late"):
        pass


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
    """A checkpoint waits; after `continue` the step may be run, and when it is cut off again somebody is asked again."""
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
    """What still ran when somebody was asked, and is in doubt now, is a question of its own."""
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
    """Nobody undoes twice without being told to."""
    killed_inside(root, "undo=['sh', '-c', 'echo tried >>undo.log; echo no such release; exit 1']")
    recovered(root)
    decide(1, ChoiceName.ROLLBACK)
    outcome = recovered(root)
    assert (outcome.status, outcome.checkpoint) == (RecoveryStatus.REQUIRED_ROLLBACK, 2)
    assert recovered(root).checkpoint == 2
    assert (root / "undo.log").read_text() == "tried\n"
    assert (root / ".tmp/logs/cut-undo-1.out").read_text() == "no such release\n"
    assert "its undoing failed and wrote .tmp/logs/cut-undo-1.out" in (root / "CHECKPOINT_2.md").read_text()
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

    import threading

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
    """`rerun` ends the tree before the step may begin anew."""
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


def test_a_torn_state_is_never_accepted(root: Path) -> None:
    """It lies in .tmp/corrupt whole, the events say what stood there, and a person looks first."""
    killed_inside(root, "effects='local'")
    torn = state_path(root).read_bytes()[:200]
    state_path(root).write_bytes(torn)
    outcome = recovered(root)
    assert (outcome.status, outcome.checkpoint) == (RecoveryStatus.MANUAL_REVIEW, 1)
    assert [path.read_bytes() for path in (root / ".tmp" / "corrupt").iterdir()] == [torn]
    assert outcome.steps[0].step == "cut"
    with pytest.raises(JournalHeld):
        Journal(root)
    decide(1, ChoiceName.CONTINUE)
    assert recovered(root).status is RecoveryStatus.OK


@pytest.mark.parametrize("content", [b"", b"\0" * 400, b'{"current_task_id": nul', b"\xff\xfe"])
def test_what_is_no_json_is_torn(root: Path, content: bytes) -> None:
    """Empty, zeroed, cut off or no text: moved away, and manual review."""
    Journal(root).close()
    state_path(root).write_bytes(content)
    outcome = recovered(root)
    assert outcome.status is RecoveryStatus.MANUAL_REVIEW
    assert [path.read_bytes() for path in (root / ".tmp" / "corrupt").iterdir()] == [content]


def _newer(path: Path) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | {"schema": 2}))


def _linked(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _linked_folder(path: Path) -> None:
    path.parent.rename(path.parent.with_name("elsewhere"))
    path.parent.symlink_to("elsewhere")


@pytest.mark.parametrize(
    "spoil",
    [
        _newer,
        _linked,
        _folder,
        _linked_folder,
        lambda path: path.write_text("[]"),
        lambda path: path.write_text('{"steps_completed": 7}'),
        lambda path: os.chown(path, 12345, 12345),
    ],
)
def test_a_foreign_state_is_refused_and_left_as_it_is(root: Path, spoil: Callable[[Path], object]) -> None:
    """Newer, a link, another user's, another shape: one sentence, and no file is touched."""
    Journal(root).close()
    spoil(state_path(root))
    before = sorted(str(path) for path in root.rglob("*"))
    with pytest.raises(StateForeign):
        recovered(root)
    with pytest.raises(StateForeign):
        Journal(root)
    assert sorted(str(path) for path in root.rglob("*")) == before


def test_a_missing_state_is_said_and_never_begun_anew_by_accident(root: Path) -> None:
    """Without a state there is nothing to recover; with events that tell of steps the program is stopped."""
    with pytest.raises(StateMissing):
        recovered(root)
    assert not root.exists()
    with Journal(root) as journal, journal.step("one", effects="none"):
        pass
    state_path(root).unlink()
    with pytest.raises(StateLost):
        Journal(root)
    Journal(root, fresh=True).close()


def test_a_cursor_beyond_the_end_is_told_and_survived(root: Path) -> None:
    """The events are read from their start then."""
    killed_inside(root, "effects='local'")
    state = state_of(root) | {"events_cursor": 10**9}
    state_path(root).write_text(json.dumps(state))
    outcome = recovered(root)
    assert outcome.status is RecoveryStatus.OK
    assert any("is not within" in note for note in outcome.notes)
    assert state_of(root)["events_cursor"] < 10**6


def test_a_torn_last_event_is_told_and_takes_no_other_along(root: Path) -> None:
    """What is whole counts, what is torn is ended by the next writer."""
    killed_inside(root, "effects='local'")
    with (root / "events.ndjson").open("ab") as log:
        log.write(b'{"at":"2026-')
    outcome = recovered(root)
    assert any("torn" in note for note in outcome.notes)
    lines = (root / "events.ndjson").read_bytes().splitlines()
    assert json.loads(lines[-1])["event"] == "session.recovered"


def test_a_completed_event_counts_although_the_state_was_not_written(root: Path) -> None:
    """Killed between the two, the step is not run again."""
    program = f"""
import os, wakeful
from wakeful.journal.files import RootFiles
journal = wakeful.Journal({str(root)!r})
with journal.step("cut", effects="remote"):
    RootFiles.write = lambda self, state: os.kill(os.getpid(), 9)
"""
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=60).returncode == -9
    assert state_of(root)["steps_completed"] == []
    outcome = recovered(root)
    assert (outcome.status, outcome.steps_completed, outcome.steps) == (RecoveryStatus.OK, ("cut",), ())


def test_two_recoveries_cannot_run_at_once(root: Path) -> None:
    """The second names the first and its pid; one that waits gets its turn."""
    Journal(root).close()
    lock = root / ".tmp" / "agent_recovery.lock"
    told = rf"pid {os.getpid()} \(first\) since 2026-02-05"
    with (
        recovery_lock(lock, since="2026-02-05T10:00:00Z", command="first", wait_seconds=0),
        pytest.raises(RecoveryRuns, match=told),
    ):
        recovered(root)
    assert recovered(root).status is RecoveryStatus.OK
    assert not lock.exists()


def test_a_dead_owners_lock_is_taken_over_by_identity(root: Path) -> None:
    """Its pid may have another owner by now: pid, start and boot decide."""
    Journal(root).close()
    lock = root / ".tmp" / "agent_recovery.lock"
    holder = {"pid": os.getpid(), "started": 1, "boot_id": proc.boot_id(), "since": "then", "command": "gone"}
    lock.write_text(json.dumps(holder))
    outcome = recovered(root)
    assert outcome.status is RecoveryStatus.OK
    assert any("took over the lock of" in note for note in outcome.notes)
    assert "recovery.lock_taken_over" in audited(root)


@pytest.mark.parametrize(
    "content", ["", "locked by hand", str(os.getpid())], ids=["empty", "by hand", "ours"]
)
def test_a_lock_nobody_can_read_or_whose_owner_lives_is_respected(root: Path, content: str) -> None:
    """It is for a person to remove."""
    Journal(root).close()
    lock = root / ".tmp" / "agent_recovery.lock"
    lock.write_text(content)
    with pytest.raises(RecoveryRuns):
        recovered(root)
    assert lock.read_text() == content


def test_a_bare_pid_of_nobody_is_a_stale_lock(root: Path) -> None:
    """As other programs write it."""
    Journal(root).close()
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    (root / ".tmp" / "agent_recovery.lock").write_text(f"{gone.pid}\n")
    assert recovered(root).status is RecoveryStatus.OK


def test_a_journal_in_use_is_left_alone(root: Path) -> None:
    """Its program lives and writes: there is nothing to recover."""
    with (
        Journal(root) as journal,
        journal.step("busy", effects="none"),
        pytest.raises(JournalInUse, match=str(os.getpid())),
    ):
        recovered(root)


@pytest.mark.parametrize(("kind", "seconds"), [("interactive", 301), ("batch", 1801)])
def test_a_silent_program_is_stale_after_its_kinds_time(root: Path, kind: str, seconds: int) -> None:
    """Nothing is done to it: it is shown to a person, whose program it is."""
    with Journal(root, kind=kind) as journal, journal.step("busy", effects="none", on_alive="rerun"):
        _age(root, seconds - 60)
        with pytest.raises(JournalInUse):
            recovered(root)
        _age(root, seconds)
        outcome = recovered(root)
        assert outcome.status is RecoveryStatus.MANUAL_REVIEW
        assert any(f"pid {os.getpid()}" in note for note in outcome.notes)


def _age(root: Path, seconds: float) -> None:
    from datetime import UTC, datetime, timedelta

    state = state_of(root)
    then = datetime.now(UTC) - timedelta(seconds=seconds)
    state_path(root).write_text(json.dumps(state | {"last_sync": then.isoformat()}))


def test_artefacts_that_changed_are_moved_away_and_named(root: Path) -> None:
    """Compared by hash; a person may accept the loss, and is not asked again."""
    with Journal(root) as journal:
        for name in ("good", "bad", "gone"):
            with journal.step(name, effects="local") as step:
                (root / name).write_text(name)
                step.artefact(name)
    (root / "bad").write_text("zeroed")
    (root / "gone").unlink()
    outcome = recovered(root)
    assert [(each.path, each.step) for each in outcome.suspects] == [("bad", "bad"), ("gone", "gone")]
    moved = root / str(outcome.suspects[0].moved_to)
    assert (moved.read_text(), (root / "bad").exists()) == ("zeroed", False)
    assert (outcome.status, outcome.checkpoint) == (RecoveryStatus.MANUAL_REVIEW, 1)
    decide(1, ChoiceName.CONTINUE)
    assert recovered(root).status is RecoveryStatus.OK
    assert recovered(root).suspects == ()


def test_a_damaged_database_is_moved_away_and_made_again_from_the_events(root: Path) -> None:
    """The events are the truth about traces, the archive about the backlog."""
    with Journal(root) as journal, journal.step("one", effects="none"):
        pass
    (root / "gaia.db").write_bytes(b"no database at all, but longer than its header")
    assert recovered(root).status is RecoveryStatus.OK
    assert [event for event in audited(root) if event.startswith("action.")] == [
        "action.started",
        "action.completed",
    ]
    assert [path.name.startswith("gaia.db-") for path in (root / ".tmp" / "corrupt").iterdir()] == [True]


def test_the_timeline_is_for_people_and_only_grows(root: Path) -> None:
    """What happened since the state, what was found and what was decided, one recovery after the other."""
    killed_inside(root, "effects='local'")
    recovered(root)
    first = (root / ".tmp" / "recovery.timeline").read_text()
    assert "action.started cut (attempt 1)" in first
    assert "= step cut: rerun" in first
    recovered(root)
    assert (root / ".tmp" / "recovery.timeline").read_text().startswith(first)


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


def test_the_watch_recovers_what_was_registered_and_tells_once(root: Path, tmp_path: Path) -> None:
    """A program that is gone is recovered without a word from anybody; a checkpoint is told once."""
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


def rolled_back(root: Path, *names: str) -> Callable[[], None]:
    """Keep these files of the journal as they are now; the answer puts them back, as a git checkout would."""
    kept = {name: (root / name).read_bytes() for name in names}

    def put_back() -> None:
        for name, content in kept.items():
            (root / name).write_bytes(content)

    return put_back


STATE, EVENTS = ".copilot/session_state.json", "events.ndjson"


@pytest.mark.parametrize("older", [(STATE,), (STATE, EVENTS)], ids=["state", "state and events"])
def test_a_state_older_than_its_events_repeats_nothing(root: Path, older: tuple[str, ...]) -> None:
    """What events or gaia.db call completed is completed, whatever an older state says."""
    with Journal(root, steps=["build", "ship"]) as journal:
        with journal.step("build", effects="local"):
            pass
        put_back = rolled_back(root, *older)
        with journal.step("ship", effects="remote"):
            pass
    put_back()
    with Journal(root, steps=["build", "ship"]) as journal:
        assert journal.is_completed("ship")
        assert journal.next_step() is None
        with pytest.raises(StepCompleted), journal.step("ship", effects="remote"):
            pytest.fail("it ran again")


@pytest.mark.parametrize("older", [(STATE,), (STATE, EVENTS)], ids=["state", "state and events"])
def test_a_remote_step_that_an_older_state_does_not_know_is_asked_about(
    root: Path, older: tuple[str, ...]
) -> None:
    """Begun after the restored state was written and cut off: a person decides, as with the newest state."""
    with Journal(root, steps=["cut", "after"]):
        put_back = rolled_back(root, *older)
    killed_inside(root, "effects='remote'")
    put_back()
    with pytest.raises(JournalHeld):
        Journal(root)
    decide(1, ChoiceName.CONTINUE)
    with Journal(root) as journal, journal.step("cut", effects="remote") as step:
        assert step.attempt == 2


def test_a_word_that_was_carried_out_is_not_carried_out_again_after_a_checkout(root: Path) -> None:
    """The restored state waits for a checkpoint that was continued: the attempt it led to is asked about anew."""
    killed_inside(root, "effects='remote'")
    recovered(root)
    put_back = rolled_back(root, STATE)
    decide(1, ChoiceName.CONTINUE)
    killed_inside(root, "effects='remote'")
    put_back()
    outcome = recovered(root)
    assert (outcome.steps[0].attempt, outcome.checkpoint) == (2, 2)


def test_the_state_of_an_earlier_session_is_refused(root: Path) -> None:
    """After `fresh` the earlier session's state is not gone on from: its steps are not the later one's."""
    with Journal(root), pytest.raises(ValueError, match="no"):
        raise ValueError("no")
    put_back = rolled_back(root, STATE)
    with Journal(root, fresh=True) as journal, journal.step("ship", effects="remote"):
        pass
    put_back()
    with pytest.raises(StateOutdated, match=journal.trace_id):
        Journal(root)
    with Journal(root, fresh=True) as begun_anew:
        assert begun_anew.trace_id != journal.trace_id


def test_steps_that_overlapped_get_one_answer_each(root: Path) -> None:
    """Two remote steps were cut off at once: one has happened, the other has not, and a person can say so."""
    program = f"""
import asyncio, os, wakeful
async def main():
    async with await wakeful.Journal.open({str(root)!r}) as journal:
        both = asyncio.Barrier(2)
        async def step(name):
            async with journal.step(name, effects="remote"):
                await both.wait()
                os.kill(os.getpid(), 9)
        await asyncio.gather(step("mail"), step("deploy"))
asyncio.run(main())
"""
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=60).returncode == -9
    outcome = recovered(root)
    assert outcome.checkpoints == (1, 2)
    named = {number: (root / f"CHECKPOINT_{number}.md").read_text() for number in (1, 2)}
    mail, deploy = (1, 2) if "step mail," in named[1] else (2, 1)
    assert "step deploy," not in named[mail]
    decide(mail, ChoiceName.DONE)
    outcome = recovered(root)
    assert (outcome.steps_completed, outcome.checkpoints) == (("mail",), (deploy,))
    with pytest.raises(JournalHeld, match=f"checkpoint show {deploy}"):
        Journal(root)
    decide(deploy, ChoiceName.CONTINUE)
    with Journal(root) as journal:
        assert (journal.is_completed("mail"), journal.next_step()) == (True, "deploy")


@pytest.mark.parametrize("effects", ["none", "local", "remote"])
def test_a_step_that_runs_already_is_refused_to_another_task(root: Path, effects: str) -> None:
    """Two tasks of one program want the same step at once: one runs it, the other is told, and no person is asked."""

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


def test_a_held_step_is_asked_about_once_while_others_go_on(root: Path) -> None:
    """A step that failed and is held keeps its checkpoint, though a step beside it ends afterwards."""
    with Journal(root) as journal, journal.step("beside", effects="local"):
        with pytest.raises(OSError, match="no route"), journal.step("mail", effects="remote"):
            raise OSError("no route")
        with pytest.raises(JournalHeld):
            journal.step("mail", effects="remote").__enter__()
    decide(1, ChoiceName.CONTINUE)
    outcome = recovered(root)
    assert (outcome.status, outcome.checkpoints) == (RecoveryStatus.OK, ())
    with Journal(root) as journal, journal.step("mail", effects="remote") as step:
        assert step.attempt == 2


def shipped_in_two_sessions(root: Path) -> Callable[[], None]:
    """A session that is over, then one that was cut off inside a remote step; the answer puts the first one's state back."""
    with Journal(root, steps=["cut"]) as journal, journal.step("cut", effects="remote"):
        pass
    put_back = rolled_back(root, STATE)
    program = f"import os, wakeful; j = wakeful.Journal({str(root)!r}, fresh=True)\n"
    program += "with j.step('cut', effects='remote'): os.kill(os.getpid(), 9)\n"
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=60).returncode == -9
    return put_back


@pytest.mark.parametrize("damage", ["older", "missing"])
def test_to_begin_anew_is_no_answer_to_a_question_whose_state_is_not_there(root: Path, damage: str) -> None:
    """A program that always begins anew was cut off inside a remote step, and its state is not there: a person decides."""
    put_back = shipped_in_two_sessions(root)
    if damage == "older":
        put_back()
    else:
        state_path(root).unlink()
    for _ in range(2):
        with pytest.raises(JournalHeld):
            Journal(root, fresh=True)
    decide(1, ChoiceName.DONE)
    with Journal(root, fresh=True) as journal:
        assert journal.next_step() is None
        assert not journal.is_completed("cut")


def test_a_session_that_somebody_aborted_can_be_begun_anew_without_its_state(root: Path) -> None:
    """That it was aborted is known without the state, too."""
    put_back = shipped_in_two_sessions(root)
    with pytest.raises(JournalHeld):
        Journal(root, fresh=True)
    decide(1, ChoiceName.ABORT)
    assert recovered(root).approval == "aborted"
    put_back()
    with Journal(root, fresh=True) as journal:
        assert not journal.is_completed("cut")


def test_the_state_of_another_journal_is_refused(root: Path, tmp_path: Path) -> None:
    """Its session is not one that these events and this database know: what happened here would happen again."""
    with Journal(root) as journal, journal.step("ship", effects="remote"):
        pass
    other = tmp_path / "other"
    with Journal(other) as journal, journal.step("build", effects="local"):
        pass
    shutil.copy(state_path(other), state_path(root))
    with pytest.raises(StateOutdated):
        Journal(root)
    with pytest.raises(StateOutdated):
        recovered(root)
    killed_inside(other, "effects='remote'")
    shutil.copy(state_path(other), state_path(root))
    with pytest.raises(StateOutdated):
        Journal(root, fresh=True)


def test_killed_before_its_first_state_a_new_session_leaves_the_old_one(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of the new session ran: the old one's state is gone on from, and its steps are not run again."""
    with Journal(root, steps=["ship", "after"]) as journal, journal.step("ship", effects="remote"):
        pass

    def killed(_path: Path, _state: SessionState) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(files, "replace_state", killed)
        with pytest.raises(KeyboardInterrupt):
            Journal(root, fresh=True)
    with Journal(root, steps=["ship", "after"]) as again:
        assert (again.trace_id, again.next_step()) == (journal.trace_id, "after")
    with Journal(root, fresh=True, steps=["ship"]) as fresh:
        assert fresh.next_step() == "ship"


def test_events_that_were_put_back_and_have_grown_since_are_read_all_the_same(root: Path) -> None:
    """Where the database has one event, the log has another by now: what only the log knows counts."""
    with Journal(root) as journal:
        put_events_back = rolled_back(root, EVENTS)
        for number in range(4):
            with journal.step(f"local{number}", effects="none"):
                pass
    put_rest_back = rolled_back(root, STATE, "gaia.db")
    put_events_back()
    with Journal(root) as journal:
        with journal.step("ship", effects="remote"):
            pass
        for number in range(6):
            with journal.step(f"later{number}", effects="none"):
                pass
    put_rest_back()
    for ending in ("-wal", "-shm"):
        (root / f"gaia.db{ending}").unlink(missing_ok=True)
    with Journal(root) as journal:
        assert journal.is_completed("ship")


def test_a_checkpoint_of_another_journal_is_no_answer(root: Path, tmp_path: Path) -> None:
    """The state waits for a number that is somebody else's question here: this one is asked about."""
    other = tmp_path / "other"
    killed_inside(other, "effects='remote'")
    recovered(other)
    decide(1, ChoiceName.CONTINUE)
    with Journal(root):
        pass
    waiting = state_of(root) | {"notes": "awaiting-approval: CHECKPOINT_1.md"}
    state_path(root).write_text(json.dumps(waiting))
    assert (recovered(root).status, recovered(root).checkpoint) == (RecoveryStatus.MANUAL_REVIEW, 2)
    decide(2, ChoiceName.CONTINUE)
    assert recovered(root).status is RecoveryStatus.OK


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


def test_a_journal_that_was_aborted_before_any_step_is_not_recovered_again_and_again(root: Path) -> None:
    """Its state was torn and somebody aborted it: nothing is left to settle, and its events do not grow."""
    with Journal(root):
        pass
    state_path(root).write_text("{")
    assert recovered(root).checkpoint == 1
    decide(1, ChoiceName.ABORT)
    told: list[JournalWatchReport] = []

    async def tell(sighting: JournalWatchReport) -> None:
        told.append(sighting)

    async def rounds() -> list[int]:
        watch = RecoveryWatch([root], registry=root / "none", clock=VirtualClock(), report=tell)
        sizes = []
        for _ in range(3):
            await watch.check()
            sizes.append(len(events(root)))
        return sizes

    sizes = asyncio.run(rounds())
    assert sizes == [sizes[0]] * 3
    with pytest.raises(JournalHeld):
        Journal(root)
    Journal(root, fresh=True).close()
