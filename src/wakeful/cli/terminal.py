"""Takes this terminal to a pane: attaches to it, or inside tmux switches to it or opens a window that shows it.

Inside tmux a pane of the same server is switched to. A pane of another server is shown in a new window. While only
such windows show a session of Wakeful's own server, it has no prefix and no status bar, so that keys arrive once. The
options of other servers stay as they are.
"""

import os
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from shlex import quote
from typing import Final, NoReturn

from wakeful.cli.output import print_line
from wakeful.config.paths import StatePaths
from wakeful.core.errors import OperatorError, WorldError
from wakeful.core.managed_session import PaneAddress
from wakeful.linux.child_environment import helper_environ

TMUX_SECONDS_MAX: Final = 5.0
# A window that shows a session is found again by it.
WINDOW_MARK: Final = "@wakeful_shows"
_WINDOW_NAME_CHARS_MAX: Final = 30
# `$0` is the mark. The window stays if tmux fails, so that its message can be read.
_WINDOW_SCRIPT: Final = """\
(unset TMUX TMUX_PANE; exec "$@") && exit
tmux set-option -pu "$0" 2>/dev/null
printf 'Not attached. Press Enter to close this window.\\n'
read -r _
"""
_BARE_OPTIONS: Final = (("status", "off"), ("prefix", "None"), ("prefix2", "None"))
_HOOK: Final = "client-detached[99]"


class NeedsTerminal(OperatorError):
    """This needs a terminal. In one, run: {command}"""

    code = "needs-terminal"


class TmuxMissing(WorldError):
    """{program} is not on PATH. Install it, then try again."""

    code = "tmux-missing"


def has_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def show_pane(pane: PaneAddress, name: str) -> int:
    """Show this pane in this terminal. Returns only if a window of this tmux shows it. Raises NeedsTerminal."""
    if not has_terminal():
        raise NeedsTerminal(command=f"wakeful attach {quote(name)}")
    outer = os.environ.get("TMUX", "").partition(",")[0]
    if outer and _is_same_file(outer, pane.socket):
        _switch(pane.socket, pane.target)
    panes = _panes_of(outer) if outer else {}
    if os.ttyname(sys.stdin.fileno()) not in panes:
        # Not inside tmux, or in a terminal that only inherited its variables.
        exec_program(
            [*_tmux(pane.socket), *_with_options(pane), *_select(pane.target), *_attach(pane.target)]
        )
    mark = f"{pane.socket}:{pane.target}"
    for pane_id, shown in panes.values():
        if shown == mark:
            _switch(outer, pane_id)
    return _open_window(outer, pane, name, mark)


def exec_program(argv: list[str]) -> NoReturn:
    """Hand this terminal to another program. Raises TmuxMissing."""
    sys.stdout.flush()
    try:
        os.execvpe(argv[0], argv, helper_environ(os.environ))  # noqa: S606 - a fixed program, its words from the daemon
    except FileNotFoundError as error:
        raise TmuxMissing(program=argv[0]) from error


def _open_window(outer: str, pane: PaneAddress, name: str, mark: str) -> int:
    shown = [*_tmux(pane.socket), *_bare_options(pane), *_select(pane.target), *_attach(pane.target)]
    # tmux expands `#` in a window's name.
    window_name = re.sub(r"[^A-Za-z0-9_.-]+", "-", name)[:_WINDOW_NAME_CHARS_MAX]
    script = ["sh", "-c", _WINDOW_SCRIPT, WINDOW_MARK, *shown]
    opened = _ask(
        outer,
        *("new-window", "-P", "-F", "#{pane_id} #{session_name}:#{window_index}", "-n", window_name, "--"),
        *(_not_separator(word) for word in script),
    )
    if opened is None:
        # The server ended just now.
        exec_program(shown)
    pane_id, _, place = opened.strip().partition(" ")
    _ask(outer, "set-option", "-p", "-t", pane_id, WINDOW_MARK, mark)
    print_line(f"{name} is open in tmux window {place}; close that window to detach")
    return 0


def _panes_of(socket: str) -> dict[str, tuple[str, str]]:
    """Each pane of this server by its terminal: its id, and what Wakeful opened it for."""
    listed = _ask(socket, "list-panes", "-a", "-F", f"#{{pane_tty}} #{{pane_id}} #{{{WINDOW_MARK}}}") or ""
    rows = (line.split(" ", 2) for line in listed.splitlines())
    return {row[0]: (row[1], row[2]) for row in rows if len(row) == len(("tty", "id", "mark"))}


def _bare_options(pane: PaneAddress) -> list[str]:
    """The session without prefix and status bar until its last client leaves, if no other terminal shows it now."""
    if not _is_own(pane) or _ask(pane.socket, "list-clients", "-t", pane.target):
        return []
    # The hook runs in the session that a client left.
    restore = " ; ".join(
        (*(f"set-option -u {option}" for option, _ in _BARE_OPTIONS), f"set-hook -u {_HOOK}")
    )
    hook = f"if-shell -F '#{{session_attached}}' '' '{restore}'"
    words = [word for option in _BARE_OPTIONS for word in ("set-option", "-t", pane.target, *option, ";")]
    return [*words, "set-hook", "-t", pane.target, _HOOK, hook, ";"]


def _with_options(pane: PaneAddress) -> list[str]:
    """The session with its prefix, by which a person in a terminal without tmux detaches."""
    if not _is_own(pane):
        return []
    words = [
        word for option, _ in _BARE_OPTIONS for word in ("set-option", "-u", "-t", pane.target, option, ";")
    ]
    return [*words, "set-hook", "-u", "-t", pane.target, _HOOK, ";"]


def _is_own(pane: PaneAddress) -> bool:
    return _is_same_file(pane.socket, str(StatePaths.from_environ(os.environ).tmux))


def _is_same_file(one: str, other: str) -> bool:
    with suppress(OSError):
        return Path(one).samefile(other)
    return False


def _switch(socket: str, target: str) -> NoReturn:
    exec_program([*_tmux(socket), *_select(target), "switch-client", "-t", target])


def _tmux(socket: str) -> tuple[str, ...]:
    return ("tmux", "-u", "-S", socket)


def _select(target: str) -> tuple[str, ...]:
    """Otherwise tmux shows the active pane of the window."""
    return ("select-window", "-t", target, ";", "select-pane", "-t", target, ";")


def _attach(target: str) -> tuple[str, ...]:
    return ("attach-session", "-t", target)


def _not_separator(word: str) -> str:
    """A word for tmux as it is: a `;` at its end would begin the next command."""
    return f"{word[:-1]}\\;" if word.endswith(";") else word


def _ask(socket: str, *arguments: str) -> str | None:
    """What tmux answers; None if it fails. Raises TmuxMissing."""
    try:
        done = subprocess.run(
            (*_tmux(socket), *arguments),
            env=helper_environ(os.environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TMUX_SECONDS_MAX,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None
    except FileNotFoundError as error:
        raise TmuxMissing(program="tmux") from error
    return done.stdout.decode(errors="replace") if done.returncode == 0 else None
