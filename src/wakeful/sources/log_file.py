"""Reads one append-only log: splits bytes into lines, reads new lines, or reads backwards from the end.

Splitting is pure and bounded, and gives the same lines for all sizes of chunks. A line never fails: NULs and
blanks that a crash left are cut off, a line that is too long becomes a mark, and `rescue` finds the good record
behind a torn one.

Logs are opened for reading only, and only during a call; nothing is written or locked. No symlink is followed
below the root: folders are opened one by one, each relative to the one before, so no program can exchange one
after a check. A comparison of real paths could not guarantee that.
"""

import os
import re
from collections.abc import Callable, Iterator
from enum import StrEnum
from errno import EACCES, ELOOP, ENAMETOOLONG, ENOENT, ENOTDIR, ENXIO, EPERM
from io import BytesIO
from itertools import islice
from stat import S_ISREG
from typing import Final, TypeAlias
from zlib import crc32

from msgspec import DecodeError, Raw, Struct

from wakeful.core.decoding import json_decoder
from wakeful.core.errors import OwnError

# 75 times the longest of 15,932 recorded lines (216 KB): enough for images, and small enough for memory.
LINE_BYTES_MAX: Final = 16 * 1024 * 1024
# This much of a line that is too long is stored, so that a good record at its end can be rescued.
TAIL_BYTES: Final = 64 * 1024
# Together they bound `rescue` to some tens of ms for any hostile line; a bigger record is lost.
RESCUE_BYTES_MAX: Final = 2 * 1024 * 1024
RESCUE_TOKENS_MAX: Final = 65_536

# Cut off at both ends of a line. A crash can leave NULs where the file system had room but no bytes yet.
BLANK: Final = b"\0 \t\r\v\f"
AROUND: Final = BLANK + b"\n"
# A brace or a whole JSON string read backwards, where an escaped quote comes before its backslashes.
# `\Z`: a string without end is one token too, or searching its end from every quote would be quadratic.
_TOKEN_BACKWARDS: Final = re.compile(rb'[{}]|"[^"]*+(?:"(?=\\(?:\\\\)*+(?!\\))[^"]*+)*+(?:"|\Z)')
_DEPTH: Final = {b"}": 1, b"{": -1}
_decode_object: Final = json_decoder(dict[str, Raw])


class Oversized(Struct, frozen=True, gc=False):
    """A line above the length limit: its length and its last bytes."""

    length: int
    tail: bytes


class LineSplitter:
    """Splits a stream into lines without their newline; the unterminated rest waits for its end.

    `pending_bytes` is the number of bytes since the last newline. `given_up`: the current line will become a
    mark, because it is too long or the stream began inside it.
    """

    __slots__ = ("_bytes_max", "_cut_bytes", "_rest", "_tail_bytes", "given_up", "pending_bytes")

    def __init__(self, *, bytes_max: int = LINE_BYTES_MAX, inside: bool = False) -> None:
        assert bytes_max > 0, "a line needs room"
        self._bytes_max = bytes_max
        self._tail_bytes = min(TAIL_BYTES, bytes_max)
        self._rest = bytearray()
        self._cut_bytes = 0
        self.pending_bytes = 0
        self.given_up = inside

    def feed(self, chunk: bytes) -> list[bytes | Oversized]:
        """The lines that this chunk completes, in order, without blank ones."""
        return [line for each in self.cut(chunk) if (line := without_blanks(each))]

    def cut(self, chunk: bytes) -> list[bytes | Oversized]:
        """The completed lines with blanks and blank lines: JSON decodes with blanks around it, and this saves a copy."""
        if len(chunk) > self._bytes_max:  # so that no line inside one chunk can be too long
            pieces = (chunk[at : at + self._bytes_max] for at in range(0, len(chunk), self._bytes_max))
            return [line for piece in pieces for line in self.cut(piece)]
        first_end = chunk.find(b"\n")
        if first_end < 0:
            self._keep(chunk)
            return []
        self._keep(chunk[:first_end])
        # Twice as fast as splitting, which checks each byte.
        others = BytesIO(chunk)
        others.seek(first_end + 1)
        first, whole = self._end(), others.readlines()
        if not chunk.endswith(b"\n"):
            self._keep(whole.pop())
        return [first, *whole]

    def forget(self) -> None:
        """Drop the unterminated rest; its bytes may be fed again."""
        self._rest.clear()
        self._cut_bytes = self.pending_bytes = 0
        self.given_up = False

    def _keep(self, piece: bytes) -> None:
        self.pending_bytes += len(piece)
        # Leading blanks do not count: the record behind a gigabyte of NULs must not be lost.
        self._rest += piece if self._rest else piece.lstrip(BLANK)
        self.given_up = self.given_up or len(self._rest) > self._bytes_max
        spare = len(self._rest) - self._tail_bytes
        if self.given_up and spare > self._tail_bytes:  # half at a time, so that cutting stays cheap
            del self._rest[:spare]
            self._cut_bytes += spare

    def _end(self) -> bytes | Oversized:
        line: bytes | Oversized = bytes(self._rest).rstrip(BLANK)
        if self.given_up:
            tail = bytes(self._rest[-self._tail_bytes :])
            line = Oversized(self._cut_bytes + len(self._rest), tail)
        self.forget()
        return line


