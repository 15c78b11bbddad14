"""Commands `wakeful work …`: add, list, claim and finish tasks; and the text of tasks and leases.

Every request goes through the daemon to the store. Prompts and results are untrusted text: they are made
plain, and shortened in lists.
"""

import os
import socket
import sys
from collections.abc import Callable, Iterable
from typing import Any, Final
from urllib.parse import urlencode

import click
import msgspec

from wakeful.cli.app import CommandEntry, LazyGroup
from wakeful.cli.format.sessions import paused_lines, record_lines
from wakeful.cli.options import Command, WholeNumber, json_option
from wakeful.cli.output import print_answer
from wakeful.client.client import DaemonAnswer, decode_body, own_daemon
from wakeful.core.durations import parse_duration
from wakeful.core.errors import OperatorError
from wakeful.core.ids import SessionId, parse_session_id
from wakeful.core.leases import WorkId, WorkState, parse_work_id
from wakeful.core.text import plain
from wakeful.work.service import ClaimedRun, LeaseRecord, ReleasedLease, RenewedLease, WorkList, WorkRecord

SUMMARY_CHARS_MAX: Final = 60
_HEADERS: Final = ("ID", "STATE", "TRIED", "PROJECT", "SESSION", "PROMPT")


def work_lines(body: bytes) -> list[str]:
    work = decode_body(body, WorkRecord)
    return [plain(f"{work.id} is {work.state}, {work.attempts} of {work.attempts_max} attempts made")]


