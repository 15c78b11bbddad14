"""Finds and reads an agent's HEARTBEAT.md: regular files only, no symlinks, bounded size. Writes nothing.

The operator's location comes before the agent's own. A file in the agent's folder counts only if a person
trusts its content: it may come from a repository, or the agent may have written it.
"""

import errno
import os
import shlex
import stat
from collections.abc import Callable
from functools import lru_cache
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from msgspec import Struct
from msgspec.structs import replace

from wakeful.core.errors import OperatorError
from wakeful.core.text import plain
from wakeful.heartbeat.policy import (
    Bounds,
    HeartbeatInvalid,
    HeartbeatSnapshot,
    HeartbeatUnread,
    TrustedFiles,
    snapshot_of,
)
from wakeful.linux.files import open_below

NAME: Final = "HEARTBEAT.md"
FOLDERS: Final = (".wakeful", "agents")
# Without O_NONBLOCK, opening a FIFO would wait for its writer.
_FLAGS: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW
# Files beside the zones, and zones without a place.
_NO_ZONES: Final = ("localtime", "posixrules", "Factory", "posix/", "right/")


class Stamp(Struct, frozen=True):
    """Identifies a file's content: equal stamps mean an unchanged file."""

    path: str
    inode: int
    size: int
    changed_ns: int
    # The stamp of the list of trusted files, for a file that needs trust.
    trust: object | None = None


class AgentHeartbeatFiles:
    """Reads files below the state folder and below working directories, within bounds; writes nothing."""

    def __init__(self, home: str, bounds: Bounds, trusts: TrustedFiles) -> None:
        self._state_dir = home
        self._bounds = bounds
        self._trusts = trusts

    def stamp(self, agent: str, workdir: str | None) -> Stamp | None:
        """The stamp of the agent's file; None if there is no file."""
        own, *others = candidates(self._state_dir, agent, workdir)
        stamp = first_stamp((own,))
        if stamp is None and (stamp := first_stamp(tuple(others))) is not None:
            return replace(stamp, trust=self._trusts.stamp())
        return stamp

    def load(self, agent: str, workdir: str | None, at: str) -> HeartbeatSnapshot:
        """Read the file. Raises HeartbeatInvalid."""
        own, *others = candidates(self._state_dir, agent, workdir)
        if others and workdir and first_stamp((own,)) is None and first_stamp(tuple(others)) is not None:
            place = heartbeat_path_in(workdir, agent)
            return parse_snapshot(self._read_trusted(place), place.path, self._bounds, at)
        return load(own, self._bounds, at)

    def _read_trusted(self, place: "HeartbeatPath") -> bytes:
        """The content that was checked for trust, read once. Raises HeartbeatInvalid."""
        content = read_heartbeat(place, self._bounds)
        try:
            if self._trusts.is_trusted(place.path, content):
                return content
        except OperatorError as problem:
            raise _invalid(place.path, f"not trusted: {problem}") from problem
        raise _invalid(place.path, not_trusted_text(place.path))

    def zone(self, name: str) -> ZoneInfo:
        """The time zone that a valid file names."""
        zone = find_zone(name)
        # Unknown if the list of zones changed after the file was read, or if the snapshot is from another machine.
        return zone if zone is not None else ZoneInfo("UTC")


class HeartbeatPath(NamedTuple):
    """A HEARTBEAT.md below a working directory: the folder without links, and the names below it."""

    root: str
    names: tuple[str, ...]

    @property
    def path(self) -> str:
        """The path under which it is trusted."""
        return "/".join((self.root.rstrip("/"), *self.names))


def heartbeat_path_in(workdir: str, agent: str) -> HeartbeatPath:
    return HeartbeatPath(os.path.realpath(workdir), (*FOLDERS, agent, NAME))


def heartbeat_path_from(path: str, home: str) -> HeartbeatPath | None:
    """The HEARTBEAT.md at this path; None in the operator's own folder, and for any other file."""
    whole = os.path.abspath(path)  # noqa: PTH100 - a link in the path must not be followed
    root, *names = whole.rsplit("/", len(FOLDERS) + 2)
    if tuple(names[:-2]) != FOLDERS or names[-1] != NAME or whole.startswith(f"{home}/"):
        return None
    return heartbeat_path_in(root or "/", names[-2])


def not_trusted_text(path: str) -> str:
    return f"not trusted: read it, then run `wakeful config trust {shlex.quote(path)}`"


def read_heartbeat(place: HeartbeatPath, bounds: Bounds) -> bytes:
    """Raises HeartbeatInvalid."""
    return _content(place.path, _limit(bounds), lambda: open_below(place.root, place.names))


def candidates(home: str, name: str, workdir: str | None) -> tuple[str, ...]:
    """The possible paths of this agent's file; the first that exists counts."""
    own = f"{home}/agents/{name}/{NAME}"
    return (own,) if not workdir else (own, "/".join((workdir, *FOLDERS, name, NAME)))


def first_stamp(paths: tuple[str, ...]) -> Stamp | None:
    """The stamp of the first path that exists, also if it is not a regular file."""
    for path in paths:
        try:
            found = os.lstat(path)
        except (FileNotFoundError, NotADirectoryError, ValueError):
            # An agent's log may name any text as its folder, even with a NUL.
            continue
        except OSError:
            # It exists and cannot be inspected: reading it gives the reason.
            return Stamp(path, 0, 0, 0)
        return Stamp(path, found.st_ino, found.st_size, found.st_ctime_ns)
    return None


def load(path: str, bounds: Bounds, at: str) -> HeartbeatSnapshot:
    """Read a file. Raises HeartbeatInvalid."""
    content = _content(path, _limit(bounds), lambda: os.open(path, _FLAGS))
    return parse_snapshot(content, path, bounds, at)


def parse_snapshot(content: bytes, path: str, bounds: Bounds, at: str) -> HeartbeatSnapshot:
    """Parse a file's content. Raises HeartbeatInvalid."""
    from wakeful.heartbeat.document import parse  # noqa: PLC0415 - only users of such a file load YAML

    return snapshot_of(parse(content, path, bounds, find_zone), bounds, path, at)


def _limit(bounds: Bounds) -> int:
    from wakeful.heartbeat.document import bytes_max  # noqa: PLC0415 - as above

    return bytes_max(bounds)


@lru_cache(maxsize=256)
def find_zone(name: str) -> ZoneInfo | None:
    """The time zone of an IANA name; None if there is none."""
    if name.startswith(_NO_ZONES) or not name.isascii():
        return None
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


def _content(path: str, limit: int, open_file: Callable[[], int]) -> bytes:
    try:
        descriptor = open_file()
        try:
            return _read(path, descriptor, limit)
        finally:
            os.close(descriptor)
    except OSError as problem:
        if problem.errno in (errno.ELOOP, errno.ENOTDIR):
            raise _invalid(path, "a symbolic link, or below one, which is not followed") from problem
        reason = problem.strerror or str(problem)
        raise HeartbeatUnread(file=plain(path), line=1, reason=reason) from problem


def _read(path: str, descriptor: int, limit: int) -> bytes:
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        raise _invalid(path, "not a regular file")
    if found.st_size > limit:
        raise _invalid(path, f"{found.st_size} bytes; at most {limit} are read")
    content = b""
    # A file that grows meanwhile is cut, and read again at the next check.
    while len(content) < limit and (piece := os.read(descriptor, limit - len(content))):
        content += piece
    return content


def _invalid(path: str, reason: str) -> HeartbeatInvalid:
    return HeartbeatInvalid(file=plain(path), line=1, reason=reason)
