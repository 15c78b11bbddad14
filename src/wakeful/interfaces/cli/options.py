"""Options that several commands share."""

from collections.abc import Callable
from functools import wraps

import click

from wakeful.domain.ids import parse_session_id

Command = Callable[..., int]


def answers_json(command: Command) -> Command:
    """Give a command `--json` and `-o json`, which mean the same; it gets `as_json`."""

    @click.option(
        "--json", "json_flag", is_flag=True, help="The record HTTP gives, as JSON. Same as -o json."
    )
    @click.option("-o", "output", type=click.Choice(["text", "json"]), default="text", hidden=True)
    @wraps(command)
    def asked(*, json_flag: bool, output: str, **kwargs: object) -> int:
        return command(as_json=json_flag or output == "json", **kwargs)

    return asked


def session_argument(command: Command) -> Command:
    """Give a command the argument ID; BadSessionId is raised before anything is asked."""
    return click.argument("session_id", metavar="ID", type=parse_session_id)(command)
