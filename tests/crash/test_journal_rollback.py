"""kill -9 at a random moment, then an older state file in the place of the newest: nothing happens twice.

A git checkout or a restored backup puts an old state back. Events and `gaia.db` know what happened since; sometimes the
events are put back as well, and then the database alone knows. `make crash` tries 200 kills.
"""

import os
import random
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

from crash.elsewhere import Elsewhere, serving, starting
from crash.journal_workload import EFFECTS, HELD
from crash.test_journal_crash import PLAIN, assert_right, carried_on

KILLS = 200 if os.environ.get("WAKEFUL_ENDURANCE") else 8
# From the first import to the end, with room on a busy machine.
RUN_SECONDS_MAX = 2.0
# The commands that ask the other side stand in the state alone: without it a person is asked.
HELD_WITHOUT_STATE = HELD | {"publish"}

Versions = list[dict[str, bytes]]


def test_an_older_state_repeats_nothing(journal_home: Path) -> None:
    """Killed at random with its state, or state and events, rolled back at random: every effect happens once."""
    chance = random.Random(17)
    total: Counter[str] = Counter()
    for number in range(KILLS):
        total += _killed_and_rolled_back(journal_home / str(number), chance)
    rolled = (
        f"{total['rolled back']} with an older state, {total['events too']} of them with older events too"
    )
    sys.stdout.write(
        f"\nfigure: a program killed {KILLS} times at random moments, {rolled}: {total['finished']} finished,"
        f" effects repeated without approval: 0; {total['asked']} questions to a person\n"
    )
    assert total["finished"] == KILLS
    assert total["rolled back"] > KILLS // 4


def _killed_and_rolled_back(root: Path, chance: random.Random) -> Counter[str]:
    took: Counter[str] = Counter()
    elsewhere = Elsewhere()
    with serving(elsewhere) as port:
        versions = _killed(root, port, chance)
        if versions:
            older = chance.choice(versions)
            names = list(older) if chance.random() < 0.3 else [".copilot/session_state.json"]
            for name in names:
                (root / name).write_bytes(older[name])
            took["rolled back"] += 1
            took["events too"] += len(names) > 1
        if (root / ".copilot" / "session_state.json").exists():
            took += carried_on(root, port, elsewhere, PLAIN, HELD_WITHOUT_STATE)
            assert_right(root, elsewhere, PLAIN)
        else:
            # Killed before anything was written: nothing happened either.
            assert not any(elsewhere.counts[name] for name in EFFECTS)
            took["finished"] += 1
    took["asked"] += sum(took[choice] for choice in ("continue", "done", "rollback"))
    shutil.rmtree(root, ignore_errors=True)
    return took


def _killed(root: Path, port: int, chance: random.Random) -> Versions:
    """Run the program, kill it at a random moment; every state it had before, with the events of that time."""
    versions: Versions = []
    over = threading.Event()
    keeping = threading.Thread(target=_keep_versions, args=(root, versions, over))
    keeping.start()
    argv, environ = starting(root, port)
    program = subprocess.Popen(argv, env=environ, stderr=subprocess.DEVNULL)
    try:
        program.wait(chance.uniform(0.0, RUN_SECONDS_MAX))
    except subprocess.TimeoutExpired:
        program.kill()
        program.wait()
    over.set()
    keeping.join()
    return versions


def _keep_versions(root: Path, versions: Versions, over: threading.Event) -> None:
    state, events = root / ".copilot" / "session_state.json", root / "events.ndjson"
    deadline = time.monotonic() + 60
    while not over.is_set() and time.monotonic() < deadline:
        try:
            # The events after the state: both together are what a backup finds.
            seen = {str(state.relative_to(root)): state.read_bytes(), events.name: events.read_bytes()}
        except FileNotFoundError:
            seen = {}
        if seen and (not versions or versions[-1] != seen):
            versions.append(seen)
        over.wait(0.005)
