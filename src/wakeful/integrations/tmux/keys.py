"""Which text may be typed into a terminal, and how it is recognised once it stands there. Pure.

A terminal obeys control characters, and a program may take a newline for Enter: what could do more than stand in an
input line is refused before anything is typed.
"""

import hashlib
import unicodedata
from typing import Final

from wakeful.control.driver import LinesRefused, PromptRefused

# A terminal is a slow and visible way. Longer prompts belong into a file that the agent is told to read.
TYPED_BYTES_MAX: Final = 32 * 1024
# Linux keeps 4,095 bytes of a line that its program reads line by line, and drops the rest without a word.
LINE_BYTES_MAX: Final = 4000
# Terminals may leave these out or join them with their neighbours: marks, joiners, spaces of any kind.
_UNSHOWN: Final = frozenset({"Mn", "Me", "Cf", "Cc", "Zs", "Zl", "Zp"})


def typable(prompt: str, *, several_lines: bool) -> str:
    """The prompt as it will be typed. Raises PromptRefused."""
    text = prompt.replace("\r\n", "\n").strip(" \t\n")
    if not text:
        raise PromptRefused(reason="it is empty")
    for char in text:
        if char not in "\n\t" and unicodedata.category(char) in ("Cc", "Cs"):
            raise PromptRefused(reason=f"it holds the control character U+{ord(char):04X}")
    bytes_count = len(text.encode())
    if bytes_count > TYPED_BYTES_MAX:
        advice = "write it to a file and name that"
        raise PromptRefused(
            reason=f"{bytes_count:,} bytes are more than a terminal takes ({TYPED_BYTES_MAX:,}): {advice}"
        )
    if "\n" in text and not several_lines:
        raise LinesRefused
    return text


def squeezed(text: str) -> str:
    """The text without what a terminal wraps, indents or joins: only this is compared."""
    if text.isascii():
        return "".join(text.split())
    normal = unicodedata.normalize("NFC", text)
    return "".join(char for char in normal if unicodedata.category(char) not in _UNSHOWN)


def digest(text: str) -> str:
    """By this a text is recognised where it stands again, without being kept."""
    return hashlib.sha256(squeezed(text).encode(errors="surrogatepass")).hexdigest()[:32]
