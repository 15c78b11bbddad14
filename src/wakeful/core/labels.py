"""Makes names and texts that agents choose harmless in messages. Pure.

A label is short, has few words, and no characters that mean something to a chat, a shell or Markdown, so no
reader takes it for something else.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from wakeful.core.redaction import redact
from wakeful.core.text import plain, without_hidden

LABEL_CHARS_MAX: Final = 64
# A name has few words; an instruction has more.
WORDS_MAX: Final = 4
PATH_CHARS_MAX: Final = 300
# No file system has longer paths.
_PATH_CHARS_READ: Final = 4096
# Everything but letters, digits and these.
_ODD: Final = re.compile(r"[^\w .+\-()@,=~%#&']+")
_TO_ALL: Final = r"@(?=(?:everyone|here|channel|room|all|team)\b)"
_MENTION: Final = re.compile(rf"(?<!\w)@|{_TO_ALL}", re.IGNORECASE)
_MENTION_OF_ALL: Final = re.compile(rf"(?<!\w){_TO_ALL}", re.IGNORECASE)
# Chat programs fetch anything that looks like an address, to show a preview. Addresses that people configure
# themselves are left as they are.
_ADDRESS: Final = re.compile(r"\b(?!rediss?:|unix:|file:)([a-z][a-z0-9+.\-]{1,20})://|\bwww\.", re.IGNORECASE)
_ANGLES: Final = str.maketrans({"<": "\u2039", ">": "\u203a"})
_QUOTATION: Final = re.compile(r"`([^`]+)`")


@lru_cache(maxsize=4096)
def label(text: str, chars_max: int = LABEL_CHARS_MAX, words_max: int = WORDS_MAX) -> str:
    """A name from outside, in the form that every document shows. The label of a label is the same label."""
    shown = _ODD.sub("-", plain(redact(text)).rstrip("…"))
    words = shown.split()
    return ("-" if len(words) > words_max else " ").join(words)[:chars_max].rstrip()


@lru_cache(maxsize=4096)
def path_label(path: str) -> str:
    """A path from outside; it stays unchanged if its parts are labels."""
    # Redacted before the split: a secret may contain slashes.
    parts = redact(path[:_PATH_CHARS_READ]).split("/")
    return "/".join(label(part, PATH_CHARS_MAX) for part in parts)[:PATH_CHARS_MAX]


def strip_mentions(line: str) -> str:
    """One line of a message without mentions and links, in any chat."""
    visible = line if line.isascii() else without_hidden(line, " ")
    unlinked = _MENTION.sub("\uff20", visible.translate(_ANGLES)).replace("](", "] (")
    return _ADDRESS.sub(lambda found: f"{found[1]}:\u2215\u2215" if found[1] else "www\u2024", unlinked)


def without_mentions_of_all(text: str) -> str:
    """A chat text without working `@everyone`, `@here` and the like; the number of characters stays."""
    return _MENTION_OF_ALL.sub("\uff20", text)


def quotations(texts: Iterable[str]) -> tuple[str, ...]:
    """The parts that Wakeful's sentences quote from agents, always in backquotes."""
    return tuple(dict.fromkeys(found for text in texts for found in _QUOTATION.findall(text)))
