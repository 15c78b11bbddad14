"""The loop's heartbeat, and a thread that notices when it stops: stacks are written down, and systemd is told no more.

A stalled loop cannot be mended from inside. systemd ends and restarts a service that keeps silent; without it the
process goes on, for a loop that is late is better than none.
"""

import asyncio
import faulthandler
import logging
import os
import threading
import time
from pathlib import Path
from typing import Final

from wakeful.linux.notify import Notifier

BEAT_SECONDS: Final = 5.0
# The longest the loop was ever seen busy in one piece is a second, with ten thousand logs.
STALL_SECONDS: Final = 20.0
# A thread that is itself so late was stopped along with the loop, or starved: that is no stall.
LATE_FACTOR: Final = 2.0
FILES_KEPT: Final = 10

log = logging.getLogger("wakeful")


class Pulse:
    """Beats as long as its loop runs."""

    def __init__(
        self,
        logs: Path,
        notifier: Notifier,
        *,
        beat_seconds: float = BEAT_SECONDS,
        stall_seconds: float = STALL_SECONDS,
    ) -> None:
        self._logs = logs
        self._notifier = notifier
        # systemd advises half of what it waits; a third forgives one that is late.
        self._beat_seconds = min(beat_seconds, (notifier.watchdog_seconds or beat_seconds * 3) / 3)
        self._stall_seconds = stall_seconds
        self._beat_at = time.monotonic()
        self._ended = threading.Event()
        self._dumped = False

    async def run(self) -> None:
        """Tell that we are ready, and then that the loop runs, until cancelled."""
        self._notifier.tell("READY=1")
        watcher = threading.Thread(target=self._watch, name="wakeful-pulse", daemon=True)
        self._beat_at = time.monotonic()
        watcher.start()
        try:
            while True:
                self._beat()
                await asyncio.sleep(self._beat_seconds)
        finally:
            self._ended.set()
            self._notifier.tell("STOPPING=1")

    def _beat(self) -> None:
        self._beat_at = time.monotonic()
        if self._dumped:
            self._dumped = False
            log.warning("the loop runs again")
        self._notifier.tell("WATCHDOG=1")

    def _watch(self) -> None:
        began = time.monotonic()
        while not self._ended.wait(self._beat_seconds):
            now = time.monotonic()
            in_time = now - began <= self._beat_seconds * LATE_FACTOR
            began = now
            if in_time and not self._dumped and now - self._beat_at > self._stall_seconds:
                self._dumped = True
                self._dump(now - self._beat_at)

    def _dump(self, seconds: float) -> None:
        path = self._logs / f"stall-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}.txt"
        try:
            with os.fdopen(
                os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "w"
            ) as file:
                file.write(f"The loop has not run for {seconds:.0f} s.\n\n")
                file.flush()
                faulthandler.dump_traceback(file, all_threads=True)
            for old in sorted(self._logs.glob("stall-*.txt"))[:-FILES_KEPT]:
                old.unlink(missing_ok=True)
        except OSError as problem:
            log.warning("the loop is stalled, and its stacks cannot be written: %s", problem)
        else:
            log.warning("the loop is stalled; its stacks are in %s", path)
