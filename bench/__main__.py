"""`python -m bench`: every row of speed, with the peer or the limit run beside Wakeful in the same run.

Exits 1 if a figure is outside the gate. Nothing here measures; a row is a module with `ROW` and `measure`.
"""

import argparse
import os
import platform
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from types import ModuleType
from typing import Final

from bench import (
    changed_logs,
    cli_start,
    cold_start,
    hook_call,
    http_list,
    hub,
    own_cost,
    process_death,
    replay_speed,
    store_rows,
    tmux_panes,
)
from bench.crowd import Stage
from bench.figures import GATE_SLACK, Figure, markdown, table
from bench.scale import FULL, QUICK, Scale

ROWS: Final[Sequence[ModuleType]] = (
    cold_start,
    store_rows,
    hook_call,
    tmux_panes,
    hub,
    process_death,
    replay_speed,
    # From here on ten thousand sessions and their processes are around.
    changed_logs,
    http_list,
    cli_start,
    own_cost,
)
_PAGE: Final = """<!-- made by `make bench BENCH_ARGS="--write docs/speed.md"`; do not edit -->

# Speed

Measured on {date} at commit `{commit}` ({cores} shared cores, Python {python}, Linux {kernel}), {run}. Read the
ratios, not the times: everything in a row ran in the same minute on the same machine. "Reached" means the figure
to reach itself; the gate in CI fails beyond {slack} times of it.

{table}

What Wakeful is measured against is written out in `bench/peers.py`. CPU is that of every process involved.
"""


def main(arguments: Sequence[str]) -> int:
    options = _options(arguments)
    scale = QUICK if options.quick else FULL
    rows = [row for row in ROWS if options.only in (None, row.ROW)]
    if options.quick and options.only is None:
        # Asked of 500 MB of recordings: over a tenth of it, made up, starting weighs as much as judging.
        rows.remove(replay_speed)
    figures = _measure(rows, scale)
    if options.write is not None:
        options.write.write_text(_page(figures, "a quick run" if options.quick else "a full run"))
    failed = [each for each in figures if not each.passes]
    print(f"{len(figures) - len(failed)} of {len(figures)} figures inside the gate ({GATE_SLACK} x target)")
    return 1 if failed else 0


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Print every ratio.")
    parser.add_argument("--quick", action="store_true", help="smaller trees, fewer repeats: two minutes")
    parser.add_argument("--only", choices=[row.ROW for row in ROWS], metavar="ROW", help="measure one row")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the figures as a page, too")
    return parser.parse_args(arguments)


def _measure(rows: Sequence[ModuleType], scale: Scale) -> list[Figure]:
    figures: list[Figure] = []
    with closing(Stage(scale)) as stage:
        for row in rows:
            began = time.monotonic()
            measured: list[Figure] = row.measure(stage)
            print(f"{table(measured)}  ({time.monotonic() - began:.0f} s)", flush=True)
            figures += measured
    return figures


def _page(figures: Sequence[Figure], run: str) -> str:
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], check=True, capture_output=True, text=True
    )
    return _PAGE.format(
        date=time.strftime("%Y-%m-%d", time.gmtime()),
        commit=commit.stdout.strip(),
        cores=os.cpu_count(),
        python=platform.python_version(),
        kernel=platform.release().partition("-")[0],
        run=run,
        slack=GATE_SLACK,
        table=markdown(figures),
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
