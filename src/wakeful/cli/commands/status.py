"""Command `wakeful status`: the daemon's mode, listeners and log sources, and the sessions that need you."""

from collections.abc import Iterator
from typing import Final

import click

from wakeful.agents.model import AgentState
from wakeful.alerts.mute_pause_model import pause_lines
from wakeful.cli.commands.ls import whole_list
from wakeful.cli.format.sessions import counts_text, needs_you, session_rows
from wakeful.cli.options import json_option
from wakeful.cli.output import print_json, print_line, wall_now
from wakeful.cli.read import read
from wakeful.cli.table import print_rows
from wakeful.client.client import decode_body
from wakeful.judging.session_record import SessionRecord
from wakeful.views.records import MODES, Overview

# What a person would want to hear of without asking.
_PROBLEM_STATES: Final = frozenset({AgentState.STALE, AgentState.UNKNOWN, AgentState.ERROR})


@click.command(epilog="Example: wakeful status --json")
@json_option
def status(*, as_json: bool) -> int:
    """Show the mode, listeners, slow log sources, and sessions that need you."""
    if as_json:
        print_json(read(lambda reader: reader.overview()).body)
        return 0
    answer, page = read(lambda reader: (reader.overview(), whole_list(reader, {})))
    for line in overview_lines(decode_body(answer.body, Overview), page.sessions, page.older):
        print_line(line)
    needing = [record for record in page.sessions if needs_you(record)]
    if needing:
        print_line("needs you:")
        print_rows(session_rows(needing, wall_now()))
    return 0


def overview_lines(overview: Overview, records: list[SessionRecord], older: int) -> Iterator[str]:
    """A pause first, then the mode: together they say what Wakeful may touch."""
    daemon = overview.daemon
    yield from pause_lines(daemon.paused)
    yield f"mode       {MODES.get(overview.mode, overview.mode)}"
    if daemon.listening:
        yield f"listening  {', '.join(daemon.listening)}"
    for source in daemon.eyes:
        if source.slow is not None:
            yield f"slow       {source.name}: {source.slow}"
        if source.left_out is not None:
            yield f"left out   {source.name}: {source.left_out}"
    folded = f", {older:,} older" if older else ""
    yield f"sessions   {counts_text(records) or 'none'}{folded}"
    if overview.agents.agents:
        yield f"agents     {', '.join(f'{count} {state}' for state, count in overview.agents.counts.items())}"
    for agent in overview.agents.agents:
        if agent.state in _PROBLEM_STATES:
            yield f"{agent.state:<10} {agent.id}: {agent.reason}"
    if daemon.pid is not None:
        # Without a daemon the only note is that there is none, and that was said already.
        yield from (f"note       {each}" for each in daemon.notes)
        yield f"daemon     {daemon.version}, pid {daemon.pid}"
