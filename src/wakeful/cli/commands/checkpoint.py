"""Commands `wakeful checkpoint …`: show and decide checkpoints, teach local commands; and their text.

A person decides; the daemon carries the decision out and records who decided. Without a daemon, checkpoints
can only be read, from the store. The text functions are pure.
"""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any, Final

import click
import msgspec
from msgspec import Struct

from wakeful.checkpoints.model import (
    NUMBER_MAX,
    Checkpoint,
    CheckpointRecord,
    checkpoint_list,
    checkpoint_record,
)
from wakeful.cli import read_store as stored
from wakeful.cli.app import Entry, LazyGroup
from wakeful.cli.commands.mute import who
from wakeful.cli.commands.session_control import ACT_SECONDS_MAX
from wakeful.cli.commands.work import client, posted, shown, shown_list, text
from wakeful.cli.format.sessions import decoded
from wakeful.cli.options import Command, WholeNumber, answers_json
from wakeful.cli.output import note, say, show_json, wall_now
from wakeful.client.client import Answer, DaemonNotRunning
from wakeful.core.durations import age
from wakeful.core.errors import OperatorError, WakefulError
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


_HERE: Final = "wakeful.cli.commands.checkpoint"
COMMANDS: Final = {
    "list": Entry("Read", f"{_HERE}:list_checkpoints", "What waits for a decision"),
    "show": Entry("Read", f"{_HERE}:show", "What happened, what may have, what can be chosen"),
    "continue": Entry("Decide", f"{_HERE}:go_on", "Let it go on"),
    "rollback": Entry("Decide", f"{_HERE}:rollback", "Undo it, where somebody said how; a dry run first"),
    "abort": Entry("Decide", f"{_HERE}:abort", "Leave it as it is and give the work up"),
    "teach": Entry("Decide", f"{_HERE}:teach", "Say which commands are always local in a project"),
}


class NotConfirmed(OperatorError):
    """Nothing was rolled back: there is nobody here to say yes. Read the steps above, then add --yes."""

    code = "not-confirmed"
    exit_code = 1


class NothingToTeach(OperatorError):
    """Say which project: --project P."""

    code = "lesson-without-project"


@click.command(cls=LazyGroup, entries=COMMANDS, epilog="Example: wakeful checkpoint list")
def checkpoint() -> None:
    """Decide what goes on after a crash. Nothing that may have happened elsewhere is repeated before you say so."""


def numbers_argument(command: Command) -> Command:
    """Give a command one or several numbers."""
    return click.argument(
        "numbers", metavar="N...", nargs=-1, required=True, type=WholeNumber(1, NUMBER_MAX)
    )(command)


def yes_even_remote(command: Command) -> Command:
    """Give a command `--even-remote`."""
    return click.option(
        "--even-remote", is_flag=True, help="Also where a rule knows the command to be remote."
    )(command)


@click.command("list", epilog="Example: wakeful checkpoint list --all --json")
@click.option("--all", "everything", is_flag=True, help="Also what was decided.")
@answers_json
def list_checkpoints(*, everything: bool, as_json: bool) -> int:
    """List what waits for a decision."""
    try:
        answer = client().get("/api/checkpoints?all=" + ("true" if everything else "false"))
    except DaemonNotRunning:
        answer = _looked_once(checkpoint_list(_kept(everything=everything), stored.paused()))
    return shown_list(
        answer, lambda body: list_lines(body, wall_now(), everything=everything), as_json=as_json
    )


@click.command(epilog="Example: wakeful checkpoint show 3")
@numbers_argument
@answers_json
def show(*, numbers: tuple[int, ...], as_json: bool) -> int:
    """Show checkpoints whole, several one after the other."""
    try:
        answers = [client().get(f"/api/checkpoints/{number}") for number in numbers]
    except DaemonNotRunning:
        answers = _found(numbers)
    if as_json:
        show_json(b'{"checkpoints":[' + b",".join(each.body for each in answers) + b"]}")
        return 0
    for at, answer in enumerate(answers):
        if at:
            say()
        for line in checkpoint_lines(decoded(answer.body, CheckpointRecord)):
            say(line)
    return 0


@click.command("continue", epilog="Example: wakeful checkpoint continue 3 --always-local 'make deploy-local'")
@numbers_argument
@click.option(
    "--done", is_flag=True, help="I looked, and it has happened: go on after it, without repeating it."
)
@click.option(
    "--always-local",
    "prefix",
    type=text,
    metavar="PREFIX",
    help="And never ask again, in this project, about commands that begin like this.",
)
@yes_even_remote
@answers_json
def go_on(
    *, numbers: tuple[int, ...], done: bool, prefix: str | None, even_remote: bool, as_json: bool
) -> int:
    """Let it go on. What was cut off may be done again, by whoever goes on; with --done it is not."""
    order = {"by": who(), "done": done, "always_local": prefix, "even_remote": even_remote}
    return _decided(numbers, "continue", order, as_json=as_json)


