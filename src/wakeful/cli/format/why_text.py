"""`why` for people: the sentence first, the ladder as a column, and at the end the one right command.

Pure but for `print_why`, which colours on a terminal and is plain everywhere else.
"""

import sys
from collections.abc import Iterator
from typing import Final

from wakeful.cli.format.listing import decoded
from wakeful.cli.format.why_words import (
    HEALTHS,
    Line,
    evidence_lines,
    fired_lines,
    held_lines,
    ladder_lines,
    refused_lines,
)
from wakeful.cli.output import plain_keeping_indent, say
from wakeful.judging.resuming import command_line
from wakeful.judging.why import Why

_STYLES: Final = {
    "success": "green",
    "warning": "yellow",
    "error": "bold red",
    "quiet": "dim",
    "strong": "bold",
    "title": "bold",
    "quote": "italic",
    "text": "",
}


def print_why(body: bytes) -> None:
    """Show an answer of `why`. Raises DaemonOfAnotherVersion if it is none."""
    lines = list(why_lines(decoded(body, Why)))
    if not sys.stdout.isatty():
        for line in lines:
            say("".join(text for text, _ in line).rstrip())
        return
    from rich.console import Console  # noqa: PLC0415 - costs as much as the rest of the command
    from rich.text import Text  # noqa: PLC0415 - as above

    console = Console(highlight=False, markup=False, emoji=False)
    for line in lines:
        pieces = ((plain_keeping_indent(text), _STYLES[style]) for text, style in line)
        console.print(Text.assemble(*pieces))


def why_lines(why: Why) -> Iterator[Line]:
    """Everything `why` says, in the order in which a person asks for it."""
    yield ((why.sentence, HEALTHS[why.health]),)
    yield ((f"{why.state}, {why.health} · rules {why.rule_version} · judged {why.judged_at}", "quiet"),)
    yield from _section("ladder", ladder_lines(why))
    yield from _section("evidence", evidence_lines(why, whole_stamps=True))
    yield from _section("rules that fired", fired_lines(why, with_rules=True))
    yield from _section("rules held back", held_lines(why, with_rules=True))
    yield from _section("not to be had now", refused_lines(why))
    yield ()
    changes = f"at {why.next_change_at}" if why.next_change_at else "only when something happens"
    yield (("can change  ", "quiet"), (changes, "text"))
    yield (("do          ", "quiet"), (command_line(why.command), "strong"))
    yield ((f"            {why.command_text}", "quiet"),)


def _section(title: str, lines: Iterator[Line]) -> Iterator[Line]:
    for number, line in enumerate(lines):
        if not number:
            yield ()
            yield ((title, "title"),)
        yield line
