"""kill -9 at every write, rename, sync, unlink, connect, send and fork of a program with a journal: recovery is right.

Every effect elsewhere happens once, or a person is asked; what was counted is counted by a server, not by the program.
WAKEFUL_ENDURANCE runs all points; without it a spread of them is taken.
"""

import os
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from crash.elsewhere import Elsewhere, serving, start
from crash.journal_workload import ARTEFACT, EFFECTS, HELD, STEPS, work
from wakeful.domain.checkpoint import Checkpoint, ChoiceName
from wakeful.domain.recovery import Status
from wakeful.journal import JournalHeld
from wakeful.journal_desk import _with_desk
from wakeful.recoveries import recover_journal

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
# A second each: where something happens elsewhere and every thirtieth other point, all of them where there is time.
EVERY = 1 if os.environ.get("WAKEFUL_ENDURANCE") else 30
ELSEWHERE = frozenset({"connect", "sendto", "execve"})
ROUNDS_MAX = 8


def points_after_opening(trace: Path) -> list[tuple[str, int]]:
    """Each call of the main thread behind its word that the journal is open, numbered as strace counts."""
    lines = [line.split(maxsplit=1) for line in trace.read_text().splitlines()]
    main = lines[0][0]
    seen: Counter[str] = Counter()
    found = []
    is_open = False
    for thread, call in lines:
        name = call.partition("(")[0]
        if thread == main and name in CALLS:
            seen[name] += 1
            if is_open:
                found.append((name, seen[name]))
            is_open = is_open or '"opened' in call
    # Programs it starts pass their gate by their second exec; killed there, the step fails.
    return [*found, ("execve", 2)]


def chosen(points: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
    """The points of this run. Behind a send the other side has it, and the program does not know that yet."""
    before = ["", *(name for name, _ in points)]
    return [
        point
        for at, point in enumerate(points)
        if at % EVERY == 0 or point[0] in ELSEWHERE or before[at] == "sendto"
    ]


def decide(number: int, elsewhere: Elsewhere) -> ChoiceName:
    """A person who looks at the other side: what happened is undone or left, what did not is run again."""
    checkpoint: Checkpoint = _with_desk(lambda desk: desk.get(number))
    held = [step for step in STEPS if any(f"step {step}," in line for line in checkpoint.may_have)]
    assert held
    assert set(held) <= HELD, f"{held} could have been settled without a person"
    happened = any(elsewhere.counts[step] for step in held)
    can_undo = checkpoint.choice(ChoiceName.ROLLBACK) is not None
    choice = ChoiceName.CONTINUE
    if happened:
        choice = ChoiceName.ROLLBACK if can_undo else ChoiceName.ABORT
    _with_desk(lambda desk: desk.record(number, choice, "tester"))
    return choice


def carried_on(root: Path, port: int, elsewhere: Elsewhere) -> Counter[str]:
    """Recover and go on until the program is finished or given up; what that took."""
    took: Counter[str] = Counter()
    for _ in range(ROUNDS_MAX):
        recovered = recover_journal(root / ".copilot" / "session_state.json", wait_seconds=5.0)
        took[recovered.status] += 1
        if recovered.approval == "aborted":
            return took
        if recovered.checkpoint is not None:
            took[decide(recovered.checkpoint, elsewhere)] += 1
            continue
        assert recovered.status is Status.OK, recovered
        try:
            work(root, port)
        except JournalHeld:
            continue
        took["finished"] += 1
        return took
    raise AssertionError(f"never finished: {took}")


def assert_right(root: Path, elsewhere: Elsewhere, took: Counter[str]) -> None:
    """Nothing happened twice; nothing is missing unless a person gave up; what lies here is whole."""
    happened = {name: elsewhere.counts[name] for name in EFFECTS}
    assert max(happened.values()) <= 1, happened
    if took["finished"]:
        assert set(happened.values()) == {1}, happened
        assert (root / "page").read_bytes() == ARTEFACT
        assert (root / "b").read_text() == "a\nb\n"
        assert (root / "index").read_text() == "index"
    else:
        assert took[ChoiceName.ABORT] == 1
        assert happened["notify"] == 1
    left = {path.name for path in root.glob("?*.tmp")} | {
        path.name for path in (root / ".tmp").glob("*.lock*")
    }
    assert not left


def test_a_program_killed_anywhere_goes_on_or_asks(journal_home: Path, strace: Sequence[str]) -> None:
    """Killed at any call after its journal opened, no effect happens twice and none is lost without a checkpoint."""
    with serving(Elsewhere()) as port:
        # Whatever Python writes when it meets a module for the first time is written now.
        assert start(journal_home / "compiling", port).returncode == 0
        below = [*strace, "-o", str(journal_home / "trace"), "-e", f"trace={','.join(CALLS)}"]
        ended = start(journal_home / "counted", port, below)
        assert ended.stderr.endswith("finished\n")
    points = points_after_opening(journal_home / "trace")
    assert {name for name, _ in points} >= {"write", "rename", "fsync", "connect", "sendto", "pwrite64"}
    tried = chosen(points)
    total: Counter[str] = Counter()
    for name, nth in tried:
        total += _killed_at(journal_home / f"{name}-{nth}", strace, name, nth)
    sys.stdout.write(f"killed at {len(tried)} of {len(points)} points: {_words(total)}\n")
    assert total["finished"] > 0
    assert total[ChoiceName.CONTINUE] + total[ChoiceName.ABORT] + total[ChoiceName.ROLLBACK] > 0


def _words(total: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(total.items()))


def _killed_at(root: Path, strace: Sequence[str], name: str, nth: int) -> Counter[str]:
    elsewhere = Elsewhere()
    with serving(elsewhere) as port:
        inject = ["-o", os.devnull, "-e", f"trace={name}", "-e", f"inject={name}:signal=KILL:when={nth}"]
        ended = start(root, port, [*strace, *inject])
        assert ended.returncode != 0, (name, nth, ended.stderr)
        if name != "execve":
            assert ended.returncode == -signal.SIGKILL, (name, nth, ended.stderr)
        took = carried_on(root, port, elsewhere)
        assert_right(root, elsewhere, took)
    shutil.rmtree(root)
    return took
