"""Prepares an agent's text for the chat: redacts secrets, removes hidden characters, keeps line breaks. Pure.

An answer can have any length; all of it that is shown is searched for secrets. While it grows, its last word
is held back, because half a secret cannot be recognized.
"""

import re
from typing import Final

from wakeful.core.redaction import REDACTED_CHARS_MAX, redact
from wakeful.core.text import without_hidden
from wakeful.gateway.rules.formatting import PARTS_MAX, UNITS_MAX, split
from wakeful.gateway.rules.tags import shown_so_far

# As many characters as fit into the messages of one answer, if none needs two units.
SHOWN_CHARS_MAX: Final = PARTS_MAX * UNITS_MAX
# A little less than the 4,096 UTF-16 code units of a message: room for the marks at both ends.
VIEW_UNITS_MAX: Final = 4000
# A screen or two of a phone.
BEGINNING_UNITS_MAX: Final = 2048
# More than is shown of a growing answer, so that no shown secret can begin before it.
_WINDOW_CHARS: Final = REDACTED_CHARS_MAX
# Withheld on each side of a border. Longer than a key.
_BORDER_CHARS: Final = 200
_BORDER: Final = "[withheld]"
_PRIVATE_KEY: Final = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----.*?(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY-----|\Z)",
    re.IGNORECASE | re.DOTALL,
)
_LINE_ENDS: Final = re.compile(r"\r\n?|[\v\f\x85\u2028\u2029]")
_GAP: Final = re.compile(r"\s+")
# Between two words, unless the first one announces a secret; else behind a mark that no secret contains.
_SAFE_CUTS: Final = (
    re.compile(
        r"(?<![:=\\\"'\s])(?<!bearer)(?<!basic)(?<!token)(?<!password)(?<!secret)(?<!key)\s++(?![:=\\\"'])",
        re.IGNORECASE,
    ),
    re.compile(r"[,;]"),
)
# Possessive, so that the search has linear cost.
_LAST_WORD: Final = re.compile(r"(?<!\S)\S++\Z")


def display_text(text: str) -> str:
    """The text for people, cut to the length that the messages of one answer can hold."""
    return full_display_text(text[:SHOWN_CHARS_MAX])


def full_display_text(text: str) -> str:
    """The whole text for people. A million characters take half a second: call it in a thread."""
    clean = "".join(redact(piece) for piece in _pieces(_without_private_keys(text)))
    return without_hidden(_LINE_ENDS.sub("\n", clean), "").strip()


def is_long(text: str) -> bool:
    """Whether it is more than the messages of one answer can hold: then the text is sent as a file."""
    return len(text) > SHOWN_CHARS_MAX or (
        # Every message but the last is at least half full.
        len(text) > SHOWN_CHARS_MAX // 4 and len(split(display_text(text))) > PARTS_MAX
    )


def text_beginning(text: str, note: str) -> str:
    """The beginning of a long text, and the note behind it, in one message."""
    first = split(display_text(text[:_WINDOW_CHARS]), BEGINNING_UNITS_MAX)[:1]
    return "\n\n".join((*first, note))


def messages_of(text: str) -> tuple[str, ...]:
    """The messages of a finished answer; the same text gives the same ones.

    The last one says if some are missing, which happens only if a long text could not be sent as a file.
    """
    parts = split(display_text(text))
    if len(text) <= SHOWN_CHARS_MAX and len(parts) <= PARTS_MAX:
        return parts
    missing = f"[cut here: the answer has {len(text):,} characters. The session's log has all of them.]"
    return (*parts[: PARTS_MAX - 1], missing)


def partial_view(text: str) -> str:
    """The newest part of a growing answer as one message, in whole words and without tags; empty if there is none."""
    text = _without_private_keys(text)
    is_cut = len(text) > _WINDOW_CHARS
    window = text[_first_cut(text, len(text) - _WINDOW_CHARS) :] if is_cut else text
    clean = display_text(shown_so_far(_LAST_WORD.sub("", window)))
    if not clean:
        return ""
    newest = _tail(clean)
    return f"… {newest} …" if len(newest) < len(clean) or is_cut else f"{newest} …"


def _without_private_keys(text: str) -> str:
    """Private keys have many lines, so they are removed before the text is cut into pieces."""
    return _PRIVATE_KEY.sub("[private key]", text) if "PRIVATE KEY-----" in text else text


def _pieces(text: str) -> list[str]:
    """The text in pieces that are short enough to be redacted, cut where no secret can be.

    Without such a place, the text around the border is withheld.
    """
    pieces, start = [], 0
    while len(text) - start > REDACTED_CHARS_MAX:
        first, last = start + REDACTED_CHARS_MAX // 2, start + REDACTED_CHARS_MAX
        cut = _last_safe_cut(text, first, last)
        if cut is None:
            pieces += [text[start : last - _BORDER_CHARS], _BORDER]
            start = last + _BORDER_CHARS
        else:
            pieces.append(text[start:cut])
            start = cut
    return [*pieces, text[start:]]


def _last_safe_cut(text: str, first: int, last: int) -> int | None:
    for pattern in _SAFE_CUTS:
        cuts = [found.end() for found in pattern.finditer(text, first, last)]
        if cuts:
            return cuts[-1]
    return None


def _first_cut(text: str, first: int) -> int:
    """Where the window begins: at a word. The shown text begins long after it."""
    found = _SAFE_CUTS[0].search(text, first, first + _WINDOW_CHARS // 4)
    return found.end() if found else first


def _tail(text: str) -> str:
    """As much of the end as fits into a message, from the beginning of a word."""
    if len(text.encode("utf-16-le")) // 2 <= VIEW_UNITS_MAX:
        return text
    tail = text[-VIEW_UNITS_MAX:].encode("utf-16-le")[-2 * VIEW_UNITS_MAX :].decode("utf-16-le", "ignore")
    gap = _GAP.search(tail, 0, VIEW_UNITS_MAX // 4)
    return tail[gap.end() :] if gap else tail
