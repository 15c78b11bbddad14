"""Commands `wakeful checkpoint …`: show and decide checkpoints, teach local commands; and their text.

A person decides; the daemon carries the decision out and records who decided. Without a daemon, checkpoints
can only be read, from the store. The text functions are pure.
"""

import sys
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Final

import click
import msgspec

from wakeful.checkpoints.model import (
    NUMBER_MAX,
    Checkpoint,
    CheckpointList,
    CheckpointRecord,
    checkpoint_list,
    checkpoint_record,
)
from wakeful.cli import read_store as stored
from wakeful.cli.app import CommandEntry, LazyGroup
from wakeful.cli.commands.mute import operator_name
from wakeful.cli.commands.session_control import ACTION_SECONDS_MAX
from wakeful.cli.commands.work import post, print_list, text
from wakeful.cli.options import Command, WholeNumber, json_option
from wakeful.cli.output import print_answer, print_json, print_line, print_note, wall_now
from wakeful.client.client import DaemonAnswer, decode_body, local_answer, own_daemon
from wakeful.client.errors import DaemonNotRunning
from wakeful.core.durations import age
from wakeful.core.errors import OperatorError, WakefulError
from wakeful.core.text import plain
from wakeful.views.records import DecisionRecord, LessonList, LessonRecord

NO_OPEN_CHECKPOINTS: Final = (
    "No checkpoint needs your decision. Decided ones: `wakeful checkpoint list --all`"
)
NO_CHECKPOINTS: Final = "There are no checkpoints."


def list_lines(body: bytes, now: float, *, everything: bool) -> list[str]:
    """Each with its age, subject and possible effects; then the commands that decide all of them."""
    found = decode_body(body, CheckpointList).checkpoints
    if not found:
        return [NO_CHECKPOINTS if everything else NO_OPEN_CHECKPOINTS]
    lines = [line for each in found for line in _list_entry_lines(each, now)]
    open_ones = [str(each.number) for each in found if each.state == "open"]
    if open_ones:
        numbers = " ".join(open_ones)
        lines += ["", f"wakeful checkpoint show {numbers}", f"wakeful checkpoint continue|abort {numbers}"]
        lines.append(f"wakeful checkpoint continue {numbers} --done   (you checked, and it has happened)")
    return lines


def checkpoint_lines(record: CheckpointRecord) -> Iterator[str]:
    """A whole checkpoint: what happened, may have happened and did not; each choice, its consequence and commands."""
    yield plain(f"checkpoint {record.number}: {_state_text(record)}")
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


def decision_line(decision: DecisionRecord) -> str:
    record = decision.checkpoint
    return plain(f"checkpoint {record.number}: {_state_text(record)}: {decision.words}")


def lesson_lines(body: bytes) -> list[str]:
    found = decode_body(body, LessonList).lessons
    return [lesson_line(each) for each in found] or ["no local commands were taught"]


def lesson_line(lesson: LessonRecord) -> str:
    even = " even where a rule says remote" if lesson.even_remote else ""
    return plain(f"{lesson.project}: `{lesson.prefix}` is local{even} ({lesson.by}, {lesson.at})")


def _list_entry_lines(record: CheckpointRecord, now: float) -> Iterator[str]:
    since = age(now - datetime.fromisoformat(record.opened_at).timestamp())
    parts = (_state_text(record), f"{since} old", record.project or "-", f"{record.kind} {record.subject}")
    yield f"{record.number}  {plain(', '.join(parts))}"
    if record.state == "open":
        yield from (f"    {plain(each)}" for each in record.may_have[:3])


def _state_text(record: CheckpointRecord) -> str:
    if record.decided_by is None:
        return record.state
    return f"{record.state.replace('_', ' ')} by {record.decided_by} at {record.decided_at}"


def _section(heading: str, lines: Sequence[str]) -> Iterator[str]:
    yield from ("", f"{heading}:")
    yield from (f"  - {plain(line)}" for line in lines or ("nothing",))


