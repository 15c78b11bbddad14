"""Makes text from outside safe to show: allow-listed characters only, because terminals obey the others.

Terminal commands and invisible characters are handled here; secrets are not.
"""

import re
import unicodedata
from typing import Final

# Bidirectional overrides and other format characters can make a line read as something it is not.
_REFUSED_CATEGORIES: Final = frozenset({"Cc", "Cf", "Co", "Cs", "Cn", "Zl", "Zp"})
_BREAKS: Final = frozenset("\t\n\v\f\r\x85\u2028\u2029")
# Printable by category but without width: fillers, joiners, variation selectors.
_WIDTHLESS: Final = re.compile(
    r"(?<=[\0\s!-~])[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]+(?=[\0\s!-~])"
)
SHOWN_CHARS_MAX: Final = 2000
# Complete terminal commands of ECMA-48 in both encodings: colours and cursor moves (CSI), strings that end on the
# same line (OSC, DCS, SOS, PM, APC), character sets, and a few of two characters, unless a word follows.
SEQUENCE: Final = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*(?:[@-~]|\Z)"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x90-\x9f\r\n]*(?:\x07|\x1b\\|\x9c)"
    # Not with a leading blank: it mostly precedes a word, which would be cut.
    r"|\x1b[!-/][ -/]*[0-~]"
    r"|\x1b[78=>cDEHMZ](?!\w)"
)


def plain(text: str, chars_max: int = SHOWN_CHARS_MAX) -> str:
    """One line of printable text: no terminal commands, a space for other controls, an ellipsis for the rest."""
    cut = text[: chars_max + 1]
    if not cut.isprintable():
        cut = _replace_refused(SEQUENCE.sub("", cut), " ")
    cleaned = " ".join(cut.split())
    return cleaned if len(text) <= chars_max else cleaned[: chars_max - 1] + "…"


def plain_lines(text: str, chars_max: int) -> str:
    """Lines of printable text with their indentation, an ellipsis for the rest."""
    lines = without_hidden(text[:chars_max], " ").expandtabs(4).splitlines()
    cleaned = "\n".join(line.rstrip() for line in lines).strip("\n")
    return cleaned if len(text) <= chars_max else f"{cleaned}…"


def has_hidden_characters(text: str) -> bool:
    """Whether the text contains characters a reader does not see: controls other than line breaks, zero width."""
    if not text.isascii() and _WIDTHLESS.search(text) is not None:
        return True
    # Two passes in C decide most texts; `isprintable` also rejects every kind of space but one.
    if text.replace("\n", "").isprintable():
        return False
    return any(unicodedata.category(char) in _REFUSED_CATEGORIES for char in set(text) - _BREAKS)


def without_hidden(text: str, mark: str) -> str:
    """The visible text, with `mark` in place of hidden characters; line breaks stay."""
    text = SEQUENCE.sub(mark, text)
    return _WIDTHLESS.sub(mark, _replace_refused(text, mark, kept=_BREAKS | {mark}))


def _replace_refused(text: str, instead: str, kept: frozenset[str] = frozenset()) -> str:
    # Per distinct character: even a long text has few.
    refused = {char for char in set(text) - kept if unicodedata.category(char) in _REFUSED_CATEGORIES}
    return text.translate({ord(char): instead for char in refused})
