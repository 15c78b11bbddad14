"""Commands `wakeful session …`: health, status, inspect, why, wrong, self and wait.

The table COMMANDS names the modules of the other session commands.
"""

import os
from collections.abc import Iterator
from math import inf
from pathlib import Path
from time import monotonic
from typing import Final

import click

from wakeful.cli.app import CommandEntry, LazyGroup
from wakeful.cli.format.sessions import ending_lines, record_lines, saved_case_lines
from wakeful.cli.options import json_option, session_argument
from wakeful.cli.output import print_answer
from wakeful.cli.read import read
from wakeful.client.client import ANSWER_SECONDS_MAX, DaemonAnswer, own_daemon
from wakeful.core.durations import parse_duration
from wakeful.core.errors import BadSessionId
from wakeful.core.ids import SessionId, parse_session_id

_MODULE: Final = "wakeful.cli.commands.session"
_CONTROL_MODULE: Final = "wakeful.cli.commands.session_control"
COMMANDS: Final = {
    "list": CommandEntry("See", "wakeful.cli.commands.ls:ls", "Every session; the same as `wakeful ls`"),
    "ls": CommandEntry("See", "wakeful.cli.commands.ls:ls", "The same as `list`"),
    "health": CommandEntry("See", f"{_MODULE}:health", "Whether it is well: exit 0, 1 no, 5 unknown"),
    "status": CommandEntry("See", f"{_MODULE}:status", "Its whole record"),
    "inspect": CommandEntry("See", f"{_MODULE}:inspect", "The record with evidence and policy"),
    "why": CommandEntry("See", f"{_MODULE}:why", "The verdict explained, and the one right command"),
    "self": CommandEntry("See", f"{_MODULE}:own", "The session this command runs in"),
    "wait": CommandEntry("See", f"{_MODULE}:wait", "Block until it is idle, waiting or stopped"),
    "revive": CommandEntry(
        "Heal", "wakeful.cli.commands.healing:revive", "Bring it back now, also if it is held or given up"
    ),
    "stop": CommandEntry("Heal", f"{_CONTROL_MODULE}:stop", "End its agent, gently first"),
    "repair": CommandEntry(
        "Heal", "wakeful.cli.commands.session_control:repair", "Mend what is stored of it, after a crash"
    ),
    "adopt": CommandEntry("Heal", f"{_CONTROL_MODULE}:adopt", "Hand a found session over to Wakeful"),
    "release": CommandEntry("Heal", f"{_CONTROL_MODULE}:release", "Take it back: only watched again"),
    "wrong": CommandEntry("Heal", f"{_MODULE}:wrong", "Keep the evidence of a wrong verdict"),
    "send": CommandEntry("Run", f"{_CONTROL_MODULE}:send", "Give a managed session a prompt"),
    "questions": CommandEntry("Run", f"{_CONTROL_MODULE}:questions", "What it asks permission for"),
    "answer": CommandEntry("Run", f"{_CONTROL_MODULE}:answer", "Allow or deny what it asks for"),
    "interrupt": CommandEntry("Run", f"{_CONTROL_MODULE}:interrupt", "Cut its turn short; the agent stays"),
    "resume": CommandEntry("Run", f"{_CONTROL_MODULE}:resume", "Continue it after its agent is gone"),
    "claim": CommandEntry(
        "Run", "wakeful.cli.commands.session_leases:claim", "Take a conversation as its one owner"
    ),
    "yield": CommandEntry("Run", "wakeful.cli.commands.session_leases:give_back", "Give a conversation back"),
}
# Variables that name the conversation of a tool: Wakeful's first, then those of the clients.
CONVERSATION_VARIABLES: Final = ("WAKEFUL_SESSION", "CLAUDE_CODE_SESSION_ID", "CODEX_THREAD_ID")
# A shell in a shell in an agent in a shell in tmux is ten; no real tree is this deep.
ANCESTORS_MAX: Final = 64
# The longest single request; longer waits are made of several.
WAIT_SECONDS_MAX: Final = 3600.0
TIMED_OUT_EXIT_CODE: Final = 3


@click.command(cls=LazyGroup, entries=COMMANDS, epilog="Example: wakeful session health 3f2a91bc --json")
def session() -> None:
    """Look at one session. ID is its id, its conversation id, or a unique beginning of either."""


@click.command(epilog="Example: wakeful session health claude-3f2a91bc && echo well")
@session_argument
@json_option
def health(*, session_id: SessionId, as_json: bool) -> int:
    """Say whether a session is well. Exit 0: healthy, 1: not, 5: unknown."""
    return print_answer(read(lambda reader: reader.view("health", session_id)), record_lines, as_json=as_json)


