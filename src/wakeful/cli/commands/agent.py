"""`wakeful agent list|start|stop|restart-session|heartbeat`: the agents of the hub.

The daemon acts; these commands ask it and show what it saw.
"""

import os
import sys
from typing import Final

import click
import msgspec

from wakeful.agents.model import AgentRecord, parse_agent_name
from wakeful.alerts.mute_pause_model import paused_text
from wakeful.cli.commands import agent_asking
from wakeful.cli.commands.agent_asking import Agents
from wakeful.cli.commands.agent_text import list_lines, painted
from wakeful.cli.format.listing import decoded
from wakeful.cli.lazy import Entry, LazyGroup
from wakeful.cli.options import Command, answers_json, completed_by
from wakeful.cli.output import note, say, show_json, wall_now
from wakeful.client.client import Answer, DaemonNotRunning
from wakeful.config.paths import Places

_HERE: Final = "wakeful.cli.commands.agent"
COMMANDS: Final = {
    "list": Entry("See", f"{_HERE}:list_agents", "Every agent and how it stands"),
    "start": Entry("Run", f"{_HERE}:start", "Start one and see it ready"),
    "stop": Entry("Run", f"{_HERE}:stop", "End one and remove its container"),
    "restart-session": Entry("Run", f"{_HERE}:restart_session", "A new session for a stale one"),
    "heartbeat": Entry("Run", "wakeful.cli.commands.heartbeat:heartbeat", "HEARTBEAT.md and waking"),
}
NOBODY: Final = "No agent is declared. [agents.NAME] tables in wakeful.toml declare them."


def agent_argument(command: Command) -> Command:
    """Give a command the argument NAME; BadAgentName is raised before anything is asked."""
    return click.argument(
        "name", metavar="NAME", type=parse_agent_name, shell_complete=completed_by("agents_like")
    )(command)


@click.command(cls=LazyGroup, entries=COMMANDS, epilog="Example: wakeful agent start claude")
def agent() -> None:
    """Agents of the hub: declared in wakeful.toml, living in containers or in tmux."""


@click.command("list", epilog="Example: wakeful agent list --json")
@answers_json
def list_agents(*, as_json: bool) -> int:
    """Every agent and how it stands."""
    body = _listed()
    if as_json:
        show_json(body)
        return 0
    shown = decoded(body, Agents)
    for line in paused_text(shown.paused):
        say(line)
    for line in list_lines(shown.agents, wall_now()) if shown.agents else [NOBODY]:
        sys.stdout.write(f"{line}\n")
    for each in shown.found:
        say(f"found: {each.name} ({each.words}): declared nowhere, so it is left alone")
    return 0


@click.command(epilog="Example: wakeful agent start claude")
@agent_argument
@answers_json
def start(*, name: str, as_json: bool) -> int:
    """Start an agent, and return once it is ready."""
    return show_record(agent_asking.order(name, "start"), as_json=as_json)


@click.command(epilog="Example: wakeful agent stop claude --yes")
@agent_argument
@click.option("--yes", is_flag=True, help="Also in the middle of a turn.")
@answers_json
def stop(*, name: str, yes: bool, as_json: bool) -> int:
    """End an agent and remove its container. Asks before it cuts a turn off."""
    return show_record(agent_asking.stop(name, yes=yes), as_json=as_json)


@click.command("restart-session", epilog="Example: wakeful agent restart-session claude")
@agent_argument
@answers_json
def restart_session(*, name: str, as_json: bool) -> int:
    """Start a new session in the container of a stale agent, and return once it is ready."""
    return show_record(agent_asking.order(name, "restart-session"), as_json=as_json)


def show_record(answer: Answer, *, as_json: bool) -> int:
    """What became of an agent."""
    if as_json:
        show_json(answer.body)
        return answer.exit_code
    record = decoded(answer.body, AgentRecord)
    pid = f", pid {record.pid}" if record.pid is not None else ""
    sys.stdout.write(f"{record.name}: {painted(record.state, record.state)}{pid}\n")
    return answer.exit_code


def _listed() -> bytes:
    """The daemon's list; without one, what a single look shows."""
    try:
        return agent_asking.agents().body
    except DaemonNotRunning:
        from wakeful.cli import read_store as stored  # noqa: PLC0415 - as above
        from wakeful.cli.settings import load_settings  # noqa: PLC0415 - as above
        from wakeful.daemon.agents import records_without_hub  # noqa: PLC0415 - costs nobody who has a daemon

        records = records_without_hub(load_settings(None).config, Places.of(os.environ))
        note("no daemon: looked once, nothing is watched")
        return msgspec.json.encode(Agents(records, [], stored.paused()))
