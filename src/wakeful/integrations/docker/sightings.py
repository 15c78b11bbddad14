"""A container's processes as this host sees them in /proc: its tmux server, the agent's pane, the agent. It only looks.

A first look walks from the container's first process downwards; the next ones ask whether those few still live and run
the same words, some 50 µs. What a walk did not find is looked for among all processes of the host before it counts as
gone: the kernel's list of children may leave one out while another ends.
"""

import os
from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct

from wakeful.core.managed_session import AGENT_VARIABLE, EPOCH_VARIABLE
from wakeful.core.process import Process, Sight
from wakeful.integrations.docker.agent_process import (
    CLIENTS,
    TREE_MAX,
    Running,
    agent_among,
    is_shell,
    pane_tree,
    program_name,
)
from wakeful.linux import proc
from wakeful.linux.namespaces import inner_pid

_SERVER: Final = "tmux: server"

Children = Callable[[Process], list[Process]]


class Scene(Struct, frozen=True):
    """What was seen inside. `agent` is None where it is not alive; `told_by` are those whose end changes the scene."""

    session: Sight
    agent: Running | None = None
    epoch: int | None = None
    told_by: tuple[Process, ...] = ()
    reason: str = ""

    @property
    def is_forked(self) -> bool:
        """Whether the one that stands for the agent is a child tmux has just made, which runs nothing of its own yet.

        It may become a pane's program; or it is a passing errand of the server, as when a pane has ended.
        """
        return self.agent is not None and _is_server(self.agent.process)

    def holds(self) -> bool:
        """Whether the agent and everything it stands on is alive still, as it was."""
        # A shell that runs a script may show a prompt below itself at any moment: it is looked at anew each time.
        return (
            self.agent is not None
            and not is_shell(self.agent.argv)
            and all(proc.sight(each) is Sight.ALIVE for each in self.told_by)
            and _argv(self.agent.process) == self.agent.argv
        )


def first_process(pid: int, container_id: str) -> Process | None:
    """The process behind the engine's number, if this host is the engine's and the process is that container's."""
    return proc.identify_if_seen(pid) if container_id in _cgroup(pid) else None


class Sought(Struct, frozen=True):
    """The agent that is looked for. `marked`: we made its container, so that its pane carries our mark."""

    name: str
    command: tuple[str, ...]
    marked: bool


def look(first: Process, container_id: str, sought: Sought, before: Scene | None = None) -> Scene:
    """What runs in this container. The container itself is alive as long as its first process is.

    `before`: what was seen last; the same again is not searched for among all processes once more.
    """
    scene = _walk([first], sought, _listed_children)
    if scene.agent is not None or scene == before:
        return scene
    families = proc.families()
    members = [each for row in families.values() for each in row if container_id in _cgroup(each.pid)]
    return _walk(members, sought, lambda process: proc.children(process, families))


def tmux_containers() -> dict[str, str]:
    """Where on this host a known client runs in tmux: cgroup path to client."""
    families = proc.families()
    found = {}
    for server in (each for row in families.values() for each in row if _is_server(each)):
        below = [Running(each, _argv(each)) for each in proc.descendants(server, families)]
        client = agent_among(below, CLIENTS[:1], by_name_only=True)
        if client is not None:
            found[_cgroup(server.pid)] = program_name(client.argv)
    return found


def process_inside(container_id: str, pid: int, started: int) -> Process | None:
    """The process that has this number inside a container, None if none does. Namespaces share the clock of starts."""
    for row in proc.families().values():
        for each in row:
            if each.started == started and inner_pid(each.pid) == pid and container_id in _cgroup(each.pid):
                return each
    return None


def left_behind(container_id: str, name: str) -> list[Process]:
    """What an agent started in its container and did not take along."""
    is_left = is_left_behind(container_id, name)
    return [each for row in proc.families().values() for each in row if is_left(each)]


def is_left_behind(container_id: str, name: str) -> Callable[[Process], bool]:
    """Whether a process was started in this container by this agent. One with a terminal goes with its session."""
    return lambda process: (
        container_id in _cgroup(process.pid)
        and proc.environ_value(process.pid, AGENT_VARIABLE) == name
        and not proc.has_terminal(process.pid)
    )


def _walk(above: Sequence[Process], sought: Sought, children: Children) -> Scene:
    """The scene below these processes, or of these if they are all there are."""
    servers = [each for each in _tree(above, children) if _is_server(each)]
    panes = [(server, pane) for server in servers for pane in children(server)]
    if not panes:
        return Scene(Sight.DEAD, told_by=tuple(servers), reason="session dead")
    for server, pane in sorted(panes, key=lambda pair: not _carries(pair[1], sought)):
        tree = pane_tree(pane, _argv, children)
        # Where marks cannot be read, every pane may be the agent's.
        stranger = sought.marked and not _carries(pane, sought) and _is_readable(pane)
        found = agent_among(tree, sought.command, by_name_only=stranger)
        if found is not None:
            return _alive(server, tree, found)
    told_by = dict.fromkeys(each for pair in panes for each in pair)
    return Scene(Sight.ALIVE, told_by=tuple(told_by), reason="agent exited to a shell")


def _carries(pane: Process, sought: Sought) -> bool:
    """Whether the pane has our mark, or is about to have it: tmux's child first, then the shell that sets it."""
    if proc.environ_value(pane.pid, AGENT_VARIABLE) == sought.name or _is_server(pane):
        return True
    words = _argv(pane)
    # In the middle of exec a process has neither words nor environment.
    return not words or any(f"{AGENT_VARIABLE}={sought.name} " in word for word in words)


def _is_readable(pane: Process) -> bool:
    return os.access(f"/proc/{pane.pid}/environ", os.R_OK)


def _alive(server: Process, tree: Sequence[Running], found: Running) -> Scene:
    pane = tree[0]
    # A shell that runs a script takes its end from the programs below it.
    below = [each.process for each in tree[1:3]] if found is pane and is_shell(pane.argv) else []
    epoch = proc.environ_value(found.process.pid, EPOCH_VARIABLE) or ""
    return Scene(
        Sight.ALIVE,
        found,
        int(epoch) if epoch.isdecimal() else None,
        tuple(dict.fromkeys((server, pane.process, found.process, *below))),
    )


def _tree(above: Sequence[Process], children: Children) -> list[Process]:
    """These and everybody below them, from the top."""
    found = dict.fromkeys(above)
    unvisited = list(above)
    while unvisited and len(found) < TREE_MAX:
        fresh = [child for child in children(unvisited.pop(0)) if child not in found]
        found |= dict.fromkeys(fresh)
        unvisited += fresh
    return list(found)


def _listed_children(process: Process) -> list[Process]:
    """The kernel's own list, of the first thread alone: shells and tmux have no other."""
    listed = _read(f"/proc/{process.pid}/task/{process.pid}/children").split()
    seen = (proc.identify_if_seen(int(pid)) for pid in listed)
    return [each for each in seen if each is not None and each.started >= process.started]


def _argv(process: Process) -> tuple[str, ...]:
    return proc.command(process.pid)


def _is_server(process: Process) -> bool:
    return proc.comm(process.pid).startswith(_SERVER)


def _cgroup(pid: int) -> str:
    return _read(f"/proc/{pid}/cgroup")


def _read(path: str) -> str:
    """A file of /proc, empty when its process is gone or it is not ours to read."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - many small reads, and a Path's own is slower
            return os.fsdecode(file.read())
    except OSError:
        return ""
