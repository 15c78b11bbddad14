"""The script a pane starts with: it removes itself, sets exactly the given environment and becomes the program.

A command line can be read by everybody on the host, and a pane has the environment of its server: so what the program
is to know travels in a file that only its owner can read and that is gone before the program runs.
"""

import os
import re
import secrets
import shlex
from collections.abc import Mapping, Sequence
from typing import Final

from wakeful.integrations.tmux.private import write_private
from wakeful.integrations.tmux.server import TmuxServer
from wakeful.linux.child_environment import given_environ, leaked_names

# What tmux tells its panes: the caller's own would name another terminal.
_OF_TMUX: Final = ("TERM", "TMUX", "TMUX_PANE")
# Names a POSIX shell cannot set: the others it keeps for itself.
_SETTABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_READ_ONLY: Final = frozenset({"BASHOPTS", "BASH_VERSINFO", "EUID", "PPID", "SHELLOPTS", "UID", "_"})
# Twice through the same file: the first time only to empty the environment of everything but tmux's own words.
_HEAD: Final = """\
if [ "$1" != exact ]; then
  exec env -i TERM="$TERM" TMUX="$TMUX" TMUX_PANE="$TMUX_PANE" /bin/sh "$0" exact
fi
rm -f -- "$0"
"""


async def forget_leaked(server: TmuxServer) -> None:
    """Take from a server what one that an earlier version started may still hand on. Raises TmuxFailed."""
    shown = (await server.tell("show-environment", "-g")).decode(errors="replace")
    held = dict(line.split("=", 1) for line in shown.splitlines() if "=" in line)
    words = [
        word for name in leaked_names(held, os.environ) for word in (";", "set-environment", "-g", "-u", name)
    ]
    if words:
        await server.tell(*words[1:])


def write_script(folder: str, cwd: str, argv: Sequence[str], environ: Mapping[str, str]) -> str:
    """Write the script, readable and runnable by its owner alone; its path. Raises TmuxFailed."""
    name = f"launch-{secrets.token_hex(8)}.sh"
    return write_private(folder, name, os.fsencode(script_text(cwd, argv, environ)), mode=0o700)


def script_text(cwd: str, argv: Sequence[str], environ: Mapping[str, str]) -> str:
    """The script. Variables whose names no shell can set are left out."""
    exports = [
        f"export {name}={shlex.quote(value)}\n"
        for name, value in given_environ(environ).items()
        if _SETTABLE.match(name) and name not in _READ_ONLY and name not in _OF_TMUX
    ]
    return f"{_HEAD}{''.join(exports)}cd -- {shlex.quote(cwd)} || exit 126\nexec {shlex.join(argv)}\n"
