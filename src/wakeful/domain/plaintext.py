"""Text from outside, made safe to show. Allow-listed characters only: terminals obey the others."""

import unicodedata
from typing import Final

# Bidirectional overrides and other format characters can make a line read as something it is not.
_REFUSED_CATEGORIES: Final = frozenset({"Cc", "Cf", "Co", "Cs", "Cn", "Zl", "Zp"})
SHOWN_CHARS_MAX: Final = 2000


def plain(text: str, chars_max: int = SHOWN_CHARS_MAX) -> str:
    """One line of printable text: controls become spaces, the rest of a long text an ellipsis."""
    cut = text[: chars_max + 1]
    if cut.isascii() and cut.isprintable():
        cleaned = cut
    else:
        cleaned = "".join(" " if unicodedata.category(char) in _REFUSED_CATEGORIES else char for char in cut)
    cleaned = " ".join(cleaned.split())
    return cleaned if len(text) <= chars_max else cleaned[: chars_max - 1] + "…"
