"""Refuses commands that an agent runs, for decisions that a command carries out without the daemon."""

import os
from contextlib import suppress
from typing import Final

from wakeful.client.client import own_daemon
from wakeful.core.errors import AgentMayNotDecide, WakefulError
from wakeful.core.managed_session import AGENT_VARIABLE, SESSION_VARIABLE
from wakeful.linux import proc
from wakeful.linux.client_processes import client_of
from wakeful.sources.tool_processes import TOOL_VARIABLES

_AGENT_VARIABLES = (*TOOL_VARIABLES.values(), SESSION_VARIABLE, AGENT_VARIABLE)
# The command is refused anyway, also if the daemon hangs.
NOTIFY_SECONDS_MAX: Final = 2.0


def require_person() -> None:
    """Raises AgentMayNotDecide where this command runs below a client, or with the variables of agents' tools.

    The daemon is not asked for permission: which sessions it supervises is not known here, so every client counts. A
    running daemon is notified of the refusal.
    """
    session = _session()
    if session is not None:
        with suppress(WakefulError, OSError):
            own_daemon().post("/api/decisions", timeout_seconds=NOTIFY_SECONDS_MAX)
        raise AgentMayNotDecide(session=session)


def _session() -> str | None:
    """The sign that an agent runs this command; None for a person."""
    pids = (os.getpid(), *(each.pid for each in proc.ancestors(os.getpid())))
    for pid in pids:
        client = client_of(pid)
        if client is not None:
            return f"{client} (process {pid})"
        marks = proc.environ_values(pid, _AGENT_VARIABLES)
        if marks:
            return f"an agent's session ({', '.join(marks)} is set)"
    return None
