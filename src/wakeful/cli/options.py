"""Options and argument types that several commands share."""

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from wakeful.core.ids import parse_session_id

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

Command = Callable[..., int]


class WholeNumber(click.IntRange):
    """click's own type with another message for text that is no number."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            int(value)
        except ValueError:
            self.fail(f"{value!r} is not a whole number.", param, ctx)
        return super().convert(value, param, ctx)


class Number(click.FloatRange):
    """The same for numbers with a fraction."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            float(value)
        except ValueError:
            self.fail(f"{value!r} is not a number.", param, ctx)
        return super().convert(value, param, ctx)


def json_option(command: Command) -> Command:
    """Give a command `--json` and `-o json`, which mean the same; it gets `as_json`."""

    @click.option("--json", "json_flag", is_flag=True, help="Answer in JSON. Same as -o json.")
    @click.option("-o", "output", type=click.Choice(["text", "json"]), default="text", hidden=True)
    @wraps(command)
    def wrapped(*, json_flag: bool, output: str, **kwargs: object) -> int:
        return command(as_json=json_flag or output == "json", **kwargs)

    return wrapped


def session_argument(command: Command, *, like: str = "sessions_like") -> Command:
    """Give a command the argument ID; BadSessionId is raised before any request."""
    return click.argument(
        "session_id", metavar="ID", type=parse_session_id, shell_complete=completion_of(like)
    )(command)


def completion_of(like: str) -> Callable[[click.Context, click.Parameter, str], "list[CompletionItem]"]:
    """A function of `completion`, which is imported only when a shell completes a word."""

    def complete(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> "list[CompletionItem]":
        from wakeful.cli import completion  # noqa: PLC0415 - see above

        items: list[CompletionItem] = getattr(completion, like)(incomplete)
        return items

    return complete
