"""Ends a program in a pane, its tmux session if Wakeful created it, and the tools it left running."""

from pathlib import Path
from signal import SIGHUP, SIGKILL
from typing import Final

from wakeful.control.driver import ActionResult
from wakeful.core.managed_session import SESSION_VARIABLE, ManagedSession
from wakeful.core.process import Process, ProcessState
from wakeful.integrations.driver_support import agent_of, confirmed, ineffective, unverified
from wakeful.integrations.tmux.pane_source import socket_of_server
from wakeful.integrations.tmux.panes import list_panes
from wakeful.integrations.tmux.programs import program_of, without_interpreter
from wakeful.integrations.tmux.screen import is_interactive_shell
from wakeful.integrations.tmux.server import TmuxFailed, TmuxServer
from wakeful.integrations.tmux.start import MARK_EPOCH, MARK_SESSION
from wakeful.linux import proc
from wakeful.linux.terminate import (
    AGENT_STEPS,
    IsMeant,
    SignalSteps,
    SweepResult,
    TerminationResult,
    terminate,
    terminate_marked,
)

# Claude Code marks its tools with this, also if Wakeful did not start it.
_TOOL_VARIABLE: Final = "CLAUDE_CODE_SESSION_ID"
# A shell at its prompt ignores the signals that end other programs; it ends when its terminal closes.
_SHELL_STEPS: Final[SignalSteps] = ((SIGHUP, 1.0), (SIGKILL, 2.0))


async def terminate_program(process: Process, is_meant: IsMeant) -> TerminationResult:
    """End a pane's program by the signals that it obeys."""
    shell = is_interactive_shell(proc.command(process.pid))
    return await terminate(process, _SHELL_STEPS if shell else AGENT_STEPS, is_meant=is_meant)


def program_in_pane(managed: ManagedSession, own_socket: str) -> IsMeant:
    """A check for the session's agent, or for a program in Wakeful's own pane for it: a program may unset its mark."""
    is_agent = agent_of(managed.session_id, managed.conversation_id)
    pane = managed.pane

    def is_meant(process: Process) -> bool:
        if is_agent(process):
            return True
        if pane is None or pane.process is None or managed.adopted or pane.socket != own_socket:
            return False
        server = proc.parent_of(pane.process)
        if server is None or socket_of_server(server.pid) != Path(own_socket):
            return False
        return process == pane.process or pane.process in proc.ancestors(process.pid)

    return is_meant


async def close_session(managed: ManagedSession, deadline_seconds: float) -> str | None:
    """Kill the tmux session if it has Wakeful's mark; returns the problem if tmux failed."""
    pane = managed.pane
    if pane is None or managed.adopted:
        return None
    listing = await list_panes(Path(pane.socket), deadline_seconds)
    if listing.sight is ProcessState.UNKNOWN:
        return listing.reason
    if pane.target not in {row.pane_id for row in listing.panes}:
        return None
    server = TmuxServer(pane.socket, deadline_seconds)
    try:
        marks = await server.option(pane.target, MARK_SESSION), await server.option(pane.target, MARK_EPOCH)
        if marks == (managed.session_id, str(managed.epoch)):
            await server.run("kill-session", "-t", pane.target)
    except TmuxFailed as problem:
        return str(problem)
    return None


async def sweep_tools(managed: ManagedSession) -> SweepResult:
    program = program_of(without_interpreter(managed.argv))
    if program == "codex":
        # Its first terminal starts a daemon that serves all other ones too and has the first one's mark.
        return SweepResult((), ())
    if managed.adopted and program == "claude":
        return await terminate_marked(_TOOL_VARIABLE, managed.conversation_id)
    return await terminate_marked(SESSION_VARIABLE, managed.session_id, epoch_max=managed.epoch)


def stop_result(result: TerminationResult, swept: SweepResult, close_problem: str | None) -> ActionResult:
    pid = result.process.pid
    if result.sight is ProcessState.ALIVE:
        return ineffective(f"process {pid} still runs")
    if result.sight is ProcessState.UNKNOWN:
        return unverified(f"it could not be seen whether process {pid} ended")
    how = (
        f"ended by {result.signal.name} after {result.seconds:.1f} s" if result.signal else "was gone already"
    )
    tools = f", {len(swept.endings)} of its tools too" if swept.endings else ""
    ending = f"process {pid} {how}{tools}"
    if swept.survivors:
        return ineffective(f"{ending}; its tool, process {swept.survivors[0].pid}, still runs")
    if close_problem is not None:
        return unverified(f"{ending}; its tmux session: {close_problem}")
    return confirmed(ending)
