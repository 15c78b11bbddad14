"""Power cuts: whatever of the unsynced writes is lost, torn or zeroed, no torn state is accepted and no effect forgotten."""

import os
import random
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from crash.elsewhere import Elsewhere, serving, start
from crash.journal_workload import EFFECTS
from crash.power_loss import TRACED, Disk, whole_calls
from wakeful.checkpoints.model import Checkpoint, number_draft
from wakeful.journal.model import StateMissing
from wakeful.journal.recovery_rules import RecoveryResult
from wakeful.journal.recovery_watch import recover_journal

HOWS = ("dropped", "kept", "torn", "zeroed", "mixed", "mixed", "torn")
# Some ten milliseconds each.
EVERY = 1 if os.environ.get("WAKEFUL_ENDURANCE") else 36


class PaperDesk:
    """Checkpoints on paper: numbers without answers."""

    def __init__(self) -> None:
        self.opened: list[Checkpoint] = []

    def open(self, draft: Checkpoint) -> Checkpoint:
        self.opened.append(number_draft(draft, len(self.opened) + 1, 1.0))
        return self.opened[-1]

    def find(self, number: int) -> Checkpoint | None:
        return self.opened[number - 1] if number <= len(self.opened) else None


@pytest.fixture
def trace(journal_home: Path, strace: Sequence[str]) -> list[str]:
    """One undisturbed run, as its system calls."""
    with serving(Elsewhere()) as port:
        assert start(journal_home / "compiling", port).returncode == 0
        path = journal_home / "trace"
        below = [
            *strace,
            "-y",
            "-xx",
            "-s",
            "1000000",
            "-e",
            "signal=none",
            "-o",
            str(path),
            "-e",
            f"trace={TRACED}",
        ]
        assert start(journal_home / "root", port, below).returncode == 0
    return list(whole_calls(path.read_text().splitlines()))


def test_no_power_cut_leaves_a_torn_state_or_forgets_an_effect(journal_home: Path, trace: list[str]) -> None:
    """The state is one the program wrote, and every effect that may have begun is known as completed or cut off."""
    chance = random.Random(7)
    disk = Disk(journal_home / "root")
    images = held = written = 0
    for at, line in enumerate(trace):
        if not disk.take(line):
            continue
        written += 1
        if written % EVERY:
            continue
        for how in HOWS:
            root = journal_home / "image"
            disk.image(root, chance, how)
            images += 1
            held += _assert_right(root, disk, at, how)
    told = f"no torn state accepted, no begun effect forgotten; {held} held for a person"
    sys.stdout.write(
        f"\nfigure: {images} images of a power cut (unsynced writes lost, torn, zeroed): {told}\n"
    )
    assert images > 2000 // EVERY
    assert held > 0


def _assert_right(root: Path, disk: Disk, at: int, how: str) -> bool:
    begun = [name for name in EFFECTS if any(f"effect {name}" in said for said in disk.said)]
    state = root / ".copilot" / "session_state.json"
    if not state.exists():
        with pytest.raises(StateMissing):
            recover_journal(state, checkpoints=PaperDesk())
        assert not begun, (at, how, "the state is missing")
        return False
    assert state.read_bytes() in disk.states, (at, how)
    desk = PaperDesk()
    recovered: RecoveryResult = recover_journal(state, checkpoints=desk)
    known = {*recovered.steps_completed, *(each.step for each in recovered.steps)}
    assert set(begun) <= known, (at, how, recovered)
    assert bool(desk.opened) == (recovered.checkpoint is not None)
    return recovered.checkpoint is not None