_MODULE: Final = "wakeful.cli.commands.checkpoint"
COMMANDS: Final = {
    "list": CommandEntry("Read", f"{_MODULE}:list_checkpoints", "List checkpoints that need your decision"),
    "show": CommandEntry("Read", f"{_MODULE}:show", "Show what happened, what may have, and your choices"),
    "continue": CommandEntry("Decide", f"{_MODULE}:go_on", "Continue"),
    "rollback": CommandEntry(
        "Decide", f"{_MODULE}:rollback", "Undo the steps that declare how; shows them first"
    ),
    "abort": CommandEntry("Decide", f"{_MODULE}:abort", "Give up the task and leave everything as it is"),
    "teach": CommandEntry("Decide", f"{_MODULE}:teach", "Mark commands as local in a project"),
}


class NotConfirmed(OperatorError):
    """Nothing was rolled back. Read the steps above, then add --yes."""

    code = "not-confirmed"
    exit_code = 1


class LessonWithoutProject(OperatorError):
    """Name the project: --project P."""

    code = "lesson-without-project"


@click.command(cls=LazyGroup, entries=COMMANDS, epilog="Example: wakeful checkpoint list")
def checkpoint() -> None:
    """Decide what continues after a crash. Wakeful repeats no call with effects elsewhere without your approval."""


def numbers_argument(command: Command) -> Command:
    return click.argument(
        "numbers", metavar="N...", nargs=-1, required=True, type=WholeNumber(1, NUMBER_MAX)
    )(command)


def even_remote_option(command: Command) -> Command:
    return click.option("--even-remote", is_flag=True, help="Even if a rule knows the command to be remote.")(
        command
    )


@click.command("list", epilog="Example: wakeful checkpoint list --all --json")
@click.option("--all", "everything", is_flag=True, help="Also list decided checkpoints.")
@json_option
def list_checkpoints(*, everything: bool, as_json: bool) -> int:
    """List checkpoints that need your decision."""
    try:
        answer = own_daemon().get("/api/checkpoints?all=" + ("true" if everything else "false"))
    except DaemonNotRunning:
        answer = local_answer(
            checkpoint_list(_stored_checkpoints(everything=everything), stored.pause_in_store())
        )
    return print_list(
        answer, lambda body: list_lines(body, wall_now(), everything=everything), as_json=as_json
    )


@click.command(epilog="Example: wakeful checkpoint show 3")
@numbers_argument
@json_option
def show(*, numbers: tuple[int, ...], as_json: bool) -> int:
    """Show one or more checkpoints in full."""
    try:
        answers = [own_daemon().get(f"/api/checkpoints/{number}") for number in numbers]
    except DaemonNotRunning:
        answers = _stored_answers(numbers)
    if as_json:
        print_json(b'{"checkpoints":[' + b",".join(each.body for each in answers) + b"]}")
        return 0
    for at, answer in enumerate(answers):
        if at:
            print_line()
        for line in checkpoint_lines(decode_body(answer.body, CheckpointRecord)):
            print_line(line)
    return 0


@click.command("continue", epilog="Example: wakeful checkpoint continue 3 --always-local 'make deploy-local'")
@numbers_argument
@click.option("--done", is_flag=True, help="I checked: the interrupted call has happened. Continue after it.")
@click.option(
    "--always-local",
    "prefix",
    type=text,
    metavar="PREFIX",
    help="Also mark commands that begin with PREFIX as local in this project.",
)
@even_remote_option
@json_option
def go_on(
    *, numbers: tuple[int, ...], done: bool, prefix: str | None, even_remote: bool, as_json: bool
) -> int:
    """Continue after a crash. The interrupted call may be repeated; with --done it is not."""
    order = {"by": operator_name(), "done": done, "always_local": prefix, "even_remote": even_remote}
    return _decide(numbers, "continue", order, as_json=as_json)


@click.command(epilog="Example: wakeful checkpoint rollback 3 --dry-run")
@click.argument("number", metavar="N", type=WholeNumber(1, NUMBER_MAX))
@click.option("--dry-run", is_flag=True, help="Show what would run without running it.")
@click.option("--yes", is_flag=True, help="Run the steps without asking.")
@json_option
def rollback(*, number: int, dry_run: bool, yes: bool, as_json: bool) -> int:
    """Undo the steps that declare how to. Shows what would run and asks first."""
    rehearsal = _post_decision(number, "rollback", {"by": operator_name(), "dry_run": True})
    if dry_run and as_json:
        print_json(rehearsal.body)
        return 0
    decision = decode_body(rehearsal.body, DecisionRecord)
    tell = print_note if as_json else print_line
    tell(f"rolling checkpoint {decision.checkpoint.number} back: {decision.words}")
    for step in decision.steps or ("nothing to run",):
        tell(f"    {step}")
    if dry_run:
        return 0
    if not yes and not _confirm():
        raise NotConfirmed
    return _decide((number,), "rollback", {"by": operator_name(), "dry_run": False}, as_json=as_json)


