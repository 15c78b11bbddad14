"""Scopes of systemd for what was started from here and goes on without us: agents and tmux servers, a family in each.

In the service's own group only `KillMode=process` keeps a restart from them; a scope is out of the service's reach. Where
no bus answers they stay where they are, which is said once: nothing depends on it.
"""

import asyncio
import logging
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from wakeful.core.process import Process
from wakeful.linux import launch, proc
from wakeful.linux.inquiry import ask
from wakeful.linux.unit_file import NAME

# Until then the unit's own words protect what was started.
SWEEP_SECONDS: Final = 5.0
# Somebody may install one meanwhile.
NO_BUS_SECONDS: Final = 3600.0
BUS_SECONDS_MAX: Final = 5.0
_GROUPS: Final = Path("/sys/fs/cgroup")
_CALL: Final = (
    *("busctl", "--user", "--quiet", "call", "org.freedesktop.systemd1", "/org/freedesktop/systemd1"),
    *("org.freedesktop.systemd1.Manager", "StartTransientUnit", "ssa(sv)a(sa(sv))"),
)
# One process that runs out of memory must not take its family along; older managers do not know the word, nor the act.
_PATIENT: Final = ("OOMPolicy", "s", "continue")
# In the words of busctl; whoever has none at all is told the same.
_NO_BUS: Final = "Failed to connect to bus"

log = logging.getLogger("wakeful")


async def keep_apart(listing: Path) -> None:
    """Move what is to outlive us out of the group of this list as it appears, until cancelled."""
    while True:
        there = await _sweep(listing)
        await asyncio.sleep(SWEEP_SECONDS if there else NO_BUS_SECONDS)


def service_group() -> Path | None:
    """The list of our group's processes; None if we are not the service."""
    return group_of(Path("/proc/self/cgroup").read_text())


def group_of(groups: str) -> Path | None:
    """The same by the text of a /proc/PID/cgroup, of either version."""
    for line in groups.splitlines():
        number, controllers, path = line.split(":", 2)
        if not path.endswith(f"/{NAME}"):
            continue
        if controllers == "name=systemd":
            return _GROUPS / "systemd" / path[1:] / "cgroup.procs"
        if number == "0":
            return _GROUPS / path[1:] / "cgroup.procs"
    return None


def families(parents: Mapping[int, int], own: int, launched: Collection[int]) -> dict[int, tuple[int, ...]]:
    """Those of a group that are to outlive us, by the eldest of each family: what we launched, and who left us.

    Children of ours that were not launched (questions to other programs, the gateway) end with us.
    """
    found: dict[int, list[int]] = {}
    for pid in parents:
        eldest = pid
        while parents.get(eldest, 0) in parents and parents[eldest] != own:
            eldest = parents[eldest]
        is_ours = eldest == own or (parents[eldest] == own and eldest not in launched)
        if not is_ours:
            found.setdefault(eldest, []).append(pid)
    return {eldest: tuple(pids) for eldest, pids in found.items()}


async def _sweep(listing: Path) -> bool:
    """False if there is no bus to ask over."""
    seen = {each.pid: each for each in _members(listing)}
    parents = {pid: each.parent_pid for pid, each in seen.items()}
    for eldest, pids in families(parents, os.getpid(), launch.launched()).items():
        said = await _moved(seen[eldest].process, pids)
        if said:
            log.info(
                "%d processes stay in the service's group, where KillMode=process protects them: %s",
                len(pids),
                said,
            )
        if _NO_BUS in said:
            return False
    return True


def _members(listing: Path) -> Iterable[proc.Stat]:
    for line in listing.read_text().split():
        try:
            yield proc.parse_stat(Path(f"/proc/{line}/stat").read_bytes())
        except (OSError, ValueError):
            # It ended meanwhile.
            continue


async def _moved(eldest: Process, pids: Sequence[int]) -> str:
    """What went wrong; empty if nothing did."""
    name = f"wakeful-agent-{eldest.pid}-{eldest.started}.scope"
    said = ""
    for more in (_PATIENT, ()):
        properties = (
            "Description",
            "s",
            "An agent of Wakeful",
            "CollectMode",
            "s",
            "inactive-or-failed",
            *more,
        )
        count = 3 if more else 2
        words = (str(count + 1), "PIDs", "au", str(len(pids)), *map(str, pids), *properties, "0")
        try:
            answer = await ask((*_CALL, name, "fail", *words), BUS_SECONDS_MAX)
        except OSError as problem:
            return f"{_NO_BUS}: {problem}"
        if answer.exit_code == 0:
            return ""
        said = answer.errors.decode(errors="replace").strip()
    return said or "no answer"
