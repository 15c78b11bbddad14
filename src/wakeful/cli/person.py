"""Refuses commands that an agent runs, for decisions that a command carries out without the daemon."""

import os

from wakeful.core.errors import AgentMayNotDecide
from wakeful.core.managed_session import AGENT_VARIABLE, SESSION_VARIABLE
from wakeful.linux import proc
from wakeful.linux.client_processes import client_of
from wakeful.sources.tool_processes import TOOL_VARIABLES

_MARKS = (*TOOL_VARIABLES.values(), SESSION_VARIABLE, AGENT_VARIABLE)


def require_person() -> None:
    """Raises AgentMayNotDecide where this command runs below a client, or with the variables that agents' tools have.

    No daemon is asked: which sessions it supervises is not known here, so that every client counts.
    """
    pids = (os.getpid(), *(each.pid for each in proc.ancestors(os.getpid())))
    for pid in pids:
        client = client_of(pid)
        if client is not None:
            raise AgentMayNotDecide(session=f"{client} (process {pid})")
        marks = proc.environ_values(pid, _MARKS)
        if marks:
            raise AgentMayNotDecide(session=f"an agent's session ({', '.join(marks)} is set)")
