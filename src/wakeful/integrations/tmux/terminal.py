"""What the kernel knows about a pane's terminal: who it listens to, whether it shows what is typed, what is unread.

Looks only. It opens a terminal without ever making it its own, and reads nothing that was typed.
"""

import fcntl
import os
import struct
import termios
from pathlib import Path, PurePath
from typing import Final

from msgspec import Struct

from wakeful.core.process import Process, Sight
from wakeful.linux import proc

SHELLS: Final = frozenset({"sh", "bash", "dash", "zsh", "fish", "ksh", "mksh", "ash", "tcsh", "csh", "nu"})
# Options of shells that take the next word; any other word makes the shell run a script and end.
_SHELL_OPTIONS_WITH_WORD: Final = frozenset({"--rcfile", "--init-file", "-o", "-O", "+o", "+O"})


class TerminalState(Struct, frozen=True):
    """How a terminal treats what is typed, and how many bytes its program has not read yet."""

    canonical: bool
    echo: bool
    unread: int

    @property
    def hides(self) -> bool:
        """Lines that are not shown are passwords. A full-screen program reads single keys and draws them itself."""
        return self.canonical and not self.echo


def terminal_state(tty: str) -> TerminalState | None:
    """The terminal now; None if it is gone or not ours to open."""
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


def in_front(process: Process) -> bool:
    """Whether this very process gets what is typed into its terminal; False also where that cannot be seen."""
    groups = _groups(process.pid)
    return proc.sight(process) is Sight.ALIVE and groups is not None and groups[0] == groups[1]


def front_group(pid: int) -> int | None:
    """The process group that gets what is typed into the terminal of this process."""
    groups = _groups(pid)
    return None if groups is None else groups[1]


def group_of(pid: int) -> int | None:
    """The process group of this process."""
    groups = _groups(pid)
    return None if groups is None else groups[0]


def belongs_to(process: Process, pane_pid: int) -> bool:
    """Whether the process is the pane's own or was started below it."""
    if process.pid == pane_pid:
        return True
    try:
        return any(each.pid == pane_pid for each in proc.ancestors(process.pid))
    except proc.ProcessHidden:
        return False


def is_interactive_shell(command: tuple[str, ...]) -> bool:
    """Whether these words start a shell that reads its commands from a person."""
    if not command or PurePath(command[0].removeprefix("-")).name not in SHELLS:
        return False
    words = iter(command[1:])
    for word in words:
        if word in _SHELL_OPTIONS_WITH_WORD:
            next(words, None)
        elif not word.startswith(("-", "+")) or (not word.startswith("--") and "c" in word):
            return False
    return True


def _groups(pid: int) -> tuple[int, int] | None:
    """Its own process group and the one in front of its terminal: fields 5 and 8 of proc(5)."""
    try:
        line = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    fields = line[line.rindex(b")") + 2 :].split()
    return int(fields[2]), int(fields[5])
