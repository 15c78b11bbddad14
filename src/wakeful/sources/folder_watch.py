"""Scans folder trees for logs, and watches folders with inotify, also folders that do not exist yet.

It opens no log, follows no symlink and never polls: idle folders cost nothing. `slow_folders` names folders
that cannot be watched; other code sweeps them.
"""

import asyncio
import os
import struct
from collections.abc import Callable, Iterator
from errno import EACCES, EINVAL, ELOOP, EMFILE, ENAMETOOLONG, ENFILE, ENOENT, ENOMEM, ENOSPC, ENOTDIR
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from msgspec import Struct

from wakeful.sources.base import FileChanges, FolderWatcher
from wakeful.sources.log_file import ReadRefusal

if TYPE_CHECKING:
    from asyncinotify import Inotify, Watch

# One read takes at least 480 events with names of full length, some 2,000 usual ones: a few ms of work.
_READ_BYTES: Final = 128 * 1024
# struct inotify_event up to the name: watch descriptor, mask, cookie, length of the name.
_EVENT: Final = struct.Struct("iIII")

# From <sys/inotify.h>, as plain integers: events of asyncinotify's enum take eleven times as long.
_MODIFY, _CLOSE_WRITE = 0x2, 0x8
_MOVED_FROM, _MOVED_TO = 0x40, 0x80
_CREATE, _DELETE, _DELETE_SELF = 0x100, 0x200, 0x400
_OVERFLOW, _IGNORED = 0x4000, 0x8000
_ONLYDIR, _DONT_FOLLOW, _ISDIR = 0x01000000, 0x02000000, 0x40000000
_WRITE_EVENTS: Final = _MODIFY | _CLOSE_WRITE | _CREATE | _MOVED_TO
_REMOVE_EVENTS: Final = _MOVED_FROM | _DELETE
_MASK: Final = _WRITE_EVENTS | _REMOVE_EVENTS | _DELETE_SELF | _ONLYDIR | _DONT_FOLLOW

_LIMIT_REACHED: Final = frozenset((ENOSPC, EMFILE, ENFILE, ENOMEM))
_NO_FOLDER: Final = frozenset((ENOENT, ENOTDIR, EACCES, ELOOP, ENAMETOOLONG))


class ScannedFile(Struct, frozen=True, gc=False):
    """A regular file as a scan saw it; `mtime` is wall time in seconds."""

    path: str
    inode: int
    size: int
    mtime: float


class _WatchedFolder(Struct, frozen=True, gc=False):
    folder: str
    watch: "Watch"


class FolderWatch:
    """Reports changes in the added folders, in batches. An asynchronous context manager.

    A folder is watched without those below it. `slow_folders` could not be watched because a kernel limit is
    reached; adding one again tries again.
    """

    def __init__(self) -> None:
        self.slow_folders: set[str] = set()
        self._inotify: Inotify | None = None
        self._watched_folders: dict[int, _WatchedFolder] = {}
        self._waiting: asyncio.Future[None] | None = None
        self._closed = False

    async def __aenter__(self) -> Self:
        from asyncinotify import Inotify  # noqa: PLC0415 - it imports ctypes and more, which few commands need

        try:
            self._inotify = Inotify()
        except OSError as error:
            if error.errno not in _LIMIT_REACHED:
                raise
        else:
            os.set_blocking(self._inotify.fd, False)  # asyncinotify's flag for this sets another one
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed = True
        if self._waiting is not None:
            _wake(self._waiting)
        if self._inotify is not None:
            # Before closing: the descriptor number may be reused right after.
            asyncio.get_running_loop().remove_reader(self._inotify.fd)
            self._inotify.close()

    def add(self, folder: str) -> bool:
        """Watch this folder's entries; False if it is no readable folder, or a limit is reached."""
        try:
            watch = self._watch(folder)
        except OSError as error:
            if error.errno in _LIMIT_REACHED:
                self.slow_folders.add(folder)
            elif error.errno not in _NO_FOLDER:
                raise
            return False
        self._watched_folders[watch.wd] = _WatchedFolder(folder, watch)
        self.slow_folders.discard(folder)
        return True

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> FileChanges:
        while True:
            await self._wait_readable()
            if self._closed or self._inotify is None:
                raise StopAsyncIteration
            changes = self._collect_changes(os.read(self._inotify.fd, _READ_BYTES))
            if changes:
                return changes

    def _watch(self, folder: str) -> "Watch":
        from asyncinotify import Mask  # noqa: PLC0415 - see __aenter__

        if self._inotify is None:
            raise OSError(EMFILE, os.strerror(EMFILE), folder)
        return self._inotify.add_watch(folder, Mask(_MASK))

    async def _wait_readable(self) -> None:
        """Wait until there is something to read or it is closed; without inotify only until it is closed."""
        if self._closed:
            return
        loop = asyncio.get_running_loop()
        self._waiting = loop.create_future()
        if self._inotify is not None:
            loop.add_reader(self._inotify.fd, _wake, self._waiting)
        try:
            await self._waiting
        finally:
            if self._inotify is not None and not self._closed:
                loop.remove_reader(self._inotify.fd)

    def _collect_changes(self, buffer: bytes) -> FileChanges:
        changes = FileChanges(set(), set(), set())
        for descriptor, mask, name in _events(buffer):
            if mask & _OVERFLOW:
                changes.rescan = True
            elif mask & (_DELETE_SELF | _IGNORED):
                self._on_folder_deleted(descriptor, changes)
            elif (watched := self._watched_folders.get(descriptor)) is not None:
                self._on_entry(f"{watched.folder}/{name}", mask, changes)
        return changes

    def _on_folder_deleted(self, descriptor: int, changes: FileChanges) -> None:
        watched = self._watched_folders.pop(descriptor, None)
        # A folder may exist again under its old name before the deletion of the first one is reported.
        if watched is not None and watched.folder not in changes.folders:
            changes.gone.add(watched.folder)

    def _on_entry(self, path: str, mask: int, changes: FileChanges) -> None:
        same_kind = changes.folders if mask & _ISDIR else changes.changed
        if mask & _WRITE_EVENTS:
            same_kind.add(path)
            changes.gone.discard(path)
            return
        same_kind.discard(path)
        changes.gone.add(path)
        if mask & _ISDIR:
            # The watches of a moved folder move with it, and their names are no longer valid.
            inside = f"{path}/"
            self.slow_folders -= {each for each in self.slow_folders if f"{each}/".startswith(inside)}
            for descriptor, watched in list(self._watched_folders.items()):
                if f"{watched.folder}/".startswith(inside):
                    del self._watched_folders[descriptor]
                    assert self._inotify is not None, "only inotify gives watches"
                    try:
                        self._inotify.rm_watch(watched.watch)
                    except OSError as error:
                        if error.errno != EINVAL:  # deleted meanwhile: the kernel has dropped it already
                            raise


