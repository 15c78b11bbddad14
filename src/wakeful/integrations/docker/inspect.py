"""Finds the agent process in a container, from this host's /proc or through programs run inside.

A pane at a shell prompt is alive, but its agent is not. A shell that runs a script may be the agent; one
without operands is a prompt, wherever in the pane it runs. From the host, a first scan walks down from the
container's first process; later scans check only those few processes (some 50 µs). All processes of the host
are searched before an agent counts as gone: the kernel's list of children may omit one while another ends.
For an engine on another host, programs run inside, which costs more; only tmux's own messages for a missing
session mean that it has ended.
"""

import os
import secrets
from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct

from wakeful.agents.model import AgentObservation, AgentSpec
from wakeful.core.managed_session import AGENT_VARIABLE, EPOCH_VARIABLE
from wakeful.core.process import FOREIGN_BOOT_ID, Process, ProcessState
from wakeful.integrations.docker.engine import Container, Engine, ExecResult
from wakeful.integrations.docker.launch import SESSION, TARGET
from wakeful.integrations.docker.spec import epoch_of
from wakeful.integrations.tmux.programs import program_of
from wakeful.integrations.tmux.screen import SHELLS, is_interactive_shell
from wakeful.linux import proc
from wakeful.linux.proc import Stat, inner_pid, parse_stat

CLIENTS: Final = ("claude", "codex")
# Prefixes: a version may follow, as in python3.12.
INTERPRETERS: Final = ("bun", "deno", "node", "perl", "python", "ruby")
# A pane with more processes than this runs something; the details no longer matter.
TREE_MAX: Final = 256


class RunningProgram(Struct, frozen=True):
    """A process and its current arguments: exec changes only them."""

    process: Process
    argv: tuple[str, ...]
    # Whether only shells are above it in its pane: then a prompt is a person's, otherwise a tool's.
    below_shells: bool = True


def pane_tree(
    first: Process,
    argv_of: Callable[[Process], tuple[str, ...]],
    children: Callable[[Process], Sequence[Process]],
) -> list[RunningProgram]:
    found = {first: RunningProgram(first, argv_of(first))}
    unvisited = list(found.values())
    while unvisited and len(found) < TREE_MAX:
        above = unvisited.pop(0)
        below_shells = above.below_shells and is_shell(above.argv)
        new = [
            RunningProgram(each, argv_of(each), below_shells)
            for each in children(above.process)
            if each not in found
        ]
        found |= {each.process: each for each in new}
        unvisited += new
    return list(found.values())


def agent_among(
    tree: Sequence[RunningProgram], command: Sequence[str], *, by_name_only: bool = False
) -> RunningProgram | None:
    """The agent in a pane, given its processes from the first one down; None if only a prompt is left.

    `by_name_only`: the pane may not be the agent's, so only the declared program or a known client counts.
    """
    if not tree:
        return None
    pane = tree[0]
    if is_interactive_shell(tuple(command)) and not by_name_only:
        return pane
    at_prompt = any(each.below_shells and is_interactive_shell(each.argv) for each in tree)
    declared = _first(tree, program_name(command))
    if declared is not None and not (is_shell(declared.argv) and at_prompt):
        return declared
    if not is_shell(pane.argv) and not by_name_only:
        return pane
    for client in CLIENTS:
        if (found := _first(tree, client)) is not None:
            return found
    return None if at_prompt or by_name_only else pane


def is_shell(argv: Sequence[str]) -> bool:
    return program_name(argv) in SHELLS


def program_name(argv: Sequence[str]) -> str:
    """The name of the program, without the dash of a login shell."""
    return program_of(argv).removeprefix("-")


def _first(tree: Sequence[RunningProgram], program: str) -> RunningProgram | None:
    """The topmost process that runs this program, directly or as a script of a shell or interpreter."""
    if program in SHELLS:
        return None
    return next((each for each in tree if program in _programs(each.argv)), None)


def _programs(argv: Sequence[str]) -> tuple[str, ...]:
    name = program_name(argv)
    return (name, program_of(argv[1:])) if is_shell(argv) or name.startswith(INTERPRETERS) else (name,)


_SERVER: Final = "tmux: server"

Children = Callable[[Process], list[Process]]


class ContainerScan(Struct, frozen=True):
    """The state inside. `agent` is None if it is not alive; the end of a process in `watched` changes the state."""

    session: ProcessState
    agent: RunningProgram | None = None
    epoch: int | None = None
    watched: tuple[Process, ...] = ()
    reason: str = ""

    @property
    def is_forked(self) -> bool:
        """Whether the found agent is a new child of tmux that runs no program of its own yet.

        It may become a pane's program, or be a helper of the server, as at the end of a pane.
        """
        return self.agent is not None and _is_server(self.agent.process)

    def is_still_valid(self) -> bool:
        """Whether the agent and the processes above it are unchanged and alive."""
        # A shell that runs a script may get a prompt below it at any moment: it is scanned each time.
        return (
            self.agent is not None
            and not is_shell(self.agent.argv)
            and all(proc.state_of(each) is ProcessState.ALIVE for each in self.watched)
            and _argv(self.agent.process) == self.agent.argv
        )


