"""Journals of several sessions: a state that is older than its events, answers, and a new beginning."""

import asyncio
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from support.journal_files import decide, events, killed_inside, recovered, state_of, state_path
from wakeful.checkpoints.model import ChoiceName
from wakeful.journal import files
from wakeful.journal.api import (
    Journal,
    JournalHeld,
    StepCompleted,
)
from wakeful.journal.model import (
    SessionState,
    StateOutdated,
)
from wakeful.journal.recovery_rules import RecoveryStatus
from wakeful.journal.recovery_watch import (
    JournalWatchReport,
    RecoveryWatch,
)
from wakeful.testing.virtual_clock import VirtualClock


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
    """The restored state waits for a checkpoint that was continued: the attempt it led to is asked about again."""
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
    """A program that always begins a new session was cut off inside a remote step, and its state is not there: a person decides."""
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
    """The state waits for a number that is another journal's question here: this one is asked about."""
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


def test_a_journal_that_was_aborted_before_any_step_is_not_recovered_again_and_again(root: Path) -> None:
    """Its state was torn and a person aborted it: nothing is left to settle, and its events do not grow."""
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
