"""Follows one turn through a session's run folder, from process to process, until it ends.

The kernel reports changes in the folder, also when it is created again; only without an inotify watch is the
folder polled. The writing process is found by the mark in its environment. Only the first process of a client
that names its own conversation has no mark; the daemon is asked for its pid.
"""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from asyncinotify import Inotify, Mask

from wakeful.client.errors import DaemonRefused
from wakeful.control.provider import TurnReader
from wakeful.control.turn_events import Ended, Gone, PromptUnread, TurnEvent
from wakeful.core.errors import WorldError
from wakeful.core.ids import SessionId
from wakeful.core.managed_session import EPOCH_VARIABLE, SESSION_VARIABLE
from wakeful.core.process import Process, ProcessState
from wakeful.integrations.driver_support import RunFolder
from wakeful.linux import proc
from wakeful.sources.follow import FileFollower
from wakeful.sources.tool_processes import is_tool

# Used only where the kernel has no watch left to give.
POLL_SECONDS: Final = 0.5
_READ_BYTES: Final = 64 * 1024


class FolderChangeWaiter:
    """Watches as long as it is entered. Look after entering: earlier changes are not reported."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._inotify: Inotify | None = None
        self._change_event = asyncio.Event()

    async def __aenter__(self) -> Self:
        with suppress(OSError):  # then `wait` polls
            self._inotify = self._watch()
            asyncio.get_running_loop().add_reader(self._inotify.fd, self._on_inotify)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._inotify is not None:
            asyncio.get_running_loop().remove_reader(self._inotify.fd)
            self._inotify.close()

    async def wait(self, seconds_max: float | None = None) -> bool:
        """Until something changes there; False once the time is up."""
        limit = seconds_max if self._inotify is not None else POLL_SECONDS
        try:
            async with asyncio.timeout(limit):
                await self._change_event.wait()
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

    def _on_inotify(self) -> None:
        assert self._inotify is not None, "only inotify calls this"
        os.read(self._inotify.fd, _READ_BYTES)
        self._change_event.set()


# Between a start and the daemon's next check its record may lack the process.
NEW_PROCESS_SECONDS_MAX: Final = 1.0
# After a change in the folder, an unknown process is searched this often.
PROCESS_CHECK_SECONDS: Final = 1.0
_DAY_SECONDS: Final = 86_400.0

log = logging.getLogger("wakeful.gateway")


class TurnStream:
    def __init__(self, root: Path, fetch_pid: Callable[[SessionId], Awaitable[int | None]]) -> None:
        self._root = root
        # The pid the daemon knows for a session; None if it knows no living one.
        self._fetch_daemon_pid = fetch_pid
        self._process_by_session: dict[SessionId, Process] = {}

    async def events(
        self, session_id: SessionId, reader: TurnReader, epoch: int = 0
    ) -> AsyncIterator[TurnEvent]:
        """`epoch`: the process that was given the prompt, 0 where that is not known."""
        folder = RunFolder(self._root, session_id)
        process = await self._find_process(session_id, lambda: _has_turn_end(folder, reader, epoch))
        if epoch and (process is None or _epoch_of(process) == epoch):
            reader.on_prompt_given()
        while True:
            # Without a process, one that has ended is followed: its whole output is there.
            followed = process or proc.process_of(0, 0)
            async for event in _events_of_process(folder, followed, reader):
                yield event
                if isinstance(event, Ended) and event.is_final:
                    return
            yield Gone(folder.last_error_output())
            if not reader.on_new_process():
                yield PromptUnread()
                return
            process = await self._wait_for_successor(session_id, folder, process)

    async def _find_process(self, session_id: SessionId, is_whole: Callable[[], bool]) -> Process | None:
        """The process, also when it is so new that the daemon does not know it yet.

        A whole turn is read without waiting: the next process of the session truncates the file, and the answer is lost.
        """
        process = await self.process_of(session_id)
        if process is None and not is_whole():
            await asyncio.sleep(NEW_PROCESS_SECONDS_MAX)
            process = await self.process_of(session_id)
        return process

    async def process_of(self, session_id: SessionId) -> Process | None:
        known = self._process_by_session.get(session_id)
        if known is not None and proc.state_of(known) is ProcessState.ALIVE:
            return known
        carriers = proc.processes_with_variable(SESSION_VARIABLE, session_id, os.getuid())
        # The agent of the newest epoch, without tools and earlier processes.
        agents = [each for each in carriers if not is_tool(each)]
        found = max(agents, key=lambda each: (_epoch_of(each), -each.started), default=None)
        if found is None and (pid := await self._fetch_pid(session_id)) is not None:
            found = proc.identify_or_none(pid)
        if found is None:
            self._process_by_session.pop(session_id, None)
        else:
            self._process_by_session[session_id] = found
        return found

    async def _fetch_pid(self, session_id: SessionId) -> int | None:
        try:
            return await self._fetch_daemon_pid(session_id)
        except (WorldError, DaemonRefused) as problem:
            log.info("unknown whether %s is running: %s", session_id, problem)
            return None

    async def _wait_for_successor(
        self, session_id: SessionId, folder: RunFolder, before: Process | None
    ) -> Process:
        """The process that takes its place, however long that takes: the caller decides how long to wait."""
        changed = False
        while True:
            async with FolderChangeWaiter(folder.path) as waiter:
                process = await self.process_of(session_id)
                if process is not None and process != before and folder.output.is_file():
                    return process
                changed = await waiter.wait(PROCESS_CHECK_SECONDS if changed else None)


def _has_turn_end(folder: RunFolder, reader: TurnReader, epoch: int) -> bool:
    trial = deepcopy(reader)
    if epoch:
        trial.on_prompt_given()
    lines = folder.output.read_bytes().splitlines() if folder.output.is_file() else []
    events = [*_feed_lines(trial, lines), *trial.on_caught_up()]
    return any(isinstance(each, Ended) and not each.interrupted for each in events)


async def _events_of_process(
    folder: RunFolder, process: Process, reader: TurnReader
) -> AsyncIterator[TurnEvent]:
    """The events of one process, until it has ended and its output is read."""
    with suppress(FileNotFoundError):  # its folder was removed with it
        async with FileFollower(folder.output, process) as follower:
            while lines := follower.read():
                for event in _feed_lines(reader, lines):
                    yield event
                # A long file is read in slices of a few ms; other tasks run in between.
                await asyncio.sleep(0)
            for event in reader.on_caught_up():
                yield event
            while (more := await _next_lines(follower)) is not None:
                for event in _feed_lines(reader, more):
                    yield event


async def _next_lines(follower: FileFollower) -> list[bytes] | None:
    """The next lines; None once the process has ended and all is read."""
    while True:
        deadline = asyncio.get_running_loop().time() + _DAY_SECONDS
        if lines := await follower.next_lines(deadline):
            return lines
        if not follower.is_alive:
            return None


def _feed_lines(reader: TurnReader, lines: list[bytes]) -> list[TurnEvent]:
    return [event for line in lines for event in reader.feed(line)]


def _epoch_of(process: Process) -> int:
    marked = proc.environ_value(process.pid, EPOCH_VARIABLE) or ""
    return int(marked) if marked.isdecimal() else 0
