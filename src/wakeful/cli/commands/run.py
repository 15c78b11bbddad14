"""Commands `wakeful run` and `wakeful attach`: start a managed agent, and go to the pane of a session.

The daemon starts the agent, so that it is managed from the beginning. The command sends the words that were
typed, its folder and its environment, and then becomes tmux.
"""

import os
from pathlib import Path
from shlex import quote

import click
import msgspec

from wakeful.cli.commands.session_control import (
    ACTION_SECONDS_MAX,
    environ,
    print_action,
    prompt_text,
    short_name_of,
)
from wakeful.cli.names import choose_attachable, find_session
from wakeful.cli.options import completion_of, json_option
from wakeful.cli.output import print_line
from wakeful.cli.terminal import has_terminal, show_pane
from wakeful.client.client import DaemonClient, decode_body, own_daemon
from wakeful.core.decoding import decode_json
from wakeful.core.errors import OperatorError, SessionNotFound
from wakeful.core.ids import SessionId
from wakeful.judging.session_record import SessionRecord
from wakeful.views.records import PaneRecord


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
        print_line(f"attach to it with: wakeful attach {quote(short_name_of(started['session_id']))}")
        return code
    return _attach(client, SessionId(started["session_id"]), name)


@click.command(epilog="Example: wakeful attach docs")
@click.argument("name", metavar="[NAME]", required=False, shell_complete=completion_of("places_like"))
@click.option("--restart", is_flag=True, help="Restart the session of a stale agent, without asking.")
@click.option("--teardown", is_flag=True, help="Stop the agent and remove its container.")
@click.option("--yes", is_flag=True, help="With --teardown: even during a turn.")
def attach(*, name: str | None, restart: bool, teardown: bool, yes: bool) -> int:
    """Open the terminal of an agent or the tmux pane of a session, managed or watched only.

    Inside tmux it opens or selects a window. Asks what to do if an agent is stale. Without NAME it shows a choice.
    """
    from wakeful.cli.commands import attach as agent_attach  # noqa: PLC0415 - for this command alone

    options = agent_attach.AttachOptions(restart=restart, teardown=teardown, yes=yes)
    if name is None:
        if restart or teardown:
            raise agent_attach.AgentNameNeeded
        found = choose_attachable()
    else:
        try:
            return agent_attach.attach_agent(name, options)
        except agent_attach.NotAnAgent:
            if restart or teardown:
                raise
        try:
            found = find_session(name, acting=False)
        except SessionNotFound as error:
            raise agent_attach.not_found_error(name) from error
    client = own_daemon()
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


def _attach(client: DaemonClient, session_id: SessionId, name: str | None = None) -> int:
    """Go to the session's pane. Raises NotInPane."""
    pane = decode_body(client.get(f"/api/sessions/{session_id}/attach").body, PaneRecord).pane
    if pane is None:
        raise _not_in_pane(decode_body(client.get(f"/api/sessions/{session_id}").body, SessionRecord))
    return show_pane(pane, name or short_name_of(session_id))


def _not_in_pane(record: SessionRecord) -> NotInPane:
    shown = quote(record.short_name or record.id)
    if record.session_alive:
        return NotInPane(shown=shown, advice=f"Follow its conversation: wakeful logs {shown} -f")
    return NotInPane(shown=shown, advice=f"To bring it back: wakeful resume {shown}")
