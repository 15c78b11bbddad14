"""`python -m bench`: every row of speed.md, with the peer or the limit beside Wakeful in the same run.

Exits 1 if a figure is outside the gate. Nothing here measures; rows are modules with `ROW` and `measure`.
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
    http_list,
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
    tmux_panes,
    process_death,
    replay_speed,
    # From here on the crowd stands in the process table.
    changed_logs,
    http_list,
    cli_start,
    own_cost,
)


def main(arguments: Sequence[str]) -> int:
    options = _options(arguments)
    scale = QUICK if options.quick else FULL
    rows = [row for row in ROWS if options.only in (None, row.ROW)]
    figures = _measure(rows, scale)
    if options.write is not None:
        options.write.write_text(_page(figures, scale))
    failed = [each for each in figures if not each.passes]
    print(f"{len(figures) - len(failed)} of {len(figures)} figures inside the gate ({GATE_SLACK} x target)")
    return 1 if failed else 0


def _measure(rows: Sequence[ModuleType], scale: Scale) -> list[Figure]:
    figures: list[Figure] = []
    with closing(Stage(scale)) as stage:
        for row in rows:
            began = time.monotonic()
            measured: list[Figure] = row.measure(stage)
            print(table(measured), f"  ({time.monotonic() - began:.0f} s)", flush=True)
            figures += measured
    return figures


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller trees and fewer repeats: two minutes")
    parser.add_argument("--only", choices=[row.ROW for row in ROWS], help="measure one row")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the figures as a page")
    return parser.parse_args(arguments)


def _page(figures: Sequence[Figure], scale: Scale) -> str:
    return "\n".join((markdown(figures), ""))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
