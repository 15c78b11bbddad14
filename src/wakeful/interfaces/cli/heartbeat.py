"""`wakeful agent heartbeat status|wake|validate`: what an agent wants to be woken for, and waking it.

The daemon decides and delivers; `validate` reads one file by itself and needs nobody.
"""

from pathlib import Path
from typing import Final

import click
import msgspec
from msgspec import Struct

from wakeful.domain.heartbeat import Clamped, HeartbeatInvalid, Problem, Snapshot
from wakeful.domain.moment import iso
from wakeful.interfaces.cli.lazy import Entry, LazyGroup
from wakeful.interfaces.cli.options import answers_json
from wakeful.interfaces.cli.output import note, say, show_json, wall_now
from wakeful.interfaces.cli.settings import load_settings

_HERE: Final = "wakeful.interfaces.cli.heartbeat"
COMMANDS: Final = {
    "validate": Entry("See", f"{_HERE}:validate", "Whether a HEARTBEAT.md is valid, or which line is not"),
}


class Validation(Struct, frozen=True):
    """What a file amounts to: a snapshot, or the one problem that keeps it from being one."""

    valid: bool
    snapshot: Snapshot | None
    problem: Problem | None


@click.command(cls=LazyGroup, entries=COMMANDS, epilog="Example: wakeful agent heartbeat status fox")
def heartbeat() -> None:
    """HEARTBEAT.md: when an agent would like to be woken, and whether it may be now."""


@click.command(epilog="Example: wakeful agent heartbeat validate ./HEARTBEAT.md")
@click.argument("file", metavar="FILE")
@answers_json
def validate(*, file: str, as_json: bool) -> int:
    """Say whether FILE is a valid HEARTBEAT.md. Exit 1 with file, line and reason if it is not."""
    found = _validated(file)
    if as_json:
        show_json(msgspec.json.encode(found))
    elif found.problem is not None:
        say(f"{found.problem.file}:{found.problem.line}: {found.problem.reason}")
    elif found.snapshot is not None:
        say(f"{file}: valid, {found.snapshot.id}")
        for each in found.snapshot.clamped:
            note(clamped_words(each))
    return 0 if found.valid else 1


def clamped_words(clamped: Clamped) -> str:
    """What a preference beyond the bounds got instead."""
    return f"{clamped.code}: {clamped.field} asks for {clamped.asked} and gets {clamped.given}"


def _validated(file: str) -> Validation:
    from wakeful.heartbeats import bounds_of, load  # noqa: PLC0415 - YAML costs only who reads one

    bounds = bounds_of(load_settings(None).config.heartbeat)
    try:
        return Validation(True, load(str(Path(file)), bounds, iso(wall_now())), None)
    except HeartbeatInvalid as wrong:
        return Validation(False, None, problem_of(wrong))


def problem_of(wrong: HeartbeatInvalid) -> Problem:
    """The facts of a refusal."""
    return Problem(str(wrong.facts["file"]), int(str(wrong.facts["line"])), str(wrong.facts["reason"]))
