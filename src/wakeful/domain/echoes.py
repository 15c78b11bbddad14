"""A text that says the same thing over and over within itself: a model that lost its thread. Pure.

Only the end of a text is looked at, for such a text does not come back to its senses. What is repeated must be the
same to the letter: lists with a long beginning in common, tables and dividers repeat themselves by nature, and so does
code.
"""

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
# A piece with fewer distinct bytes is a line of dashes, a bar or a run of dots.
_DISTINCT_MIN: Final = 8
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
    return in_code or _TABLE in piece or len(set(piece)) < _DISTINCT_MIN


def _count(text: bytes, end: int, period: int) -> int:
    unit, count = text[end - period : end], 0
    while text[end - period : end] == unit:
        count, end = count + 1, end - period
    return max(count, ECHOES_MIN)
