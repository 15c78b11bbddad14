"""The command `wakeful top`: shows the sessions live in a terminal.

Textual is imported only by this command and only when it runs: it takes half a second.
"""

import os
import sys

import click

from wakeful.client.client import DaemonClient
from wakeful.config.paths import StatePaths
from wakeful.core.errors import OperatorError


class TerminalNeeded(OperatorError):
    """`wakeful top` needs a terminal. Or use `wakeful ls`."""

    code = "no-screen"


@click.command(epilog="Example: wakeful top")
def top() -> int:
    """Show all sessions live, and what the selected one says and does. The last line shows the keys.

    Enter opens its terminal, s sends a prompt, y answers its question, n goes to the next that needs you.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise TerminalNeeded
    paths = StatePaths.from_environ(os.environ)
    # Raises DaemonAway before the screen changes.
    DaemonClient(paths).get("/api/status")
    from wakeful.tui.app import TopApp  # noqa: PLC0415 - half a second, for this command alone

    TopApp(paths).run()
    return 0
