"""Looking into a container of an engine elsewhere, by programs run there: tmux first, then its /proc. The dear way.

Only tmux's own words for "no such session" mean that it is gone; a program that cannot be run, hangs or says anything
else saw nothing.
"""

import os
import secrets
from typing import Final

from wakeful.agents.model import AgentSpec, Glimpse
from wakeful.core.process import ELSEWHERE, Process, Sight
from wakeful.integrations.docker.agent_process import agent_among, pane_tree
from wakeful.integrations.docker.engine import Container, Engine, Ran
from wakeful.integrations.docker.launch import SESSION, TARGET
from wakeful.integrations.docker.spec import epoch_of
from wakeful.integrations.tmux.terminal import SHELLS
from wakeful.linux.proc import Stat, parse_stat

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
_Seen = tuple[Sight, Sight, str]


async def look(engine: Engine, there: Container, spec: AgentSpec) -> Glimpse:
    """What can be seen of the agent from inside. Raises EngineGone, EngineRefused."""
    session, agent, reason = await _seen(engine, there, spec)
    return Glimpse(
        container=Sight.ALIVE,
        session=session,
        agent=agent,
        container_id=there.id,
        tmux_session=SESSION,
        epoch=epoch_of(there.labels),
        reason=reason,
    )


async def _seen(engine: Engine, there: Container, spec: AgentSpec) -> _Seen:
    ran = await engine.run(there.id, (*_PANES, _ROW))
    if ran.exit_code == 1 and any(words in ran.output for words in _NO_SESSION):
        return Sight.DEAD, Sight.DEAD, "container running, session dead"
    rows = [row.split(" ", 2) for row in ran.output.decode(errors="replace").splitlines()]
    if ran.exit_code != 0 or any(len(row) != 3 or not row[1].isdecimal() for row in rows):
        return Sight.UNKNOWN, Sight.UNKNOWN, f"tmux inside gave no answer ({ran.exit_code}): {ran.words}"
    panes = {int(pid): program for dead, pid, program in rows if dead == "0"}
    if any(program.removeprefix("-") not in SHELLS for program in panes.values()):
        return Sight.ALIVE, Sight.ALIVE, ""
    # A shell in front may be the agent's own script, a wrapper around it, or what it left behind.
    return await _behind_shells(engine, there, spec, list(panes))


async def _behind_shells(engine: Engine, there: Container, spec: AgentSpec, panes: list[int]) -> _Seen:
    separator = secrets.token_hex(8)
    ran = await engine.run(there.id, ("/bin/sh", "-c", _PROCESSES, "sh", separator))
    listed = _listed(ran, separator.encode())
    if any(pid not in listed for pid in panes):
        return Sight.ALIVE, Sight.UNKNOWN, f"the processes inside cannot be listed: {ran.words[:80]}"

    def children(above: Process) -> list[Process]:
        return [_process(stat) for stat, _ in listed.values() if stat.parent_pid == above.pid]

    for pane in panes:
        tree = pane_tree(_process(listed[pane][0]), lambda each: listed[each.pid][1], children)
        if agent_among(tree, spec.command) is not None:
            return Sight.ALIVE, Sight.ALIVE, ""
    return Sight.ALIVE, Sight.DEAD, "container running, agent exited to a shell"


def _listed(ran: Ran, separator: bytes) -> dict[int, tuple[Stat, tuple[str, ...]]]:
    """Every living process by the number it has inside, with its words."""
    listed = {}
    for row in ran.output.split(separator)[1:]:
        line, _, words = row.partition(b"\n")
        stat = _stat(line)
        if stat is not None and not stat.gone:
            argv = tuple(os.fsdecode(word) for word in words.removesuffix(b"\0").split(b"\0"))
            listed[stat.pid] = stat, argv
    return listed


def _process(stat: Stat) -> Process:
    """Not a process of this host, and never to be taken for one: another boot is dead here."""
    return Process(stat.pid, stat.started, ELSEWHERE)


def _stat(line: bytes) -> Stat | None:
    try:
        return parse_stat(line)
    except (ValueError, IndexError):
        return None
