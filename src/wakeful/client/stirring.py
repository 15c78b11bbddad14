"""Whether something stirs in a session's run folder: told by the kernel, also when the folder is made anew."""

import asyncio
import os
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from asyncinotify import Inotify, Mask

# Only where the kernel has no watch left to give.
UNTOLD_SECONDS: Final = 0.5
_READ_BYTES: Final = 64 * 1024


class Stirring:
    """Watches as long as it is entered. Look after entering: what came before is not told."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._inotify: Inotify | None = None
        self._stirred = asyncio.Event()

    async def __aenter__(self) -> Self:
        with suppress(OSError):  # then it is looked at now and then
            self._inotify = self._watch()
            asyncio.get_running_loop().add_reader(self._inotify.fd, self._changed)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._inotify is not None:
            asyncio.get_running_loop().remove_reader(self._inotify.fd)
            self._inotify.close()

    async def wait(self, seconds_max: float | None = None) -> bool:
        """Until something happened there; False once the time is up."""
        limit = seconds_max if self._inotify is not None else UNTOLD_SECONDS
        try:
            async with asyncio.timeout(limit):
                await self._stirred.wait()
        except TimeoutError:
            return False
        return True

    def _watch(self) -> Inotify:
        inotify = Inotify()
        try:
            os.set_blocking(inotify.fd, False)
            inotify.add_watch(self._folder.parent, Mask.CREATE | Mask.MOVED_TO)
            if self._folder.is_dir():
                inotify.add_watch(self._folder, Mask.CREATE | Mask.MODIFY | Mask.MOVED_TO)
        except OSError:
            inotify.close()
            raise
        return inotify

    def _changed(self) -> None:
        assert self._inotify is not None, "only inotify calls this"
        os.read(self._inotify.fd, _READ_BYTES)
        self._stirred.set()
