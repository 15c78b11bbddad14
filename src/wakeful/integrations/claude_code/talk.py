"""A talk with a running Claude Code: lines into its FIFO, and what it says back, read from the beginning of its file.

Everything known about it comes out of that file each time, so that a restart of ours loses nothing.
"""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Final, Self
from uuid import uuid4

import msgspec

from wakeful.core.process import Process
from wakeful.integrations.claude_code.stream import Stream
from wakeful.integrations.run_folder import RunFolder, Written
from wakeful.sources.follow import Following

# Partial messages fill a file fast. Between turns, when nothing in it is needed any more, one this big begins anew.
OUTPUT_BYTES_MAX: Final = 16 * 1024 * 1024


class Talk:
    """One talk, as long as it is entered; `stream` is as new as the last look."""

    def __init__(self, folder: RunFolder, process: Process, write_seconds: float) -> None:
        self.folder = folder
        self.stream = Stream()
        self._following = Following(folder.output, process)
        self._write_seconds = write_seconds
        self._opened = AsyncExitStack()

    async def __aenter__(self) -> Self:
        await self._opened.enter_async_context(self._following)
        while lines := self._following.read():
            for line in lines:
                self.stream.feed(line)
            # A long file is read in slices of a few ms; others are served in between.
            await asyncio.sleep(0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._opened.aclose()

    @property
    def is_alive(self) -> bool:
        return self._following.is_alive

    def trim(self) -> None:
        """Begin the file anew if it is long and nothing in it matters any more."""
        if not self.stream.is_busy and self.folder.output.stat().st_size > OUTPUT_BYTES_MAX:
            self.folder.trim()

    async def say(self, message: dict[str, Any]) -> Written:
        return await self.folder.write_line(msgspec.json.encode(message), self._write_seconds)

    async def request(self, subtype: str) -> tuple[str, Written]:
        """Ask the client itself something; the id that its answer will carry."""
        request_id = str(uuid4())
        asked = {"type": "control_request", "request_id": request_id, "request": {"subtype": subtype}}
        return request_id, await self.say(asked)

    async def until(self, reached: Callable[[Stream], bool], seconds: float) -> bool:
        """Whether it came to that before the process ended or the time was up."""
        return await self._following.until(self.stream.feed, lambda: reached(self.stream), seconds)
