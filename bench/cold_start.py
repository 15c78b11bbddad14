"""Row "cold start": from nothing to a complete list of judged sessions, against a bare scan and a full read.

"First complete truth" is a look with every eye, a verdict for every session and the encoded list of all of them.
Only what changes no verdict is put off: what stands in a log beyond the newest few that no process holds.
"""

import asyncio
import gc
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Final

from bench.corpus import let_age, write_corpus
from bench.crowd import Stage
from bench.figures import Figure, milliseconds
from bench.peers import read_everything, scan_and_stat
from bench.room import Room
from bench.scale import Scale
from wakeful.config.paths import StatePaths
from wakeful.config.schema import Config
from wakeful.daemon.observer import PlainProcesses, SessionObserver
from wakeful.linux.clock import SystemClock
from wakeful.sessions.registry import Page, Query

ROW: Final = "cold start"
RECENT_EVERY: Final = 10


def measure(stage: Stage) -> list[Figure]:
    scale = stage.scale
    with Room() as room:
        logs = write_corpus(room.claude, scale.logs, scale.bytes_total)
        _check(scale.logs)
        size_bytes = sum(path.stat().st_size for path in logs)
        all_recent = _against_reading(room.claude, scale, size_bytes)
        let_age(logs, recent_every=RECENT_EVERY)
        _check(scale.logs // RECENT_EVERY)
        return [_against_scan(room.claude, scale), all_recent]


def _check(expected: int) -> None:
    """A list that leaves sessions out is quickly made. Also fills the caches for all."""
    _, page = first_truth()
    assert len(page.bodies) == expected, f"{len(page.bodies)} sessions instead of {expected}"


def _against_scan(tree: Path, scale: Scale) -> Figure:
    truth, scan = _cpu_medians((first_truth, lambda: scan_and_stat(tree)), scale.repeats)
    measured = (
        f"first complete truth {milliseconds(truth)} CPU, scandir + stat {milliseconds(scan)} "
        f"({scale.logs:,} logs, one in ten recent)"
    )
    return Figure(ROW, measured, truth / scan, 3.0)


def _against_reading(tree: Path, scale: Scale, size_bytes: int) -> Figure:
    truth, reading = _cpu_medians((first_truth, lambda: read_everything(tree)), scale.repeats)
    measured = (
        f"first complete truth {milliseconds(truth)} CPU, reading all with msgspec {milliseconds(reading)} "
        f"({scale.logs:,} logs, {size_bytes / 1e9:.1f} GB, all recent)"
    )
    # It was 0.1 until each session got a name that no other one has: half of the truth's time is that now.
    return Figure(ROW, measured, truth / reading, 0.25)


def first_truth() -> tuple[SessionObserver, Page]:
    """Look at everything from nothing, down to the bodies a door would send."""
    observer = SessionObserver(Config(), StatePaths.from_environ(os.environ), SystemClock(), PlainProcesses())
    asyncio.run(observer.scan())
    return observer, observer.registry.page(Query(), observer.clock.now())


def _cpu_medians(works: Sequence[Callable[[], object]], repeats: int) -> list[float]:
    """The median CPU seconds of each, taken in turns so that a busy minute meets all of them."""
    taken: list[list[float]] = [[] for _ in works]
    for _ in range(repeats):
        for work, seconds in zip(works, taken, strict=True):
            gc.collect()
            began = time.process_time()
            # Kept until the clock was read: what it built lives on in a daemon.
            kept = work()
            seconds.append(time.process_time() - began)
            del kept
    return [median(seconds) for seconds in taken]
