"""kill -9 at a random moment, then its files damaged at random: nothing happens twice without approval.

A git checkout or a restored backup puts old files back, each from another moment; files get lost, are cut off, or are
those of another session. Of state, events and `gaia.db` one at least still knows what happened. `make crash` tries 200
kills with a seed of its own, which it prints; `WAKEFUL_SEED` repeats it.
"""

import os
import random
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from crash.elsewhere import Elsewhere, serving, starting
from crash.journal_workload import HELD, asked, work
from crash.test_journal_crash import PLAIN, assert_right, carried_on
from wakeful.journal.api import Journal, StateLost
from wakeful.journal.model import StateOutdated

ENDURANCE = bool(os.environ.get("WAKEFUL_ENDURANCE"))
KILLS = 200 if ENDURANCE else 9
# From its first state to its end, with room on a busy machine.
RUN_SECONDS_MAX = 0.6
# The commands that ask the other side stand in the state alone: without it a person is asked.
HELD_WITHOUT_STATE = HELD | {"publish"}
STATE, EVENTS, DATABASE, WAL = ".copilot/session_state.json", "events.ndjson", "gaia.db", "gaia.db-wal"
OLDER = ((STATE,), (STATE, EVENTS), (STATE, DATABASE), (EVENTS, DATABASE), (EVENTS,), (DATABASE,))
CUT_OFF, CUT_OFF_TOO = "the end of its events cut off", "an older state, the end of its events cut off"
LOST = {"its state": (STATE,), "its events": (EVENTS,), "its database": (DATABASE, WAL)}
EARLIER, ANOTHER = "the state of an earlier session", "the state of another journal"
DAMAGE: tuple[tuple[str, ...] | str, ...] = (*OLDER, CUT_OFF, CUT_OFF_TOO, *LOST, EARLIER, ANOTHER)

Version = dict[str, bytes]


class SlowElsewhere(Elsewhere):
    """The report comes a little later: programs are killed in between."""

    def take(self, method: str, name: str, key: str) -> int:
        answer = super().take(method, name, key)
        if method == "POST":
            time.sleep(0.05)
        return answer


def test_damaged_files_repeat_nothing(journal_home: Path) -> None:
    """Killed at random, then one or two of three files older, lost, cut off or another session's: every effect once."""
    seed = int(os.environ.get("WAKEFUL_SEED") or (time.time_ns() % 1_000_000 if ENDURANCE else 17))
    chance = random.Random(seed)
    total: Counter[str] = Counter()
    damage = [DAMAGE[number % len(DAMAGE)] for number in range(KILLS)]
    for number, each in enumerate(damage if ENDURANCE else chance.sample(DAMAGE, KILLS)):
        total += _killed_and_damaged(journal_home / str(number), each, chance)
    sys.stdout.write(
        f"\nfigure: a program killed {KILLS} times at random moments and its files damaged (seed {seed}):"
        f" {total['finished']} finished, effects repeated without approval: 0; {total['refused']} times refused until the"
        f" right state was back, {total['asked']} questions to a person\n"
    )
    assert total["finished"] == KILLS
    assert total["refused"] > 0


def _killed_and_damaged(root: Path, damage: tuple[str, ...] | str, chance: random.Random) -> Counter[str]:
    took: Counter[str] = Counter()
    elsewhere = SlowElsewhere()
    with serving(elsewhere) as port:
        foreign = _other_state(root, damage)
        versions = _killed(root, port, chance)
        if isinstance(damage, tuple):
            for name in damage:
                _put(root, name, chance.choice(versions), chance)
        elif damage in LOST:
            kept = (root / STATE).read_bytes()
            for name in LOST[damage]:
                (root / name).unlink(missing_ok=True)
            if not (root / STATE).exists():
                took["refused"] += _is_refused(root, port, elsewhere, kept)
        elif damage in {EARLIER, ANOTHER}:
            kept = (root / STATE).read_bytes()
            (root / STATE).write_bytes(foreign)
            took["refused"] += _is_refused(root, port, elsewhere, kept)
        else:
            told = (root / EVENTS).read_bytes()
            (root / EVENTS).write_bytes(told[: chance.randrange(len(told))])
            if damage == CUT_OFF_TOO:
                _put(root, STATE, chance.choice(versions), chance)
        took += carried_on(root, port, elsewhere, PLAIN, HELD_WITHOUT_STATE)
        assert_right(root, elsewhere, PLAIN)
    took["asked"] += sum(took[choice] for choice in ("continue", "done", "rollback"))
    shutil.rmtree(root, ignore_errors=True)
    return took


def _other_state(root: Path, damage: tuple[str, ...] | str) -> bytes:
    """The state of a session that is over: of this journal, whose next one has begun, or of another one."""
    if damage not in {EARLIER, ANOTHER}:
        return b""
    other = root if damage == EARLIER else root.with_name(f"{root.name}-other")
    with Journal(other, kind="batch") as journal, journal.step("build", effects="none"):
        pass
    found = (other / STATE).read_bytes()
    Journal(other, kind="batch", fresh=True).close()
    return found


def _is_refused(root: Path, port: int, elsewhere: Elsewhere, kept: bytes) -> bool:
    """Without its own state the program does nothing, if its session has begun a step; then its state is put back."""
    before = elsewhere.counts.copy()
    is_begun = b"action.started" in (root / EVENTS).read_bytes().rpartition(b"session.start")[2]
    if is_begun:
        with pytest.raises((StateLost, StateOutdated)):
            work(root, port)
        # The one step that runs in a process of its own may end after its program.
        assert set(elsewhere.counts - before) <= {"deploy"}
    (root / STATE).write_bytes(kept)
    return is_begun


def _put(root: Path, name: str, version: Version, chance: random.Random) -> None:
    (root / name).write_bytes(version[name])
    if name == DATABASE:
        # Some put back the file alone, some all that belongs to it.
        (root / f"{DATABASE}-shm").unlink(missing_ok=True)
        if chance.random() < 0.5:
            (root / WAL).write_bytes(version.get(WAL, b""))


def _killed(root: Path, port: int, chance: random.Random) -> list[Version]:
    """Run the program, kill it at a random moment after its first state; every version its files had."""
    versions: list[Version] = []
    over = threading.Event()
    keeping = threading.Thread(target=_keep_versions, args=(root, versions, over))
    argv, environ = starting(root, port)
    program = subprocess.Popen(argv, env=environ, stderr=subprocess.DEVNULL)
    keeping.start()
    deadline = time.monotonic() + 60
    while not versions and program.poll() is None and time.monotonic() < deadline:
        time.sleep(0.002)
    try:
        program.wait(chance.uniform(0.0, RUN_SECONDS_MAX))
    except subprocess.TimeoutExpired:
        program.kill()
        program.wait()
    over.set()
    keeping.join()
    # One request after the other: what it sent before its end is counted by now.
    asked(port, "GET", "anything")
    assert versions
    return versions


def _keep_versions(root: Path, versions: list[Version], over: threading.Event) -> None:
    deadline = time.monotonic() + 60
    while not over.is_set() and time.monotonic() < deadline:
        seen: Version = {}
        for name in (STATE, EVENTS, DATABASE, WAL):
            with suppress(FileNotFoundError):
                seen[name] = (root / name).read_bytes()
        if {STATE, EVENTS, DATABASE} <= seen.keys() and (not versions or versions[-1] != seen):
            versions.append(seen)
        over.wait(0.004)
