"""The host as the gateway sees and keeps it: figures, the processes of its sessions, its own memory and files.

Implements ports.host.Host. What is removed lies in two places of ours and is a regular file that nobody touched for
long; nothing is followed out of them.
"""

import asyncio
import ctypes
import gc
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

from wakeful.core.clock import Clock
from wakeful.core.managed_session import SESSION_VARIABLE
from wakeful.core.process import Process
from wakeful.gateway.host_figures import HostFigures, taken_by
from wakeful.gateway.rules.host_watch import HostReading
from wakeful.gateway.rules.messages import ConversationKey
from wakeful.gateway.rules.self_heal import Hog
from wakeful.linux import proc

TEMPORARY_SECONDS_MAX: Final = 86_400.0
ROTATED_SECONDS_MAX: Final = 3 * 86_400.0


class _Busy(Struct):
    """What a process had taken of the processors when it was last looked at, and since when it takes too much."""

    cpu_seconds: float
    looked_at: float
    since: float | None = None


class GatewayHost:
    """`temporary` is the gateway's own folder of temporary files, `log` its log, rotated as `log.1` and so on."""

    def __init__(self, clock: Clock, figures: HostFigures, *, temporary: Path, log: Path) -> None:
        self._clock = clock
        self._figures = figures
        self._temporary = temporary
        self._log = log
        self._busy: dict[Process, _Busy] = {}

    async def reading(self) -> HostReading:
        return await self._figures.reading()

    async def hogs(self, sessions: Mapping[str, ConversationKey], cpu_percent_max: float) -> tuple[Hog, ...]:
        now = self._clock.now().awake
        found = await asyncio.to_thread(_providers, tuple(sessions))
        self._busy = {each: busy for each, busy in self._busy.items() if each in found.values()}
        looked = (
            self._looked_at(sessions[name], process, now, cpu_percent_max) for name, process in found.items()
        )
        return tuple(each for each in looked if each is not None)

    async def collect_memory(self) -> None:
        gc.collect()
        # What was freed goes back to the system; other C libraries do that by themselves or not at all.
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)

    async def clean_files(self) -> int:
        return await asyncio.to_thread(self._clean, self._clock.now().wall)

    def _looked_at(
        self, key: ConversationKey, process: Process, now: float, cpu_percent_max: float
    ) -> Hog | None:
        taken = taken_by(process.pid)
        if taken is None:
            return None
        before = self._busy.get(process) or _Busy(taken.cpu_seconds, now)
        elapsed_seconds = now - before.looked_at
        cpu_percent = (
            100 * (taken.cpu_seconds - before.cpu_seconds) / elapsed_seconds if elapsed_seconds > 0 else 0.0
        )
        since = (before.since or before.looked_at) if cpu_percent > cpu_percent_max else None
        self._busy[process] = _Busy(taken.cpu_seconds, now, since)
        busy_seconds = 0.0 if since is None else now - since
        return Hog(key, f"pid {process.pid}", cpu_percent, busy_seconds, taken.memory_percent)

    def _clean(self, now_wall: float) -> int:
        old = [
            *_older(self._temporary, "*", now_wall - TEMPORARY_SECONDS_MAX),
            *_older(self._log.parent, f"{self._log.name}.*", now_wall - ROTATED_SECONDS_MAX),
        ]
        removed = 0
        for path in old:
            try:
                path.unlink()
            except OSError:
                # Somebody else was faster, or it is not ours to remove: not a reason to leave the others.
                continue
            removed += 1
        return removed


def _providers(sessions: tuple[str, ...]) -> dict[str, Process]:
    """The provider's own process of each session: it carries the session's mark, and its parent does not."""
    found = {}
    for session_id in sessions:
        carriers = proc.carriers(SESSION_VARIABLE, session_id, os.getuid())
        pids = {each.pid for each in carriers}
        tops = [
            each for each in carriers if (parent := proc.parent_of(each)) is None or parent.pid not in pids
        ]
        if tops:
            # An orphaned tool has no marked parent either; the provider was there before any tool.
            found[session_id] = min(tops, key=lambda each: each.started)
    return found


def _older(folder: Path, pattern: str, wall: float) -> Iterator[Path]:
    """Regular files directly in it that were not written to since then."""
    for path in folder.glob(pattern) if folder.is_dir() and not folder.is_symlink() else ():
        try:
            seen = path.lstat()
        except OSError:
            continue
        if stat.S_ISREG(seen.st_mode) and seen.st_mtime < wall:
            yield path
