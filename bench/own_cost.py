"""Row "own cost": what the daemon takes while ten thousand sessions are idle. The limit is nothing at all."""

from typing import Final

from bench.crowd import Stage
from bench.figures import Figure
from bench.scale import SESSIONS
from wakeful.daemon.daemon import BOOKMARK_SECONDS

ROW: Final = "own cost"
CPU_PERCENT_MAX: Final = 0.2
RSS_MB_MAX: Final = 200.0


def measure(stage: Stage) -> list[Figure]:
    daemon = stage.crowd.daemon
    # Longer than its bookmarks wait: what it still owes the store is no idleness.
    daemon.rest(BOOKMARK_SECONDS + 1)
    percent = daemon.cpu_share(stage.scale.idle_seconds) * 100
    measured = (
        f"{SESSIONS:,} idle sessions, {stage.scale.alive:,} of them with a living process: "
        f"{percent:.3f} % of a core over {stage.scale.idle_seconds:.0f} s"
    )
    return [
        Figure(ROW, measured, percent, CPU_PERCENT_MAX, "% CPU"),
        Figure(ROW, "resident memory of the same daemon", daemon.rss_bytes() / 1e6, RSS_MB_MAX, "MB"),
    ]
