"""kill -9 at every write, rename, sync, unlink, connect, send and fork of a program with a journal: recovery is right.

Every effect elsewhere happens once, or a person is asked; what was counted is counted by a server, not by the program.
`make crash` tries all points and writes the figures down; here a spread of them is taken.
"""

import asyncio
import os
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from msgspec import Struct

from crash.elsewhere import Elsewhere, serving, start
from crash.journal_async_workload import ASYNC_EFFECTS, ASYNC_STEPS, ASYNC_WORKLOAD, work_async
from crash.journal_workload import ARTEFACT, EFFECTS, HELD, STEPS, WORKLOAD, work
from wakeful.checkpoints.model import Checkpoint, ChoiceName
from wakeful.journal.api import JournalHeld
from wakeful.journal.checkpoint_store import _with_checkpoints
from wakeful.journal.recovery_rules import RecoveryStatus
from wakeful.journal.recovery_watch import recover_journal

CALLS = (
    "write",
    "pwrite64",
    "rename",
    "renameat",
    "renameat2",
    "link",
    "linkat",
    "unlink",
    "unlinkat",
    "fsync",
    "fdatasync",
    "ftruncate",
    "connect",
    "sendto",
    "vfork",
    "clone",
    "clone3",
    "execve",
)
# A second each.
POINTS_MAX = 100_000 if os.environ.get("WAKEFUL_ENDURANCE") else 4
ROUNDS_MAX = 8

Point = tuple[str, int]


class Program(Struct, frozen=True):
    """What is killed, what it does elsewhere, and how it is gone on with."""

    path: Path
    steps: tuple[str, ...]
    effects: tuple[str, ...]
    files: dict[str, bytes]
    go_on: Callable[[Path, int], None]
    # Who writes its journal: itself, or the thread of its loop.
    in_main_thread: bool


PLAIN = Program(
    WORKLOAD, STEPS, EFFECTS, {"page": ARTEFACT, "b": b"a\nb\n", "index": b"index"}, work, in_main_thread=True
)
LOOPED = Program(
    ASYNC_WORKLOAD,
    ASYNC_STEPS,
    ASYNC_EFFECTS,
    {"page": b"page", "b": b"a\nb\n"},
    lambda root, port: asyncio.run(work_async(root, port)),
    in_main_thread=False,
)


def points_after_opening(trace: Path, program: Program) -> list[Point]:
    """Each call of the journal's writer, after the line that it is open, numbered as strace counts."""
    lines = [line.split(maxsplit=1) for line in trace.read_text().splitlines()]
    main = lines[0][0]
    renaming = next(thread for thread, call in lines if call.startswith("rename"))
    writer = main if program.in_main_thread else renaming
    assert (writer == main) == program.in_main_thread
    seen: Counter[str] = Counter()
    found = []
    is_open = False
    for thread, call in lines:
        name = call.partition("(")[0]
        if thread == writer and name in CALLS:
            seen[name] += 1
            if is_open:
                found.append((name, seen[name]))
        is_open = is_open or '"opened' in call
    # Programs it starts pass their gate by their second exec; killed there, the step fails.
    return [*found, ("execve", 2)]


