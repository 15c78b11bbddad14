"""Commands `wakeful agent list|start|stop|restart-session|heartbeat`, and their requests and text.

The daemon acts; these commands ask it and show the result. The text functions are pure, except that they ask
whether the output is a terminal. Text of an agent or an engine is made plain before it is printed. At a
terminal a stop in the middle of a turn is confirmed first.
"""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final

import click
import msgspec

from wakeful.agents.model import AgentRecord, AgentRuntime, AgentState, parse_agent_name
from wakeful.alerts.mute_pause_model import pause_lines
from wakeful.cli.app import CommandEntry, LazyGroup
from wakeful.cli.options import Command, completion_of, json_option
from wakeful.cli.output import confirm, is_terminal, print_json, print_line, print_note, wall_now
from wakeful.client.client import DaemonAnswer, decode_body, own_daemon
from wakeful.client.errors import DaemonNotRunning, RequestDeclined
from wakeful.config.paths import StatePaths
from wakeful.core.durations import age
from wakeful.core.errors import OperatorError
from wakeful.core.text import plain
from wakeful.views.records import AgentList

# An agent may take ten minutes to become ready, and the hub checks before and after.
ACTION_SECONDS_MAX: Final = 660.0


class StopNotConfirmed(OperatorError):
    """{name} was not stopped."""

    code = "kept"
    exit_code = 1


def fetch_agents() -> DaemonAnswer:
    return own_daemon().get("/api/agents")


def fetch_records() -> Sequence[AgentRecord]:
    return decode_body(fetch_agents().body, AgentList).agents


def record_of(name: str) -> AgentRecord:
    return decode_body(own_daemon().get(f"/api/agents/{name}").body, AgentRecord)


def post_action(name: str, act: str, *, yes: bool = False) -> DaemonAnswer:
    body = msgspec.json.encode({"yes": yes} if act == "stop" else {})
    return own_daemon().post(f"/api/agents/{name}/{act}", body, timeout_seconds=ACTION_SECONDS_MAX)


def post_stop(name: str, *, yes: bool) -> DaemonAnswer:
    """Stop it; at a terminal it asks before it interrupts a turn. Raises RequestDeclined, StopNotConfirmed."""
    try:
        return post_action(name, "stop", yes=yes)
    except RequestDeclined as refused:
        if refused.reason != "agent-busy" or not is_terminal():
            raise
        if not confirm(f"Agent '{name}' is running a turn. Stop it anyway?"):
            raise StopNotConfirmed(name=name) from refused
        return post_action(name, "stop", yes=True)


# stale is yellow, in every list.
_COLOURS: Final[Mapping[AgentState, str]] = {
    AgentState.RUNNING: "32",
    AgentState.STALE: "33",
    AgentState.STARTING: "36",
    AgentState.STOPPING: "36",
    AgentState.ERROR: "31",
    AgentState.UNKNOWN: "35",
    AgentState.STOPPED: "2",
}
_HEADERS: Final = ("NAME", "STATE", "FOR", "RUNTIME", "PID", "SESSION", "REASON")
_NAME_CELLS: Final = 16
_STATE_CELLS: Final = 10


def colour_text(text: str, state: AgentState) -> str:
    """The text in its state's colour, on a terminal that wants colours."""
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR"):
        return text
    return f"\x1b[{_COLOURS[state]}m{text}\x1b[0m"


def counts_text(counts: Mapping[str, int]) -> str:
    """Counts as in `(1 stale, 6 stopped)`."""
    parts = [f"{count} {state}" for state, count in counts.items()]
    return f"({', '.join(parts)})" if parts else ""


