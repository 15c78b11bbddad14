"""Command `wakeful services`: the hub, and what runs for agents in containers and in tmux.

Without a daemon the engine and tmux are asked directly; the state of the sessions is then reported as
unknown.
"""

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import click
import msgspec

from wakeful.agents.model import AgentRecord, AgentRuntime, AgentState, summarize_agents
from wakeful.alerts.mute_pause_model import pause_lines
from wakeful.cli.commands import agent as agent_asking
from wakeful.cli.commands.agent import counts_text, service_line
from wakeful.cli.options import json_option
from wakeful.cli.output import print_json
from wakeful.client.client import DaemonAnswer, decode_body
from wakeful.client.errors import DaemonNotRunning
from wakeful.config.paths import StatePaths
from wakeful.views.records import AgentList

NOT_RUNNING: Final = "Hub: not running. Start it with `wakeful up --detach`."
HUB_DOWN: Final = "session state unknown (Hub not running)"
_TITLES: Final = {AgentRuntime.DOCKER: "Containers:", AgentRuntime.TMUX: "Tmux sessions:"}


@click.command(epilog="Example: wakeful services")
@json_option
def services(*, as_json: bool) -> int:
    """Show the hub and everything that runs for an agent."""
    try:
        answer = agent_asking.fetch_agents()
    except DaemonNotRunning:
        return _print_without_hub(as_json=as_json)
    if as_json:
        print_json(answer.body)
        return 0
    _print(_lines(answer, decode_body(answer.body, AgentList)))
    return 0


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        sys.stdout.write(f"{line}\n")


def _lines(answer: DaemonAnswer, shown: AgentList) -> Iterator[str]:
    yield from pause_lines(shown.paused)
    counts = counts_text(summarize_agents(shown.agents).counts)
    yield f"Hub: running, pid {answer.server_pid} {counts}".rstrip()
    there = [each for each in shown.agents if each.state is not AgentState.STOPPED]
    yield from _runtime_lines([(each, _state_meaning(each)) for each in there], shown.agents)
    if shown.found:
        yield "Not declared; no action taken:"
        yield from (f"  {each.name} ({each.words})" for each in shown.found)


def _state_meaning(record: AgentRecord) -> str:
    """Why it is in its state; the pid of a running agent."""
    return f"pid {record.pid}" if record.state is AgentState.RUNNING and record.pid else record.reason


def _runtime_lines(rows: Sequence[tuple[AgentRecord, str]], declared: Sequence[AgentRecord]) -> Iterator[str]:
    """A section for each declared runtime."""
    for runtime, title in _TITLES.items():
        if not any(each.runtime is runtime for each in declared):
            continue
        yield title
        own = [service_line(record, words) for record, words in rows if record.runtime is runtime]
        yield from own or ["  none"]


def _print_without_hub(*, as_json: bool) -> int:
    from wakeful.cli import read_store as stored  # noqa: PLC0415 - as above
    from wakeful.cli.settings import load_settings  # noqa: PLC0415 - as above
    from wakeful.daemon.agents import records_without_hub  # noqa: PLC0415 - only without a daemon

    records = [
        msgspec.structs.replace(
            each,
            state=AgentState.STOPPED if each.state is AgentState.STOPPED else AgentState.UNKNOWN,
            session_alive=False,
            reason=_state_text(each),
        )
        for each in records_without_hub(load_settings(None).config, StatePaths.from_environ(os.environ))
    ]
    paused = stored.pause_in_store()
    if as_json:
        print_json(msgspec.json.encode(AgentList(tuple(records), (), paused)))
        return 0
    there = [(each, each.reason) for each in records if each.state is not AgentState.STOPPED]
    _print([*pause_lines(paused), NOT_RUNNING, *_runtime_lines(there, records)])
    return 0


def _state_text(record: AgentRecord) -> str:
    if record.state is AgentState.STOPPED:
        return record.reason
    if record.state is AgentState.UNKNOWN:
        return f"{record.reason}; {HUB_DOWN}"
    return f"container running; {HUB_DOWN}" if record.runtime is AgentRuntime.DOCKER else HUB_DOWN