def chosen(points: Sequence[Point]) -> list[Point]:
    """All of them, or a spread with what is worst: behind a send the other side has it and the program does not know."""
    if len(points) <= POINTS_MAX:
        return list(points)
    behind = [at + 2 for at, (name, _) in enumerate(points) if name == "connect"]
    spread = [*behind, *range(0, len(points), len(points) // POINTS_MAX), len(points) - 1]
    return [points[at] for at in sorted(set(spread))]


def decide(
    number: int, elsewhere: Elsewhere, program: Program, holdable: frozenset[str] = HELD
) -> ChoiceName:
    """A person who looks at the other side: what happened is undone or counted, what did not is run again."""
    checkpoint: Checkpoint = _with_checkpoints(lambda desk: desk.get(number))
    held = [step for step in program.steps if any(f"step {step}," in line for line in checkpoint.may_have)]
    assert held
    assert set(held) <= holdable, f"{held} could have been settled without a person"
    choice = ChoiceName.CONTINUE
    if any(elsewhere.counts[step] for step in held):
        can_undo = checkpoint.choice(ChoiceName.ROLLBACK) is not None
        choice = ChoiceName.ROLLBACK if can_undo else ChoiceName.DONE
    _with_checkpoints(lambda desk: desk.record(number, choice, "tester"))
    return choice


def carried_on(
    root: Path, port: int, elsewhere: Elsewhere, program: Program, holdable: frozenset[str] = HELD
) -> Counter[str]:
    """Recover and go on until the program is finished; what that took."""
    took: Counter[str] = Counter()
    for _ in range(ROUNDS_MAX):
        recovered = recover_journal(root / ".copilot" / "session_state.json", wait_seconds=5.0)
        took[recovered.status] += 1
        if recovered.checkpoint is not None:
            took[decide(recovered.checkpoint, elsewhere, program, holdable)] += 1
            continue
        assert recovered.status is RecoveryStatus.OK, recovered
        try:
            program.go_on(root, port)
        except JournalHeld:
            continue
        took["finished"] += 1
        return took
    raise AssertionError(f"never finished: {took}")


def assert_right(root: Path, elsewhere: Elsewhere, program: Program) -> None:
    """Everything happened once; what lies here is whole, and nothing else does."""
    happened = {name: elsewhere.counts[name] for name in program.effects}
    assert set(happened.values()) == {1}, happened
    assert {name: (root / name).read_bytes() for name in program.files} == program.files
    left = {path.name for path in root.glob("?*.tmp")} | {
        path.name for path in (root / ".tmp").glob("*.lock*")
    }
    assert not left


@pytest.mark.parametrize("program", [PLAIN, LOOPED], ids=["plain", "in a loop"])
def test_a_program_killed_anywhere_goes_on_or_asks(
    journal_home: Path, strace: Sequence[str], program: Program
) -> None:
    """Killed at any call after its journal opened, no effect happens twice and none is lost."""
    with serving(Elsewhere()) as port:
        # Whatever Python writes when it meets a module for the first time is written now.
        assert start(journal_home / "compiling", port, path=program.path).returncode == 0
        below = [*strace, "-o", str(journal_home / "trace"), "-e", f"trace={','.join(CALLS)}"]
        ended = start(journal_home / "counted", port, below, program.path)
        assert ended.stderr.endswith("finished\n")
    points = points_after_opening(journal_home / "trace", program)
    assert {name for name, _ in points} >= {"write", "rename", "fsync", "unlink", "pwrite64"}
    tried = chosen(points)
    total: Counter[str] = Counter()
    for name, nth in tried:
        total += _killed_at(journal_home / f"{name}-{nth}", strace, (name, nth), program)
    kind = "with twelve steps" if program is PLAIN else "in a loop"
    sys.stdout.write(
        f"\nfigure: a program {kind}, killed at {len(tried)} of {len(points)} points: {_words(total)}\n"
    )
    assert total["finished"] == len(tried)
    assert total[ChoiceName.CONTINUE] + total[ChoiceName.DONE] + total[ChoiceName.ROLLBACK] > 0


def _words(total: Counter[str]) -> str:
    asked = ", ".join(f"{total[name]} {name}" for name in ChoiceName if total[name])
    return f"{total['finished']} finished, no effect twice and none lost; answers of a person: {asked}"


def _killed_at(root: Path, strace: Sequence[str], point: Point, program: Program) -> Counter[str]:
    name, nth = point
    elsewhere = Elsewhere()
    with serving(elsewhere) as port:
        inject = ["-o", os.devnull, "-e", f"trace={name}", "-e", f"inject={name}:signal=KILL:when={nth}"]
        ended = start(root, port, [*strace, *inject], program.path)
        assert ended.returncode != 0, (name, nth, ended.stderr)
        if name != "execve":
            assert ended.returncode == -signal.SIGKILL, (name, nth, ended.stderr)
        took = carried_on(root, port, elsewhere, program)
        assert_right(root, elsewhere, program)
    shutil.rmtree(root)
    return took
