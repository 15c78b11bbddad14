"""Commands `wakeful run` and `wakeful attach`: start a managed agent, and go to the pane of a session.

The daemon starts the agent, so that it is managed from the beginning. The command sends the words that were
typed, its folder and its environment, and then becomes tmux.
"""

import os
import shlex
import sys
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import click
import msgspec

from wakeful.cli.commands.session_control import ACTION_SECONDS_MAX, environ, print_action, prompt_text
from wakeful.cli.names import find_session
from wakeful.cli.options import json_option, name_argument
from wakeful.cli.output import print_line
from wakeful.client.client import DaemonAnswer, DaemonClient, decode_body, own_daemon
from wakeful.control.briefs import attach_argv
from wakeful.core.decoding import decode_json
from wakeful.core.errors import OperatorError, SessionNotFound, WorldError
from wakeful.core.ids import SessionId
from wakeful.core.managed_session import PaneAddress
from wakeful.judging.session_record import SessionRecord
from wakeful.linux.child_environment import helper_environ


class NotInPane(OperatorError):
    """{shown} is not open in any tmux pane. {advice}"""

    code = "not-shown"
    exit_code = 1


class NoWorkingDirectory(OperatorError):
    """The current folder no longer exists. Change to another one and try again."""

    code = "no-working-directory"


class NotText(OperatorError):
    """{what} is not UTF-8 text: {shown}"""

    code = "not-text"


class NeedsTerminal(OperatorError):
    """This needs a terminal. In one, run: {command}"""

    code = "needs-terminal"


class TmuxMissing(WorldError):
    """{program} is not on PATH. Install it, then try again."""

    code = "tmux-missing"


@click.command(
    context_settings={"ignore_unknown_options": True},
    epilog="Example: wakeful run --name docs -- claude --model opus",
)
@click.option("--name", help="Name of the session, for use in other commands.")
@click.option("--headless", is_flag=True, help="Run without a terminal; send prompts with `wakeful send`.")
@click.option("--detach", is_flag=True, help="Start it and return. Attach later with `wakeful attach`.")
@click.option("--prompt", help="The first prompt; - reads it from standard input.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@json_option
def run(
    *,
    name: str | None,
    headless: bool,
    detach: bool,
    prompt: str | None,
    command: tuple[str, ...],
    as_json: bool,
) -> int:
    """Start a managed agent in its own tmux session and attach to it.

    It keeps running when this terminal closes and when Wakeful stops.
    """
    request = {
        "argv": tuple(_require_utf8("A word of the command", word) for word in command),
        "cwd": _working_directory(),
        "environ": environ(),
        "name": None if name is None else _require_utf8("The name", name),
        "terminal": not headless,
        "prompt": None if prompt is None else prompt_text(prompt),
    }
    client = own_daemon()
    answer = client.post("/api/sessions", msgspec.json.encode(request), timeout_seconds=ACTION_SECONDS_MAX)
    code = print_action(answer, as_json=as_json)
    started = decode_json(answer.body)
    if code or as_json or detach or headless or command[0].endswith("codex"):
        return code
    if not has_terminal():
        print_line(f"attach to it with: wakeful attach {started['session_id']}")
        return code
    return _attach(client, SessionId(started["session_id"]))


@click.command(epilog="Example: wakeful attach claude --restart")
@partial(name_argument, like="places_like")
@click.option("--restart", is_flag=True, help="Restart the session of a stale agent, without asking.")
@click.option("--teardown", is_flag=True, help="Stop the agent and remove its container.")
@click.option("--yes", is_flag=True, help="With --teardown: even during a turn.")
def attach(*, session_id: str, restart: bool, teardown: bool, yes: bool) -> int:
    """Open the terminal of an agent or the tmux pane of a session, managed or watched only.

    Asks what to do if the agent is stale.
    """
    from wakeful.cli.commands import attach as agent_attach  # noqa: PLC0415 - for this command alone

    try:
        return agent_attach.attach_agent(
            session_id, agent_attach.AttachOptions(restart=restart, teardown=teardown, yes=yes)
        )
    except agent_attach.NotAnAgent:
        if restart or teardown:
            raise
    client = own_daemon()
    try:
        found = find_session(session_id, acting=False)
    except SessionNotFound as error:
        raise agent_attach.not_found_error(session_id) from error
    try:
        return _attach(client, found)
    except NotInPane:
        agent = decode_body(client.get(f"/api/sessions/{found}").body, SessionRecord).agent
        if agent is None:
            raise
    return agent_attach.attach_agent(agent, agent_attach.AttachOptions())


def _working_directory() -> str:
    try:
        return _require_utf8("The path of this folder", str(Path.cwd()))
    except FileNotFoundError as error:
        raise NoWorkingDirectory from error


def _require_utf8(what: str, value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise NotText(what=what, shown=ascii(os.fsencode(value))) from error
    return value


def _attach(client: DaemonClient, session_id: SessionId) -> NoReturn:
    """Become tmux, in the session's pane."""
    answer = client.get(f"/api/sessions/{session_id}/attach")
    exec_program(_argv(session_id, answer))


def has_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def exec_program(argv: list[str]) -> NoReturn:
    """Hand this terminal to another program. Raises NeedsTerminal, TmuxMissing."""
    if not has_terminal():
        raise NeedsTerminal(command=shlex.join(argv))
    sys.stdout.flush()
    try:
        os.execvpe(argv[0], argv, helper_environ(os.environ))  # noqa: S606 - a fixed program, its words from the daemon
    except FileNotFoundError as error:
        raise TmuxMissing(program=argv[0]) from error


def _argv(session_id: SessionId, answer: DaemonAnswer) -> list[str]:
    """The command for this pane. Raises NotInPane, and NestedTerminal inside of another tmux server."""
    pane: dict[str, Any] | None = decode_json(answer.body)["pane"]
    if pane is None:
        advice = f"`wakeful session status {session_id}` shows its state."
        raise NotInPane(shown=session_id, advice=advice)
    return list(attach_argv(msgspec.convert(pane, PaneAddress), os.environ.get("TMUX")))
