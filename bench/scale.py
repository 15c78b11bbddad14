"""How much is measured: the full run and the quick one. Numbers only."""

from typing import Final

from msgspec import Struct


class Scale(Struct, frozen=True):
    """Counts and sizes of one run."""

    logs: int
    bytes_total: int
    repeats: int
    kills: int
    alive: int
    idle_seconds: float
    starts: int
    replay_bytes: int


FULL: Final = Scale(
    logs=10_000,
    bytes_total=2_000_000_000,
    repeats=5,
    kills=120,
    alive=10_000,
    idle_seconds=30.0,
    starts=60,
    replay_bytes=500_000_000,
)
QUICK: Final = Scale(
    logs=5_000,
    bytes_total=1_000_000_000,
    repeats=3,
    kills=40,
    alive=10_000,
    idle_seconds=30.0,
    starts=20,
    replay_bytes=50_000_000,
)
# Rows whose target names a number of sessions keep to it even in a quick run.
SESSIONS: Final = 10_000
TMUX_SESSIONS: Final = 200
