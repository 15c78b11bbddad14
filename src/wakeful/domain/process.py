"""Which process is meant, and what a probe may answer about it. No reading of the system here.

A bare pid is never an identity: the kernel hands it to somebody else as soon as its owner is gone.
"""

from enum import StrEnum

from msgspec import Struct


class Sight(StrEnum):
    """A probe's three answers. One that failed, timed out or was refused is `unknown`, never `dead`."""

    ALIVE = "alive"
    DEAD = "dead"
    UNKNOWN = "unknown"


class Process(Struct, frozen=True, gc=False):
    """One process of one boot of this host; `started` is field 22 of its stat file, in clock ticks."""

    pid: int
    started: int
    boot_id: str


class ProcessGone(Exception):
    """A process that was asked about has ended, or cannot be seen."""
