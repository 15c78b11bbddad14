"""Follows all logs of one format below its roots, newest first, reading back only as far as judging needs.

A LogFormat defines where the logs of a format are and how a line is read. Old logs are not read until a request
needs them. Of many recent logs only the newest, and those that were read before a restart, are read at once; of
the others only id, age and working directory are reported. `SkippedLogs` lists the logs that are not read, with
the reasons, for `status` and `doctor`.
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
from wakeful.judging.events import Event, LogOpened, Said
from wakeful.judging.evidence import SessionIdentity
from wakeful.judging.folding import RULE_VERSION
from wakeful.sources.base import EvidenceSink, FileChanges, FolderWatcher, LogReader
from wakeful.sources.folder_watch import ScannedFile, scan_tree, watch_or_await
from wakeful.sources.log_file import LogBatch, LogFile, ReadRefusal
from wakeful.sources.parsing import read_damaged
from wakeful.storage.base import Bookmark

# Enough to recognise the problem; the rest is counted.
NAMED_MAX: Final = 3
_NAME_CHARS_MAX: Final = 200

# Singular and plural, in the order of the report.
_REFUSAL_TEXTS: Final[Mapping[ReadRefusal, tuple[str, str]]] = {
    ReadRefusal.CLOSED: ("folder cannot be listed (permission)", "folders cannot be listed (permission)"),
    ReadRefusal.TOO_LONG: ("path is too long to be read", "paths are too long to be read"),
    ReadRefusal.UNREADABLE: ("log cannot be read (permission)", "logs cannot be read (permission)"),
    ReadRefusal.SYMLINK: ("log is a symbolic link", "logs are symbolic links"),
    ReadRefusal.NOT_A_FILE: ("log is not a regular file", "logs are not regular files"),
    ReadRefusal.NOT_A_FOLDER: ("log is behind a symbolic link", "logs are behind symbolic links"),
    ReadRefusal.FAILED: (
        "log cannot be read (input/output error)",
        "logs cannot be read (input/output error)",
    ),
}


class SkippedLogs:
    """Entries of the last scan that cannot be logs, and logs that could not be read since."""

    def __init__(self) -> None:
        self._scanned: dict[str, ReadRefusal] = {}
        self._refused: dict[str, ReadRefusal] = {}

    def __contains__(self, path: str) -> bool:
        return path in self._refused

    def add_scan(self, odd: Mapping[str, ReadRefusal]) -> None:
        self._scanned |= odd

    def replace_scan(self, odd: Mapping[str, ReadRefusal]) -> list[str]:
        """Replace the entries after a full scan; returns the folders that have become readable."""
        before, self._scanned = self._scanned, dict(odd)
        return [each for each, why in before.items() if why is ReadRefusal.CLOSED and each not in odd]

    def on_read(self, path: str, refused: ReadRefusal | None) -> None:
        if refused is not None and refused in _REFUSAL_TEXTS:
            self._refused[path] = refused
        else:
            self._refused.pop(path, None)

    def forget(self, gone: str) -> None:
        for each in (self._scanned, self._refused):
            for path in [path for path in each if path == gone or path.startswith(f"{gone}/")]:
                del each[path]

    def summary(self) -> str | None:
        """The number of skipped logs with their reasons and some names; None without any."""
        return "; ".join(_summary_lines(self._refused | self._scanned)) or None


def _summary_lines(skipped: Mapping[str, ReadRefusal]) -> Iterator[str]:
    for why, (one, several) in _REFUSAL_TEXTS.items():
        paths = sorted(path for path, each in skipped.items() if each is why)
        if paths:
            more = f" and {len(paths) - NAMED_MAX} more" if len(paths) > NAMED_MAX else ""
            named = ", ".join(plain(path, _NAME_CHARS_MAX) for path in paths[:NAMED_MAX])
            yield f"{len(paths)} {one if len(paths) == 1 else several}: {named}{more}"


# One loop iteration reads at most this much of one log before it reads others.
SLICES_AT_ONCE_MAX: Final = 64
# `read_last_events` reads this much: a turn of some hundred calls.
LAST_LINES_BYTES_MAX: Final = 4 * 1024 * 1024
# More sessions than a person runs at once. Of further logs only age and folder are reported: they are read when a
# process runs the session, a request needs it or the log grows, and cannot change a verdict before that.
READ_AT_START_MAX: Final = 64

_mtime: Final = attrgetter("mtime")
# Reported for paths of any name: they may hide logs.
_OF_ANY_NAME: Final = frozenset({ReadRefusal.CLOSED, ReadRefusal.TOO_LONG})


class LogOwner(Struct, frozen=True, gc=False):
    """The session of a log. A side log (a subagent's) only shows that its session makes progress."""

    subject: SessionIdentity
    side: bool = False


class LogFormat(Struct, frozen=True):
    """The places of the logs of one format, the session of each log, and their reader."""

    name: str
    roots: tuple[Path, ...]
    suffix: str
    depth_max: int
    owner: Callable[[tuple[str, ...]], LogOwner | None]
    reader: Callable[[], LogReader]
    # The client's folder for the logs of a working directory; None if it sorts them in another way.
    folder_of: Callable[[str], str] | None = None
    # The texts of a conversation in one line.
    texts: Callable[[bytes], Sequence[Said]] = lambda _line: ()


class LogExcerpt(Struct, frozen=True):
    """Events of a log with the texts of its conversation. `cursor` is where the next excerpt begins.

    `is_continued`: it begins where an earlier one ended, and nothing lies between them.
    """

    events: list[Event]
    cursor: str
    is_continued: bool


class _FollowedLog(Struct):
    file: LogFile
    reader: LogReader
    subject: SessionIdentity
    unsaved: bool = True


class LogFileSource:
    def __init__(
        self,
        source: LogFormat,
        clock: Clock,
        sink: EvidenceSink,
        *,
        fold_after_seconds: float,
        folders: FolderWatcher | None = None,
        bookmarks: Mapping[str, Bookmark] | None = None,
    ) -> None:
        self._format = source
        self._clock = clock
        self._sink = sink
        self._fold_after_seconds = fold_after_seconds
        self._folders = folders
        self._bookmarks = dict(bookmarks or {})
        self._followed_logs: dict[str, _FollowedLog] = {}
        self._paths: dict[SessionId, str] = {}
        self._scanned_stats: dict[str, tuple[int, float]] = {}
        self._cwds: dict[str, str] = {}
        self._unwatched = 0
        self._skipped_logs = SkippedLogs()
        # Failed reads since the start.
        self.failed_reads = 0

    @property
    def name(self) -> str:
        return self._format.name

    @property
    def delay_reason(self) -> str | None:
        if not self._unwatched:
            return None
        folders = "1 folder" if self._unwatched == 1 else f"{self._unwatched} folders"
        return f"{folders} cannot be watched (inotify limit): checked every few seconds instead"

    @property
    def skipped_logs(self) -> str | None:
        return self._skipped_logs.summary()

    def scan(self) -> None:
        """Scan every root; read logs that are recent or grew, report the rest."""
        self._unwatched = 0
        odd: dict[str, ReadRefusal] = {}
        for root in self._format.roots:
            self._watch(str(root))
            found = scan_tree(root, self._format.suffix, self._format.depth_max, self._watch, odd)
            self.report_scan(root, found)
        self._skipped_logs.replace_scan(self._unreadable_logs(odd))

    async def sweep(self) -> None:
        """Scan without blocking the loop: folders are watched already, and a thread lists the files."""
        odd: dict[str, ReadRefusal] = {}
        for root in self._format.roots:
            found = await asyncio.to_thread(
                scan_tree, root, self._format.suffix, self._format.depth_max, odd=odd
            )
            self.report_scan(root, found)
        for opened in self._skipped_logs.replace_scan(self._unreadable_logs(odd)):
            self._watch(opened)

    def report_scan(self, root: Path, found: list[ScannedFile]) -> None:
        """Report the logs of a scan, newest first."""
        oldest_recent = self._clock.now().wall - self._fold_after_seconds
        for rank, each in enumerate(sorted(found, key=_mtime, reverse=True)):
            if each.mtime < oldest_recent and each.path not in self._scanned_stats:
                # An old log, for the first time: nine of ten logs at a start.
                self._scanned_stats[each.path] = each.size, each.mtime
                owner = self._owner(root, each.path)
                if owner is not None and not owner.side:
                    self._paths[owner.subject.id] = each.path
                    self._sink.on_old_log(owner.subject, each.mtime)
            else:
                self._report_log(root, each, is_recent=each.mtime >= oldest_recent, rank=rank)

    def on_changes(self, changes: FileChanges) -> None:
        if changes.rescan:
            self.scan()
        for folder in changes.folders:
            self._on_new_folder(folder)
        for path in changes.changed:
            if path.endswith(self._format.suffix) and (root := self._root_of(path)) is not None:
                self._on_log_change(root, path)
        for gone in changes.gone:
            if self._root_of(gone) is not None:
                self._on_removal(gone)
            elif any(f"{root}/".startswith(f"{gone}/") for root in self._format.roots):
                self._on_removal(gone)
                # Watches what is left of the path, so that the root is seen when it is created again.
                self.scan()

    def _on_new_folder(self, folder: str) -> None:
        """A new folder, perhaps not empty. Below a root nothing else has to be scanned."""
        root = self._root_of(folder)
        if root is not None:
            self._watch(folder)
            depth = folder.count("/") - str(root).count("/")
            odd = {folder: ReadRefusal.NOT_A_FILE} if folder.endswith(self._format.suffix) else {}
            found = scan_tree(folder, self._format.suffix, self._format.depth_max - depth, self._watch, odd)
            self.report_scan(root, found)
            self._skipped_logs.add_scan(self._unreadable_logs(odd))
        elif any(f"{each}/".startswith(f"{folder}/") for each in self._format.roots):
            self.scan()

    def release(self) -> None:
        """Drop everything read from the roots, which do not exist any more after the end of a container."""
        for root in self._format.roots:
            self._on_removal(str(root))

    def catch_up(self, session_id: SessionId) -> None:
        path = self._paths.get(session_id)
        if path is None:
            return
        root = self._root_of(path)
        assert root is not None, "only logs below a root have a path here"
        if path in self._followed_logs:
            self._read_new(path)
        elif (owner := self._owner(root, path)) is not None:
            self._follow(root, path, owner)

    def read_last_events(self, session_id: SessionId, limit: int) -> list[Event]:
        """The last events of a session's log; empty without a log. Positions do not change."""
        reader = self._format.reader()
        return [event for line in self.read_last_lines(session_id) for event in reader.read(line)][-limit:]

    def read_last_lines(self, session_id: SessionId) -> Sequence[bytes]:
        path = self._paths.get(session_id)
        root = self._root_of(path) if path is not None else None
        if path is None or root is None:
            return ()
        return LogFile(path, str(root)).read_back(lambda _line: False, bytes_max=LAST_LINES_BYTES_MAX).lines

    def read_conversation(self, session_id: SessionId, after: str) -> LogExcerpt | None:
        """What the log says after a cursor; without one, or if too much was written since, its end.

        None without a log. Positions do not change.
        """
        path = self._paths.get(session_id)
        root = self._root_of(path) if path is not None else None
        if path is None or root is None:
            return None
        file = LogFile(path, str(root))
        batch, is_continued = None, False
        if after:
            inode, _, offset = after.partition("-")
            file.resume(int(inode), int(offset), None)
            batch = file.read_new(bytes_max=LAST_LINES_BYTES_MAX)
            is_continued = not (batch.reset or batch.more)
        if batch is None or not is_continued:
            batch = file.read_back(lambda _line: False, bytes_max=LAST_LINES_BYTES_MAX)
        reader, position = self._format.reader(), file.position()
        events = [event for line in batch.lines for event in (*self._format.texts(line), *reader.read(line))]
        return LogExcerpt(events, f"{position.inode}-{position.offset}" if position else "", is_continued)

    def mark_unsaved(self, session_id: SessionId) -> None:
        """Its state changed without its log: the next bookmark has to hold that."""
        followed = self._followed_logs.get(self._paths.get(session_id, ""))
        if followed is not None:
            followed.unsaved = True

    def take_bookmarks(self) -> Iterator[Bookmark]:
        """Positions and states of the logs that were read since the last call."""
        for path, followed in self._followed_logs.items():
            if followed.unsaved:
                followed.unsaved = False
                yield from self._bookmark(path, followed)

    def _bookmark(self, path: str, followed: _FollowedLog) -> Iterator[Bookmark]:
        position = followed.file.position()
        if position is not None:
            head = b"" if position.head_hash is None else position.head_hash.to_bytes(4)
            folded = self._sink.snapshot(followed.subject.id)
            # A log without a complete line is no session yet: there is nothing to continue from.
            if folded is not None:
                yield Bookmark(path, position.inode, position.offset, head, RULE_VERSION, folded)

    def _watch(self, folder: str) -> None:
        if self._folders is not None and not watch_or_await(self._folders, folder):
            self._unwatched += 1

    def _root_of(self, path: str) -> Path | None:
        return next((root for root in self._format.roots if path.startswith(f"{root}/")), None)

    def _owner(self, root: Path, path: str) -> LogOwner | None:
        return self._format.owner(tuple(path[len(str(root)) + 1 :].split("/")))

    def _unreadable_logs(self, odd: Mapping[str, ReadRefusal]) -> dict[str, ReadRefusal]:
        """The relevant odd entries of a scan: unreadable folders, and entries with the name of a session's log."""
        return {
            path: why
            for path, why in odd.items()
            if why in _OF_ANY_NAME
            or ((root := self._root_of(path)) is not None and self._owner(root, path) is not None)
        }

    def _report_log(self, root: Path, found: ScannedFile, *, is_recent: bool, rank: int) -> None:
        """Report a scanned log if it is new or has changed. `rank` is the number of newer logs."""
        path = found.path
        stamp = (found.size, found.mtime)
        before = self._scanned_stats.get(path)
        if before is not None and path in self._skipped_logs:
            # It could not be read, so it counts as new: changed permissions leave size and time unchanged.
            before = None
        if before == stamp:
            return
        self._scanned_stats[path] = stamp
        # A log that appeared while watching is followed before any scan has found it.
        if before is not None or path in self._followed_logs:
            self._on_log_change(root, path)
        elif (owner := self._owner(root, path)) is not None and not owner.side:
            self._paths[owner.subject.id] = path
            if not is_recent:
                self._sink.on_old_log(owner.subject, found.mtime)
            elif rank < READ_AT_START_MAX or owner.subject.vouched or path in self._bookmarks:
                self._follow(root, path, owner)
            else:
                self._report_recent(root, found, owner.subject)

    def _on_log_change(self, root: Path, path: str) -> None:
        owner = self._owner(root, path)
        if owner is None:
            return
        if owner.side:
            self._sink.on_growth(owner.subject.id)
        elif path in self._followed_logs:
            self._read_new(path)
        else:
            self._paths[owner.subject.id] = path
            self._follow(root, path, owner, live=True)

    def _report_recent(self, root: Path, found: ScannedFile, identity: SessionIdentity) -> None:
        """Report session, age and working directory. For logs in one folder of the client, only one log is read."""
        folder = found.path.rpartition("/")[0]
        cwd = self._cwds.get(folder)
        if cwd is None:
            cwd = self._last_cwd(LogFile(found.path, str(root)))
            if cwd and self._format.folder_of and self._format.folder_of(cwd) == folder.rpartition("/")[2]:
                self._cwds[folder] = cwd
        self._sink.on_recent_log(identity, found.mtime, cwd)

    def _last_cwd(self, file: LogFile) -> str | None:
        for line in file.last_lines():
            for event in self._format.reader().read(line):
                if type(event) is LogOpened and event.cwd:
                    return event.cwd
        return None

    def _follow(self, root: Path, path: str, owner: LogOwner, *, live: bool = False) -> None:
        followed = _FollowedLog(LogFile(path, str(root)), self._format.reader(), owner.subject)
        self._followed_logs[path] = followed
        bookmark = self._bookmarks.pop(path, None)
        if bookmark is not None and self._restore(followed, bookmark):
            self._read_new(path, live=live)
        else:
            self._report(followed, followed.file.read_back(followed.reader.is_boundary), live=live)
        if bookmark is not None:
            self._sink.on_restored(owner.subject.id)

    def _restore(self, followed: _FollowedLog, bookmark: Bookmark) -> bool:
        """Continue where an earlier daemon stopped; if the file was replaced, its next read reports that."""
        if bookmark.rule_version != RULE_VERSION:
            return False
        if not self._sink.restore(followed.subject, bookmark.folded):
            return False
        head = int.from_bytes(bookmark.head_hash) if bookmark.head_hash else None
        followed.file.resume(bookmark.inode, bookmark.offset, head)
        return True

    def _read_new(self, path: str, *, live: bool = True) -> None:
        followed = self._followed_logs[path]
        for _ in range(SLICES_AT_ONCE_MAX):
            batch = followed.file.read_new()
            if batch.reset:
                followed.reader = self._format.reader()
            self._report(followed, batch, live=live)
            if not batch.more:
                return

    def _report(self, followed: _FollowedLog, batch: LogBatch, *, live: bool) -> None:
        self._skipped_logs.on_read(followed.file.path, batch.refused)
        self.failed_reads += followed.file.path in self._skipped_logs
        if not (batch.lines or batch.marks or batch.reset):
            return
        followed.unsaved = True
        events: list[Event] = []
        for mark in batch.marks:
            events.extend(read_damaged(mark.tail, followed.reader.read))
        for line in batch.lines:
            events.extend(followed.reader.read(line))
        self._sink.on_events(followed.subject, events, live=live, replaced=batch.reset)

    def _on_removal(self, gone: str) -> None:
        self._skipped_logs.forget(gone)
        for session_id, path in list(self._paths.items()):
            if path == gone or path.startswith(f"{gone}/"):
                del self._paths[session_id]
                self._followed_logs.pop(path, None)
                self._scanned_stats.pop(path, None)
                self._sink.on_log_deleted(session_id)
