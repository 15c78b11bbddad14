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


def measure(stage: Stage) -> list[Figure]:
    rounds = stage.scale.repeats + 2
    with Room() as room:
        logs = write_corpus(room.claude, FEWER, FEWER * LOG_BYTES)
        with room.daemon() as daemon:
            daemon.rest()
            among_fewer = _cost_seconds(daemon, logs, rounds)
    crowd = stage.crowd
    among_all = _cost_seconds(crowd.daemon, crowd.logs[stage.scale.alive :] or crowd.logs, rounds)
    stat = _stat_seconds(crowd.logs, rounds)
    measured = (
        f"{CHANGED} grown logs noticed, judged and stored: {milliseconds(among_all)} CPU among {SESSIONS:,}, "
        f"{milliseconds(among_fewer)} among {FEWER:,}; stat of all {milliseconds(stat)} per tick"
    )
    return [Figure(ROW, measured, among_all / among_fewer, 1.0)]


def _cost_seconds(daemon: Daemon, logs: Sequence[Path], rounds: int) -> float:
    """The daemon's CPU for a hundred logs that grew, others each time."""
    chosen = random.Random(0).sample(logs, CHANGED * rounds)
    taken = []
    for number in range(rounds):
        began = cpu_seconds(daemon.pid)
        for path in chosen[number * CHANGED : (number + 1) * CHANGED]:
            next_turn(path)
        daemon.rest()
        taken.append(cpu_seconds(daemon.pid) - began)
    return median(taken)


def _stat_seconds(logs: Sequence[Path], rounds: int) -> float:
    taken = []
    for _ in range(rounds):
        began = time.process_time()
        stat_all(logs)
        taken.append(time.process_time() - began)
    return median(taken)