def without_blanks(line: bytes | Oversized) -> bytes | Oversized:
    """The content of a line; empty if it is blank."""
    return line.strip(AROUND) if type(line) is bytes else line


def rescue(line: bytes) -> bytes | None:
    """The complete JSON object at the end of a line that failed to decode, if there is one.

    Reading JSON backwards from its end is exact: outside strings the last `}` has one partner, and nothing before
    that one is read, so anything torn may precede it.
    """
    backwards = line[-RESCUE_BYTES_MAX:][::-1]
    depth = 0
    for token in islice(_TOKEN_BACKWARDS.finditer(backwards), RESCUE_TOKENS_MAX):
        depth += _DEPTH.get(token[0], 0)
        if depth <= 0:
            suffix = line[-token.end() :]
            try:
                return suffix if _decode_object(suffix) else None
            except DecodeError:
                return None
    return None


# A few milliseconds of decoding, so that one long log does not delay the others.
SLICE_BYTES_MAX: Final = 4 * 1024 * 1024
# A buffer above 64 KiB decodes no faster; this one saves some calls.
BUFFER_BYTES: Final = 256 * 1024
# One page: the last text of a finished turn and the records behind it have half of that.
BACK_BYTES_FIRST: Final = 4 * 1024
BACK_BYTES_MAX: Final = 4 * 1024 * 1024
BACK_GROWTH: Final = 4
HEAD_BYTES: Final = 256
# An unterminated rest up to this is read again each time: that is cheap, and a torn end that its writer repairs
# is never joined to the following bytes. A longer one is stored, so that the cost depends on new bytes only.
REREAD_BYTES_MAX: Final = 64 * 1024

_Line: TypeAlias = bytes | Oversized
_IsBoundary: TypeAlias = Callable[[bytes], bool]
_Lengths: TypeAlias = Iterator[int]

_SPECIAL_NAMES: Final = frozenset(("", ".", ".."))
_FOLDER_FLAGS: Final = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Non-blocking: a pipe in place of a log must not block.
_LOG_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class ReadRefusal(StrEnum):
    MISSING = "missing"
    SYMLINK = "symlink"
    # A part of the path is no folder; a symlink to a folder is none.
    NOT_A_FOLDER = "not_a_folder"
    # A folder, pipe, socket or device in place of a file.
    NOT_A_FILE = "not_a_file"
    UNREADABLE = "unreadable"
    # A folder that cannot be listed: its content is invisible.
    CLOSED = "closed"
    # Its path is longer than the kernel allows.
    TOO_LONG = "too_long"
    FAILED = "failed"


_REFUSALS: Final = {
    ENOENT: ReadRefusal.MISSING,
    ELOOP: ReadRefusal.SYMLINK,
    ENOTDIR: ReadRefusal.NOT_A_FOLDER,
    ENXIO: ReadRefusal.NOT_A_FILE,
    EACCES: ReadRefusal.UNREADABLE,
    EPERM: ReadRefusal.UNREADABLE,
    ENAMETOOLONG: ReadRefusal.TOO_LONG,
}


class LogOutsideRoot(OwnError):
    """The log {path!r} is not inside {root!r}."""

    code = "log-outside-root"


class LogBatch(Struct, frozen=True, gc=False):
    """The result of one read.

    `reset`: the log was truncated, replaced or rewritten; these lines come from its new beginning.
    `more`: the slice was full, read again. `refused`: why the rest could not be read.
    """

    lines: list[bytes] = []
    marks: list[Oversized] = []
    reset: bool = False
    more: bool = False
    refused: ReadRefusal | None = None


class Position(Struct, frozen=True, gc=False):
    """Where to continue after a restart; `head_hash` is None while the head was not needed yet."""

    inode: int
    offset: int
    head_hash: int | None


