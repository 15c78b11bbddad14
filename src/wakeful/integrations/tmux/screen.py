"""Parses a captured pane (rows, cursor, obstacles to typing) and reads its terminal's state from the kernel.

Dim text is separated: clients use it for hints and suggestions, which no person typed. The kernel knows which
process group gets the keys, whether typed text is shown, and how much is unread. The terminal is opened without
becoming the controlling one, and no typed text is read from it.
"""

import fcntl
import os
import re
import struct
import termios
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePath
from typing import Final, Self

from msgspec import Struct

from wakeful.core.process import Process, ProcessState
from wakeful.linux import proc

# In the order of Screen.parse; none can hold a space or a newline, so no text on the screen can forge one.
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
    """A captured pane. `typed`: the rows without their dim text."""

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
        """Parse one line of FACTS and the captured rows below it. Raises ValueError."""
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
        return self.typed[self.cursor_row] if self.cursor_row < len(self.typed) else ""

    @property
    def before_cursor(self) -> str:
        return self.cursor_text[: _cut(self.cursor_text, self.cursor_column)]

    @property
    def is_wrapped(self) -> bool:
        """Whether the row above is filled to its last column and the cursor is at the beginning of the next."""
        above = self.typed[self.cursor_row - 1] if self.cursor_row else ""
        return self.cursor_column == 0 and sum(map(_width, above)) == self.width

    @property
    def behind_cursor(self) -> str:
        """The text right of the cursor: a border, the end of a draft, or leftovers of a killed program."""
        return self.cursor_text[_cut(self.cursor_text, self.cursor_column) :]


def last_output(rows: Sequence[str]) -> str:
    """The last three rows with text, as one text, without tmux's mark on a dead pane."""
    texts = [row.strip() for row in rows if row.strip() and not row.startswith(_DEAD_MARK)]
    return " / ".join(texts[-3:])


def _rows(captured: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    shown, typed = "", ""
    for text, dim in _runs(captured):
        shown += text
        typed += "".join(char if char == "\n" else " " for char in text) if dim else text
    return tuple(shown.split("\n")), tuple(row.rstrip() for row in typed.split("\n"))


def _runs(captured: str) -> Iterator[tuple[str, bool]]:
    """The text between escapes, and whether it is dim. Attributes continue across rows."""
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
    """How many characters fill so many columns; zero-width marks belong to the character before them."""
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


SHELLS: Final = frozenset({"sh", "bash", "dash", "zsh", "fish", "ksh", "mksh", "ash", "tcsh", "csh", "nu"})
# Shell options that take the next word; any other word makes the shell run a script and end.
_SHELL_OPTIONS_WITH_WORD: Final = frozenset({"--rcfile", "--init-file", "-o", "-O", "+o", "+O"})


class TerminalState(Struct, frozen=True):
    """How a terminal handles typed text, and how many bytes its program has not read yet."""

    canonical: bool
    echo: bool
    unread: int

    @property
    def hides_input(self) -> bool:
        """Whether a line is read without echo, as for a password. A full-screen program draws single keys itself."""
        return self.canonical and not self.echo


def terminal_state(tty: str) -> TerminalState | None:
    """None if the terminal does not exist or cannot be opened."""
    try:
        descriptor = os.open(tty, os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        local_modes = termios.tcgetattr(descriptor)[3]
        (unread,) = struct.unpack("i", fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4)))
    except (OSError, termios.error):
        return None
    finally:
        os.close(descriptor)
    return TerminalState(bool(local_modes & termios.ICANON), bool(local_modes & termios.ECHO), unread)


def is_in_front(process: Process) -> bool:
    """Whether this process gets the keys of its terminal; False also if that cannot be seen."""
    groups = _groups(process.pid)
    return proc.state_of(process) is ProcessState.ALIVE and groups is not None and groups[0] == groups[1]


def front_group(pid: int) -> int | None:
    """The process group that gets the keys of this process's terminal."""
    groups = _groups(pid)
    return None if groups is None else groups[1]


def group_of(pid: int) -> int | None:
    groups = _groups(pid)
    return None if groups is None else groups[0]


def belongs_to(process: Process, pane_pid: int) -> bool:
    """Whether the process is the pane's own or a descendant of it."""
    if process.pid == pane_pid:
        return True
    try:
        return any(each.pid == pane_pid for each in proc.ancestors(process.pid))
    except proc.ProcessHidden:
        return False


def is_interactive_shell(command: tuple[str, ...]) -> bool:
    """Whether this command starts a shell that reads commands from a person."""
    if not command or PurePath(command[0].removeprefix("-")).name not in SHELLS:
        return False
    arguments = iter(command[1:])
    for word in arguments:
        if word in _SHELL_OPTIONS_WITH_WORD:
            next(arguments, None)
        elif not word.startswith(("-", "+")) or (not word.startswith("--") and "c" in word):
            return False
    return True


def _groups(pid: int) -> tuple[int, int] | None:
    """Its process group and the one in front of its terminal: fields 5 and 8 of proc(5)."""
    try:
        line = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    fields = line[line.rindex(b")") + 2 :].split()
    return int(fields[2]), int(fields[5])