def first_process(pid: int, container_id: str) -> Process | None:
    """The process with the engine's pid, if the engine is on this host and the process is that container's."""
    return proc.identify_or_none(pid) if container_id in _cgroup(pid) else None


class WantedAgent(Struct, frozen=True):
    """The agent to find. `marked`: Wakeful made its container, so its pane has Wakeful's mark."""

    name: str
    command: tuple[str, ...]
    marked: bool


def inspect_from_host(
    first: Process, container_id: str, wanted: WantedAgent, before: ContainerScan | None = None
) -> ContainerScan:
    """Scan this container. The container itself is alive as long as its first process is.

    `before`: the last scan; an equal one is not repeated with all processes of the host.
    """
    scan = _scan_tree([first], wanted, _kernel_children)
    if scan.agent is not None or scan == before:
        return scan
    families = proc.children_by_parent()
    members = [each for row in families.values() for each in row if container_id in _cgroup(each.pid)]
    return _scan_tree(members, wanted, lambda process: proc.children(process, families))


def tmux_containers() -> dict[str, str]:
    """The cgroup paths of this host in which a known client runs in tmux, with the client."""
    families = proc.children_by_parent()
    found = {}
    for server in (each for row in families.values() for each in row if _is_server(each)):
        below = [RunningProgram(each, _argv(each)) for each in proc.descendants(server, families)]
        client = agent_among(below, CLIENTS[:1], by_name_only=True)
        if client is not None:
            found[_cgroup(server.pid)] = program_name(client.argv)
    return found


def process_inside(container_id: str, pid: int, started: int) -> Process | None:
    """The process with this pid inside a container; None if there is none. Start times are the same in all namespaces."""
    for row in proc.children_by_parent().values():
        for each in row:
            if each.started == started and inner_pid(each.pid) == pid and container_id in _cgroup(each.pid):
                return each
    return None


def leftover_processes(container_id: str, name: str) -> list[Process]:
    """Processes that an agent started in its container and that outlived it."""
    is_left = is_leftover(container_id, name)
    return [each for row in proc.children_by_parent().values() for each in row if is_left(each)]


def is_leftover(container_id: str, name: str) -> Callable[[Process], bool]:
    """Checks whether this agent started a process in this container. One with a terminal ends with its session."""
    return lambda process: (
        container_id in _cgroup(process.pid)
        and proc.environ_value(process.pid, AGENT_VARIABLE) == name
        and not proc.has_terminal(process.pid)
    )


def _scan_tree(above: Sequence[Process], wanted: WantedAgent, children: Children) -> ContainerScan:
    servers = [each for each in _tree(above, children) if _is_server(each)]
    panes = [(server, pane) for server in servers for pane in children(server)]
    if not panes:
        return ContainerScan(ProcessState.DEAD, watched=tuple(servers), reason="session dead")
    for server, pane in sorted(panes, key=lambda pair: not _has_mark(pair[1], wanted)):
        tree = pane_tree(pane, _argv, children)
        # If marks cannot be read, every pane may be the agent's.
        environ = f"/proc/{pane.pid}/environ"
        is_other = wanted.marked and not _has_mark(pane, wanted) and os.access(environ, os.R_OK)
        found = agent_among(tree, wanted.command, by_name_only=is_other)
        if found is not None:
            return _live_agent_scan(server, tree, found)
    watched = dict.fromkeys(each for pair in panes for each in pair)
    return ContainerScan(ProcessState.ALIVE, watched=tuple(watched), reason="agent exited to a shell")


def _has_mark(pane: Process, wanted: WantedAgent) -> bool:
    """Whether the pane has the mark, or is about to get it: first as tmux's child, then as the shell that sets it."""
    if proc.environ_value(pane.pid, AGENT_VARIABLE) == wanted.name or _is_server(pane):
        return True
    argv = _argv(pane)
    # During exec a process has neither arguments nor environment.
    return not argv or any(f"{AGENT_VARIABLE}={wanted.name} " in word for word in argv)


def _live_agent_scan(server: Process, tree: Sequence[RunningProgram], found: RunningProgram) -> ContainerScan:
    pane = tree[0]
    # A shell that runs a script ends with the programs below it.
    below = [each.process for each in tree[1:3]] if found is pane and is_shell(pane.argv) else []
    epoch = proc.environ_value(found.process.pid, EPOCH_VARIABLE) or ""
    return ContainerScan(
        ProcessState.ALIVE,
        found,
        int(epoch) if epoch.isdecimal() else None,
        tuple(dict.fromkeys((server, pane.process, found.process, *below))),
    )


def _tree(above: Sequence[Process], children: Children) -> list[Process]:
    """These processes and all below them, from the top."""
    found = dict.fromkeys(above)
    unvisited = list(above)
    while unvisited and len(found) < TREE_MAX:
        new = [child for child in children(unvisited.pop(0)) if child not in found]
        found |= dict.fromkeys(new)
        unvisited += new
    return list(found)


