"""A pane as it was seen at one moment: its rows, its cursor, and what would get in the way of typing. Pure.

Dim text is kept apart: clients show hints and suggestions so, and these are nobody's words. What a row means is not
said here.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Final, Self

from msgspec import Struct

# In the order of Screen.parse; none of them can hold a space or a newline, so that nothing on the screen can forge one.
FACTS: Final = (
    "#{pane_pid} #{pane_dead} #{pane_in_mode} #{pane_synchronized} #{pane_input_off}"
    " #{pane_width} #{cursor_x} #{cursor_y} #{pane_tty}"
)
# capture-pane -e gives colours and, in newer versions, links; a link ends with the string terminator.
_ESCAPE: Final = re.compile(r"\x1b\[([0-9;:]*)m|\x1b\][^\x1b\x07]*(?:\x1b\\|\x07)|[\x0e\x0f]")
_DIM, _BRIGHT, _PLAIN = "2", "22", ("", "0")
# The parameters a colour takes after 38, 48 or 58: one for the palette, three for its red, green and blue.
_COLOUR_PARAMETERS: Final = {"5": 2, "2": 4}
_DEAD_MARK: Final = "Pane is dead"


class Screen(Struct, frozen=True):
    """What a pane showed. `typed` are the same rows as `rows` without their dim text."""

    pane_pid: int
    dead: bool
    in_mode: bool
    synchronized: bool
    input_off: bool
    width: int
    cursor_column: int
    cursor_row: int
    tty: str
    rows: tuple[str, ...]
    typed: tuple[str, ...]

    @classmethod
    def parse(cls, output: bytes) -> Self:
        """Read one line of FACTS and the captured rows below it; raises ValueError if it is something else."""
        facts, _, captured = output.decode(errors="replace").partition("\n")
        pid, dead, in_mode, synchronized, input_off, width, column, row, tty = facts.split(" ")
        rows, typed = _rows(captured)
        return cls(
            pane_pid=int(pid),
            dead=dead == "1",
            in_mode=in_mode not in ("", "0"),
            synchronized=synchronized == "1",
            input_off=input_off == "1",
            width=int(width),
            cursor_column=int(column),
            cursor_row=int(row),
            tty=tty,
            rows=rows,
            typed=typed,
        )

    @property
    def cursor_text(self) -> str:
        """The row the cursor stands in, without hints."""
        return self.typed[self.cursor_row] if self.cursor_row < len(self.typed) else ""

    @property
    def before_cursor(self) -> str:
        """What stands left of the cursor in its row."""
        return self.cursor_text[: _cut(self.cursor_text, self.cursor_column)]

    @property
    def wrapped(self) -> bool:
        """Whether the row above is filled to its last column, so that the cursor stands at the begin of a new one."""
        above = self.typed[self.cursor_row - 1] if self.cursor_row else ""
        return self.cursor_column == 0 and sum(map(_width, above)) == self.width

    @property
    def behind_cursor(self) -> str:
        """What stands right of it: a border, the end of a draft, or what a program left that was killed there."""
        return self.cursor_text[_cut(self.cursor_text, self.cursor_column) :]


def last_words(rows: Sequence[str]) -> str:
    """The last rows that say something, as one text; tmux's own mark on a dead pane is not one of them."""
    said = [row.strip() for row in rows if row.strip() and not row.startswith(_DEAD_MARK)]
    return " / ".join(said[-3:])


def _rows(captured: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    shown, typed = "", ""
    for text, dim in _runs(captured):
        shown += text
        typed += "".join(char if char == "\n" else " " for char in text) if dim else text
    return tuple(shown.split("\n")), tuple(row.rstrip() for row in typed.split("\n"))


def _runs(captured: str) -> Iterator[tuple[str, bool]]:
    """The text between escapes, and whether it is dim. Attributes go on across rows."""
    dim, at = False, 0
    for found in _ESCAPE.finditer(captured):
        yield captured[at : found.start()], dim
        at = found.end()
        if found[1] is not None:
            dim = _is_dim(found[1].replace(":", ";").split(";"), dim=dim)
    yield captured[at:], dim


def _is_dim(parameters: list[str], *, dim: bool) -> bool:
    left = iter(parameters)
    for parameter in left:
        if parameter in ("38", "48", "58"):
            for _ in range(_COLOUR_PARAMETERS.get(next(left, ""), 1) - 1):
                next(left, None)
        elif parameter == _DIM:
            dim = True
        elif parameter == _BRIGHT or parameter in _PLAIN:
            dim = False
    return dim


def _cut(row: str, column: int) -> int:
    """How many characters fill so many columns; marks without a width belong to the character before them."""
    filled = 0
    for at, char in enumerate(row):
        width = _width(char)
        if filled >= column and width:
            return at
        filled += width
    return len(row)


def _width(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
