"""What a chat sees of a text that an agent wrote: no secret, nothing hidden, line breaks as they were. Pure.

An answer may be as long as it likes; a secret is looked for in all of it that is shown. While it grows its last word is
held back, for a secret is none yet when half of it is there.
"""

import re
from typing import Final

from wakeful.domain.gateway.splitting import PARTS_MAX, UNITS_MAX, split
from wakeful.domain.gateway.tags import shown_so_far
from wakeful.domain.plaintext import without_hidden
from wakeful.domain.redact import REDACTED_CHARS_MAX, redact

# As many as fit into the messages of one answer, if none needs two units.
SHOWN_CHARS_MAX: Final = PARTS_MAX * UNITS_MAX
# Telegram counts UTF-16 code units, so half of its 4,096 would always do; most texts need one each.
VIEW_UNITS_MAX: Final = 4000
# Behind what is seen so much is looked at that no secret can begin before it.
_WINDOW_CHARS: Final = REDACTED_CHARS_MAX
_PRIVATE_KEY: Final = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----.*?(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY-----|\Z)",
    re.IGNORECASE | re.DOTALL,
)
_LINE_ENDS: Final = re.compile(r"\r\n?|[\v\f\x85\u2028\u2029]")
_GAP: Final = re.compile(r"\s+")
# Possessive: every place in a word is looked at once.
_LAST_WORD: Final = re.compile(r"(?<!\S)\S++\Z")


def shown(text: str) -> str:
    """The text for people, as much of it as one answer may hold."""
    kept = _PRIVATE_KEY.sub("[private key]", text[:SHOWN_CHARS_MAX])
    clean = "".join(redact(piece) for piece in _pieces(kept))
    return without_hidden(_LINE_ENDS.sub("\n", clean), "").strip()


def messages_of(text: str) -> tuple[str, ...]:
    """The messages of a finished answer, the same ones for the same text; the last says so if some are missing."""
    parts = split(shown(text))
    if len(text) <= SHOWN_CHARS_MAX and len(parts) <= PARTS_MAX:
        return parts
    missing = f"[cut here: the answer has {len(text):,} characters. All of it is in the session's own log.]"
    return (*parts[: PARTS_MAX - 1], missing)


def view(text: str) -> str:
    """A growing answer as one message: the newest of it, whole words and no tags. Empty while there is none."""
    words = _LAST_WORD.sub("", text[-_WINDOW_CHARS:])
    clean = shown(shown_so_far(words))
    if not clean:
        return ""
    newest = _tail(clean)
    return f"… {newest} …" if len(newest) < len(clean) or len(text) > _WINDOW_CHARS else f"{newest} …"


def _pieces(text: str) -> list[str]:
    """Short enough to be redacted, and parted where no secret can be: between words."""
    pieces, start = [], 0
    while len(text) - start > REDACTED_CHARS_MAX:
        end = start + REDACTED_CHARS_MAX
        gap = max(text.rfind(mark, start + REDACTED_CHARS_MAX // 2, end) for mark in "\n ")
        # Behind the gap: redaction looks at the name before a secret, and that ends with its line.
        end = gap + 1 if gap > 0 else end
        pieces.append(text[start:end])
        start = end
    return [*pieces, text[start:]]


def _tail(text: str) -> str:
    """As much of the end as fits into a message, from the beginning of a word."""
    if len(text.encode("utf-16-le")) // 2 <= VIEW_UNITS_MAX:
        return text
    tail = text[-VIEW_UNITS_MAX:].encode("utf-16-le")[-2 * VIEW_UNITS_MAX :].decode("utf-16-le", "ignore")
    gap = _GAP.search(tail, 0, VIEW_UNITS_MAX // 4)
    return tail[gap.end() :] if gap else tail
