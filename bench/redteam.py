"""`python -m bench.redteam`: every attack on Wakeful in its long form, counted for each way in; and the page with it.

The attacks are tests (tests/redteam); `make test` runs their short form. Here are only the long run and its table.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
MADE: Final = "<!-- made by `make redteam`; do not edit -->"
# The files that take longest start first: they have few tests each, and pytest-xdist would start them last.
LONGEST: Final = (
    "test_floods.py",
    "test_bytes.py",
    "test_redaction.py",
    "test_http.py",
    "test_environment.py",
)
INTRODUCTION: Final = """
# Attacks tried

Each line is a way in, with how often it was tried; what did not hold is named. An attack has failed when nothing was
leaked, signalled, started, stopped or believed because of it, and the daemon still answers.
"""


def main() -> int:
    """Exit 1 if an attack got through."""
    parser = argparse.ArgumentParser(prog="python -m bench.redteam", description=__doc__)
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the table as a page, too")
    asked = parser.parse_args()
    began = time.monotonic()
    lines, said, is_right = _tried()
    rows, figures = table(lines)
    shown = "\n".join([*rows, "", *figures])
    sys.stdout.write(f"{shown}\n")
    sys.stdout.write(said)
    if not is_right:
        return 1
    if asked.write is not None:
        asked.write.write_text(page(shown, time.monotonic() - began))
    return 0


def table(lines: Iterable[Mapping[str, Any]]) -> tuple[list[str], list[str]]:
    """The ways in, their sum last, and the figures that are not the count of a way in; both as Markdown."""
    tried: dict[str, int] = {}
    held: dict[str, int] = {}
    figures: dict[str, str] = {}
    for line in lines:
        if "figure" in line:
            figures[line["figure"]] = line["value"]
            continue
        way_in = line["way_in"]
        tried[way_in] = tried.get(way_in, 0) + line["tried"]
        held[way_in] = held.get(way_in, 0) + line["held"]
    rows = [_row(way_in, count, held[way_in]) for way_in, count in sorted(tried.items())]
    total = _row("**all**", sum(tried.values()), sum(held.values()))
    counted = {f"kinds of secrets that leak: {way_in.removeprefix('redaction: ')}" for way_in in tried}
    others = [f"- {what}: {value}" for what, value in sorted(figures.items()) if what not in counted]
    return [*rows, total], others


def page(shown: str, seconds: float) -> str:
    """The table with its date and commit."""
    day = time.strftime("%Y-%m-%d", time.gmtime())
    when = f"{day}, commit {_commit()}, {seconds:.0f} s."
    return f"{MADE}\n{INTRODUCTION.rstrip()}\n\n{when}\n\n{shown}\n"


def _row(way_in: str, tried: int, held: int) -> str:
    failed = f", {tried - held:,} not held" if tried != held else ""
    return f"- {way_in}: {tried:,}{failed}"


def files(folder: Path = ROOT / "tests/redteam") -> list[str]:
    """The files of attacks in the order in which they start."""
    places = {name: place for place, name in enumerate(LONGEST)}
    found = sorted(folder.glob("test_*.py"), key=lambda path: (places.get(path.name, len(places)), path.name))
    return [str(path) for path in found]


def _tried() -> tuple[list[dict[str, Any]], str, bool]:
    spread = ("-n", "2", "--dist", "loadfile", "--no-loadscope-reorder")
    argv = [sys.executable, "-m", "pytest", "-q", "--durations=15", *spread, *files()]
    with tempfile.TemporaryDirectory() as folder:
        counts = Path(folder) / "counts.jsonl"
        counts.touch()
        environ = os.environ | {"WAKEFUL_REDTEAM": "full", "WAKEFUL_REDTEAM_COUNTS": str(counts)}
        ended = subprocess.run(argv, cwd=ROOT, env=environ, capture_output=True, text=True, check=False)
        lines = [json.loads(line) for line in counts.read_text().splitlines()]
    return lines, ended.stdout, ended.returncode == 0


def _commit() -> str:
    argv = ["git", "rev-parse", "--short", "HEAD"]
    return subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
