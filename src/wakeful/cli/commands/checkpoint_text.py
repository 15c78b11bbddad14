"""Checkpoints as a person reads them at a terminal: one line each in a list, and one whole. Pure."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

from msgspec import Struct

from wakeful.checkpoints.model import CheckpointRecord
from wakeful.cli.format.listing import decoded
from wakeful.core.durations import age
from wakeful.core.text import plain

NONE: Final = "Nothing waits for a decision. `wakeful checkpoint list --all` lists what was decided."
NONE_EVER: Final = "There never was a checkpoint."


class Checkpoints(Struct, frozen=True):
    """The answer of /api/checkpoints."""

    checkpoints: list[CheckpointRecord]


class Decision(Struct, frozen=True):
    """The answer to an order about one."""

    checkpoint: CheckpointRecord
    outcome: str | None
    words: str
    changed: bool
    steps: tuple[str, ...] = ()


class Lesson(Struct, frozen=True):
    project: str
    prefix: str
    even_remote: bool
    by: str
    at: str


class Lessons(Struct, frozen=True):
    lessons: list[Lesson]


def list_lines(body: bytes, now: float, *, everything: bool) -> list[str]:
    """Each with its age, whose it is and what may have happened; how several are decided together."""
    found = decoded(body, Checkpoints).checkpoints
    if not found:
        return [NONE_EVER if everything else NONE]
    lines = [line for each in found for line in _listed(each, now)]
    open_ones = [str(each.number) for each in found if each.state == "open"]
    if open_ones:
        numbers = " ".join(open_ones)
        lines += ["", f"wakeful checkpoint show {numbers}", f"wakeful checkpoint continue|abort {numbers}"]
        lines.append(f"wakeful checkpoint continue {numbers} --done   (you looked, and it has happened)")
    return lines


def checkpoint_lines(record: CheckpointRecord) -> Iterator[str]:
    """All of it: what happened, what may have, what did not; each choice, what follows, what to type."""
    yield plain(f"checkpoint {record.number}: {_state(record)}")
    yield plain(f"{record.kind} {record.subject}, project {record.project or '-'}, since {record.opened_at}")
    yield from _section("already happened", record.happened)
    yield from _section("may have happened", record.may_have)
    yield from _section("did not happen", record.did_not)
    if record.state != "open":
        return
    for choice in record.choices:
        yield ""
        yield plain(f"{choice.name}: {choice.consequence}")
        yield from (f"    {plain(command)}" for command in choice.commands)


def decision_line(decision: Decision) -> str:
    """What came of it."""
    record = decision.checkpoint
    return plain(f"checkpoint {record.number}: {_state(record)}: {decision.words}")


def lesson_lines(body: bytes) -> list[str]:
    """What was taught, by whom."""
    found = decoded(body, Lessons).lessons
    return [lesson_line(each) for each in found] or ["nothing was taught"]


def lesson_line(lesson: Lesson) -> str:
    even = " even where a rule says remote" if lesson.even_remote else ""
    return plain(f"{lesson.project}: `{lesson.prefix}` is local{even} ({lesson.by}, {lesson.at})")


def _listed(record: CheckpointRecord, now: float) -> Iterator[str]:
    since = age(now - datetime.fromisoformat(record.opened_at).timestamp())
    parts = (_state(record), f"{since} old", record.project or "-", f"{record.kind} {record.subject}")
    yield f"{record.number}  {plain(', '.join(parts))}"
    if record.state == "open":
        yield from (f"    {plain(each)}" for each in record.may_have[:3])


def _state(record: CheckpointRecord) -> str:
    if record.decided_by is None:
        return record.state
    return f"{record.state.replace('_', ' ')} by {record.decided_by} at {record.decided_at}"


def _section(heading: str, lines: Sequence[str]) -> Iterator[str]:
    yield from ("", f"{heading}:")
    yield from (f"  - {plain(line)}" for line in lines or ("nothing",))
