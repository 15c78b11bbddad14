"""Where the transcripts of an agent in a container lie, as this host reaches them: a mount, or the container's own root.

Links inside a container lead wherever its owner wants, on this host: none is followed. Where nothing can be reached the
answer says so, and what would help; nobody concludes anything from what is not seen.
"""

import os
import stat
from pathlib import Path, PurePosixPath
from typing import Final

from msgspec import Struct

from wakeful.integrations.docker import sightings
from wakeful.integrations.docker.engine import Container
from wakeful.linux import proc
from wakeful.linux.small_files import read_small

PASSWD_BYTES_MAX: Final = 256 * 1024
UNSEEN: Final = "transcript not visible"
_FIX: Final = "mount a folder of this host at {inner} in the agent's `mounts`"


class Transcripts(Struct, frozen=True):
    """Claude Code's configuration folder of one container, from this host. `reason`: why there is none, with the fix."""

    folder: Path | None
    # The folder goes away with the container.
    passing: bool = False
    reason: str = ""


def claude_folders(container: Container, agent_pid: int | None = None) -> list[Path]:
    """The configuration folders of this container that can be read from here."""
    found = seek(container, agent_pid)
    return [found.folder] if found.folder is not None else []


def seek(container: Container, agent_pid: int | None = None) -> Transcripts:
    """Where a running container's Claude Code keeps its transcripts. The agent's own environment is believed first."""
    first = sightings.first_process(container.pid, container.id)
    inner = _config_folder(container, agent_pid)
    fix = _FIX.format(inner=inner)
    if first is None:
        reason = (
            f"{UNSEEN}: the container's processes are not this host's; {fix} and name it in eyes.claude_dirs"
        )
        return Transcripts(None, reason=reason)
    ways = [(Path(f"/proc/{first.pid}/root"), inner.relative_to("/"), True)]
    if (mounted := _mounted(container, inner)) is not None:
        ways.insert(0, (*mounted, False))
    problems = []
    for base, rest, passing in ways:
        problem = _problem(base, rest)
        if not problem:
            return Transcripts(base / rest, passing)
        problems.append(problem)
    return Transcripts(None, reason=f"{UNSEEN}: {problems[0]}; {fix}")


def _config_folder(container: Container, agent_pid: int | None) -> PurePosixPath:
    """Claude Code's folder as the agent calls it."""
    chosen = _variable(agent_pid, "CLAUDE_CONFIG_DIR")
    if chosen.startswith("/"):
        return _plain(chosen)
    home = _variable(agent_pid, "HOME") or container.home or _home_of(container)
    return _plain(home) / ".claude"


def _variable(pid: int | None, name: str) -> str:
    return (proc.environ_value(pid, name) or "") if pid is not None else ""


def _plain(path: str) -> PurePosixPath:
    """An absolute path without steps upwards."""
    return PurePosixPath("/", *(part for part in PurePosixPath(path).parts if part not in ("/", "..")))


def _home_of(container: Container) -> str:
    """The home of the container's user, from its own list of users."""
    user = container.user.partition(":")[0] or "0"
    users = read_small(Path(f"/proc/{container.pid}/root/etc/passwd"), PASSWD_BYTES_MAX) or b""
    for line in users.decode(errors="replace").splitlines():
        fields = line.split(":")
        if len(fields) > 5 and user in (fields[0], fields[2]):
            return fields[5]
    return "/root" if user in ("0", "root") else f"/home/{user}"


def _mounted(container: Container, inner: PurePosixPath) -> tuple[Path, PurePosixPath] | None:
    """The folder of this host that is seen at this place inside, and the way from there."""
    above = [each for each in container.mounts if inner.is_relative_to(each.destination)]
    if not above:
        return None
    nearest = max(above, key=lambda each: len(each.destination))
    return Path(nearest.source), inner.relative_to(nearest.destination)


def _problem(base: Path, rest: PurePosixPath) -> str:
    """Why this folder cannot be read; empty if it can, or if it does not exist yet."""
    place = base
    try:
        os.listdir(f"{base}/")  # noqa: PTH208 - the slash follows the one link that is the kernel's own
        for part in rest.parts:
            place /= part
            mode = place.lstat().st_mode
            if stat.S_ISLNK(mode):
                return f"{part} is a link, and links out of a container are not followed"
            if not os.access(place, os.R_OK | os.X_OK):
                return f"{part} is closed to us"
    except FileNotFoundError:
        return "" if place != base else "its root is gone"
    except OSError as problem:
        return f"{place.name} cannot be read: {problem.strerror}"
    return ""
