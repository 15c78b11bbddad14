"""The command `wakeful mcp`: an MCP server that an agent's client starts and ends."""

import sys
from types import ModuleType

import click

from wakeful.cli.commands.session import ancestor_pids, own_conversations
from wakeful.cli.output import print_note
from wakeful.client.client import own_daemon
from wakeful.core.errors import WorldError


class McpMissing(WorldError):
    """`wakeful mcp` needs {missing}, which is not installed: pip install 'wakeful[mcp]'"""

    code = "mcp-missing"


@click.command(epilog="Example: claude mcp add wakeful -- wakeful mcp")
@click.option(
    "--allow",
    type=click.Choice(["wake"]),
    multiple=True,
    help="Also let agents wake agents. Default: read-only.",
)
def mcp(*, allow: tuple[str, ...]) -> int:
    """Run an MCP server on standard input and output: sessions, health, why, waiting, incidents, self.

    An agent's client starts and stops it. It needs the daemon.
    """
    server = _import_server()
    queries = server.DaemonQueries(own_daemon(), own_conversations(), list(ancestor_pids()))
    if sys.stdin.isatty():
        print_note("MCP server, started by a client: claude mcp add wakeful -- wakeful mcp (Ctrl-D stops it)")
    server.build_server(queries, allow_wake="wake" in allow).run("stdio")
    return 0


def _import_server() -> ModuleType:
    """The SDK takes a second to import: wrong options are reported before it."""
    try:
        from wakeful.mcp import server  # noqa: PLC0415 - see above
    except ImportError as problem:
        raise McpMissing(missing=problem.name or "a library") from problem
    return server
