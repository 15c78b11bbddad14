"""Options and argument types that several commands share."""

from collections.abc import Callable, Iterable, Mapping
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


class PlainChoice(click.Choice[str]):
    """The values of JSON, shown and completed as the words for people; both are accepted, the command gets the value.

    A word that is another value names that one only: `unknown` is not `stale`.
    """

    def __init__(self, values: Iterable[str], words: Mapping[str, str]) -> None:
        known = [str(value) for value in values]
        # A choice is one word.
        shown = {value: words[value].partition(" ")[0] for value in known}
        self._words = {value: value if word in known else word for value, word in shown.items()}
        super().__init__(known)

    def normalize_choice(self, choice: object, ctx: click.Context | None) -> str:
        return self._words.get(str(choice), super().normalize_choice(choice, ctx))


def json_option(command: Command) -> Command:
    """Give a command `--json` and `-o json`, which mean the same; it gets `as_json`."""

    @click.option("--json", "json_flag", is_flag=True, help="Answer in JSON. Same as -o json.")
    @click.option("-o", "output", type=click.Choice(["text", "json"]), default="text", hidden=True)
    @wraps(command)
    def wrapped(*, json_flag: bool, output: str, **kwargs: object) -> int:
        return command(as_json=json_flag or output == "json", **kwargs)

    return wrapped


def session_argument(command: Command) -> Command:
    """Give a command the argument NAME; it gets the id of the session that it names, as `session_id`."""
    return _named_session(command, acting=False)


def acted_session_argument(command: Command) -> Command:
    """The same for a command that acts: a part of a name alone needs a person's yes."""
    return _named_session(command, acting=True)


def _named_session(command: Command, *, acting: bool) -> Command:
    @wraps(command)
    def named(*, session_id: str, **kwargs: object) -> int:
        from wakeful.cli.names import with_session  # noqa: PLC0415 - the help needs none of it

        return with_session(session_id, lambda found: command(session_id=found, **kwargs), acting=acting)

    return name_argument(named)


def name_argument(command: Command, *, like: str = "sessions_like") -> Command:
    """Give a command the argument NAME as it was typed, as `session_id`."""
    return click.argument("session_id", metavar="NAME", shell_complete=completion_of(like))(command)


def id_argument(command: Command) -> Command:
    """Give a command the argument ID, of a session that may not be known yet; BadSessionId is raised at once."""
    return click.argument(
        "session_id", metavar="ID", type=parse_session_id, shell_complete=completion_of("sessions_like")
    )(command)


def completion_of(like: str) -> Callable[[click.Context, click.Parameter, str], "list[CompletionItem]"]:
    """A function of `completion`, which is imported only when a shell completes a word."""

    def complete(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> "list[CompletionItem]":
        from wakeful.cli import completion  # noqa: PLC0415 - see above

        items: list[CompletionItem] = getattr(completion, like)(incomplete)
        return items

    return complete
