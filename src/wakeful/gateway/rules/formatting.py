"""Finds code blocks as CommonMark defines them, and splits long answers into messages. Pure.

Text in a code block is quoted: it holds no tag and no error of the agent. Messages end where a reader would
expect it; a code block that is cut is closed and reopened. Telegram counts UTF-16 code units. Only the text
before a place decides whether a message ends there. So a growing text has the same parts as the whole one,
and all but the last are final.
"""

import re
import unicodedata
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

# Three or more backticks or tildes. A backtick in the words behind backticks makes it inline code.
# Sixteen marks are more than any real nesting needs.
MARKS_MAX: Final = 16
_OPENING: Final = re.compile(r" {0,3}(?:(`{3,16})([^`\n]*)|(~{3,16})(?!~)([^\n]*))\Z")
_INLINE: Final = re.compile(r"(?<!`)(`+)(?!`)(?:[^`]|(?!(?<!`)\1(?!`))`)*?(?<!`)\1(?!`)")


class Fence(Struct, frozen=True):
    """An open code block: its marks, and the words behind them."""

    marks: str
    words: str = ""

    @property
    def opening(self) -> str:
        return f"{self.marks}{self.words}"

    def is_closed_by(self, line: str) -> bool:
        bare = line.strip()
        return len(bare) >= len(self.marks) and not bare.strip(self.marks[0])


def after_line(fence: Fence | None, line: str) -> Fence | None:
    """The block that is open after this line, given the one that was open before it."""
    if fence is not None:
        return None if fence.is_closed_by(line) else fence
    # Most lines are no fence, and their first character shows it.
    if line.lstrip(" ")[:1] not in ("`", "~") or (found := _OPENING.match(line)) is None:
        return None
    return Fence(found[1] or found[3], (found[2] or found[4] or "").rstrip())


def open_at_end(text: str, fence: Fence | None = None) -> Fence | None:
    """The block that is still open at the end of the text."""
    for line in text.split("\n"):
        fence = after_line(fence, line)
    return fence


def prose_lines(text: str) -> Iterator[str]:
    """The lines outside of code blocks, without the fences."""
    fence: Fence | None = None
    for line in text.split("\n"):
        before, fence = fence, after_line(fence, line)
        if before is None and fence is None:
            yield line


def code_spans(text: str) -> Iterator[tuple[int, int]]:
    """The positions of code: blocks with their fences, line by line, and inline code in the lines between them."""
    fence: Fence | None = None
    position = 0
    for line in text.split("\n"):
        before, fence = fence, after_line(fence, line)
        if before is not None or fence is not None:
            yield position, position + len(line)
        elif "`" in line:
            yield from (
                (position + found.start(), position + found.end()) for found in _INLINE.finditer(line)
            )
        position += len(line) + 1


UNITS_MAX: Final = 4096
# A line break and the longest fence there is.
CLOSING_UNITS: Final = 1 + MARKS_MAX
# A longer answer becomes a file; people do not scroll through more.
PARTS_MAX: Final = 20
# The best of these that leaves a message at least half full: paragraph, line, sentence, word.
_CUT_PATTERNS: Final = (
    re.compile(r"\n[ \t]*\n"),
    re.compile(r"\n"),
    re.compile(r"(?<=[.!?…:;])[ \t]+|(?<=[。！？])"),  # noqa: RUF001 - sentences of other scripts end with them
    re.compile(r"[ \t]+"),
)
_JOINERS: Final = frozenset("\u200d\ufe0f\ufe0e")
# No letter of any script has more combining characters than this.
_COMBINING_MAX: Final = 32


class Growing:
    """A text that is being written, in messages."""

    def __init__(self, units_max: int = UNITS_MAX) -> None:
        assert units_max >= 4 * CLOSING_UNITS, "a fence, its repetition and some text have to fit"
        self.units_max = units_max
        # Parts that do not change any more, whatever is added.
        self.final: list[str] = []
        # The text that is not final yet, and the code block that was open before it.
        self._pending_text = ""
        self._fence: Fence | None = None

    def add(self, words: str) -> None:
        self._pending_text += words
        while (cut := self._cut()) is not None:
            self._cut_part(*cut)

    @property
    def open(self) -> str:
        """The last part so far; empty if it has nothing to read."""
        return self._with_fences(self._pending_text, open_at_end(self._pending_text, self._fence))

    @property
    def parts(self) -> tuple[str, ...]:
        """Every part that has something to read."""
        return (*self.final, self.open) if self.open else tuple(self.final)

    def _cut(self) -> tuple[int, int] | None:
        """Where the next part ends and the one after it begins; None while everything fits into one."""
        room = self.units_max - (units(self._fence.opening) + 1 if self._fence else 0)
        # Whether a fence is open at the end changes as the text grows; whether there is one at all does so once.
        has_fence = self._fence is not None or "```" in self._pending_text or "~~~" in self._pending_text
        if units(self._pending_text) <= room - (CLOSING_UNITS if has_fence else 0):
            return None
        window = _head(self._pending_text, room - CLOSING_UNITS)
        found = (_last_match(pattern, window) for pattern in _CUT_PATTERNS)
        cut = next((span for span in found if span), None)
        return cut or _cut_between_characters(window, self._pending_text)

    def _cut_part(self, end: int, begin: int) -> None:
        body = self._pending_text[:end]
        fence = open_at_end(body, self._fence)
        if part := self._with_fences(body, fence):
            self.final.append(part)
        self._pending_text, self._fence = self._pending_text[begin:], _limit_fence(fence, self.units_max)

    def _with_fences(self, body: str, fence: Fence | None) -> str:
        """A part with the fences it needs; empty if it has nothing to read."""
        if not body.strip():
            return ""
        if self._fence is None:
            body = body.lstrip("\n")
        opening = f"{self._fence.opening}\n" if self._fence else ""
        closing = f"\n{fence.marks}" if fence else ""
        return f"{opening}{body.rstrip()}{closing}"


def split(text: str, units_max: int = UNITS_MAX) -> tuple[str, ...]:
    """The messages of a text. None is empty or too long, and nothing that can be read is lost."""
    growing = Growing(units_max)
    growing.add(text)
    return growing.parts


def units(text: str) -> int:
    """The length as Telegram counts it, in UTF-16 code units."""
    return len(text) if text.isascii() else len(text) + sum(char > "\uffff" for char in text)


def _head(text: str, room: int) -> str:
    head = text[:room]
    # A dropped character gives back one unit or two, so half as many as are missing are never too many.
    while (spare := room - units(head)) < 0:
        head = head[: spare // 2]
    return head


def _last_match(pattern: re.Pattern[str], window: str) -> tuple[int, int] | None:
    spans = [found.span() for found in pattern.finditer(window, len(window) // 2)]
    return spans[-1] if spans else None


def _cut_between_characters(window: str, text: str) -> tuple[int, int]:
    """Cut a text without spaces, but not between a letter and its combining characters."""
    end = len(window)
    for back in range(min(_COMBINING_MAX, end - 1)):
        following = text[end - back : end - back + 1]
        before = text[end - back - 1]
        if following and not _is_combining(following) and before != "\u200d":
            return end - back, end - back
    return end, end


def _is_combining(char: str) -> bool:
    return char in _JOINERS or unicodedata.combining(char) != 0 or "\U0001f3fb" <= char <= "\U0001f3ff"


def _limit_fence(fence: Fence | None, units_max: int) -> Fence | None:
    """The fence to reopen in the next part. Words that are too long to name a language are not repeated."""
    if fence is None or units(fence.opening) <= units_max // 4:
        return fence
    return Fence(fence.marks)
