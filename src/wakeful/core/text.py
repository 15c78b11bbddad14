"""Makes text from outside safe to show: allow-listed characters only, because terminals obey the others.

Terminal commands and invisible characters are handled here; secrets are not.
"""

import re
import unicodedata
from typing import Final

# Bidirectional overrides and other format characters can make a line read as something it is not.
_REFUSED_CATEGORIES: Final = frozenset({"Cc", "Cf", "Co", "Cs", "Cn", "Zl", "Zp"})
_BREAKS: Final = frozenset("\t\n\v\f\r\x85\u2028\u2029")
# Printable by their category, and yet without any width: fillers, joiners, variation selectors.
_WIDTHLESS: Final = re.compile(
    r"(?<=[\0\s!-~])[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]+(?=[\0\s!-~])"
)
SHOWN_CHARS_MAX: Final = 2000
# Whole commands to a terminal, ECMA-48's in both spellings: colours and cursor moves (CSI), strings with their end
# on the same line (OSC, DCS, SOS, PM, APC), character sets, and a few of two characters, unless text goes on there.
SEQUENCE: Final = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*(?:[@-~]|\Z)"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x90-\x9f\r\n]*(?:\x07|\x1b\\|\x9c)"
    # Not with a blank first: what stands behind that is mostly a word, and half of it would be taken away.
    r"|\x1b[!-/][ -/]*[0-~]"
    r"|\x1b[78=>cDEHMZ](?!\w)"
)


def plain(text: str, chars_max: int = SHOWN_CHARS_MAX) -> str:
    """One line of printable text: commands to terminals are gone, other controls become spaces, the rest an ellipsis."""
    cut = text[: chars_max + 1]
    if not cut.isprintable():
        cut = _replace_refused(SEQUENCE.sub("", cut), " ")
    cleaned = " ".join(cut.split())
    return cleaned if len(text) <= chars_max else cleaned[: chars_max - 1] + "…"


def has_hidden_characters(text: str) -> bool:
    """Whether a reader sees less than there is: controls other than line breaks, characters without a width."""
    if not text.isascii() and _WIDTHLESS.search(text) is not None:
        return True
    # Two passes in C tell most texts apart; `isprintable` says no to every kind of space but one, too.
    if text.replace("\n", "").isprintable():
        return False
    return any(unicodedata.category(char) in _REFUSED_CATEGORIES for char in set(text) - _BREAKS)


def without_hidden(text: str, mark: str) -> str:
    """The text as it reads, with `mark` wherever something was that nobody sees; line breaks stay."""
    text = SEQUENCE.sub(mark, text)
    return _WIDTHLESS.sub(mark, _replace_refused(text, mark, kept=_BREAKS | {mark}))


def _replace_refused(text: str, instead: str, kept: frozenset[str] = frozenset()) -> str:
    """Every refused character replaced; a text has few different characters, however long it is."""
    refused = {char for char in set(text) - kept if unicodedata.category(char) in _REFUSED_CATEGORIES}
    return text.translate({ord(char): instead for char in refused})
