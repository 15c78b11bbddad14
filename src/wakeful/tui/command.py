"""The command `wakeful top`: shows the sessions live in a terminal.

Textual is imported only by this command and only when it runs: it takes half a second.
"""

import os
import sys

import click

from wakeful.client.client import DaemonClient
from wakeful.config.paths import StatePaths
from wakeful.core.errors import OperatorError, WorldError


class TopMissing(WorldError):
    """`wakeful top` needs Textual, which is not installed: pip install 'wakeful[top]'. `wakeful ls` shows the same once."""

    code = "top-missing"


class TerminalNeeded(OperatorError):
    """`wakeful top` draws on a terminal, and this is none. `wakeful ls` shows the same once."""

    code = "no-screen"


@click.command(epilog="Example: wakeful top")
def top() -> int:
    """Show every session live, those who need you first; the keys are in the last line.

    Enter goes to a session's terminal and comes back, n jumps to the next one that waits for you, / filters.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise TerminalNeeded
    paths = StatePaths.from_environ(os.environ)
    # Raises DaemonAway before the screen changes.
    DaemonClient(paths).get("/api/status")
    try:
        from wakeful.tui.app import TopApp  # noqa: PLC0415 - half a second, for this command alone
    except ModuleNotFoundError as problem:
        if problem.name is None or not problem.name.startswith("textual"):
            raise
        raise TopMissing from problem
    TopApp(paths).run()
    return 0
