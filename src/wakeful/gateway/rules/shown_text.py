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

# As many as fit into the messages of one answer, if none needs two units.
SHOWN_CHARS_MAX: Final = PARTS_MAX * UNITS_MAX
# Telegram counts UTF-16 code units, so half of its 4,096 would always do; most texts need one each.
VIEW_UNITS_MAX: Final = 4000
# A screen or two of a phone.
BEGINNING_UNITS_MAX: Final = 2048
# Behind what is seen so much is looked at that no secret can begin before it.
_WINDOW_CHARS: Final = REDACTED_CHARS_MAX
# Longer than a key, and no more than a line of unread text.
_BORDER_CHARS: Final = 200
_BORDER: Final = "[withheld: no words here]"
_PRIVATE_KEY: Final = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----.*?(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY-----|\Z)",
    re.IGNORECASE | re.DOTALL,
)
_LINE_ENDS: Final = re.compile(r"\r\n?|[\v\f\x85\u2028\u2029]")
_GAP: Final = re.compile(r"\s+")
# Between two words of which the first does not announce a secret; else behind a mark that no secret holds.
_SAFE_CUTS: Final = (
    re.compile(
        r"(?<![:=\\\"'\s])(?<!bearer)(?<!basic)(?<!token)(?<!password)(?<!secret)(?<!key)\s++(?![:=\\\"'])",
        re.IGNORECASE,
    ),
    re.compile(r"[,;]"),
)
# Possessive: every place in a word is looked at once.
_LAST_WORD: Final = re.compile(r"(?<!\S)\S++\Z")


def display_text(text: str) -> str:
    """The text for people, as much of it as the messages of one answer may hold."""
    return full_display_text(text[:SHOWN_CHARS_MAX])


def full_display_text(text: str) -> str:
    """All of it for people. A million characters take half a second: not for a loop that others wait for."""
    clean = "".join(redact(piece) for piece in _pieces(_without_private_keys(text)))
    return without_hidden(_LINE_ENDS.sub("\n", clean), "").strip()


def is_long(text: str) -> bool:
    """Whether it is more than the messages of one answer hold: then all of it is sent as a file."""
    return len(text) > SHOWN_CHARS_MAX or (
        # Every message but the last is at least half full.
        len(text) > SHOWN_CHARS_MAX // 4 and len(split(display_text(text))) > PARTS_MAX
    )


def text_beginning(text: str, note: str) -> str:
    """As much of a long text as is read before its file is opened, and the note behind it: one message."""
    first = split(display_text(text[:_WINDOW_CHARS]), BEGINNING_UNITS_MAX)[:1]
    return "\n\n".join((*first, note))


def messages_of(text: str) -> tuple[str, ...]:
    """The messages of a finished answer, the same ones for the same text; the last says so if some are missing.

    They are only where a long text could not be sent as a file.
    """
    parts = split(display_text(text))
    if len(text) <= SHOWN_CHARS_MAX and len(parts) <= PARTS_MAX:
        return parts
    missing = f"[cut here: the answer has {len(text):,} characters. All of it is in the session's own log.]"
    return (*parts[: PARTS_MAX - 1], missing)


def partial_view(text: str) -> str:
    """A growing answer as one message: the newest of it, whole words and no tags. Empty while there is none."""
    text = _without_private_keys(text)
    is_cut = len(text) > _WINDOW_CHARS
    window = text[_first_cut(text, len(text) - _WINDOW_CHARS) :] if is_cut else text
    clean = display_text(shown_so_far(_LAST_WORD.sub("", window)))
    if not clean:
        return ""
    newest = _tail(clean)
    return f"… {newest} …" if len(newest) < len(clean) or is_cut else f"{newest} …"


def _without_private_keys(text: str) -> str:
    """They have many lines, so they are looked for in one piece."""
    return _PRIVATE_KEY.sub("[private key]", text) if "PRIVATE KEY-----" in text else text


def _pieces(text: str) -> list[str]:
    """Short enough to be redacted, and parted where no secret can be.

    Where there is no such place, what is around the border is withheld.
    """
    pieces, start = [], 0
    while len(text) - start > REDACTED_CHARS_MAX:
        first, last = start + REDACTED_CHARS_MAX // 2, start + REDACTED_CHARS_MAX
        cuts = next((found for place in _SAFE_CUTS if (found := _cuts(place, text, first, last))), None)
        if cuts is None:
            pieces += [text[start : last - _BORDER_CHARS], _BORDER]
            start = last + _BORDER_CHARS
        else:
            pieces.append(text[start : cuts[-1]])
            start = cuts[-1]
    return [*pieces, text[start:]]


def _cuts(place: re.Pattern[str], text: str, first: int, last: int) -> list[int]:
    return [found.end() for found in place.finditer(text, first, last)]


def _first_cut(text: str, first: int) -> int:
    """Where to begin to look. What is seen comes long after it."""
    found = _SAFE_CUTS[0].search(text, first, first + _WINDOW_CHARS // 4)
    return found.end() if found else first


def _tail(text: str) -> str:
    """As much of the end as fits into a message, from the beginning of a word."""
    if len(text.encode("utf-16-le")) // 2 <= VIEW_UNITS_MAX:
        return text
    tail = text[-VIEW_UNITS_MAX:].encode("utf-16-le")[-2 * VIEW_UNITS_MAX :].decode("utf-16-le", "ignore")
    gap = _GAP.search(tail, 0, VIEW_UNITS_MAX // 4)
    return tail[gap.end() :] if gap else tail
