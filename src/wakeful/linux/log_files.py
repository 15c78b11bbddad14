"""Keeps append-only logs short: a long log is copied to the file beside it and truncated."""

import asyncio
import logging
import os
import shutil
import stat
from pathlib import Path
from typing import Final

# More than a week of a program without problems.
LOG_BYTES_MAX: Final = 4 * 1024 * 1024
CHECK_SECONDS: Final = 30.0
STANDARD_ERROR: Final = 2

log = logging.getLogger("wakeful")


def shorten(path: Path) -> None:
    """Restart a long log. A program that has it open only appends, so it goes on at the new end."""
    try:
        if path.exists() and path.stat().st_size > LOG_BYTES_MAX:
            shutil.copy(path, path.with_name(f"{path.name}.1"))
            os.truncate(path, 0)
    except OSError as error:
        log.warning("%s stays long: %s", path, error)


async def keep_own_log_short() -> None:
    """Check the file behind standard error at an interval."""
    while True:
        await asyncio.to_thread(shorten_own, STANDARD_ERROR)
        await asyncio.sleep(CHECK_SECONDS)


def shorten_own(descriptor: int) -> None:
    """Shorten the file behind a descriptor, if this program only appends to it."""
    path = _appended_file(descriptor)
    if path is not None:
        shorten(path)


def _appended_file(descriptor: int) -> Path | None:
    """None for a terminal, a pipe, systemd's journal, and a file that another program writes as a whole."""
    import fcntl  # noqa: PLC0415 - needed twice a minute

    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        if not fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_APPEND:
            return None
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        return path if os.path.samestat(path.stat(), os.fstat(descriptor)) else None
    except OSError:
        # Removed or closed meanwhile.
        return None
