"""Bytes to lines: pure, bounded, and the same however the bytes were cut into chunks.

A line never fails here. What a crash left around it (NULs, blanks) is cut off, what is too long to
hold becomes a mark, and `rescue` finds the good record behind a torn one. No files, no clock.
"""

import re
from collections.abc import Iterator
from io import BytesIO
from itertools import islice
from typing import Final

from msgspec import DecodeError, Raw, Struct

from wakeful.core.decoding import json_decoder

# 75 times the longest of 15,932 recorded lines (216 KB): room for images, and little enough to hold.
LINE_BYTES_MAX: Final = 16 * 1024 * 1024
# What is kept of a line given up, so that a good record glued to its end can still be rescued.
TAIL_BYTES: Final = 64 * 1024
# Together some tens of ms of looking back, whatever a hostile line holds; a bigger record is given up.
RESCUE_BYTES_MAX: Final = 2 * 1024 * 1024
RESCUE_TOKENS_MAX: Final = 65_536

# Cut off at both ends of a line. A crash can leave NULs where the file system had room but no bytes yet.
BLANK: Final = b"\0 \t\r\v\f"
AROUND: Final = BLANK + b"\n"
# A brace or a whole string of JSON read backwards, where an escaped quote comes before its backslashes.
# `\Z`: an endless string is one token too, or looking for its end from every quote would be quadratic.
_TOKEN_BACKWARDS: Final = re.compile(rb'[{}]|"[^"]*+(?:"(?=\\(?:\\\\)*+(?!\\))[^"]*+)*+(?:"|\Z)')
_DEPTH: Final = {b"}": 1, b"{": -1}
_decode_object: Final = json_decoder(dict[str, Raw])


class Oversized(Struct, frozen=True, gc=False):
    """A line that was too long to keep: its length in bytes and its last ones."""

    length: int
    tail: bytes


class Lines:
    """Cuts a stream into lines without their newline; the unterminated rest waits for its end.

    `pending_bytes` is how much was fed since the last newline. `given_up` says that the line in
    progress will end as a mark: it grew too long, or the stream was entered inside of it.
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
        """The lines that this chunk completes, in order; blank ones are nothing."""
        return [line for each in self.cut(chunk) if (line := without_blanks(each))]

    def cut(self, chunk: bytes) -> list[bytes | Oversized]:
        """The same as they stand, blank ones too: JSON is read as well with blanks around it, and without a copy."""
        if len(chunk) > self._bytes_max:  # so that no line inside one chunk can be too long
            return [line for piece in self._pieces(chunk) for line in self.cut(piece)]
        first_end = chunk.find(b"\n")
        if first_end < 0:
            self._keep(chunk)
            return []
        self._keep(chunk[:first_end])
        # Twice as fast as splitting, which looks at one byte after the other.
        others = BytesIO(chunk)
        others.seek(first_end + 1)
        first, whole = self._end(), others.readlines()
        if not chunk.endswith(b"\n"):
            self._keep(whole.pop())
        return [first, *whole]

    def forget(self) -> None:
        """Drop the unterminated rest: its bytes will be fed again, or never."""
        self._rest.clear()
        self._cut_bytes = self.pending_bytes = 0
        self.given_up = False

    def _pieces(self, chunk: bytes) -> Iterator[bytes]:
        return (chunk[at : at + self._bytes_max] for at in range(0, len(chunk), self._bytes_max))

    def _keep(self, piece: bytes) -> None:
        self.pending_bytes += len(piece)
        # Leading blanks never count: a gigabyte of NULs must not take the record behind it along.
        self._rest += piece if self._rest else piece.lstrip(BLANK)
        self.given_up = self.given_up or len(self._rest) > self._bytes_max
        spare = len(self._rest) - self._tail_bytes
        if self.given_up and spare > self._tail_bytes:  # half at a time, so that cutting stays cheap
            del self._rest[:spare]
            self._cut_bytes += spare

    def _end(self) -> bytes | Oversized:
        if self.given_up:
            tail = bytes(self._rest[-self._tail_bytes :])
            ended: bytes | Oversized = Oversized(self._cut_bytes + len(self._rest), tail)
        else:
            ended = bytes(self._rest).rstrip(BLANK)
        self.forget()
        return ended


def without_blanks(line: bytes | Oversized) -> bytes | Oversized:
    """What stands in a line; nothing if it is blank."""
    return line.strip(AROUND) if type(line) is bytes else line


def rescue(line: bytes) -> bytes | None:
    """The complete JSON object that a line which failed to decode ends with, if there is one.

    Reading JSON backwards from its end is exact: outside strings the last `}` has one partner, and
    nothing before that one is looked at, so anything torn may stand in front of it.
    """
    backwards = line[-RESCUE_BYTES_MAX:][::-1]
    depth = 0
    for token in islice(_TOKEN_BACKWARDS.finditer(backwards), RESCUE_TOKENS_MAX):
        depth += _DEPTH.get(token[0], 0)
        if depth <= 0:
            return _whole_object(line[-token.end() :])
    return None


def _whole_object(suffix: bytes) -> bytes | None:
    try:
        return suffix if _decode_object(suffix) else None
    except DecodeError:  # no record after all: that is the answer
        return None
