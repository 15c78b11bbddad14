"""A text that says the same thing over and over within itself: a model that lost its thread. Pure.

Only the end of a text is looked at, for such a text does not come back to its senses. What is repeated must be the
same to the letter: lists with a long beginning in common, tables and dividers repeat themselves by nature, and so does
code.
"""

import re
from collections.abc import Iterator
from typing import Final

# As often as a model says the same when it has lost its thread; and a shorter text has no room for that.
ECHOES_MIN: Final = 10
_TEXT_BYTES_MIN: Final = 400
# What is repeated is no longer than this.
_PERIOD_BYTES_MAX: Final = 300
# Found first; the repeated thing may be shorter.
_PIECE_BYTES: Final = 32
# Blanks behind the last one are often left out.
_LACKING_BYTES_MAX: Final = 8
# Enough of the end to see what it is made of, with an escape that is cut in half before it.
_LOOKED_AT_BYTES: Final = 120
_HALF_ESCAPE_CHARS: Final = 5
_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|.)")
_TABLE: Final = b"|"
_FENCE: Final = b"```"


def echoes_in(text: bytes) -> int:
    """How often a text says the same thing at its end, if that is often; 0 for nearly every text."""
    if len(text) < _TEXT_BYTES_MIN:
        return 0
    end = len(text) - text.endswith(b'"')
    for period in _periods(text, end):
        if _is_repeated(text, end, period):
            return 0 if _is_by_nature(text, end) else _count(text, end, period)
    return 0


def _periods(text: bytes, end: int) -> Iterator[int]:
    """How far before the end its last piece stands too, the nearest first."""
    start = end - _PIECE_BYTES
    piece, at = text[start:end], start
    while (at := text.rfind(piece, max(0, start - _PERIOD_BYTES_MAX), at + _PIECE_BYTES - 1)) >= 0:
        yield start - at


def _is_repeated(text: bytes, end: int, period: int) -> bool:
    times = max(ECHOES_MIN, -(-_TEXT_BYTES_MIN // period))
    begin = end - (times - 1) * period + _LACKING_BYTES_MAX
    return begin >= period and text[begin:end] == text[begin - period : end - period]


def _is_by_nature(text: bytes, end: int) -> bool:
    piece = text[end - _PIECE_BYTES : end]
    in_code = text.count(_FENCE) % 2 == 1 or text.endswith((_FENCE, _FENCE + b'"'))
    return in_code or _TABLE in piece or _is_divider(text[end - _LOOKED_AT_BYTES : end])


def _is_divider(piece: bytes) -> bool:
    """A line of dashes, a bar and a run of dots have no letter; whoever says one letter for ever does."""
    shown = _ESCAPE.sub(_unescaped, piece.decode("utf-8", "ignore"))
    return not any(map(str.isalnum, shown[_HALF_ESCAPE_CHARS:]))


def _unescaped(found: re.Match[str]) -> str:
    return chr(int(found[1], 16)) if found[1] else " "


def _count(text: bytes, end: int, period: int) -> int:
    """By halves: a model that lost its thread may say one letter a million times."""
    least, most = ECHOES_MIN, end // period
    while least < most:
        times = (least + most + 1) // 2
        begin = end - times * period
        if text[begin : end - period] == text[begin + period : end]:
            least = times
        else:
            most = times - 1
    return least