class LogFile:
    """An append-only log below a root. The root must be a real path; the caller resolves it once."""

    __slots__ = ("_at", "_folders", "_head_hash", "_inode", "_lines", "_name", "path")

    def __init__(self, path: str, root: str) -> None:
        self.path = path
        self._folders, self._name = _steps(path, root)
        self._lines = LineSplitter()
        self._at = 0
        self._inode: int | None = None
        self._head_hash: int | None = None

    @property
    def offset(self) -> int:
        """The end of the last complete line."""
        return self._at - self._lines.pending_bytes

    def position(self) -> Position | None:
        """The position for `resume`; None until the log was read once."""
        return None if self._inode is None else Position(self._inode, self.offset, self._head_hash)

    def resume(self, inode: int, offset: int, head_hash: int | None) -> None:
        """Continue from a stored position. No I/O: the next `read_new` returns `reset` if the log was replaced."""
        self._seek(offset)
        self._inode, self._head_hash = inode, head_hash

    def read_new(self, *, bytes_max: int = SLICE_BYTES_MAX) -> LogBatch:
        """The complete lines since the last read; an unterminated one waits for its newline."""
        return self._open_and_read(lambda fd, status: self._read_new(fd, status, bytes_max))

    def read_back(
        self,
        is_boundary: _IsBoundary,
        *,
        bytes_first: int = BACK_BYTES_FIRST,
        bytes_max: int = BACK_BYTES_MAX,
    ) -> LogBatch:
        """The complete lines from the last boundary on, reading back only as far as necessary.

        Without a boundary within `bytes_max`: the lines in that range. Drops any earlier position; `read_new`
        continues behind the last line.
        """
        assert 0 < bytes_first <= bytes_max <= LINE_BYTES_MAX, "the boundary must be a line below the limit"
        lengths = _window_lengths(bytes_first, bytes_max)
        return self._open_and_read(lambda fd, status: self._read_back(fd, status, is_boundary, lengths))

    def last_lines(self, bytes_max: int = BACK_BYTES_FIRST) -> list[bytes]:
        """The complete lines among its last bytes, newest first; empty if unreadable. Keeps the position."""
        return self._open_and_read(lambda fd, status: _last_lines(fd, status.st_size, bytes_max)).lines

    def _open_and_read(self, read: Callable[[int, os.stat_result], LogBatch]) -> LogBatch:
        try:
            fd = self._open()
        except OSError as error:
            return LogBatch(refused=_refusal(error))
        try:
            status = os.fstat(fd)
            return read(fd, status) if S_ISREG(status.st_mode) else LogBatch(refused=ReadRefusal.NOT_A_FILE)
        except OSError as error:
            return LogBatch(refused=_refusal(error))
        finally:
            os.close(fd)

    def _open(self) -> int:
        folder: int | None = None
        try:
            for name in self._folders:
                outer, folder = folder, os.open(name, _FOLDER_FLAGS, dir_fd=folder)
                if outer is not None:
                    os.close(outer)
            try:
                return os.open(self._name, _LOG_FLAGS | os.O_NOATIME, dir_fd=folder)
            except PermissionError as error:
                if error.errno != EPERM:
                    raise
                # Only the owner of a file may use O_NOATIME.
                return os.open(self._name, _LOG_FLAGS, dir_fd=folder)
        finally:
            if folder is not None:
                os.close(folder)

    def _read_new(self, fd: int, status: os.stat_result, bytes_max: int) -> LogBatch:
        head = os.pread(fd, HEAD_BYTES, 0)
        reset = not self._is_same_log(fd, status, head)
        if reset:
            self._seek(0)
        elif self._at > status.st_size:  # only an unterminated end was cut off
            self._seek(self.offset)
        stop = min(status.st_size, self._at + bytes_max)
        ended, refused = self._feed_until(fd, stop)
        more = refused is None and self._at == stop < status.st_size
        if not more:
            self._forget_short_rest()
        self._inode, self._head_hash = status.st_ino, crc32(head[: self.offset])
        return LogBatch(*_lines_and_marks(ended), reset=reset, more=more, refused=refused)

    def _is_same_log(self, fd: int, status: os.stat_result, head: bytes) -> bool:
        if self._inode is None:
            return True
        if status.st_ino != self._inode or status.st_size < self.offset:
            return False
        if self._head_hash not in (None, crc32(head[: self.offset])):
            return False
        # A log that was truncated and grew again keeps its head, but hardly has a newline exactly here.
        return self._at == 0 or self._lines.pending_bytes > 0 or os.pread(fd, 1, self._at - 1) == b"\n"

    def _feed_until(self, fd: int, stop: int) -> tuple[list[_Line], ReadRefusal | None]:
        ended: list[_Line] = []
        try:
            while self._at < stop and (chunk := os.pread(fd, min(BUFFER_BYTES, stop - self._at), self._at)):
                self._at += len(chunk)
                ended += self._lines.feed(chunk)
        except OSError as error:  # the lines read before it failed are valid
            return ended, _refusal(error)
        return ended, None

    def _read_back(
        self, fd: int, status: os.stat_result, is_boundary: _IsBoundary, lengths: _Lengths
    ) -> LogBatch:
        start, window, boundary = _search_back(fd, status.st_size, is_boundary, lengths)
        first = _first_line(start, window) if boundary is None else boundary
        self._lines, self._at = LineSplitter(inside=first is None), start + len(window)
        lines, marks = _lines_and_marks(self._lines.feed(window[first:]))
        self._forget_short_rest()
        self._inode = status.st_ino
        self._head_hash = None if start else crc32(window[:HEAD_BYTES][: self.offset])
        return LogBatch(lines, marks)

    def _seek(self, at: int) -> None:
        self._at, self._lines = at, LineSplitter()

    def _forget_short_rest(self) -> None:
        if self._lines.pending_bytes <= REREAD_BYTES_MAX and not self._lines.given_up:
            self._at = self.offset
            self._lines.forget()


