"""Row "own cost": what the daemon takes while ten thousand sessions are idle. The limit is nothing at all."""

import time
from typing import Final

from bench.crowd import Stage
from bench.figures import Figure
from bench.room import cpu_seconds
from bench.scale import SESSIONS

ROW: Final = "own cost"
CPU_PERCENT_MAX: Final = 0.2
RSS_MB_MAX: Final = 200.0


def measure(stage: Stage) -> list[Figure]:
    daemon = stage.crowd.daemon
    daemon.rest(1.0)
    began = cpu_seconds(daemon.pid)
    time.sleep(stage.scale.idle_seconds)
    percent = (cpu_seconds(daemon.pid) - began) / stage.scale.idle_seconds * 100
    measured = (
        f"{SESSIONS:,} idle sessions, {stage.scale.alive:,} of them with a living process: "
        f"{percent:.3f} % of a core over {stage.scale.idle_seconds:.0f} s"
    )
    return [
        Figure(ROW, measured, percent, CPU_PERCENT_MAX, "% CPU"),
        Figure(ROW, "resident memory of the same daemon", daemon.rss_bytes() / 1e6, RSS_MB_MAX, "MB"),
    ]
