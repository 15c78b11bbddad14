"""Claims about options that take a state or a health: the words for people, and the values of JSON."""

import click
import pytest

from wakeful.cli.app import root
from wakeful.cli.commands.ls import ls


def option_of(path: str, name: str) -> tuple[click.Option, click.Context]:
    command: click.Command = root
    context = click.Context(command)
    for word in path.split():
        assert isinstance(command, click.Group)
        found = command.get_command(context, word)
        assert found is not None, word
        command, context = found, click.Context(found, context)
    return next(
        each for each in command.params if isinstance(each, click.Option) and each.name == name
    ), context


@pytest.mark.parametrize(
    ("path", "name", "given", "taken"),
    [
        ("ls", "state", "running", "prompting"),
        ("ls", "state", "prompting", "prompting"),
        ("ls", "state", "waiting", "waiting"),
        ("ls", "health", "stuck", "degraded"),
        ("ls", "health", "degraded", "degraded"),
        ("ls", "health", "stale", "stale"),
        ("ls", "health", "unknown", "unknown"),
        ("session wait", "until", "running", "prompting"),
        ("session wait", "until", "prompting", "prompting"),
        ("session wait", "until", "idle", "idle"),
    ],
)
def test_both_words_name_the_value(path: str, name: str, given: str, taken: str) -> None:
    option, context = option_of(path, name)
    assert option.type.convert(given, option, context) == taken


def test_completion_and_help_offer_the_words_for_people() -> None:
    option, context = option_of("ls", "state")
    offered = [each.value for each in option.type.shell_complete(context, option, "")]
    assert offered == ["idle", "running", "waiting", "starting", "stopping", "stopped", "detached"]
    assert [each.value for each in option.type.shell_complete(context, option, "r")] == ["running"]
    assert "[healthy|stale|unknown|stuck|dead]" in ls.get_help(click.Context(ls))


def test_another_word_is_refused_with_the_words_for_people() -> None:
    option, context = option_of("ls", "health")
    with pytest.raises(
        click.BadParameter, match="'ill' is not one of 'healthy', 'stale', 'unknown', 'stuck'"
    ):
        option.type.convert("ill", option, context)
