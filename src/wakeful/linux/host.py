"""Facts about the host for healing: name, boot id, folders, free disk space, recent out-of-memory kills."""

import os
from pathlib import Path
from typing import Final

from wakeful.core.clock import Clock
from wakeful.linux.machine import this_machine

OOM_SECONDS: Final = 60.0
OOM_CHECK_SECONDS: Final = 20.0
_VMSTAT: Final = Path("/proc/vmstat")


class Disk:
    def __init__(self, folder: str) -> None:
        self.folder = folder

    def free_bytes(self) -> int | None:
        """Bytes that a user may still write there; 0 without free inodes, None if unknown."""
        try:
            disk = os.statvfs(self.folder)
        except OSError:
            return None
        has_no_inodes = disk.f_files > 0 and disk.f_favail == 0
        return 0 if has_no_inodes else disk.f_bavail * disk.f_frsize


class HostInfo:
    def __init__(self, host: str, clock: Clock, vmstat: Path = _VMSTAT) -> None:
        self.host = host
        machine = this_machine()
        self.boot_id, self.machine_id = machine.boot_id, machine.id
        self._clock = clock
        self._vmstat = vmstat
        self._oom_kills = _oom_kills(vmstat)
        self._checked_at = clock.now().awake
        self._oom_at: float | None = None

    async def run(self) -> None:
        """Check at an interval until cancelled: the kernel counts its kills and does not say when they were."""
        while True:
            self._check_oom_kills()
            await self._clock.sleep(OOM_CHECK_SECONDS)

    def exists(self, folder: str) -> bool:
        # The path comes from a log and may be too long or contain anything: it is a folder or not.
        return os.path.isdir(folder)  # noqa: PTH112 - pathlib raises for paths that are too long

    def oom_killed(self) -> bool:
        self._check_oom_kills()
        return self._oom_at is not None and self._clock.now().awake - self._oom_at <= OOM_SECONDS

    def _check_oom_kills(self) -> None:
        kills, now = _oom_kills(self._vmstat), self._clock.now().awake
        # After a long time without a check the kill may not be recent.
        if kills > self._oom_kills and now - self._checked_at <= OOM_SECONDS:
            self._oom_at = now
        self._oom_kills, self._checked_at = kills, now


def _oom_kills(vmstat: Path) -> int:
    """How many processes the kernel has ended for memory since boot; 0 if unknown."""
    try:
        rows = vmstat.read_text("ascii").splitlines()
    except OSError:
        return 0
    return next((int(row.split()[1]) for row in rows if row.startswith("oom_kill ")), 0)