def _last_lines(fd: int, size: int, bytes_max: int) -> LogBatch:
    start = max(0, size - bytes_max)
    *ended, _rest = os.pread(fd, bytes_max, start).split(b"\n")
    whole = ended if start == 0 else ended[1:]
    return LogBatch([line for each in reversed(whole) if (line := each.strip(BLANK))])


def _search_back(
    fd: int, size: int, is_boundary: _IsBoundary, lengths: _Lengths
) -> tuple[int, bytes, int | None]:
    """The shortest end of the log that contains a boundary, or the longest allowed.

    Returns its offset, its bytes, and the position of the boundary in them.
    """
    start, window, checked_from = size, b"", size
    for start, window in _windows(fd, size, lengths):
        first = _first_line(start, window)
        boundary = _last_boundary(window[: checked_from - start], first, is_boundary)
        if boundary is not None:
            return start, window, boundary
        checked_from = checked_from if first is None else start + first
    return start, window, None


def _first_line(start: int, window: bytes) -> int | None:
    """The position of the first line that is certainly complete; None if the whole window is inside one line."""
    return 0 if start == 0 else window.find(b"\n") + 1 or None


def _last_boundary(window: bytes, first: int | None, is_boundary: _IsBoundary) -> int | None:
    end = window.rfind(b"\n")
    while first is not None and end >= first:
        begin = window.rfind(b"\n", first, end) + 1 or first
        line = window[begin:end].strip(BLANK)
        if line and is_boundary(line):
            return begin
        end = begin - 1
    return None


def _windows(fd: int, size: int, lengths: _Lengths) -> Iterator[tuple[int, bytes]]:
    """Growing ends of a log, each with its offset."""
    start, window = size, b""
    for length in lengths:
        begin = max(0, size - length)
        older = _read_range(fd, begin, start)
        if window and len(older) < start - begin:
            return  # truncated meanwhile: the next `read_new` reports that
        start, window = begin, older + window
        yield start, window
        if start == 0:
            return


def _window_lengths(bytes_first: int, bytes_max: int) -> _Lengths:
    length = bytes_first
    while length < bytes_max:
        yield length
        length *= BACK_GROWTH
    yield bytes_max


def _read_range(fd: int, start: int, stop: int) -> bytes:
    """The whole range; less only if the file ends before."""
    chunks = []
    while start < stop and (chunk := os.pread(fd, stop - start, start)):
        chunks.append(chunk)
        start += len(chunk)
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def _lines_and_marks(ended: list[_Line]) -> tuple[list[bytes], list[Oversized]]:
    lines = [line for line in ended if isinstance(line, bytes)]
    marks = [line for line in ended if isinstance(line, Oversized)] if len(lines) < len(ended) else []
    return lines, marks


def _steps(path: str, root: str) -> tuple[list[str], str]:
    """The folders to open one inside the other, and the log's name; the path of the root is trusted."""
    prefix = root.rstrip("/") + "/"
    first, *others = path.removeprefix(prefix).split("/")
    if not path.startswith(prefix) or "\0" in path or not _SPECIAL_NAMES.isdisjoint((first, *others)):
        raise LogOutsideRoot(path=path, root=root)
    *folders, name = prefix + first, *others
    return folders, name


def _refusal(error: OSError) -> ReadRefusal:
    return _REFUSALS.get(error.errno or 0, ReadRefusal.FAILED)
