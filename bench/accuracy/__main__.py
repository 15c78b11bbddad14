"""`python -m bench.accuracy`: plant, watch, count, and print the page. Exits 1 if a figure is not reached."""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from bench.accuracy.faults import FAULTS, HEALTHY, POLICY, plant_all
from bench.accuracy.measure import Recall, episodes, recall
from bench.accuracy.page import OURS, Measured, missed, page
from bench.accuracy.peers import PEERS
from bench.accuracy.recordings import READERS, SMALL, Recording, load
from bench.accuracy.watchers import Wakeful, Watcher

ROOT: Final = Path(__file__).parents[2]
SEEDS: Final = 10
SEEDS_QUICK: Final = 2
WATCHERS: Final[Mapping[str, Callable[[], Watcher]]] = {OURS: partial(Wakeful, POLICY), **PEERS}


def main(arguments: Sequence[str]) -> int:
    options = _options(arguments)
    measured = _measure(load(options.corpus), SEEDS_QUICK if options.quick else options.seeds)
    text = page(measured)
    print(text)
    if options.write is not None:
        options.write.write_text(text)
    short = missed(measured)
    print(*(short or ["everything asked for is reached"]), sep="\n", file=sys.stderr)
    return 1 if short else 0


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.accuracy", description=__doc__)
    corpus = Path(os.environ.get("WAKEFUL_CORPUS", SMALL))
    parser.add_argument("--corpus", type=Path, default=corpus, help="recordings; default: $WAKEFUL_CORPUS")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="onsets per kind and recording")
    parser.add_argument("--quick", action="store_true", help=f"{SEEDS_QUICK} onsets per kind and recording")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the page")
    return parser.parse_args(arguments)


def _measure(recordings: Sequence[Recording], seeds: int) -> Measured:
    faults = _recalls(list(FAULTS), recordings, seeds)
    healthy = _recalls(list(HEALTHY), recordings, seeds)
    by_dialect = {dialect: sum(each.dialect == dialect for each in recordings) for dialect in READERS}
    planted = sum(len(each.outcomes) for each in faults[OURS])
    waits = sum(len(each.outcomes) for each in healthy[OURS])
    return Measured(
        headline=_headline(by_dialect, planted, waits),
        recordings=by_dialect,
        faults=faults,
        healthy=healthy,
        episodes={
            name: [told for each in recordings for told in episodes(each, watcher())]
            for name, watcher in WATCHERS.items()
        },
    )


def _recalls(kinds: Sequence[str], recordings: Sequence[Recording], seeds: int) -> dict[str, list[Recall]]:
    """Every watcher follows the very same planted sessions."""
    table: dict[str, list[Recall]] = {name: [] for name in WATCHERS}
    for kind in kinds:
        planted = plant_all(kind, recordings, seeds)
        if planted:
            for name, watcher in WATCHERS.items():
                table[name].append(recall(kind, planted, watcher))
    return table


def _headline(by_dialect: Mapping[str, int], planted: int, waits: int) -> str:
    recorded = ", ".join(f"{count} of {dialect}" for dialect, count in by_dialect.items())
    day = time.strftime("%Y-%m-%d", time.gmtime())
    return (
        f"{day}, commit {_commit()}. {sum(by_dialect.values())} recordings ({recorded}), {planted:,} planted faults,"
        f" {waits:,} planted healthy waits; every rule watches the same ones."
    )


def _commit() -> str:
    argv = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    said = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    return said.stdout.strip() or "unknown"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
