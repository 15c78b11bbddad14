"""Keeps a child program running beside the daemon, and restarts it with growing pauses.

The child ends with the daemon, however the daemon ends: its standard input is a pipe that only the daemon
holds, and end of file is the order to stop. Its output goes to its own log.
"""

import asyncio
import logging
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from wakeful.core.redaction import redact
from wakeful.core.text import plain
from wakeful.linux.child_environment import own_environ
from wakeful.linux.log_files import shorten

FIRST_PAUSE_SECONDS: Final = 1.0
PAUSE_SECONDS_MAX: Final = 60.0
# A child that ran this long is stable: its next end is a new problem.
STABLE_SECONDS: Final = 60.0
STOP_SECONDS_MAX: Final = 10.0
LOG_SECONDS: Final = 3600.0
_LOG_TAIL_BYTES: Final = 2048
_LOG_LINE_CHARS_MAX: Final = 200

log = logging.getLogger("wakeful")


class ChildSupervisor:
    """One child program. `status_line` describes its state."""

    def __init__(
        self, name: str, argv: Sequence[str], log: Path, environ: Mapping[str, str] | None = None
    ) -> None:
        self._name = name
        self._argv = argv
        self._log = log
        self.start_message = f"{name}: kept running beside it; its log is {log}"
        self._environ = environ
        self.status_line = f"{name}: not started yet"

    async def run(self) -> None:
        """Keep it running until cancelled; then end it and wait for its exit."""
        loop = asyncio.get_running_loop()
        pause_seconds = FIRST_PAUSE_SECONDS
        while True:
            began = loop.time()
            code = await self._run_once()
            if loop.time() - began >= STABLE_SECONDS:
                pause_seconds = FIRST_PAUSE_SECONDS
            reason = f": {self._last_log_line()}" if code else ""
            self.status_line = f"{self._name}: ended with {code}, starts again in {pause_seconds:g} s{reason}"
            await asyncio.sleep(pause_seconds)
            pause_seconds = min(2 * pause_seconds, PAUSE_SECONDS_MAX)

    async def _run_once(self) -> int:
        child = await self._start()
        self.status_line = f"{self._name}: runs (pid {child.pid})"
        try:
            return await self._wait_for_exit(child)
        finally:
            if child.returncode is None:
                await _terminate(child)

    async def _wait_for_exit(self, child: asyncio.subprocess.Process) -> int:
        while True:
            try:
                async with asyncio.timeout(LOG_SECONDS):
                    return await child.wait()
            except TimeoutError:
                shorten(self._log)

    async def _start(self) -> asyncio.subprocess.Process:
        self._log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        shorten(self._log)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        output = os.open(self._log, flags, 0o600)
        try:
            return await asyncio.create_subprocess_exec(
                *self._argv,
                stdin=asyncio.subprocess.PIPE,
                stdout=output,
                stderr=output,
                env=own_environ(os.environ if self._environ is None else self._environ),
                start_new_session=True,
            )
        finally:
            os.close(output)

    def _last_log_line(self) -> str:
        with self._log.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _LOG_TAIL_BYTES))
            lines = file.read().decode("utf-8", "replace").splitlines()
        return plain(redact(lines[-1]), _LOG_LINE_CHARS_MAX) if lines else "it said nothing"


async def _terminate(child: asyncio.subprocess.Process) -> None:
    assert child.stdin is not None, "started with a pipe"
    child.stdin.close()
    with suppress(ProcessLookupError):
        child.terminate()
    try:
        async with asyncio.timeout(STOP_SECONDS_MAX):
            await child.wait()
    except TimeoutError:
        with suppress(ProcessLookupError):
            child.kill()
        await child.wait()
