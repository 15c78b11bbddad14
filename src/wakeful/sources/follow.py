"""Follows the lines that a process appends to a file, with kernel notifications instead of polling.

It reads in slices, and ends when the process has ended and all its output was read, or when time is up. The
caller interprets the lines.
"""

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from wakeful.core.process import Process, ProcessState
from wakeful.linux import proc
from wakeful.sources.log_file import LineSplitter

if TYPE_CHECKING:
    from asyncinotify import Inotify

SLICE_BYTES: Final = 256 * 1024
# Only without a free inotify watch or pidfd.
POLL_SECONDS: Final = 0.1


class FileFollower:
    """One file and the process that writes it. An asynchronous context manager."""

    def __init__(self, path: Path, process: Process) -> None:
        self._path = path
        self._process = process
        self._lines = LineSplitter()
        self._offset = 0
        self._file = -1
        self._pidfd = -1
        self._inotify: Inotify | None = None
        self._wakeup = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._file = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        loop = asyncio.get_running_loop()
        with suppress(OSError):  # without it the file is polled
            self._inotify = self._watch()
            loop.add_reader(self._inotify.fd, self._on_change)
        with suppress(OSError):  # ended, or no descriptor left: `is_alive` distinguishes them
            self._pidfd = os.pidfd_open(self._process.pid)
            loop.add_reader(self._pidfd, self._on_exit)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        loop = asyncio.get_running_loop()
        if self._inotify is not None:
            loop.remove_reader(self._inotify.fd)
            self._inotify.close()
        if self._pidfd >= 0:
            loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
        os.close(self._file)

    @property
    def is_alive(self) -> bool:
        """Whether the process is not known to be dead."""
        return proc.state_of(self._process) is not ProcessState.DEAD

    def read(self) -> list[bytes]:
        """Complete lines that are available now; if there are many, the first of them."""
        if os.fstat(self._file).st_size < self._offset:
            # The file was truncated: its content is new.
            self._offset = 0
            self._lines.forget()
        while chunk := os.pread(self._file, SLICE_BYTES, self._offset):
            self._offset += len(chunk)
            if lines := [line for line in self._lines.feed(chunk) if isinstance(line, bytes)]:
                return lines
        return []

    async def feed_until(
        self, feed: Callable[[bytes], None], reached: Callable[[], bool], seconds: float
    ) -> bool:
        """Feed the lines as they come until `reached`; False if the process ended or time was up before."""
        deadline = asyncio.get_running_loop().time() + seconds
        while not reached():
            lines = await self.next_lines(deadline)
            if not lines:
                return reached()
            for line in lines:
                feed(line)
        return True

    async def next_lines(self, deadline: float) -> list[bytes]:
        """The next lines; empty once the process has ended and all is read, or the loop's clock is at `deadline`."""
        while True:
            self._wakeup.clear()
            # First its state, then its output: nothing written before its end is missed.
            alive = self.is_alive
            if lines := self.read():
                return lines
            if not alive or not await self._wait(deadline):
                return []

    async def _wait(self, deadline: float) -> bool:
        """Wait for a change; False once the time is up."""
        seconds_left = deadline - asyncio.get_running_loop().time()
        if seconds_left <= 0:
            return False
        is_notified = self._inotify is not None and self._pidfd >= 0
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds_left if is_notified else min(seconds_left, POLL_SECONDS)):
                await self._wakeup.wait()
        return True

    def _watch(self) -> "Inotify":
        from asyncinotify import Inotify, Mask  # noqa: PLC0415 - it imports ctypes and more, which few commands need

        inotify = Inotify()
        try:
            os.set_blocking(inotify.fd, False)
            inotify.add_watch(self._path, Mask.MODIFY)
        except OSError:
            inotify.close()
            raise
        return inotify

    def _on_change(self) -> None:
        assert self._inotify is not None, "only inotify calls this"
        os.read(self._inotify.fd, SLICE_BYTES)
        self._wakeup.set()

    def _on_exit(self) -> None:
        # It stays readable from now on, so one event is enough.
        asyncio.get_running_loop().remove_reader(self._pidfd)
        self._wakeup.set()
