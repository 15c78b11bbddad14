"""Agents in a person's words: rows, counts and colours. Pure but for asking whether the output is a terminal.

What an agent or an engine wrote was made plain before it came here, or is made so by whoever prints it.
"""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final

from wakeful.agents.model import AgentRecord, AgentRuntime, AgentState
from wakeful.core.durations import age
from wakeful.core.text import plain

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


def painted(text: str, state: AgentState) -> str:
    """The text in its state's colour, on a terminal that wants colours."""
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR"):
        return text
    return f"\x1b[{_COLOURS[state]}m{text}\x1b[0m"


def counts_text(counts: Mapping[str, int]) -> str:
    """Counts as in `(1 stale, 6 stopped)`."""
    parts = [f"{count} {state}" for state, count in counts.items()]
    return f"({', '.join(parts)})" if parts else ""


def list_lines(records: Sequence[AgentRecord], now: float) -> Iterator[str]:
    """A table of agents, its last column as long as it wants."""
    rows = [_HEADERS, *(_cells(record, now) for record in records)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for number, row in enumerate(rows):
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        if number:
            cells[1] = painted(cells[1], records[number - 1].state)
        yield "  ".join(cells).rstrip()


def _cells(record: AgentRecord, now: float) -> tuple[str, ...]:
    seconds = now - datetime.fromisoformat(record.since).timestamp()
    pid = str(record.pid) if record.pid is not None else "-"
    session = record.session_id or "-"
    return record.name, record.state, age(seconds), record.runtime, pid, session, plain(record.reason) or "-"


def service_line(record: AgentRecord, words: str = "") -> str:
    """One line: container, state, and in brackets what that means."""
    name = f"agent-{record.name}".ljust(_NAME_CELLS - 1)
    state = painted(record.state.ljust(_STATE_CELLS - 1), record.state)
    said = plain(words or record.reason)
    return f"  {name} {state} {f'({said})' if said else ''}".rstrip()


def menu(record: AgentRecord, program: str) -> list[str]:
    """The menu for a stale agent."""
    kept = "container" if record.runtime is AgentRuntime.DOCKER else "tmux session"
    return [
        f"Agent '{record.name}' is stale ({plain(record.reason)}).",
        "",
        f"  [R] Restart session - launch {program} in a new tmux session",
        f"  [T] Teardown      - remove the {kept} entirely",
        "  [C] Cancel",
        "",
    ]
