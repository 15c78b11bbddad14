"""Finds the processes that clients started as tools, by the variables in their environment."""

import os
import re
from collections.abc import Collection, Iterable, Sequence
from typing import Final

import msgspec

from wakeful.core.ids import SessionId
from wakeful.core.process import Process
from wakeful.judging.events import CallStarted
from wakeful.judging.evidence import Orphan
from wakeful.linux import proc

# The variable that a client gives its tools: the only link from an orphan to its session.
TOOL_VARIABLES: Final = {"claude": "CLAUDE_CODE_SESSION_ID", "codex": "CODEX_THREAD_ID"}
# Hooks and status lines get that variable too, and also this one.
_HOOK_VARIABLE: Final = "CLAUDE_PROJECT_DIR"
# The comparable part of a call's command: some clients redirect within a pipe.
_COMMAND: Final = re.compile(rb'"command"\s*:\s*"([^"\\|<]*)')
_NO_LETTERS: Final = re.compile(rb"[^A-Za-z0-9]+")


def is_tool(process: Process) -> bool:
    """Whether a client started it as a tool: such a process is no agent."""
    return any(proc.environ_value(process.pid, mark) is not None for mark in TOOL_VARIABLES.values())


def orphans_of(session_id: SessionId) -> tuple[Orphan, ...]:
    return orphans_of_all([session_id])[session_id]


def orphans_of_all(session_ids: Collection[SessionId]) -> dict[SessionId, tuple[Orphan, ...]]:
    """The orphans of many sessions, found in one pass over the processes."""
    by_variable = proc.processes_by_variable(TOOL_VARIABLES.values(), os.getuid())
    found = {}
    for session_id in session_ids:
        provider, _, conversation = session_id.partition("-")
        tools = by_variable.get((TOOL_VARIABLES.get(provider, ""), conversation), ())
        found[session_id] = tuple(Orphan(each, " ".join(proc.command(each.pid))) for each in tools)
    return found


def unlogged_calls(
    orphans: Sequence[Orphan], inputs: Iterable[bytes], after: float, now: float
) -> list[CallStarted]:
    """Tools of Claude Code that began after the end of its log and belong to none of the open calls with these inputs.

    Processes that a tool started are left out. Codex logs a call before it begins.
    """
    # A parent that is an orphan too is a tool; without a parent that is unknown.
    excluded_parents = {None, *(each.process for each in orphans)}
    logged = [_letters(found[1]) for given in inputs if (found := _COMMAND.search(given)) is not None]
    return [
        CallStarted(
            at,
            f"process-{each.process.pid}",
            "Bash",
            input=msgspec.json.encode({"command": each.command.encode(errors="replace").decode()}),
        )
        for each in orphans
        if (at := now - proc.age_seconds(each.process)) > after
        and proc.parent_of(each.process) not in excluded_parents
        and proc.environ_value(each.process.pid, _HOOK_VARIABLE) is None
        and not any(letters in _letters(os.fsencode(each.command)) for letters in logged)
    ]


def _letters(command: bytes) -> bytes:
    """A command without quoting."""
    return _NO_LETTERS.sub(b"", command)
