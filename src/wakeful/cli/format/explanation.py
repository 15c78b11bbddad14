"""Text of `why`: the sentence, the liveness levels, rules, evidence and the one right command.

The parts are shared by the command and by `top`. They are pure and give each piece a style name, for which
each display has its own colours; text of agents is made plain and marked. Only `print_why` prints: with
colours on a terminal, plain elsewhere.
"""

import sys
from collections.abc import Callable, Iterator
from typing import Final

from wakeful.cli.output import plain_keeping_indent, print_line
from wakeful.client.client import decode_body
from wakeful.core.text import plain
from wakeful.judging.available_actions import ActionName
from wakeful.judging.explanation import Explanation, LevelState
from wakeful.judging.findings import Health
from wakeful.judging.resume_command import command_line
from wakeful.judging.state_words import state_health_text
from wakeful.judging.wording import call_text

Line = tuple[tuple[str, str], ...]
"""Pieces of a line, each with the name of its style."""

LEVEL_MARKS: Final = {
    LevelState.ALIVE: ("●", "success"),
    LevelState.BROKEN: ("✗", "error"),
    LevelState.UNKNOWN: ("?", "warning"),
    LevelState.NOT_APPLICABLE: ("·", "quiet"),
}
HEALTH_STYLES: Final = {
    Health.HEALTHY: "success",
    Health.STALE: "warning",
    Health.UNKNOWN: "warning",
    Health.DEGRADED: "error",
    Health.DEAD: "error",
}
_LEVEL_CELLS: Final = 13


def liveness_lines(explanation: Explanation) -> Iterator[Line]:
    """The liveness levels, the lowest first: green up to the last good one, then a cross."""
    for each in explanation.ladder:
        mark, style = LEVEL_MARKS[each.hold]
        words = "" if each.hold in {LevelState.ALIVE, LevelState.NOT_APPLICABLE} else each.hold
        rung = each.rung.replace("_", " ").ljust(_LEVEL_CELLS)
        yield ((f"  {mark} ", style), (rung, level_style(each.hold)), (f"  {words}".rstrip(), style))


def level_style(hold: LevelState) -> str:
    return {LevelState.BROKEN: "error", LevelState.NOT_APPLICABLE: "quiet"}.get(hold, "text")


def fired_lines(explanation: Explanation, *, with_rules: bool) -> Iterator[Line]:
    """The rules that fired with their evidence; `with_rules` adds the text of each rule."""
    for rule in explanation.fired:
        since = f" since {rule.since}:" if with_rules else " "
        yield ((f"  {rule.code}", "error"), (f"{since} {rule.summary}", "text"))
        if with_rules:
            yield ((f"    rule: {rule.rule}", "quiet"),)
        yield from (((f"    {plain(text)}", "quiet"),) for text in rule.evidence)
        yield from ((("    ", "text"), untrusted_piece(text)) for text in rule.untrusted if text)


def suppressed_lines(explanation: Explanation, *, with_rules: bool) -> Iterator[Line]:
    """The rules that would fire, and what suppresses them."""
    for rule in explanation.held_back:
        until = f" until {rule.until}" if rule.until and with_rules else ""
        held = f" by {rule.by}{until}: {plain(rule.evidence)} "
        yield ((f"  {rule.code}", "strong"), (held, "text"), untrusted_piece(rule.untrusted))
        if with_rules:
            yield ((f"    rule: {rule.rule}", "quiet"),)


def refused_action_lines(explanation: Explanation) -> Iterator[Line]:
    """The actions that are refused, each reason once."""
    names: dict[str, dict[str, None]] = {}
    for each in explanation.refused:
        # One verb brings back whatever is down.
        name = ActionName.RESUME if each.name == ActionName.REVIVE else each.name
        names.setdefault(each.reason, {})[name] = None
    for reason, those in names.items():
        yield ((f"  {', '.join(those)}: ", "strong"), (plain(reason), "text"))


def evidence_lines(explanation: Explanation, *, whole_stamps: bool) -> Iterator[Line]:
    """All evidence; with `whole_stamps` also its date."""
    for each in explanation.evidence:
        at = each.at or "-"
        shown = at.ljust(24) if whole_stamps else at[11:19].ljust(8)
        text = f"{each.source}: {plain(each.text)} "
        yield ((f"  {shown}  ", "quiet"), (text, "text"), untrusted_piece(each.untrusted))


def untrusted_piece(text: str) -> tuple[str, str]:
    return (f"`{plain(call_text(text)).replace('`', chr(39))}`" if text else "", "quote")


_STYLES: Final = {
    "success": "green",
    "warning": "yellow",
    "error": "bold red",
    "quiet": "dim",
    "strong": "bold",
    "title": "bold",
    "quote": "italic",
    "accent": "bold cyan",
    "needs-you": "bold yellow",
    "text": "",
}


def print_why(body: bytes) -> None:
    """Print an answer of `why`. Raises DaemonVersionMismatch."""
    print_one = line_printer()
    for line in why_lines(decode_body(body, Explanation)):
        print_one(line)


def line_printer() -> Callable[[Line], None]:
    """Prints a line: in colour on a terminal, as plain text elsewhere."""
    if not sys.stdout.isatty():
        return lambda line: print_line("".join(text for text, _ in line).rstrip())
    from rich.console import Console  # noqa: PLC0415 - costs as much as the rest of the command
    from rich.text import Text  # noqa: PLC0415 - as above

    console = Console(highlight=False, markup=False, emoji=False)

    def print_styled(line: Line) -> None:
        pieces = ((plain_keeping_indent(text), _STYLES[style]) for text, style in line)
        console.print(Text.assemble(*pieces))

    return print_styled


def short_why_lines(body: bytes, name: str) -> list[str]:
    """The sentence, and the command to run with this name for the session. Raises DaemonVersionMismatch."""
    explanation = decode_body(body, Explanation)
    command = command_line([name if word == explanation.id else word for word in explanation.command])
    return [f"{name}: {explanation.sentence}", f"  {command}  # {explanation.command_text}"]


def why_lines(explanation: Explanation) -> Iterator[Line]:
    """The whole explanation in reading order."""
    yield ((explanation.sentence, HEALTH_STYLES[explanation.health]),)
    yield (
        (
            f"{state_health_text(explanation.state, explanation.health)} · rules {explanation.rule_version} · judged {explanation.judged_at}",
            "quiet",
        ),
    )
    yield from _section("liveness levels", liveness_lines(explanation))
    yield from _section("evidence", evidence_lines(explanation, whole_stamps=True))
    yield from _section("rules that fired", fired_lines(explanation, with_rules=True))
    yield from _section("suppressed rules", suppressed_lines(explanation, with_rules=True))
    yield from _section("unavailable", refused_action_lines(explanation))
    yield ()
    changes = f"until {explanation.next_change_at}" if explanation.next_change_at else "until new activity"
    yield (("valid       ", "quiet"), (changes, "text"))
    yield (("do          ", "quiet"), (command_line(explanation.command), "strong"))
    yield ((f"            {explanation.command_text}", "quiet"),)


def _section(title: str, lines: Iterator[Line]) -> Iterator[Line]:
    for number, line in enumerate(lines):
        if not number:
            yield ()
            yield ((title, "title"),)
        yield line
