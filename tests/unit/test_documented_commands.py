"""Every `wakeful` command line of the guides is one that the command line takes: its words, options and arguments."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click
import pytest

from wakeful.cli.app import root

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = (
    ROOT / "README.md",
    *sorted((ROOT / "docs" / "how-to").glob("*.md")),
    *sorted((ROOT / "docs" / "tutorial").glob("*.md")),
    *sorted((ROOT / "docs" / "explanation").glob("*.md")),
)
# Between two commands of a line; a comment; what stands before a command.
_BETWEEN: Final = re.compile(r"\s(?:&&|\|\||\||;)\s")
_COMMENT: Final = re.compile(r"\s+#\s.*$")
_BEFORE: Final = re.compile(r"^(?:(?:[A-Z_]+=\S*|exec|then|do|if|!)\s+)*(?:\.venv/bin/)?(?=wakeful(?:\s|$))")


def command_lines(page: Path) -> Iterator[str]:
    """The `wakeful` commands in the fenced blocks of a page."""
    is_code = False
    for line in page.read_text().splitlines():
        if line.startswith("```"):
            is_code = not is_code
        elif is_code and ("wakeful " in line):
            for part in _BETWEEN.split(_COMMENT.sub("", line.removeprefix("$ "))):
                command = _BEFORE.sub("", part.strip())
                if command.startswith("wakeful ") and not re.match(r"wakeful [a-z-]+:", command):
                    yield re.split(r"\s[<>]+\s", command)[0].removesuffix("\\").strip()


LINES: Final = [
    pytest.param(line, id=f"{page.stem}: {line}")
    for page in PAGES
    for line in dict.fromkeys(command_lines(page))
]


def test_there_are_command_lines() -> None:
    assert len(LINES) > 60


@pytest.mark.parametrize("line", LINES)
def test_a_documented_command_line_is_accepted(line: str) -> None:
    """Its command exists, and takes these options and so many arguments."""
    command: click.Command = root
    context = click.Context(root, info_name="wakeful")
    words = shlex.split(line)[1:]
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        found = command.get_command(context, words[0])
        assert found is not None, f"{words[0]} is no command"
        command, context = (
            found,
            click.Context(found, context, info_name=words.pop(0), **found.context_settings),
        )
    options, _, order = command.make_parser(context).parse_args(list(words))
    given = {parameter.name for parameter in order}
    missing = [
        each.human_readable_name
        for each in command.params
        if each.required and each.name not in given and options.get(str(each.name)) in {None, ()}
    ]
    assert missing == []
