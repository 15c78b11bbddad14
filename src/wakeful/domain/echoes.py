"""A text that says the same thing over and over within itself: a model that lost its thread. Pure.

Only the end of a text is looked at, for such a text does not come back to its senses. Dividers and tables repeat
themselves by nature, and a block of code has an end that is its own.
"""

from typing import Final

# A shorter text has no room for ten sentences.
_TEXT_BYTES_MIN: Final = 400
# Ten times within this: what is repeated has some 300 bytes at most.
_WINDOW_BYTES: Final = 3000
# The piece looked for, and how far from the end: marks and quotes behind the last word are not repeated.
_PIECE_BYTES: Final = 40
_BEHIND_BYTES: Final = 8
# A piece with fewer distinct bytes is a line of dashes, a bar or a run of dots.
_DISTINCT_MIN: Final = 8
_TABLE: Final = b"|"


def echoes_in(text: bytes) -> int:
    """How often the end of a text was said before in it, word by word; 0 for nearly every text."""
    if len(text) < _TEXT_BYTES_MIN:
        return 0
    end = len(text) - _BEHIND_BYTES
    piece = text[end - _PIECE_BYTES : end]
    start = max(0, len(text) - _WINDOW_BYTES)
    if text.find(piece, start, end - 1) < 0 or len(set(piece)) < _DISTINCT_MIN or _TABLE in piece:
        return 0
    return _count(text, piece, start)


def _count(text: bytes, piece: bytes, start: int) -> int:
    """Also where one begins inside of another: a short sentence is repeated within the piece."""
    count, at = 0, text.find(piece, start)
    while at >= 0:
        count, at = count + 1, text.find(piece, at + 1)
    return count
