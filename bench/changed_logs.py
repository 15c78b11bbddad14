"""Row "100 of 10,000": what it costs the daemon to notice and judge a hundred logs that grew.

The limit is the poller's stat of every log. That cost follows new bytes and not the number of logs is shown by
the same hundred among a tenth as many.
"""

import random
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Final

from bench.corpus import next_turn, write_corpus
from bench.crowd import LOG_BYTES, Stage
from bench.figures import Figure, milliseconds
from bench.peers import stat_all
from bench.room import Daemon, Room, cpu_seconds
from bench.scale import SESSIONS

ROW: Final = "100 of 10,000"
CHANGED: Final = 100
FEWER: Final = SESSIONS // 10
# About one: two medians of the same work differ by this much on a shared machine.
RATIO_MAX: Final = 1.1


def measure(stage: Stage) -> list[Figure]:
    crowd, rounds = stage.crowd, stage.scale.repeats + 4
    with Room() as room:
        fewer = write_corpus(room.claude, FEWER, FEWER * LOG_BYTES)
        with room.daemon() as daemon:
            daemon.rest()
            # In turns, so that a busy minute meets both.
            pairs = [
                (_cost_seconds(crowd.daemon, many), _cost_seconds(daemon, few))
                for many, few in zip(_hundreds(crowd.logs, rounds), _hundreds(fewer, rounds), strict=True)
            ]
    among_all, among_fewer = (median(each) for each in zip(*pairs, strict=True))
    stat = median(_stat_seconds(crowd.logs) for _ in range(rounds))
    measured = (
        f"{CHANGED} grown logs noticed, judged and stored: {milliseconds(among_all)} CPU among {SESSIONS:,}, "
        f"{milliseconds(among_fewer)} among {FEWER:,}; stat of all {milliseconds(stat)} at every tick"
    )
    return [Figure(ROW, measured, among_all / among_fewer, RATIO_MAX)]


def _hundreds(logs: Sequence[Path], rounds: int) -> list[list[Path]]:
    """Other logs each time; one that grew before is read already."""
    chosen = random.Random(0).sample(logs, CHANGED * rounds)
    return [chosen[at : at + CHANGED] for at in range(0, len(chosen), CHANGED)]


def _cost_seconds(daemon: Daemon, logs: Sequence[Path]) -> float:
    """The daemon's CPU from the first byte to rest."""
    daemon.rest()
    began = cpu_seconds(daemon.pid)
    for path in logs:
        next_turn(path)
    daemon.rest()
    return cpu_seconds(daemon.pid) - began


def _stat_seconds(logs: Sequence[Path]) -> float:
    began = time.process_time()
    stat_all(logs)
    return time.process_time() - began
