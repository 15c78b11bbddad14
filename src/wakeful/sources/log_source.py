"""Follows all logs of one format below its roots, newest first, reading back only as far as judging needs.

A LogSource says where logs of a format are and how a line reads. Old logs are not read until a request needs
them. Of many recent logs only the newest, and those that were read before a restart, are read at once; of the
others only id, age and working directory are reported. `LeftOut` lists the logs that are not read, with the
reasons, for `status` and `doctor`.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Final

from msgspec import Struct

from wakeful.core.clock import Clock
from wakeful.core.ids import SessionId
from wakeful.core.text import plain
from wakeful.judging.activity import RULE_VERSION
from wakeful.judging.events import Event, Opened
from wakeful.judging.evidence import Subject
from wakeful.sources.base import Changes, Folders, Reader, Witness
from wakeful.sources.folder_watch import Found, scan_tree, watch_or_await
from wakeful.sources.log_file import Batch, LogFile, Refusal
from wakeful.sources.parsing import read_torn
from wakeful.storage.base import Bookmark

# Enough to recognise what went wrong; the rest is counted.
NAMED_MAX: Final = 3
_NAME_CHARS_MAX: Final = 200

# For one and for several, in the order in which they are told.
_WORDS: Final[Mapping[Refusal, tuple[str, str]]] = {
    Refusal.CLOSED: ("folder cannot be listed (permission)", "folders cannot be listed (permission)"),
    Refusal.TOO_LONG: ("path is too long to be read", "paths are too long to be read"),
    Refusal.UNREADABLE: ("log cannot be read (permission)", "logs cannot be read (permission)"),
    Refusal.SYMLINK: ("log is a symbolic link", "logs are symbolic links"),
    Refusal.NOT_A_FILE: ("log is no regular file", "logs are no regular files"),
    Refusal.NOT_A_FOLDER: ("log lies behind a symbolic link", "logs lie behind symbolic links"),
    Refusal.FAILED: ("log cannot be read (input/output error)", "logs cannot be read (input/output error)"),
}


class LeftOut:
    """What the last scan saw and could not be a log, and what could not be read since."""

    def __init__(self) -> None:
        self._scanned: dict[str, Refusal] = {}
        self._refused: dict[str, Refusal] = {}

    def __contains__(self, path: str) -> bool:
        return path in self._refused

    def see(self, odd: Mapping[str, Refusal]) -> None:
        """A part of the tree was scanned."""
        self._scanned |= odd

    def see_all(self, odd: Mapping[str, Refusal]) -> list[str]:
        """All of it was scanned; the folders that were closed before and are not any more."""
        before, self._scanned = self._scanned, dict(odd)
        return [each for each, why in before.items() if why is Refusal.CLOSED and each not in odd]

    def read(self, path: str, refused: Refusal | None) -> None:
        """A log was read, or refused to be."""
        if refused is not None and refused in _WORDS:
            self._refused[path] = refused
        else:
            self._refused.pop(path, None)

    def forget(self, gone: str) -> None:
        """A file is gone, or a folder with all in it."""
        for each in (self._scanned, self._refused):
            for path in [path for path in each if path == gone or path.startswith(f"{gone}/")]:
                del each[path]

    def words(self) -> str | None:
        """How many, why, and which; None if nothing is left out."""
        return "; ".join(_told(self._refused | self._scanned)) or None


def _told(left_out: Mapping[str, Refusal]) -> Iterator[str]:
    for why, (one, several) in _WORDS.items():
        paths = sorted(path for path, each in left_out.items() if each is why)
        if paths:
            more = f" and {len(paths) - NAMED_MAX} more" if len(paths) > NAMED_MAX else ""
            named = ", ".join(plain(path, _NAME_CHARS_MAX) for path in paths[:NAMED_MAX])
            yield f"{len(paths)} {one if len(paths) == 1 else several}: {named}{more}"


# One turn of the loop reads at most this much of one log before others get theirs.
SLICES_AT_ONCE_MAX: Final = 64
# How far back `recall_events` reads: a turn of some hundred calls.
RECALL_BYTES_MAX: Final = 4 * 1024 * 1024
# More than anybody has at work at once. Beyond these a log is only glimpsed: what it says changes no verdict
# before somebody holds it, asks for it or it grows, and then it is read.
READ_AT_START_MAX: Final = 64


_mtime: Final = attrgetter("mtime")
# Reported for paths of any name: they may hide logs.
_OF_ANY_NAME: Final = frozenset({Refusal.CLOSED, Refusal.TOO_LONG})


class Owner(Struct, frozen=True, gc=False):
    """Whose a log is. A side log (a subagent's) only shows that its session moves."""

    subject: Subject
    side: bool = False


class LogSource(Struct, frozen=True):
    """Where logs of one format lie, whose they are, and how to read them."""

    name: str
    roots: tuple[Path, ...]
    suffix: str
    depth_max: int
    owner: Callable[[tuple[str, ...]], Owner | None]
    reader: Callable[[], Reader]
    # The folder that a client keeps the logs of a working directory in; None if it sorts them in other ways.
    folder_of: Callable[[str], str] | None = None


class _Followed(Struct):
    """A log that is being read."""

    file: LogFile
    reader: Reader
    subject: Subject
    unsaved: bool = True


class LogEye:
    """Eyes for one LogSource."""

    def __init__(
        self,
        source: LogSource,
        clock: Clock,
        witness: Witness,
        *,
        fold_after_seconds: float,
        folders: Folders | None = None,
        bookmarks: Mapping[str, Bookmark] | None = None,
    ) -> None:
        self._source = source
        self._clock = clock
        self._witness = witness
        self._fold_after_seconds = fold_after_seconds
        self._folders = folders
        self._bookmarks = dict(bookmarks or {})
        self._followed: dict[str, _Followed] = {}
        self._paths: dict[SessionId, str] = {}
        self._seen: dict[str, tuple[int, float]] = {}
        self._cwds: dict[str, str] = {}
        self._unwatched = 0
        self._left_out = LeftOut()
        # Readings that were refused, since the start.
        self.failed = 0

    @property
    def name(self) -> str:
        return self._source.name

    @property
    def slow(self) -> str | None:
        if not self._unwatched:
            return None
        folders = "1 folder" if self._unwatched == 1 else f"{self._unwatched} folders"
        return f"{folders} cannot be watched (inotify limit): swept every few seconds instead"

    @property
    def left_out(self) -> str | None:
        return self._left_out.words()

    def look(self) -> None:
        """Scan every root; read what is recent or grew, remember the rest."""
        self._unwatched = 0
        odd: dict[str, Refusal] = {}
        for root in self._source.roots:
            self._watch(str(root))
            found = scan_tree(root, self._source.suffix, self._source.depth_max, self._watch, odd)
            self.meet(root, found)
        self._left_out.see_all(self._in_the_place_of_logs(odd))

    async def sweep(self) -> None:
        """The same without holding up the loop: folders are watched already, and files are listed in a thread."""
        odd: dict[str, Refusal] = {}
        for root in self._source.roots:
            found = await asyncio.to_thread(
                scan_tree, root, self._source.suffix, self._source.depth_max, odd=odd
            )
            self.meet(root, found)
        for opened in self._left_out.see_all(self._in_the_place_of_logs(odd)):
            self._watch(opened)

    def meet(self, root: Path, found: list[Found]) -> None:
        """Logs as a scan shows them, newest first."""
        oldest_recent = self._clock.now().wall - self._fold_after_seconds
        for rank, each in enumerate(sorted(found, key=_mtime, reverse=True)):
            if each.mtime < oldest_recent and each.path not in self._seen:
                self._remember(root, each)
            else:
                self._meet(root, each, is_recent=each.mtime >= oldest_recent, rank=rank)

    def _remember(self, root: Path, found: Found) -> None:
        """An old log, for the first time: nine in ten of what a start finds."""
        self._seen[found.path] = found.size, found.mtime
        owner = self._owner(root, found.path)
        if owner is not None and not owner.side:
            self._paths[owner.subject.id] = found.path
            self._witness.remembered(owner.subject, found.mtime)

    def told(self, changes: Changes) -> None:
        if changes.rescan:
            self.look()
        for folder in changes.folders:
            self._appeared(folder)
        for path in changes.changed:
            if path.endswith(self._source.suffix) and (root := self._root_of(path)) is not None:
                self._changed(root, path)
        for gone in changes.gone:
            if self._root_of(gone) is not None:
                self._lost(gone)

    def _appeared(self, folder: str) -> None:
        """A new folder, perhaps full already. Below a root nothing else has to be looked at."""
        root = self._root_of(folder)
        if root is not None:
            self._watch(folder)
            depth = folder.count("/") - str(root).count("/")
            odd = {folder: Refusal.NOT_A_FILE} if folder.endswith(self._source.suffix) else {}
            found = scan_tree(folder, self._source.suffix, self._source.depth_max - depth, self._watch, odd)
            self.meet(root, found)
            self._left_out.see(self._in_the_place_of_logs(odd))
        elif any(f"{each}/".startswith(f"{folder}/") for each in self._source.roots):
            self.look()

    def let_go(self) -> None:
        """Its roots went away as they are, as a container's do: what was read is forgotten with them."""
        for root in self._source.roots:
            self._lost(str(root))

    def catch_up(self, session_id: SessionId) -> None:
        path = self._paths.get(session_id)
        if path is None:
            return
        root = self._root_of(path)
        assert root is not None, "only logs below a root are remembered"
        if path in self._followed:
            self._read_on(path)
        elif (owner := self._owner(root, path)) is not None:
            self._follow(root, path, owner)

    def recall_events(self, session_id: SessionId, limit: int) -> list[Event]:
        """The last events of a session's log, read anew: what is followed stays where it is. Empty if it has none."""
        reader = self._source.reader()
        return [event for line in self.recall_lines(session_id) for event in reader.read(line)][-limit:]

    def recall_lines(self, session_id: SessionId) -> Sequence[bytes]:
        """The last lines of a session's log as they stand there."""
        path = self._paths.get(session_id)
        root = self._root_of(path) if path is not None else None
        if path is None or root is None:
            return ()
        return LogFile(path, str(root)).read_back(lambda _line: False, bytes_max=RECALL_BYTES_MAX).lines

    def take_bookmarks(self) -> Iterator[Bookmark]:
        """How far each log was read since the last time this was asked."""
        for path, followed in self._followed.items():
            if followed.unsaved:
                followed.unsaved = False
                yield from self._bookmark(path, followed)

    def _bookmark(self, path: str, followed: _Followed) -> Iterator[Bookmark]:
        position = followed.file.position()
        if position is not None:
            head = b"" if position.head_hash is None else position.head_hash.to_bytes(4)
            kept = self._witness.kept(followed.subject.id)
            # A log without one complete line is no session yet: there is nothing to go on from.
            if kept is not None:
                yield Bookmark(path, position.inode, position.offset, head, RULE_VERSION, kept)

    def _watch(self, folder: str) -> None:
        if self._folders is not None and not watch_or_await(self._folders, folder):
            self._unwatched += 1

    def _root_of(self, path: str) -> Path | None:
        return next((root for root in self._source.roots if path.startswith(f"{root}/")), None)

    def _owner(self, root: Path, path: str) -> Owner | None:
        return self._source.owner(tuple(path[len(str(root)) + 1 :].split("/")))

    def _in_the_place_of_logs(self, odd: Mapping[str, Refusal]) -> dict[str, Refusal]:
        """Of what a scan found odd: closed folders, and what has the name of a session's log."""
        return {
            path: why
            for path, why in odd.items()
            if why in _OF_ANY_NAME
            or ((root := self._root_of(path)) is not None and self._owner(root, path) is not None)
        }

    def _meet(self, root: Path, found: Found, *, is_recent: bool, rank: int) -> None:
        """A log as a scan shows it: unchanged, grown, recent or old. `rank` counts newer ones."""
        path = found.path
        stamp = (found.size, found.mtime)
        before = self._seen.get(path)
        if before is not None and path in self._left_out:
            # It could not be read, so it is met anew: permissions change without a trace in size and time.
            before = None
        if before == stamp:
            return
        self._seen[path] = stamp
        # One that appeared under our eyes is followed before any scan has seen it.
        if before is not None or path in self._followed:
            self._changed(root, path)
        elif (owner := self._owner(root, path)) is not None and not owner.side:
            self._paths[owner.subject.id] = path
            if not is_recent:
                self._witness.remembered(owner.subject, found.mtime)
            elif rank < READ_AT_START_MAX or owner.subject.vouched or path in self._bookmarks:
                self._follow(root, path, owner)
            else:
                self._glimpse(root, found, owner.subject)

    def _changed(self, root: Path, path: str) -> None:
        """A log grew, or appeared, while we watched."""
        owner = self._owner(root, path)
        if owner is None:
            return
        if owner.side:
            self._witness.moved(owner.subject.id)
        elif path in self._followed:
            self._read_on(path)
        else:
            self._paths[owner.subject.id] = path
            self._follow(root, path, owner, live=True)

    def _glimpse(self, root: Path, found: Found, subject: Subject) -> None:
        """Report whose it is and how old, reading one log of each folder that stands for a working directory."""
        folder = found.path.rpartition("/")[0]
        cwd = self._cwds.get(folder)
        if cwd is None:
            cwd = self._last_cwd(LogFile(found.path, str(root)))
            if cwd and self._source.folder_of and self._source.folder_of(cwd) == folder.rpartition("/")[2]:
                self._cwds[folder] = cwd
        self._witness.glimpsed(subject, found.mtime, cwd)

    def _last_cwd(self, file: LogFile) -> str | None:
        for line in file.last_lines():
            for event in self._source.reader().read(line):
                if type(event) is Opened and event.cwd:
                    return event.cwd
        return None

    def _follow(self, root: Path, path: str, owner: Owner, *, live: bool = False) -> None:
        followed = _Followed(LogFile(path, str(root)), self._source.reader(), owner.subject)
        self._followed[path] = followed
        bookmark = self._bookmarks.pop(path, None)
        if bookmark is not None and self._recall(followed, bookmark):
            self._read_on(path, live=live)
            return
        batch = followed.file.read_back(followed.reader.is_boundary)
        self._report(followed, batch, live=live)

    def _recall(self, followed: _Followed, bookmark: Bookmark) -> bool:
        """Go on where an earlier daemon stopped; a file that fits no more says so when it is read."""
        if bookmark.rule_version != RULE_VERSION:
            return False
        if not self._witness.recalled(followed.subject, bookmark.folded):
            return False
        head = int.from_bytes(bookmark.head_hash) if bookmark.head_hash else None
        followed.file.resume(bookmark.inode, bookmark.offset, head)
        return True

    def _read_on(self, path: str, *, live: bool = True) -> None:
        followed = self._followed[path]
        for _ in range(SLICES_AT_ONCE_MAX):
            batch = followed.file.read_new()
            if batch.reset:
                followed.reader = self._source.reader()
            self._report(followed, batch, live=live)
            if not batch.more:
                return

    def _report(self, followed: _Followed, batch: Batch, *, live: bool) -> None:
        self._left_out.read(followed.file.path, batch.refused)
        self.failed += followed.file.path in self._left_out
        if not (batch.lines or batch.marks or batch.reset):
            return
        followed.unsaved = True
        events: list[Event] = []
        for mark in batch.marks:
            events.extend(read_torn(mark.tail, followed.reader.read))
        for line in batch.lines:
            events.extend(followed.reader.read(line))
        self._witness.heard(followed.subject, events, live=live, anew=batch.reset)

    def _lost(self, gone: str) -> None:
        """A log is gone, or a folder with all in it."""
        self._left_out.forget(gone)
        for session_id, path in list(self._paths.items()):
            if path == gone or path.startswith(f"{gone}/"):
                del self._paths[session_id]
                self._followed.pop(path, None)
                self._seen.pop(path, None)
                self._witness.forgotten(session_id)
