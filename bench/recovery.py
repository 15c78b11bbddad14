"""`python -m bench.recovery`: every point at which a program with a journal can be cut off, tried; and the page with it.

What is tried and what counts as right stands in tests/crash; here are only the full run and its figures. Some ten
minutes on two idle cores.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
TESTS: Final = (
    "test_journal_crash.py",
    "test_journal_rollback.py",
    "test_journal_power.py",
    "test_journal_faults.py",
)
MARK: Final = "figure: "
MADE: Final = "<!-- made by `make crash` from tests/crash; do not edit -->"
INTRODUCTION: Final = """
# Recovery, tried at every point

A program with twelve steps of all kinds (no, local and remote effects, with and without keys, queries and undoing, in
the program and in others, waiting, detached) and one that keeps its journal in a loop are killed with -9 at every write,
rename, link, sync, unlink, connect, send and fork after the journal opened, and at the exec of what they start (strace
counts the calls and injects the signal). Effects elsewhere are counted by an HTTP server, not by the program. A person
who looks at that server answers the checkpoints: what happened is counted as done or undone, what did not is run again.
Then the program is run to its end.
"""


def main() -> int:
    """Exit 1 if anything was not right."""
    parser = argparse.ArgumentParser(prog="python -m bench.recovery", description=__doc__)
    parser.add_argument("--write", type=Path, metavar="FILE", help="the page to write")
    asked = parser.parse_args()
    began = time.monotonic()
    said, is_right = _tried()
    figures = [line.removeprefix(MARK) for line in said.splitlines() if line.startswith(MARK)]
    for line in figures or [said]:
        sys.stdout.write(f"{line}\n")
    if not is_right:
        sys.stdout.write(said)
        return 1
    if asked.write is not None:
        asked.write.write_text(page(figures, time.monotonic() - began))
    return 0


def page(figures: list[str], seconds: float) -> str:
    """The figures with their date and commit."""
    day = time.strftime("%Y-%m-%d", time.gmtime())
    lines = [MADE, INTRODUCTION.rstrip(), "", f"{day}, commit {_commit()}, {seconds / 60:.0f} minutes.", ""]
    return "\n".join([*lines, *(f"- {line}" for line in figures), ""])


def _tried() -> tuple[str, bool]:
    argv = [sys.executable, "-m", "pytest", "-q", "-s", *(f"tests/crash/{name}" for name in TESTS)]
    environ = os.environ | {"WAKEFUL_ENDURANCE": "1"}
    ended = subprocess.run(argv, cwd=ROOT, env=environ, capture_output=True, text=True, check=False)
    return ended.stdout, ended.returncode == 0


def _commit() -> str:
    argv = ["git", "rev-parse", "--short", "HEAD"]
    return subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