def _kernel_children(process: Process) -> list[Process]:
    """The kernel's own list, only of the first thread: shells and tmux have no other."""
    pids = _read(f"/proc/{process.pid}/task/{process.pid}/children").split()
    found = (proc.identify_or_none(int(pid)) for pid in pids)
    return [each for each in found if each is not None and each.started >= process.started]


def _argv(process: Process) -> tuple[str, ...]:
    return proc.command(process.pid)


def _is_server(process: Process) -> bool:
    return proc.comm(process.pid).startswith(_SERVER)


def _cgroup(pid: int) -> str:
    return _read(f"/proc/{pid}/cgroup")


def _read(path: str) -> str:
    """A file of /proc; empty if its process has ended or it is not readable."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - many small reads, and a Path's own is slower
            return os.fsdecode(file.read())
    except OSError:
        return ""


_PANES: Final = ("tmux", "list-panes", "-s", "-t", TARGET, "-F")
_ROW: Final = "#{pane_dead} #{pane_pid} #{pane_current_command}"
_NO_SESSION: Final = (
    b"no server running",
    b"can't find session",
    b"no sessions",
    b"(No such file or directory)",
    b"(Connection refused)",
)
_PROCESSES: Final = """\
for p in /proc/[0-9]*; do read -r s <"$p/stat" && printf "$1%s\\n" "$s" && cat "$p/cmdline"; done 2>/dev/null
exit 0
"""
_PaneStates = tuple[ProcessState, ProcessState, str]


async def inspect_from_inside(engine: Engine, container: Container, spec: AgentSpec) -> AgentObservation:
    """Inspect the agent by programs that run inside. Raises EngineGone, EngineRefused."""
    session, agent, reason = await _inspect_panes(engine, container, spec)
    return AgentObservation(
        container=ProcessState.ALIVE,
        session=session,
        agent=agent,
        container_id=container.id,
        tmux_session=SESSION,
        epoch=epoch_of(container.labels),
        reason=reason,
    )


async def _inspect_panes(engine: Engine, container: Container, spec: AgentSpec) -> _PaneStates:
    ran = await engine.run(container.id, (*_PANES, _ROW))
    if ran.exit_code == 1 and any(message in ran.output for message in _NO_SESSION):
        return ProcessState.DEAD, ProcessState.DEAD, "container running, session dead"
    rows = [row.split(" ", 2) for row in ran.output.decode(errors="replace").splitlines()]
    if ran.exit_code != 0 or any(len(row) != 3 or not row[1].isdecimal() for row in rows):
        reason = f"tmux inside gave no answer ({ran.exit_code}): {ran.text}"
        return ProcessState.UNKNOWN, ProcessState.UNKNOWN, reason
    panes = {int(pid): program for dead, pid, program in rows if dead == "0"}
    if any(program.removeprefix("-") not in SHELLS for program in panes.values()):
        return ProcessState.ALIVE, ProcessState.ALIVE, ""
    # A shell in front may be the agent's own script, a wrapper around it, or a prompt after its end.
    return await _inspect_below_shells(engine, container, spec, list(panes))


async def _inspect_below_shells(
    engine: Engine, container: Container, spec: AgentSpec, panes: list[int]
) -> _PaneStates:
    separator = secrets.token_hex(8)
    ran = await engine.run(container.id, ("/bin/sh", "-c", _PROCESSES, "sh", separator))
    listed = _parse_processes(ran, separator.encode())
    if any(pid not in listed for pid in panes):
        reason = f"the processes inside cannot be listed: {ran.text[:80]}"
        return ProcessState.ALIVE, ProcessState.UNKNOWN, reason

    def children(above: Process) -> list[Process]:
        return [_process(stat) for stat, _ in listed.values() if stat.parent_pid == above.pid]

    for pane in panes:
        tree = pane_tree(_process(listed[pane][0]), lambda each: listed[each.pid][1], children)
        if agent_among(tree, spec.command) is not None:
            return ProcessState.ALIVE, ProcessState.ALIVE, ""
    return ProcessState.ALIVE, ProcessState.DEAD, "container running, agent exited to a shell"


def _parse_processes(ran: ExecResult, separator: bytes) -> dict[int, tuple[Stat, tuple[str, ...]]]:
    """Every living process by its pid inside, with its arguments."""
    listed = {}
    for row in ran.output.split(separator)[1:]:
        line, _, arguments = row.partition(b"\n")
        stat = _stat(line)
        if stat is not None and not stat.has_ended:
            argv = tuple(os.fsdecode(each) for each in arguments.removesuffix(b"\0").split(b"\0"))
            listed[stat.pid] = stat, argv
    return listed


def _process(stat: Stat) -> Process:
    # It is no process of this host: with another boot id it counts as dead here.
    return Process(stat.pid, stat.started, FOREIGN_BOOT_ID)


def _stat(line: bytes) -> Stat | None:
    try:
        return parse_stat(line)
    except (ValueError, IndexError):
        return None
