"""Commands `wakeful session …`: health, status, inspect, why, wrong, self and wait.

The table COMMANDS names the modules of the other session commands.
"""

import os
from collections.abc import Iterator
from math import inf
from pathlib import Path
from time import monotonic
from typing import Any, Final

import click

from wakeful.cli.app import CommandEntry, LazyGroup
from wakeful.cli.format.sessions import ending_lines, record_lines, saved_case_lines
from wakeful.cli.options import PlainChoice, json_option, session_argument
from wakeful.cli.output import print_answer
from wakeful.cli.read import read
from wakeful.client.client import ANSWER_SECONDS_MAX, DaemonAnswer, own_daemon
from wakeful.core.decoding import decode_json
from wakeful.core.durations import parse_duration
from wakeful.core.errors import BadSessionId
from wakeful.core.ids import SessionId, parse_session_id
from wakeful.judging.findings import State
from wakeful.judging.state_words import STATE_WORDS

_MODULE: Final = "wakeful.cli.commands.session"
_CONTROL_MODULE: Final = "wakeful.cli.commands.session_control"
COMMANDS: Final = {
    "list": CommandEntry("See", "wakeful.cli.commands.ls:ls", "List sessions; same as `wakeful ls`"),
    "ls": CommandEntry("See", "wakeful.cli.commands.ls:ls", "Same as `list`"),
    "health": CommandEntry("See", f"{_MODULE}:health", "Health as an exit code: 0 healthy, 1 not, 5 unknown"),
    "status": CommandEntry("See", f"{_MODULE}:status", "Show the whole record"),
    "inspect": CommandEntry("See", f"{_MODULE}:inspect", "Show the record with evidence and policy"),
    "why": CommandEntry("See", f"{_MODULE}:why", "Explain the state and what to do"),
    "self": CommandEntry("See", f"{_MODULE}:own", "Show the session this command runs in"),
    "wait": CommandEntry("See", f"{_MODULE}:wait", "Block until it is idle, waiting or stopped"),
    "revive": CommandEntry(
        "Heal", "wakeful.cli.commands.healing:revive", "Resume it now, even if Wakeful gave up"
    ),
    "stop": CommandEntry("Heal", f"{_CONTROL_MODULE}:stop", "Stop its agent"),
    "repair": CommandEntry(
        "Heal", "wakeful.cli.commands.session_control:repair", "Repair its stored record after a crash"
    ),
    "adopt": CommandEntry("Heal", f"{_CONTROL_MODULE}:adopt", "Let Wakeful act on a session you started"),
    "release": CommandEntry("Heal", f"{_CONTROL_MODULE}:release", "Watch it only, again"),
    "wrong": CommandEntry("Heal", f"{_MODULE}:wrong", "Report a wrong verdict; saves the evidence"),
    "send": CommandEntry("Run", f"{_CONTROL_MODULE}:send", "Send a prompt"),
    "questions": CommandEntry("Run", f"{_CONTROL_MODULE}:questions", "Show what it asks permission for"),
    "answer": CommandEntry("Run", f"{_CONTROL_MODULE}:answer", "Allow or deny what it asks"),
    "interrupt": CommandEntry(
        "Run", f"{_CONTROL_MODULE}:interrupt", "Interrupt the running turn; the agent stays"
    ),
    "resume": CommandEntry("Run", f"{_CONTROL_MODULE}:resume", "Resume it after its agent ended"),
    "claim": CommandEntry(
        "Run", "wakeful.cli.commands.session_leases:claim", "Claim a conversation as its only owner"
    ),
    "yield": CommandEntry("Run", "wakeful.cli.commands.session_leases:give_back", "Release the claim"),
}
# Variables that name the conversation of a tool: Wakeful's first, then those of the clients.
CONVERSATION_VARIABLES: Final = ("WAKEFUL_SESSION", "CLAUDE_CODE_SESSION_ID", "CODEX_THREAD_ID")
# A shell in a shell in an agent in a shell in tmux is ten; no real tree is this deep.
ANCESTORS_MAX: Final = 64
# The longest single request; longer waits are made of several.
WAIT_SECONDS_MAX: Final = 3600.0
TIMED_OUT_EXIT_CODE: Final = 3
_AWAITED: Final = (State.IDLE, State.WAITING, State.STOPPED, State.PROMPTING)


