"""Finds out whether a calling process belongs to a supervised session.

Decisions are reserved for people, but an agent has the rights of its user. A caller counts as an agent if it
descends from a client or from Wakeful's own tmux server, or if it or an ancestor carries the variables that a
client and Wakeful set for the processes they start. A process keeps these when it leaves its family.
"""

import asyncio
import os
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Final

from wakeful.alerts.refused_decisions import RefusedDecisions
from wakeful.core.ids import SessionId
from wakeful.core.managed_session import AGENT_VARIABLE, SESSION_VARIABLE
from wakeful.core.process import Process, ProcessGone, ProcessState
from wakeful.http.caller import Address, ApprovalOnlyInChat, RefusedDecision
from wakeful.integrations.tmux.pane_source import is_server, socket_of_server
from wakeful.judging.evidence import AgentProcess
from wakeful.linux import proc
from wakeful.linux.client_processes import reason_to_spare
from wakeful.linux.locks import gateway_name, holder_on_host
from wakeful.linux.tcp_peers import tcp_callers
from wakeful.sessions.registry import SessionRegistry
from wakeful.sources.tool_processes import TOOL_VARIABLES

OWN_TMUX: Final = SessionId("a terminal of Wakeful's own tmux server")
_AGENT: Final = "agent-"
_MARKS: Final = (*TOOL_VARIABLES.values(), SESSION_VARIABLE, AGENT_VARIABLE)


class Callers:
    """Distinguishes the processes of supervised sessions from a person's.

    `tmux` is the socket of Wakeful's own server, `agents` are the names of the declared agents.
    """

    def __init__(self, registry: SessionRegistry, tmux: str, agents: Collection[str]) -> None:
        self._registry = registry
        self._tmux = Path(tmux)
        self._agents = agents

    def session_of(self, pids: Sequence[int], *, reduces: bool = False) -> SessionId | None:
        """The supervised session that one of these processes works for; None if all of them are a person's.

        `reduces`: the request only makes Wakeful do less. That works in every terminal of a person, also in one
        that inherited an agent's variables. Raises ProcessGone.
        """
        for pid in pids:
            lineage = _lineage(pid)
            found = self._by_descent(lineage)
            if found is None and not (reduces and proc.has_terminal(pid)):
                found = self._by_mark(lineage)
            if found is not None:
                return found
            # The variables of a process are unreadable once it or its first thread has ended.
            if any(
                proc.is_ending(each.pid) or proc.state_of(each) is not ProcessState.ALIVE for each in lineage
            ):
                raise ProcessGone
        return None

    def _by_descent(self, lineage: Sequence[Process]) -> SessionId | None:
        family = set(lineage)
        for session in list(self._registry.sessions.values()):
            for process in session.presence.living_processes:
                if process.process in family and _is_proven(process, session.subject.id):
                    return session.subject.id
        if any(is_server(each.pid) and socket_of_server(each.pid) == self._tmux for each in lineage):
            return OWN_TMUX
        return None

    def _by_mark(self, lineage: Sequence[Process]) -> SessionId | None:
        for process in lineage:
            marks = proc.environ_values(process.pid, _MARKS)
            for name, value in marks.items():
                found = self._session_of_mark(name, value)
                if found is not None:
                    return found
        return None

    def _session_of_mark(self, name: str, value: str) -> SessionId | None:
        """The session that a variable names, if this daemon knows it. It may have ended: its tools may go on."""
        provider = next((each for each, variable in TOOL_VARIABLES.items() if variable == name), None)
        if provider is not None:
            session_id = SessionId(f"{provider}-{value}")
        elif name == AGENT_VARIABLE:
            session_id = SessionId(f"{_AGENT}{value}")
        else:
            session_id = SessionId(value)
        is_agent = session_id.startswith(_AGENT) and session_id.removeprefix(_AGENT) in self._agents
        return session_id if is_agent or self._registry.is_known(session_id) else None


class DaemonCallers:
    """Facts about callers, for the check of decisions. `token` is the chat gateway's."""

    def __init__(self, callers: Callers, refused: RefusedDecisions, token: str) -> None:
        self._callers = callers
        self._refused = refused
        self._token = token

    def session_of(self, pids: Sequence[int], *, reduces: bool = False) -> SessionId | None:
        return self._callers.session_of(pids, reduces=reduces)

    def tcp_callers(self, client: Address, server: Address) -> Sequence[int]:
        return tcp_callers(client, server)

    def is_chat(self, pids: Sequence[int]) -> bool:
        # Only the process that serves the chat holds this name on the host.
        return bool(self._token) and len(pids) == 1 and holder_on_host(gateway_name(self._token)) == pids[0]

    async def on_refusal(self, refusal: RefusedDecision) -> None:
        commands = await asyncio.to_thread(lambda: [" ".join(proc.command(pid)) for pid in refusal.pids[:1]])
        is_seen = isinstance(refusal.why, ApprovalOnlyInChat)
        asker = refusal.session or ("a process outside the chat" if is_seen else "an unseen process")
        await self._refused.notify(asker, f"POST {refusal.path}", refusal.why.code, "".join(commands))


def _lineage(pid: int) -> list[Process]:
    """The process and its ancestors, up to this one: the ancestors of Wakeful do not matter."""
    process = proc.identify_or_none(pid)
    if process is None:
        raise ProcessGone
    found = []
    while process is not None and process.pid != os.getpid():
        found.append(process)
        process = proc.parent_of(process)
    return found


def _is_proven(process: AgentProcess, session_id: SessionId) -> bool:
    """Whether more than a file says that this process holds the session.

    Registry and lock name only clients, which is checked when they are read. An event log may name any process:
    that one must carry Wakeful's variable, or have the log open.
    """
    pid = process.process.pid
    if reason_to_spare(process.process) is not None:
        return False
    if process.source != "event log" or proc.environ_value(pid, SESSION_VARIABLE) == session_id:
        return True
    return any(path.endswith(f"/{session_id}.jsonl") for path in proc.open_files(pid))
