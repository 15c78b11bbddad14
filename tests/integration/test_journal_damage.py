"""Damaged, foreign, locked and silent journals: each is named, and nothing is lost or repeated."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from support.journal_files import audited, decide, killed_inside, recovered, state_of, state_path
from wakeful.checkpoints.model import ChoiceName
from wakeful.journal.api import (
    Journal,
    JournalHeld,
    JournalInUse,
    StateLost,
)
from wakeful.journal.locks import RecoveryRuns, recovery_lock
from wakeful.journal.model import (
    StateForeign,
    StateMissing,
)
from wakeful.journal.recovery_rules import RecoveryStatus
from wakeful.linux.machine import boot_id


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
    holder = {"pid": os.getpid(), "started": 1, "boot_id": boot_id(), "since": "then", "command": "gone"}
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