def scan_tree(
    root: str | os.PathLike[str],
    suffix: str,
    depth_max: int,
    on_folder: Callable[[str], object] | None = None,
    odd: dict[str, ReadRefusal] | None = None,
) -> list[ScannedFile]:
    """Every regular file with this suffix, at most `depth_max` folders below the root.

    `on_folder` is called for each folder below the root before it is listed: a watch set there misses nothing.
    Entries with the suffix that are no regular files, and unreadable folders, are added to `odd`.
    """
    found: list[ScannedFile] = []
    odd = {} if odd is None else odd
    folders = _list(os.fspath(root), suffix, found, odd)
    for _ in range(depth_max):
        inner: list[str] = []
        for folder in folders:
            if on_folder is not None:
                on_folder(folder)
            inner += _list(folder, suffix, found, odd)
        folders = inner
    return found


def _list(folder: str, suffix: str, found: list[ScannedFile], odd: dict[str, ReadRefusal]) -> list[str]:
    """Add the matching files of a folder to `found`; returns its folders."""
    folders: list[str] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                named = entry.name.endswith(suffix)
                if named and entry.is_file(follow_symlinks=False):
                    _add(entry, found, odd)
                    continue
                if named:
                    odd[entry.path] = ReadRefusal.SYMLINK if entry.is_symlink() else ReadRefusal.NOT_A_FILE
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
    except PermissionError:
        odd[folder] = ReadRefusal.CLOSED
    except OSError as error:  # deleted meanwhile: the next scan lists it again
        if error.errno == ENAMETOOLONG:
            odd[folder] = ReadRefusal.TOO_LONG
    return folders


def _add(entry: os.DirEntry[str], found: list[ScannedFile], odd: dict[str, ReadRefusal]) -> None:
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError as error:  # deleted since it was listed, most likely
        if error.errno == ENAMETOOLONG:
            odd[entry.path] = ReadRefusal.TOO_LONG
        return
    found.append(ScannedFile(entry.path, status.st_ino, status.st_size, status.st_mtime))


def _events(buffer: bytes) -> Iterator[tuple[int, int, str]]:
    at = 0
    while at < len(buffer):
        descriptor, mask, _cookie, length = _EVENT.unpack_from(buffer, at)
        at += _EVENT.size + length
        yield descriptor, mask, os.fsdecode(buffer[at - length : at].rstrip(b"\0"))


def _wake(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)


# A path of this many folders can be created while it is being watched, one at each attempt.
_ATTEMPTS_MAX: Final = 64


def watch_or_await(folders: FolderWatcher, folder: str) -> bool:
    """Watch a folder, or the nearest existing one above it, which reports when it appears.

    False: a kernel limit is reached, and it must be swept. An unreadable folder has nothing to sweep.
    """
    nearest = _nearest(folder)
    for _ in range(_ATTEMPTS_MAX):
        watched = folders.add(nearest)
        # No event reports folders that appeared or vanished before the watch was set: check once more.
        before, nearest = nearest, _nearest(folder)
        if nearest == before:
            return watched or not os.access(nearest, os.R_OK)
    return False


def _nearest(folder: str) -> str:
    while not os.path.isdir(folder) and folder != "/":  # noqa: PTH112 - strings are what the kernel reports
        folder = os.path.dirname(folder)  # noqa: PTH120
    return folder
