"""Identity of a process, and the three answers of a probe. It does not read the system.

A pid alone is no identity: the kernel gives it to another process after the first one ends.
"""

from enum import StrEnum
from typing import Final

from msgspec import Struct

# Boot id of a process without a pid on this host, such as an ended one of a container: it counts as dead, even
# if another process has its pid.
FOREIGN_BOOT_ID: Final = "elsewhere"


class ProcessState(StrEnum):
    """A probe's three answers. One that failed, timed out or was refused is `unknown`, never `dead`."""

    ALIVE = "alive"
    DEAD = "dead"
    UNKNOWN = "unknown"


class Process(Struct, frozen=True, gc=False):
    """One process of one boot of one machine; `started` is field 22 of its stat file, in clock ticks."""

    pid: int
    started: int
    boot_id: str
    # The id of its machine. Empty in files of earlier versions, which knew one machine only: this one.
    machine: str = ""

    @property
    def is_foreign(self) -> bool:
        """Whether its pid belongs to another namespace: a boot of this host says nothing about it."""
        return self.boot_id.startswith(FOREIGN_BOOT_ID)


class ProcessGone(Exception):
    """A process that was asked about has ended, or cannot be seen."""
