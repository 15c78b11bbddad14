"""Code blocks in an answer: where they begin and end, as CommonMark has it. Pure.

What stands in a block is quoted: no tag of ours, no error of the agent's, no end of a message.
"""

import re
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

# Three or more of one mark; tildes too. A backtick in the words behind backticks makes it inline code.
# Sixteen are more than anybody nests.
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
    """The block that is open behind this line, given the one that was open before it."""
    if fence is not None:
        return None if fence.is_closed_by(line) else fence
    # Most lines are no fence, and a look at their first sign tells.
    if line.lstrip(" ")[:1] not in ("`", "~") or (found := _OPENING.match(line)) is None:
        return None
    return Fence(found[1] or found[3], (found[2] or found[4] or "").rstrip())


def open_at_end(text: str, fence: Fence | None = None) -> Fence | None:
    """The block that is still open where the text ends."""
    for line in text.split("\n"):
        fence = after_line(fence, line)
    return fence


def prose_lines(text: str) -> Iterator[str]:
    """The lines that stand in no code block; fences are left out."""
    fence: Fence | None = None
    for line in text.split("\n"):
        before, fence = fence, after_line(fence, line)
        if before is None and fence is None:
            yield line


def code_spans(text: str) -> Iterator[tuple[int, int]]:
    """Where code stands: blocks with their fences, line by line, and inline code in the lines between them."""
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