def list_lines(records: Sequence[AgentRecord], now: float) -> Iterator[str]:
    """A table of agents; the last column is never cut."""
    rows = [_HEADERS, *(_cells(record, now) for record in records)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for number, row in enumerate(rows):
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        if number:
            cells[1] = colour_text(cells[1], records[number - 1].state)
        yield "  ".join(cells).rstrip()


def _cells(record: AgentRecord, now: float) -> tuple[str, ...]:
    seconds = now - datetime.fromisoformat(record.since).timestamp()
    pid = str(record.pid) if record.pid is not None else "-"
    session = record.session_id or "-"
    return record.name, record.state, age(seconds), record.runtime, pid, session, plain(record.reason) or "-"


def service_line(record: AgentRecord, words: str = "") -> str:
    """Container, state, and the reason in brackets."""
    name = f"agent-{record.name}".ljust(_NAME_CELLS - 1)
    state = colour_text(record.state.ljust(_STATE_CELLS - 1), record.state)
    said = plain(words or record.reason)
    return f"  {name} {state} {f'({said})' if said else ''}".rstrip()


def stale_menu_lines(record: AgentRecord, program: str) -> list[str]:
    place = "container" if record.runtime is AgentRuntime.DOCKER else "tmux session"
    return [
        f"Agent '{record.name}' is stale ({plain(record.reason)}).",
        "",
        f"  [R] Restart session - launch {program} in a new tmux session",
        f"  [T] Teardown      - remove the {place} entirely",
        "  [C] Cancel",
        "",
    ]


_MODULE: Final = "wakeful.cli.commands.agent"
COMMANDS: Final = {
    "list": CommandEntry("See", f"{_MODULE}:list_agents", "List agents with their state"),
    "start": CommandEntry("Run", f"{_MODULE}:start", "Start an agent and wait until it is ready"),
    "stop": CommandEntry("Run", f"{_MODULE}:stop", "Stop an agent and remove its container"),
    "restart-session": CommandEntry(
        "Run", f"{_MODULE}:restart_session", "Start a new session in a stale agent"
    ),
    "heartbeat": CommandEntry(
        "Run", "wakeful.cli.commands.heartbeat:heartbeat", "Wake agents as their HEARTBEAT.md allows"
    ),
}
NO_AGENTS: Final = "No agent is declared. Add [agents.NAME] tables to wakeful.toml."


def agent_argument(command: Command) -> Command:
    """Give a command the argument NAME; BadAgentName is raised before any request."""
    return click.argument(
        "name", metavar="NAME", type=parse_agent_name, shell_complete=completion_of("agents_like")
    )(command)


@click.command(cls=LazyGroup, entries=COMMANDS, epilog="Example: wakeful agent start claude")
def agent() -> None:
    """Manage the agents declared in wakeful.toml, in containers or tmux."""


@click.command("list", epilog="Example: wakeful agent list --json")
@json_option
def list_agents(*, as_json: bool) -> int:
    """List agents with their state."""
    body = _fetch_or_read_list()
    if as_json:
        print_json(body)
        return 0
    shown = decode_body(body, AgentList)
    for line in pause_lines(shown.paused):
        print_line(line)
    for line in list_lines(shown.agents, wall_now()) if shown.agents else [NO_AGENTS]:
        sys.stdout.write(f"{line}\n")
    for each in shown.found:
        print_line(f"found: {each.name} ({each.words}): not declared; no action taken")
    return 0


@click.command(epilog="Example: wakeful agent start claude")
@agent_argument
@json_option
def start(*, name: str, as_json: bool) -> int:
    """Start an agent and wait until it is ready."""
    return show_record(post_action(name, "start"), as_json=as_json)


@click.command(epilog="Example: wakeful agent stop claude --yes")
@agent_argument
@click.option("--yes", is_flag=True, help="Stop it even during a turn.")
@json_option
def stop(*, name: str, yes: bool, as_json: bool) -> int:
    """Stop an agent and remove its container. Asks before it interrupts a turn."""
    return show_record(post_stop(name, yes=yes), as_json=as_json)


@click.command("restart-session", epilog="Example: wakeful agent restart-session claude")
@agent_argument
@json_option
def restart_session(*, name: str, as_json: bool) -> int:
    """Start a new session in the container of a stale agent and wait until it is ready."""
    return show_record(post_action(name, "restart-session"), as_json=as_json)


def show_record(answer: DaemonAnswer, *, as_json: bool) -> int:
    if as_json:
        print_json(answer.body)
        return answer.exit_code
    record = decode_body(answer.body, AgentRecord)
    pid = f", pid {record.pid}" if record.pid is not None else ""
    sys.stdout.write(f"{record.name}: {colour_text(record.state, record.state)}{pid}\n")
    return answer.exit_code


def _fetch_or_read_list() -> bytes:
    """The daemon's list; without a daemon, that of a single look."""
    try:
        return fetch_agents().body
    except DaemonNotRunning:
        from wakeful.cli import read_store as stored  # noqa: PLC0415 - as above
        from wakeful.cli.settings import load_settings  # noqa: PLC0415 - as above
        from wakeful.daemon.agents import records_without_hub  # noqa: PLC0415 - only without a daemon

        records = records_without_hub(load_settings(None).config, StatePaths.from_environ(os.environ))
        print_note("no daemon: checked once, nothing is watched")
        return msgspec.json.encode(AgentList(tuple(records), (), stored.pause_in_store()))