@click.command(cls=LazyGroup, entries=COMMANDS, epilog="Example: wakeful session health 3f2a91bc --json")
def session() -> None:
    """Everything about one session. NAME is its name, tmux session, project, id, or a part of one of these."""


@click.command(epilog="Example: wakeful session health claude-3f2a91bc && echo healthy")
@session_argument
@json_option
def health(*, session_id: SessionId, as_json: bool) -> int:
    """Print the health of a session. Exit 0: healthy, 1: not, 5: unknown."""
    return print_answer(read(lambda reader: reader.view("health", session_id)), record_lines, as_json=as_json)


@click.command(epilog="Example: wakeful session status 3f2a91bc")
@session_argument
@json_option
def status(*, session_id: SessionId, as_json: bool) -> int:
    """Show a session's whole record. Same exit codes as `health`."""
    return print_answer(read(lambda reader: reader.view("status", session_id)), record_lines, as_json=as_json)


@click.command(epilog="Example: wakeful session inspect 3f2a91bc --json")
@session_argument
@json_option
def inspect(*, session_id: SessionId, as_json: bool) -> int:
    """Show a session's record with its evidence and policy."""
    return print_answer(
        read(lambda reader: reader.view("inspect", session_id)), record_lines, as_json=as_json
    )


@click.command("why", epilog="Example: wakeful why docs")
@session_argument
@click.option("-v", "--verbose", is_flag=True, help="Show the evidence and the rules, too.")
@json_option
def short_why(*, session_id: SessionId, verbose: bool, as_json: bool) -> int:
    """Explain a session's state in one sentence, with the command to run."""
    if verbose or as_json:
        return _explain(session_id, as_json=as_json)
    from wakeful.cli.format.explanation import short_why_lines  # noqa: PLC0415 - for this command alone

    answer, known = read(lambda reader: (reader.view("why", session_id), reader.view("status", session_id)))
    name = decode_json(known.body, dict[str, Any]).get("short_name") or session_id
    return print_answer(answer, lambda body: short_why_lines(body, name), as_json=False)


@click.command(epilog="Example: wakeful session why docs")
@session_argument
@json_option
def why(*, session_id: SessionId, as_json: bool) -> int:
    """Explain a session's state in one sentence, then the evidence, the rules and the command to run."""
    return _explain(session_id, as_json=as_json)


def _explain(session_id: SessionId, *, as_json: bool) -> int:
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
    help="The correct verdict.",
)
@click.option("--note", default="", help="Note; saved with the case.")
@json_option
def wrong(*, session_id: SessionId, expect: str, note: str, as_json: bool) -> int:
    """Report a wrong verdict. Saves the evidence as a case for `wakeful replay`. Needs the daemon."""
    import msgspec  # noqa: PLC0415 - for this command alone

    report = msgspec.json.encode({"expect": expect, "note": note})
    answer = own_daemon().post(f"/api/sessions/{session_id}/wrong", report)
    return print_answer(answer, saved_case_lines, as_json=as_json)


@click.command("self", epilog="Example: wakeful session self --json")
@json_option
def own(*, as_json: bool) -> int:
    """Show the session this command runs in. For agents."""
    known, pids = own_conversations(), list(ancestor_pids())
    return print_answer(read(lambda reader: reader.of_caller(known, pids)), record_lines, as_json=as_json)


@click.command(epilog="Example: wakeful session wait 3f2a91bc --until idle --timeout 10m")
@session_argument
@click.option("--until", type=PlainChoice(_AWAITED, STATE_WORDS), required=True)
@click.option("--timeout", metavar="TIME", help="Like 30s, 10m or 2h. Default: no limit.")
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
