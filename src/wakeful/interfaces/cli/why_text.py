"""`why` for people: the sentence first, the ladder as a column, and at the end the one right command.

Pure but for `print_why`, which colours on a terminal and is plain everywhere else.
"""

import sys
from collections.abc import Iterator
from shlex import join
from typing import Final, TypeAlias

from wakeful.domain.findings import Health
from wakeful.domain.ladder import Hold
from wakeful.domain.why import FiredRule, HeldRule, Why, WhyEvidence
from wakeful.interfaces.cli.listing import decoded
from wakeful.interfaces.cli.output import plain_keeping_indent, say

# Pieces of a line, each with its style.
Line: TypeAlias = tuple[tuple[str, str], ...]

_MARKS: Final = {
    Hold.ALIVE: ("●", "green"),
    Hold.BROKEN: ("✗", "bold red"),
    Hold.UNKNOWN: ("?", "yellow"),
    Hold.NOT_APPLICABLE: ("·", "dim"),
}
_HEALTH_STYLES: Final = {
    Health.HEALTHY: "bold green",
    Health.STALE: "bold yellow",
    Health.UNKNOWN: "bold yellow",
    Health.DEGRADED: "bold red",
    Health.DEAD: "bold red",
}
_RUNG_CELLS: Final = 13


def print_why(body: bytes) -> None:
    """Show an answer of `why`. Raises DaemonOfAnotherVersion if it is none."""
    lines = list(why_lines(decoded(body, Why)))
    if not sys.stdout.isatty():
        for line in lines:
            say("".join(text for text, _ in line))
        return
    from rich.console import Console  # noqa: PLC0415 - costs as much as the rest of the command
    from rich.text import Text  # noqa: PLC0415 - as above

    console = Console(highlight=False, markup=False, emoji=False)
    for line in lines:
        console.print(Text.assemble(*((plain_keeping_indent(text), style) for text, style in line)))


def why_lines(why: Why) -> Iterator[Line]:
    """Everything `why` says, in the order in which a person asks for it."""
    yield ((why.sentence, _HEALTH_STYLES[why.health]),)
    yield ((f"{why.state}, {why.health} · rules {why.rule_version} · judged {why.judged_at}", "dim"),)
    yield from _ladder(why)
    yield from _section("evidence", [_reading(each) for each in why.evidence])
    yield from _section("rules that fired", [line for each in why.fired for line in _fired(each)])
    yield from _section("rules held back", [line for each in why.held_back for line in _held(each)])
    yield ()
    changes = f"at {why.next_change_at}" if why.next_change_at else "only when something happens"
    yield (("can change  ", "dim"), (changes, ""))
    yield (("do          ", "dim"), (join(why.command), "bold"))
    yield ((f"            {why.command_text}", "dim"),)


def _ladder(why: Why) -> Iterator[Line]:
    yield ()
    yield (("ladder", "bold"),)
    for each in why.ladder:
        mark, style = _MARKS[each.hold]
        rung = each.rung.replace("_", " ").ljust(_RUNG_CELLS)
        yield ((f"  {mark} {rung}", style), (f"  {each.hold.replace('_', ' ')}", "dim"))


def _section(title: str, lines: list[Line]) -> Iterator[Line]:
    if lines:
        yield ()
        yield ((title, "bold"),)
        yield from lines


def _reading(evidence: WhyEvidence) -> Line:
    at = (evidence.at or "-").ljust(24)
    return ((f"  {at}  ", "dim"), (f"{evidence.source}: {evidence.text}", ""), _said(evidence.untrusted))


def _fired(rule: FiredRule) -> Iterator[Line]:
    yield ((f"  {rule.code}", "bold red"), (f" since {rule.since}: {rule.summary}", ""))
    yield ((f"    rule: {rule.rule}", "dim"),)
    for text in rule.evidence:
        yield ((f"    {text}", ""),)
    for text in filter(None, rule.untrusted):
        yield (("  ", ""), _said(text))


def _held(rule: HeldRule) -> Iterator[Line]:
    until = f" until {rule.until}" if rule.until else ""
    held = f" by {rule.by}{until}: {rule.evidence}"
    yield ((f"  {rule.code}", "bold"), (held, ""), _said(rule.untrusted))
    yield ((f"    rule: {rule.rule}", "dim"),)


def _said(text: str) -> tuple[str, str]:
    """What somebody else wrote, marked as such."""
    return (f"  `{text.replace('`', chr(39))}`" if text else "", "italic")
