"""Decisions that a command carries out by itself, without the daemon: an agent's commands are refused here as there."""

import os

from wakeful.adapters.system import proc
from wakeful.adapters.system.clients import client_of
from wakeful.adapters.system.tools import TOOL_VARIABLES
from wakeful.domain.errors import AgentMayNotDecide
from wakeful.domain.hosting import AGENT_VARIABLE, SESSION_VARIABLE

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
