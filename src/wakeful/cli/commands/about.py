"""Commands `wakeful help` and `wakeful version`, which people type before they know `--help` and `--version`."""

import click

from wakeful import __version__
from wakeful.cli.output import print_line


@click.command("help", epilog="Example: wakeful help run")
@click.argument("words", metavar="[COMMAND]...", nargs=-1)
@click.pass_context
def help_(context: click.Context, *, words: tuple[str, ...]) -> int:
    """Show the help of Wakeful or of one command."""
    shown = context.find_root()
    for word in words:
        group = shown.command
        if not isinstance(group, click.Group):
            break
        name, command, _ = group.resolve_command(shown, [word])
        assert command is not None, "it was found"
        shown = click.Context(command, info_name=name, parent=shown)
    click.echo(shown.get_help())
    return 0


@click.command(epilog="Example: wakeful version")
def version() -> int:
    """Print the version."""
    print_line(f"wakeful {__version__}")
    return 0
