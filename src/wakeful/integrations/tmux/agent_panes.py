"""Whether a pane still has its agent: tmux alive is not agent alive. Reads /proc; asks no server and types nothing.

A pane whose program left a shell behind looks alive to tmux. Who sits in front of the terminal tells.
"""

from collections.abc import Sequence
from pathlib import PurePath
from typing import Final

from msgspec import Struct

from wakeful.core.process import Process, Sight
from wakeful.integrations.tmux.terminal import SHELLS, front_group, is_interactive_shell
from wakeful.linux import proc

EXITED_TO_SHELL: Final = "agent exited to a shell"
ENDED: Final = "session dead"


class AgentSight(Struct, frozen=True):
    """What was seen of the agent of one pane; `pid` is its process while it lives."""

    sight: Sight
    pid: int | None = None
    reason: str = ""


def agent_in(pane_pid: int, command: Sequence[str]) -> AgentSight:
    """What became of the agent that was started as `command` in the pane with this first process."""
    try:
        first = proc.identify(pane_pid)
    except proc.ProcessHidden as problem:
        return AgentSight(Sight.UNKNOWN, pane_pid, str(problem))
    if first is None:
        return AgentSight(Sight.DEAD, reason=ENDED)
    if not is_interactive_shell(tuple(command)) and _left_a_shell(first):
        return AgentSight(Sight.DEAD, reason=EXITED_TO_SHELL)
    return AgentSight(Sight.ALIVE, _agent_below(first).pid)


def _left_a_shell(first: Process) -> bool:
    """Whether a person's shell is in front, with nothing but shells above it up to the pane's first process."""
    front = front_group(first.pid)
    leader = proc.identify_if_seen(front) if front is not None and front > 0 else None
    if leader is None or not is_interactive_shell(proc.command(leader.pid)):
        return False
    if leader == first:
        return True
    chain = proc.ancestors(leader.pid)
    if first not in chain:
        return False
    return all(_is_shell(each) for each in chain[: chain.index(first) + 1])


def _agent_below(first: Process) -> Process:
    """The program itself where a shell runs it for us, else the pane's own process."""
    if not _is_shell(first) or is_interactive_shell(proc.command(first.pid)):
        return first
    return min(proc.children(first), key=lambda each: each.started, default=first)


def _is_shell(process: Process) -> bool:
    words = proc.command(process.pid)
    return bool(words) and PurePath(words[0].removeprefix("-")).name in SHELLS
