"""Ends a program in a pane, its tmux session if Wakeful created it, and the tools it left running."""

from pathlib import Path
from signal import SIGHUP, SIGKILL
from typing import Final

from wakeful.control.driver import Seen
from wakeful.core.managed_session import SESSION_VARIABLE, Hosting
from wakeful.core.process import Process, Sight
from wakeful.integrations.driver_support import agent_of
from wakeful.integrations.tmux.pane_source import listening_at
from wakeful.integrations.tmux.panes import list_panes
from wakeful.integrations.tmux.programs import program_of, unwrapped
from wakeful.integrations.tmux.screen import is_interactive_shell
from wakeful.integrations.tmux.server import TmuxFailed, TmuxServer
from wakeful.integrations.tmux.start import MARK_EPOCH, MARK_SESSION
from wakeful.linux import proc
from wakeful.linux.terminate import AGENT_STEPS, Ending, Meant, Steps, Swept, end, sweep
from wakeful.storage.base import Outcome

# How Claude Code marks the tools of an agent that was not started by us.
_TOOL_VARIABLE: Final = "CLAUDE_CODE_SESSION_ID"
# A shell at its prompt ignores what ends other programs; closing its terminal is how it is ended.
_SHELL_STEPS: Final[Steps] = ((SIGHUP, 1.0), (SIGKILL, 2.0))


async def end_program(process: Process, is_meant: Meant) -> Ending:
    """End what runs in a pane in the way it understands."""
    shell = is_interactive_shell(proc.command(process.pid))
    return await end(process, _SHELL_STEPS if shell else AGENT_STEPS, is_meant=is_meant)


def program_in_pane(hosting: Hosting, own_socket: str) -> Meant:
    """Meant is the session's agent; or what runs in the pane that we made for it, for a program may hide its mark."""
    is_agent = agent_of(hosting.session_id, hosting.conversation_id)
    pane = hosting.pane

    def is_meant(process: Process) -> bool:
        if is_agent(process):
            return True
        if pane is None or pane.process is None or hosting.adopted or pane.socket != own_socket:
            return False
        server = proc.parent_of(pane.process)
        if server is None or listening_at(server.pid) != Path(own_socket):
            return False
        return process == pane.process or pane.process in proc.ancestors(process.pid)

    return is_meant


async def close_session(hosting: Hosting, deadline_seconds: float) -> str | None:
    """Kill the tmux session if it carries our mark; None when nothing of it is left, else why that is not known."""
    pane = hosting.pane
    if pane is None or hosting.adopted:
        return None
    listing = await list_panes(Path(pane.socket), deadline_seconds)
    if listing.sight is Sight.UNKNOWN:
        return listing.reason
    if pane.target not in {row.pane_id for row in listing.panes}:
        return None
    server = TmuxServer(pane.socket, deadline_seconds)
    try:
        marks = await server.option(pane.target, MARK_SESSION), await server.option(pane.target, MARK_EPOCH)
        if marks == (hosting.session_id, str(hosting.epoch)):
            await server.tell("kill-session", "-t", pane.target)
    except TmuxFailed as problem:
        return str(problem)
    return None


async def sweep_tools(hosting: Hosting) -> Swept:
    """End the tools that carry the session's mark."""
    program = program_of(unwrapped(hosting.argv))
    if program == "codex":
        # Its first terminal starts a daemon that serves every other one too, and that carries the first one's mark.
        return Swept((), ())
    if hosting.adopted and program == "claude":
        return await sweep(_TOOL_VARIABLE, hosting.conversation_id)
    return await sweep(SESSION_VARIABLE, hosting.session_id, epoch_max=hosting.epoch)


def stopped(ending: Ending, swept: Swept, left: str | None) -> Seen:
    """What was seen of a stop."""
    pid = ending.process.pid
    if ending.sight is Sight.ALIVE:
        return Seen(Outcome.INEFFECTIVE, f"process {pid} still runs")
    if ending.sight is Sight.UNKNOWN:
        return Seen(Outcome.UNVERIFIED, f"nobody could see whether process {pid} ended")
    how = (
        f"ended by {ending.signal.name} after {ending.seconds:.1f} s" if ending.signal else "was gone already"
    )
    words = f"process {pid} {how}; tools swept: {len(swept.endings)}"
    if swept.left:
        return Seen(Outcome.INEFFECTIVE, f"{words}; process {swept.left[0].pid} of it still runs")
    if left is not None:
        return Seen(Outcome.UNVERIFIED, f"{words}; its tmux session: {left}")
    return Seen(Outcome.RECOVERED, words)