@click.command(epilog="Example: wakeful session status 3f2a91bc")
@session_argument
@json_option
def status(*, session_id: SessionId, as_json: bool) -> int:
    """Show a session's whole record. Exits as `health` does."""
    return print_answer(read(lambda reader: reader.view("status", session_id)), record_lines, as_json=as_json)


@click.command(epilog="Example: wakeful session inspect 3f2a91bc --json")
@session_argument
@json_option
def inspect(*, session_id: SessionId, as_json: bool) -> int:
    """Show a session's record with the evidence behind it and the policy it was judged by."""
    return print_answer(
        read(lambda reader: reader.view("inspect", session_id)), record_lines, as_json=as_json
    )


@click.command(epilog="Example: wakeful session why 3f2a91bc")
@session_argument
@json_option
def why(*, session_id: SessionId, as_json: bool) -> int:
    """Say in one sentence how a session is, then why: evidence, rules, ladder, and the one right command."""
    answer = read(lambda reader: reader.view("why", session_id))
    if as_json:
        return print_answer(answer, record_lines, as_json=True)
    from wakeful.cli.format.explanation import print_why  # noqa: PLC0415 - for this command alone

    print_why(answer.body)
    return answer.exit_code


@click.command(epilog="Example: wakeful session wrong 3f2a91bc --expect ok --note 'a build of 20 minutes'")
@session_argument
@click.option(
    "--expect",
    type=click.Choice(["ok", "loop", "error_cascade", "runaway", "silent", "dead"]),
    default="ok",
    show_default=True,
    help="What should have been said.",
)
@click.option("--note", default="", help="Why, for whoever reads the case.")
@json_option
def wrong(*, session_id: SessionId, expect: str, note: str, as_json: bool) -> int:
    """Keep the evidence of a wrong verdict as a case that `wakeful replay` reads. Needs the daemon."""
    import msgspec  # noqa: PLC0415 - for this command alone

    report = msgspec.json.encode({"expect": expect, "note": note})
    answer = own_daemon().post(f"/api/sessions/{session_id}/wrong", report)
    return print_answer(answer, saved_case_lines, as_json=as_json)


@click.command("self", epilog="Example: wakeful session self --json")
@json_option
def own(*, as_json: bool) -> int:
    """Show the session this command runs in. For agents: who am I, how am I?"""
    known, pids = own_conversations(), list(ancestor_pids())
    return print_answer(read(lambda reader: reader.of_caller(known, pids)), record_lines, as_json=as_json)


@click.command(epilog="Example: wakeful session wait 3f2a91bc --until idle --timeout 10m")
@session_argument
@click.option("--until", type=click.Choice(["idle", "waiting", "stopped"]), required=True)
@click.option("--timeout", metavar="TIME", help="Like 30s, 10m or 2h. Without it: as long as it takes.")
@json_option
def wait(*, session_id: SessionId, until: str, timeout: str | None, as_json: bool) -> int:
    """Block until a session is in a state. Exit 0: reached, 6: it needs a person, 1: it died or stopped, 3: timeout."""
    seconds = parse_duration(timeout) if timeout is not None else None
    answer = _wait(session_id, until, seconds)
    return print_answer(answer, ending_lines, as_json=as_json)


def _wait(session_id: SessionId, until: str, seconds: float | None) -> DaemonAnswer:
    client = own_daemon()
    deadline = monotonic() + (seconds if seconds is not None else inf)
    while True:
        once_seconds = min(WAIT_SECONDS_MAX, max(0.0, deadline - monotonic()))
        answer = client.get(
            f"/api/sessions/{session_id}/wait?until={until}&timeout={once_seconds:.3f}",
            timeout_seconds=once_seconds + ANSWER_SECONDS_MAX,
        )
        # A request that was shorter than the whole wait is repeated.
        if answer.exit_code != TIMED_OUT_EXIT_CODE or once_seconds < WAIT_SECONDS_MAX:
            return answer


def own_conversations() -> list[str]:
    """The conversations that the environment of this process names, the surest first."""
    named = [value for name in CONVERSATION_VARIABLES if (value := os.environ.get(name))]
    return [value for value in named if _is_id(value)]


def _is_id(text: str) -> bool:
    """Variables are inherited from anywhere: a value may be no id."""
    try:
        parse_session_id(text)
    except BadSessionId:
        return False
    return True


def ancestor_pids() -> Iterator[int]:
    """This process's parent, its parent, and so on, without the first process."""
    pid = os.getppid()
    for _ in range(ANCESTORS_MAX):
        if pid <= 1:
            return
        yield pid
        try:
            stat = Path(f"/proc/{pid}/stat").read_bytes()
        except OSError:
            # It ended meanwhile, or is hidden: its parents stay unknown.
            return
        # The process chooses its name, which may hold parentheses; the parent follows the last one.
        pid = int(stat.rpartition(b")")[2].split()[1])