@click.command(epilog="Example: wakeful checkpoint abort 3 4")
@numbers_argument
@json_option
def abort(*, numbers: tuple[int, ...], as_json: bool) -> int:
    """Give up the task and leave everything as it is."""
    return _decide(numbers, "abort", {"by": operator_name()}, as_json=as_json)


@click.command(epilog="Example: wakeful checkpoint teach --project shop './sync-fixtures.sh'")
@click.argument("prefix", required=False, type=text)
@click.option("--project", type=text, metavar="P", help="The project in which the commands are local.")
@even_remote_option
@click.option("--forget", is_flag=True, help="Remove the mark. Exit 1: there was none.")
@json_option
def teach(*, prefix: str | None, project: str | None, even_remote: bool, forget: bool, as_json: bool) -> int:
    """Mark commands that begin with PREFIX as local in a project. Without PREFIX: list the marks."""
    if prefix is None:
        return print_list(own_daemon().get("/api/lessons"), lesson_lines, as_json=as_json)
    if project is None:
        raise LessonWithoutProject
    lesson = {"project": project, "prefix": prefix}
    if forget:
        answer = post("/api/lessons/forget", lesson)
        done = "is no longer marked as local" if answer.exit_code == 0 else "was not marked"
        return print_answer(answer, lambda _body: [f"{project}: `{prefix}` {done}"], as_json=as_json)
    answer = post("/api/lessons", {**lesson, "even_remote": even_remote, "by": operator_name()})
    return print_answer(answer, lambda body: [lesson_line(decode_body(body, LessonRecord))], as_json=as_json)


def _stored_answers(numbers: Sequence[int]) -> list[DaemonAnswer]:
    """These checkpoints from the store. Raises CheckpointNotFound."""
    from wakeful.checkpoints.service import CheckpointNotFound  # noqa: PLC0415 - only without a daemon

    kept = {each.number: each for each in _stored_checkpoints(everything=True)}
    for number in numbers:
        if number not in kept:
            raise CheckpointNotFound(number=number)
    return [local_answer(checkpoint_record(kept[number])) for number in numbers]


def _stored_checkpoints(*, everything: bool) -> list[Checkpoint]:
    from wakeful.journal.checkpoint_store import StoredJournalCheckpoints  # noqa: PLC0415 - only without a daemon

    print_note("no daemon: checked once; to decide, start it: `wakeful up --detach`")
    return StoredJournalCheckpoints().list_checkpoints(everything=everything)


def _post_decision(number: int, choice: str, order: dict[str, Any]) -> DaemonAnswer:
    """With a long deadline: a decision may stop or start an agent."""
    return own_daemon().post(
        f"/api/checkpoints/{number}/{choice}", msgspec.json.encode(order), timeout_seconds=ACTION_SECONDS_MAX
    )


def _decide(numbers: tuple[int, ...], choice: str, order: dict[str, Any], *, as_json: bool) -> int:
    """Decide one after the other; after a refusal the others are still decided."""
    if len(numbers) == 1:
        answer = _post_decision(numbers[0], choice, order)
        return print_answer(
            answer, lambda body: [decision_line(decode_body(body, DecisionRecord))], as_json=as_json
        )
    worst, bodies, refused = 0, [], []
    for number in dict.fromkeys(numbers):
        try:
            answer = _post_decision(number, choice, order)
        except WakefulError as error:
            refused.append({"number": number, "code": error.code, "detail": str(error)})
            if not as_json:
                print_note(f"checkpoint {number}: {error}")
            worst = max(worst, error.exit_code)
            continue
        worst = max(worst, answer.exit_code)
        bodies.append(answer.body)
        if not as_json:
            print_line(decision_line(decode_body(answer.body, DecisionRecord)))
    if as_json:
        print_json(
            b'{"decisions":[' + b",".join(bodies) + b'],"refused":' + msgspec.json.encode(refused) + b"}"
        )
    return worst


def _confirm() -> bool:
    if not sys.stdin.isatty():
        return False
    sys.stderr.write("Run these? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in {"y", "yes"}
