"""Checkpoints: questions that a crash left for a person, with their choices and their Markdown form. Pure.

CHECKPOINT_<n>.md is written and read here. The file is for reading only: the store has the decision, and
editing the file decides nothing. A checkpoint can be read in a minute and is decided once.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from itertools import pairwise
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from wakeful.alerts.mute_pause_model import PauseRecord
from wakeful.core.clock import iso
from wakeful.core.errors import OperatorError
from wakeful.core.labels import label, quotations
from wakeful.core.redaction import redact
from wakeful.core.text import plain

# A person can read it in a minute: one screen of lines, each one or two terminal lines long.
LINE_CHARS_MAX: Final = 300
LINES_MAX: Final = 20
# The newest ones: people do not read a longer list.
LISTED_MAX: Final = 1000
# The limit of `wakeful checkpoint` and of the file's name; a store never reaches it.
NUMBER_MAX: Final = 999_999


class CheckpointKind(StrEnum):
    """The interrupted thing: a program with a journal, an agent, or an attempt of a queue."""

    JOURNAL = "journal"
    SESSION = "session"
    QUEUE = "queue"


class ChoiceName(StrEnum):
    """The possible decisions. `done`: a person checked that the interrupted call has happened."""

    CONTINUE = "continue"
    DONE = "done"
    ROLLBACK = "rollback"
    ABORT = "abort"


class CheckpointState(StrEnum):
    """Open until a person decides; then the decision, which is final."""

    OPEN = "open"
    CONTINUED = "continued"
    COUNTED_DONE = "counted_done"
    ROLLED_BACK = "rolled_back"
    ABORTED = "aborted"


STATE_AFTER: Final[Mapping[ChoiceName, CheckpointState]] = {
    ChoiceName.CONTINUE: CheckpointState.CONTINUED,
    ChoiceName.DONE: CheckpointState.COUNTED_DONE,
    ChoiceName.ROLLBACK: CheckpointState.ROLLED_BACK,
    ChoiceName.ABORT: CheckpointState.ABORTED,
}


class BadCheckpoint(OperatorError):
    """This is not a Wakeful checkpoint: {reason}."""

    code = "bad-checkpoint"


class CheckpointChoice(Struct, frozen=True):
    """One choice. `commands`: first the one that chooses it, then those that it will run."""

    name: ChoiceName
    consequence: str
    commands: tuple[str, ...] = ()


class Checkpoint(Struct, frozen=True):
    """A question for a person. `subject` is a journal's root or a session's id."""

    number: int
    kind: CheckpointKind
    subject: str
    project: str
    opened_at: float
    happened: tuple[str, ...]
    may_have: tuple[str, ...]
    did_not: tuple[str, ...]
    choices: tuple[CheckpointChoice, ...]
    state: CheckpointState = CheckpointState.OPEN
    decided_by: str | None = None
    decided_at: float | None = None
    trace_id: str | None = None

    @property
    def is_open(self) -> bool:
        return self.state is CheckpointState.OPEN

    def choice(self, name: ChoiceName) -> CheckpointChoice | None:
        """None if it is not offered."""
        return next((each for each in self.choices if each.name is name), None)

    def with_decision(self, choice: ChoiceName, by: str, at: float) -> "Checkpoint":
        return replace(self, state=STATE_AFTER[choice], decided_by=by, decided_at=at)


class CheckpointRecord(Struct, frozen=True):
    """A checkpoint for every interface. Every text in it may contain text of an agent."""

    number: int
    state: CheckpointState
    kind: CheckpointKind
    subject: str
    project: str
    opened_at: str
    happened: tuple[str, ...]
    may_have: tuple[str, ...]
    did_not: tuple[str, ...]
    choices: tuple[CheckpointChoice, ...]
    decided_by: str | None
    decided_at: str | None
    trace_id: str | None
    # The parts of the sentences above that agents wrote.
    untrusted: tuple[str, ...] = ()


class CheckpointList(Struct, frozen=True):
    """Open ones first, then the newest first; `paused` is the pause of all automatic actions, if there is one."""

    checkpoints: tuple[CheckpointRecord, ...]
    paused: PauseRecord | None = None


def checkpoint_list(found: Iterable[Checkpoint], paused: PauseRecord | None) -> CheckpointList:
    newest = sorted(found, key=lambda each: (not each.is_open, -each.number))[:LISTED_MAX]
    return CheckpointList(tuple(map(checkpoint_record, newest)), paused)


def checkpoint_record(checkpoint: Checkpoint) -> CheckpointRecord:
    return CheckpointRecord(
        number=checkpoint.number,
        state=checkpoint.state,
        kind=checkpoint.kind,
        subject=plain(checkpoint.subject),
        project=label(checkpoint.project),
        opened_at=iso(checkpoint.opened_at),
        happened=checkpoint.happened,
        may_have=checkpoint.may_have,
        did_not=checkpoint.did_not,
        choices=checkpoint.choices,
        decided_by=checkpoint.decided_by,
        decided_at=iso(checkpoint.decided_at) if checkpoint.decided_at is not None else None,
        trace_id=checkpoint.trace_id,
        untrusted=quotations([*checkpoint.happened, *checkpoint.may_have, *checkpoint.did_not]),
    )


def file_name(number: int) -> str:
    return f"CHECKPOINT_{number}.md"


def command_of(choice: ChoiceName, number: int) -> str:
    if choice is ChoiceName.DONE:
        return f"wakeful checkpoint continue {number} --done"
    return f"wakeful checkpoint {choice} {number}"


def number_draft(draft: Checkpoint, number: int, opened_at: float) -> Checkpoint:
    """A draft (number 0) with its number and time: bounded, redacted, plain, and with the command of each choice."""
    choices = tuple(
        CheckpointChoice(
            each.name, _line(each.consequence), (command_of(each.name, number), *_lines(each.commands))
        )
        for each in draft.choices
    )
    return replace(
        draft,
        number=number,
        opened_at=round(opened_at, 3),
        project=_line(draft.project),
        happened=_lines(draft.happened),
        may_have=_lines(draft.may_have),
        did_not=_lines(draft.did_not),
        choices=choices,
    )


def is_about_the_same(one: Checkpoint, other: Checkpoint) -> bool:
    """Whether both ask a person the same question. Either may still be a draft."""
    return _question(one) == _question(other)


def _question(checkpoint: Checkpoint) -> tuple[CheckpointKind, str, str | None, tuple[str, ...]]:
    return checkpoint.kind, checkpoint.subject, checkpoint.trace_id, _lines(checkpoint.may_have)


def _line(text: str) -> str:
    return plain(redact(text), LINE_CHARS_MAX)


def _lines(texts: Sequence[str]) -> tuple[str, ...]:
    """The newest lines, after a line that counts the others."""
    lines = tuple(line for line in map(_line, texts) if line)
    left_out = len(lines) - LINES_MAX
    return (f"{left_out + 1} earlier ones", *lines[left_out + 1 :]) if left_out > 0 else lines


# The file. Every fact is on one line behind a fixed prefix, and Markdown's special characters are escaped:
# an agent's text cannot become a heading, a choice or a remote picture.
_TITLE: Final = re.compile(r"# Checkpoint ([1-9][0-9]{0,5}): .*")
_MARKDOWN_SPECIAL: Final = re.compile(r"([\\`*<&\[])")
_ESCAPED: Final = re.compile(r"\\([\\`*<&\[])")
_NOTHING: Final = "nothing"
_NO_VALUE: Final = "-"
_SECTIONS: Final = {
    "happened": "## Already happened",
    "may_have": "## May have happened",
    "did_not": "## Did not happen",
}
_CHOICES: Final = "## Choices"
_THEN: Final = "Then: "


def to_markdown(checkpoint: Checkpoint) -> str:
    return "\n".join(
        [*_head(checkpoint), *_fact_sections(checkpoint), *_choice_sections(checkpoint.choices), ""]
    )


def from_markdown(text: str) -> Checkpoint:
    """Parse CHECKPOINT_<n>.md. Raises BadCheckpoint."""
    lines = text.split("\n")
    title = _TITLE.fullmatch(lines[0])
    if title is None:
        raise BadCheckpoint(reason="its first line is not the title of one")
    try:
        return _read(int(title[1]), lines)
    except (ValueError, KeyError) as error:
        raise BadCheckpoint(reason=f"{plain(str(error), 100)} is not what the file contains") from error


def _head(checkpoint: Checkpoint) -> Iterator[str]:
    title = "a person has to decide" if checkpoint.is_open else _STATE_TEXTS[checkpoint.state]
    yield f"# Checkpoint {checkpoint.number}: {title}"
    yield ""
    yield _OPENING[checkpoint.kind]
    yield ""
    facts = {
        "state": checkpoint.state,
        "kind": checkpoint.kind,
        "subject": plain(checkpoint.subject),
        "project": checkpoint.project,
        "opened": iso(checkpoint.opened_at),
        "decided by": checkpoint.decided_by,
        "decided": iso(checkpoint.decided_at) if checkpoint.decided_at is not None else None,
        "trace": checkpoint.trace_id,
    }
    yield from (f"- {name}: {_escape(value or _NO_VALUE)}" for name, value in facts.items())


def _fact_sections(checkpoint: Checkpoint) -> Iterator[str]:
    for field, heading in _SECTIONS.items():
        lines: tuple[str, ...] = getattr(checkpoint, field)
        yield from ("", heading, "")
        yield from (f"- {_escape(line)}" for line in lines)
        if not lines:
            yield _NOTHING


def _choice_sections(choices: Iterable[CheckpointChoice]) -> Iterator[str]:
    yield from ("", _CHOICES)
    for choice in choices:
        yield from ("", f"### {choice.name}", "", f"{_THEN}{_escape(choice.consequence)}", "")
        yield from (f"    {command}" for command in choice.commands)


_OPENING: Final = {
    CheckpointKind.JOURNAL: "This program was interrupted during a step. Nothing is repeated before a person decides.",
    CheckpointKind.SESSION: "This agent was interrupted during a call. Nothing is repeated before a person decides.",
    CheckpointKind.QUEUE: "This attempt at a queued message ended. Nothing of it is repeated before a person decides.",
}
_STATE_TEXTS: Final = {
    CheckpointState.CONTINUED: "continued",
    CheckpointState.COUNTED_DONE: "counted as done",
    CheckpointState.ROLLED_BACK: "rolled back",
    CheckpointState.ABORTED: "aborted",
}


def _read(number: int, lines: list[str]) -> Checkpoint:
    marks = [lines.index(heading) for heading in (*_SECTIONS.values(), _CHOICES)]
    if marks != sorted(marks):
        raise ValueError(_CHOICES)
    facts = dict(_facts(lines[1 : marks[0]]))
    sections = [
        tuple(_unescape(line[2:]) for line in lines[start + 1 : end] if line.startswith("- "))
        for start, end in pairwise(marks)
    ]
    decided = facts["decided"]
    return Checkpoint(
        number=number,
        kind=CheckpointKind(facts["kind"] or ""),
        subject=facts["subject"] or "",
        project=facts["project"] or "",
        opened_at=_wall(facts["opened"] or ""),
        happened=sections[0],
        may_have=sections[1],
        did_not=sections[2],
        choices=tuple(_choices(lines[marks[-1] + 1 :])),
        state=CheckpointState(facts["state"] or ""),
        decided_by=facts["decided by"],
        decided_at=_wall(decided) if decided is not None else None,
        trace_id=facts["trace"],
    )


def _facts(lines: Iterable[str]) -> Iterator[tuple[str, str | None]]:
    for line in lines:
        name, found, value = line.removeprefix("- ").partition(": ")
        if found and line.startswith("- "):
            yield name, None if value == _NO_VALUE else _unescape(value)


def _choices(lines: list[str]) -> Iterator[CheckpointChoice]:
    starts = [at for at, line in enumerate(lines) if line.startswith("### ")]
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        body = lines[start + 1 : end]
        commands = tuple(line[4:] for line in body if line.startswith("    "))
        then = next((line for line in body if line.startswith(_THEN)), _THEN).removeprefix(_THEN)
        yield CheckpointChoice(ChoiceName(lines[start][4:]), _unescape(then), commands)


def _wall(stamp: str) -> float:
    return datetime.fromisoformat(stamp).timestamp()


def _escape(text: str) -> str:
    return _MARKDOWN_SPECIAL.sub(r"\\\1", text)


def _unescape(text: str) -> str:
    return _ESCAPED.sub(r"\1", text)
