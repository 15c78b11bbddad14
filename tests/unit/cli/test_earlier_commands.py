"""Claims about the commands of earlier versions: scripts that use them go on working."""

import json
from pathlib import Path
from typing import Any, Final

import click
import pytest

from wakeful.cli.app import root

CASES: Final = Path(__file__).with_name("earlier-commands.jsonl")
# Every leaf command of commit 5c4e511: its options, its arguments, and the words it took.
EARLIER: Final[dict[str, dict[str, Any]]] = {
    row["command"]: row for row in map(json.loads, CASES.read_text().splitlines())
}


def command_at(path: str) -> click.Command:
    command: click.Command = root
    for word in path.split():
        assert isinstance(command, click.Group), path
        found = command.get_command(click.Context(command), word)
        assert found is not None, path
        command = found
    return command


def test_the_list_is_whole() -> None:
    assert len(EARLIER) == 80


@pytest.mark.parametrize("path", EARLIER)
def test_an_earlier_command_takes_what_it_took(path: str) -> None:
    """The same words, options and arguments; it needs no more of them."""
    earlier, command = EARLIER[path], command_at(path)
    options = [each for each in command.params if isinstance(each, click.Option)]
    assert set(earlier["options"]) <= {
        word for each in options for word in (*each.opts, *each.secondary_opts)
    }
    needed = {word for each in options if each.required for word in each.opts}
    assert needed <= set(earlier["required_options"])
    arguments = [each for each in command.params if isinstance(each, click.Argument)]
    assert len(arguments) >= len(earlier["arguments"])
    for place, now in enumerate(arguments):
        before = earlier["arguments"][place] if place < len(earlier["arguments"]) else None
        assert not now.required or (before is not None and before["required"]), now.name
        assert now.nargs == -1 or before is None or not before["many"], now.name
    choices = {each.name: each.type.choices for each in command.params if isinstance(each.type, click.Choice)}
    for name, words in earlier["choices"].items():
        assert set(words) <= set(choices.get(name, words)), name