def list_lines(body: bytes) -> list[str]:
    """A table of works, and how to get the next page."""
    page = decode_body(body, WorkList)
    if not page.works:
        return ["no tasks"]
    rows = [_HEADERS, *map(_cells, page.works)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
    return lines if page.next_cursor is None else [*lines, f"more: --after {page.next_cursor}"]


def run_lines(body: bytes) -> list[str]:
    """The claimed run, and the command that completes it."""
    run = decode_body(body, ClaimedRun).run
    if run is None:
        return ["no task is due"]
    return [
        plain(f"{run.work_id} is claimed until {run.lease_until}, epoch {run.epoch}"),
        plain(f"session: {run.session_id or '-'}"),
        plain(f"prompt: {run.prompt}"),
        f"when done: wakeful work complete {plain(run.work_id)} --epoch {run.epoch}",
    ]


def renewed_lines(body: bytes) -> list[str]:
    lease = decode_body(body, RenewedLease)
    return [plain(f"claimed until {lease.lease_until}, epoch {lease.epoch}")]


def lease_lines(body: bytes) -> list[str]:
    """The lease, and the commands that keep it and give it back."""
    lease = decode_body(body, LeaseRecord)
    id_ = plain(lease.session_id)
    return [
        plain(f"{id_} is claimed until {lease.lease_until}, epoch {lease.epoch}"),
        f"renew: wakeful session claim {id_} --epoch {lease.epoch}",
        f"release: wakeful session yield {id_} --epoch {lease.epoch}",
    ]


def yielded_lines(body: bytes) -> list[str]:
    return [plain(f"{decode_body(body, ReleasedLease).session_id} is free")]


def _cells(work: WorkRecord) -> tuple[str, ...]:
    tried = f"{work.attempts}/{work.attempts_max}"
    cells = (work.id, work.state, tried, work.project or "-", work.session_id or "-")
    return (*map(plain, cells), plain(work.summary, SUMMARY_CHARS_MAX))


_MODULE: Final = "wakeful.cli.commands.work"
COMMANDS: Final = {
    "add": CommandEntry("Ask", f"{_MODULE}:add", "Add a task"),
    "list": CommandEntry("Ask", f"{_MODULE}:list_works", "List tasks, oldest first"),
    "show": CommandEntry("Ask", f"{_MODULE}:show", "Show a task with its prompt and attempts"),
    "claim": CommandEntry("Do", f"{_MODULE}:claim", "Claim the oldest task; exit 1: none is due"),
    "heartbeat": CommandEntry("Do", f"{_MODULE}:heartbeat", "Renew the lease of a run"),
    "complete": CommandEntry("Do", f"{_MODULE}:complete", "Report success"),
    "fail": CommandEntry("Do", f"{_MODULE}:fail", "Report failure"),
}
KEY_CHARS_MAX: Final = 200
# The most that the store keeps of one work.
PROMPT_BYTES_MAX: Final = 1_000_000


class BadKeyOption(OperatorError):
    """Invalid idempotency key {shown!r}: use printable ASCII, 200 characters at most."""

    code = "bad-idempotency-key"


class PromptEmpty(OperatorError):
    """The prompt is empty. Write what the agent should do."""

    code = "prompt-empty"


class PromptTooLong(OperatorError):
    """The prompt has more than {bytes_max:,} bytes. Write it to a file and send the file's path."""

    code = "prompt-too-long"


@click.command(
    cls=LazyGroup, entries=COMMANDS, epilog="Example: wakeful work add --project shop 'fix the build'"
)
def work() -> None:
    """Task queue for workers. A claim has a lease: send heartbeats, then complete or fail the run with its epoch."""


def text(value: str) -> str:
    """An argument as text: bytes that are not UTF-8 become question marks, because JSON cannot hold them."""
    return os.fsencode(value).decode(errors="replace")


def work_argument(command: Command) -> Command:
    """Give a command the argument WORK; BadWorkId is raised before any request."""
    return click.argument("work_id", metavar="WORK", type=parse_work_id)(command)


def owner_option(command: Command) -> Command:
    return click.option(
        "--owner", type=text, metavar="NAME", help="Name of the worker. Default: host and calling process."
    )(command)


def ttl_option(command: Command) -> Command:
    return click.option(
        "--ttl", metavar="TIME", default="60s", show_default=True, help="Length of the lease."
    )(command)


def epoch_option(command: Command) -> Command:
    return click.option("--epoch", type=WholeNumber(1), required=True, help="The epoch from the claim.")(
        command
    )


@click.command(epilog="Example: wakeful work add --session 3f2a91bc 'now run the tests'")
@click.argument("prompt", type=text)
@click.option(
    "--project", type=text, metavar="P", default="", help="Project of the task; workers can claim by project."
)
@click.option(
    "--session", type=parse_session_id, metavar="ID", help="The session to continue. Default: none."
)
@click.option("--context", type=text, metavar="TEXT", default="", help="Extra information for the worker.")
@click.option(
    "--attempts", type=WholeNumber(1, 10), default=1, show_default=True, help="Maximum number of attempts."
)
@click.option("--in", "delay", metavar="TIME", help="Delay before it is due, like 10m.")
@click.option("--key", metavar="KEY", help="Repeated requests with one key add one task.")
@json_option
def add(
    *,
    prompt: str,
    project: str,
    session: SessionId | None,
    context: str,
    attempts: int,
    delay: str | None,
    key: str | None,
    as_json: bool,
) -> int:
    """Add a task for workers to claim. PROMPT - reads it from standard input."""
    order = {
        "prompt": _read_prompt(prompt),
        "project": project,
        "session_id": session,
        "context": context,
        "attempts_max": attempts,
        "delay_seconds": parse_duration(delay) if delay is not None else 0.0,
    }
    answer = own_daemon().post("/api/work", msgspec.json.encode(order), key=_check_key(key))
    return print_answer(answer, work_lines, as_json=as_json)


@click.command("list", epilog="Example: wakeful work list --state pending --json")
@click.option(
    "--state", type=click.Choice([each.value for each in WorkState]), help="Only tasks in this state."
)
@click.option("--limit", type=WholeNumber(1, 1000), default=100, show_default=True)
@click.option(
    "--after", type=WholeNumber(0), default=0, help="Continue after the next_cursor of the last page."
)
@json_option
def list_works(*, state: str | None, limit: int, after: int, as_json: bool) -> int:
    """List tasks, oldest first."""
    query = {"limit": limit, "after": after, **({"state": state} if state else {})}
    return print_list(own_daemon().get("/api/work?" + urlencode(query)), list_lines, as_json=as_json)


@click.command(epilog="Example: wakeful work show w-5d41402abc4b2a76 --json")
@work_argument
@json_option
def show(*, work_id: WorkId, as_json: bool) -> int:
    """Show a task with its whole prompt and every attempt."""
    return print_answer(own_daemon().get(f"/api/work/{work_id}"), record_lines, as_json=as_json)


@click.command(epilog="Example: wakeful work claim --project shop --json")
@click.option("--project", type=text, metavar="P", help="Only tasks of this project.")
@owner_option
@ttl_option
@json_option
def claim(*, project: str | None, owner: str | None, ttl: str, as_json: bool) -> int:
    """Claim the oldest task that is due. Exit 0: claimed, 1: none is due."""
    order = {"owner": owner or caller_name(), "project": project, "ttl_seconds": parse_duration(ttl)}
    return print_answer(post("/api/work/claim", order), run_lines, as_json=as_json)


@click.command(epilog="Example: wakeful work heartbeat w-5d41402abc4b2a76 --epoch 1")
@work_argument
@epoch_option
@ttl_option
@json_option
def heartbeat(*, work_id: WorkId, epoch: int, ttl: str, as_json: bool) -> int:
    """Renew the lease of a run. Exit 1: the lease is lost; stop working."""
    order = {"epoch": epoch, "ttl_seconds": parse_duration(ttl)}
    return print_answer(post(f"/api/work/{work_id}/heartbeat", order), renewed_lines, as_json=as_json)


@click.command(epilog="Example: wakeful work complete w-5d41402abc4b2a76 --epoch 1 --result 'build is green'")
@work_argument
@epoch_option
@click.option("--result", type=text, metavar="TEXT", default="", help="Result of the run.")
@json_option
def complete(*, work_id: WorkId, epoch: int, result: str, as_json: bool) -> int:
    """Report that a run succeeded. Exit 1: the lease is lost and nothing was changed."""
    order = {"epoch": epoch, "result": result}
    return print_answer(post(f"/api/work/{work_id}/complete", order), work_lines, as_json=as_json)


@click.command(epilog="Example: wakeful work fail w-5d41402abc4b2a76 --epoch 1 --reason 'no network'")
@work_argument
@epoch_option
@click.option("--reason", type=text, metavar="TEXT", default="", help="Why.")
@json_option
def fail(*, work_id: WorkId, epoch: int, reason: str, as_json: bool) -> int:
    """Report that a run failed. The task is pending again while attempts are left. Exit 1: the lease is lost."""
    order = {"epoch": epoch, "reason": reason}
    return print_answer(post(f"/api/work/{work_id}/fail", order), work_lines, as_json=as_json)


def post(target: str, order: dict[str, Any]) -> DaemonAnswer:
    """Raises DaemonAway or DaemonRefused."""
    return own_daemon().post(target, msgspec.json.encode(order))


def caller_name() -> str:
    """The parent process: this command itself ends before its lease."""
    return f"{socket.gethostname()} pid {os.getppid()}"


def print_list(answer: DaemonAnswer, lines: Callable[[bytes], Iterable[str]], *, as_json: bool) -> int:
    """Print a list, after the line that says who paused; its exit code."""
    return print_answer(answer, lambda body: [*paused_lines(body), *lines(body)], as_json=as_json)


def _read_prompt(given: str) -> str:
    """The argument, or standard input for `-`. Raises PromptEmpty, PromptTooLong."""
    raw = sys.stdin.buffer.read(PROMPT_BYTES_MAX + 1) if given == "-" else given.encode()
    if len(raw) > PROMPT_BYTES_MAX:
        raise PromptTooLong(bytes_max=PROMPT_BYTES_MAX)
    if not raw.strip():
        raise PromptEmpty
    return raw.decode(errors="replace")


def _check_key(key: str | None) -> str | None:
    if key is not None and not (0 < len(key) <= KEY_CHARS_MAX and key.isascii() and key.isprintable()):
        raise BadKeyOption(shown=key[:40])
    return key