@click.command(epilog="Example: wakeful checkpoint rollback 3 --dry-run")
@click.argument("number", metavar="N", type=WholeNumber(1, NUMBER_MAX))
@click.option("--dry-run", is_flag=True, help="Only say what would be run.")
@click.option("--yes", is_flag=True, help="I read what would be run.")
@answers_json
def rollback(*, number: int, dry_run: bool, yes: bool, as_json: bool) -> int:
    """Undo what was done, where somebody said how. Shows the steps first and asks."""
    rehearsal = _order(number, "rollback", {"by": who(), "dry_run": True})
    if dry_run and as_json:
        show_json(rehearsal.body)
        return 0
    _show_steps(decoded(rehearsal.body, Decision), note if as_json else say)
    if dry_run:
        return 0
    if not yes and not _confirmed():
        raise NotConfirmed
    return _decided((number,), "rollback", {"by": who(), "dry_run": False}, as_json=as_json)


@click.command(epilog="Example: wakeful checkpoint abort 3 4")
@numbers_argument
@answers_json
def abort(*, numbers: tuple[int, ...], as_json: bool) -> int:
    """Leave everything as it is and give the work up."""
    return _decided(numbers, "abort", {"by": who()}, as_json=as_json)


@click.command(epilog="Example: wakeful checkpoint teach --project shop './sync-fixtures.sh'")
@click.argument("prefix", required=False, type=text)
@click.option("--project", type=text, metavar="P", help="Where it is so; other projects are asked about.")
@yes_even_remote
@click.option(
    "--forget", is_flag=True, help="Judge such commands by the rules again. Exit 1: nobody taught it."
)
@answers_json
def teach(*, prefix: str | None, project: str | None, even_remote: bool, forget: bool, as_json: bool) -> int:
    """Say that commands that begin with PREFIX are always local in a project. Without PREFIX: list what was taught."""
    if prefix is None:
        return shown_list(client().get("/api/lessons"), lesson_lines, as_json=as_json)
    if project is None:
        raise NothingToTeach
    lesson = {"project": project, "prefix": prefix}
    if forget:
        answer = posted("/api/lessons/forget", lesson)
        done = "is judged by the rules again" if answer.exit_code == 0 else "was not taught"
        return shown(answer, lambda _body: [f"{project}: `{prefix}` {done}"], as_json=as_json)
    answer = posted("/api/lessons", {**lesson, "even_remote": even_remote, "by": who()})
    return shown(answer, lambda body: [lesson_line(decoded(body, Lesson))], as_json=as_json)


def _found(numbers: Sequence[int]) -> list[Answer]:
    """Each of these without a daemon. Raises CheckpointNotFound."""
    from wakeful.checkpoints.service import CheckpointNotFound  # noqa: PLC0415 - costs nobody who has a daemon

    kept = {each.number: each for each in _kept(everything=True)}
    for number in numbers:
        if number not in kept:
            raise CheckpointNotFound(number=number)
    return [_looked_once(checkpoint_record(kept[number])) for number in numbers]


def _kept(*, everything: bool) -> list[Checkpoint]:
    """What the store holds, where no daemon answers."""
    from wakeful.journal.checkpoint_store import StoreDesk  # noqa: PLC0415 - costs nobody who has a daemon

    note("no daemon: looked once; deciding needs one, `wakeful up --detach` starts it")
    return StoreDesk().listed(everything=everything)


def _looked_once(found: Struct) -> Answer:
    return Answer(msgspec.json.encode(found), 0, os.getpid())


def _order(number: int, choice: str, order: dict[str, Any]) -> Answer:
    """An agent that is stopped or started takes its time."""
    return client().post(
        f"/api/checkpoints/{number}/{choice}", msgspec.json.encode(order), timeout_seconds=ACT_SECONDS_MAX
    )


def _decided(numbers: tuple[int, ...], choice: str, order: dict[str, Any], *, as_json: bool) -> int:
    """One after the other; one that is refused does not keep the others from their answer."""
    if len(numbers) == 1:
        answer = _order(numbers[0], choice, order)
        return shown(answer, lambda body: [decision_line(decoded(body, Decision))], as_json=as_json)
    worst, bodies, refused = 0, [], []
    for number in dict.fromkeys(numbers):
        try:
            answer = _order(number, choice, order)
        except WakefulError as error:
            refused.append({"number": number, "code": error.code, "detail": str(error)})
            if not as_json:
                note(f"checkpoint {number}: {error}")
            worst = max(worst, error.exit_code)
            continue
        worst = max(worst, answer.exit_code)
        bodies.append(answer.body)
        if not as_json:
            say(decision_line(decoded(answer.body, Decision)))
    if as_json:
        show_json(
            b'{"decisions":[' + b",".join(bodies) + b'],"refused":' + msgspec.json.encode(refused) + b"}"
        )
    return worst


def _show_steps(decision: Decision, tell: Callable[[str], None]) -> None:
    tell(f"rolling checkpoint {decision.checkpoint.number} back: {decision.words}")
    for step in decision.steps or ("nothing is run",):
        tell(f"    {step}")


def _confirmed() -> bool:
    if not sys.stdin.isatty():
        return False
    sys.stderr.write("Run these? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in {"y", "yes"}
