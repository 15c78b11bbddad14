"""Where an agent's HEARTBEAT.md lies, and reading it: regular files only, no links, no more than its bound.

The operator's place comes before the agent's own. Nothing here writes.
"""

import errno
import os
import stat
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from msgspec import Struct

from wakeful.domain.heartbeat import Bounds, HeartbeatInvalid, HeartbeatUnread, Snapshot, snapshot_of
from wakeful.domain.plaintext import plain

NAME: Final = "HEARTBEAT.md"
# Files beside the zones, and zones that are not anybody's.
_NO_PLACES: Final = ("localtime", "posixrules", "Factory", "posix/", "right/")


class Stamp(Struct, frozen=True):
    """By what a file is known to be unchanged."""

    path: str
    inode: int
    size: int
    changed_ns: int


class AgentFiles:
    """Implements ports.heartbeat.HeartbeatFiles for the files below a state folder and below working directories."""

    def __init__(self, home: str, bounds: Bounds) -> None:
        self._home = home
        self._bounds = bounds

    def stamp(self, agent: str, workdir: str | None) -> Stamp | None:
        return found(candidates(self._home, agent, workdir))

    def load(self, agent: str, workdir: str | None, at: str) -> Snapshot:
        stamp = self.stamp(agent, workdir)
        path = stamp.path if stamp is not None else candidates(self._home, agent, workdir)[0]
        return load(path, self._bounds, at)

    def zone(self, name: str) -> ZoneInfo:
        zone = find_zone(name)
        # A list of places that lost one since the file was read, or a snapshot of another machine.
        return zone if zone is not None else ZoneInfo("UTC")


def candidates(home: str, name: str, workdir: str | None) -> tuple[str, ...]:
    """Where the file of this agent is looked for; the first that is there counts."""
    own = f"{home}/agents/{name}/{NAME}"
    return (own,) if not workdir else (own, f"{workdir}/.wakeful/agents/{name}/{NAME}")


def found(paths: tuple[str, ...]) -> Stamp | None:
    """The first of these that is there, whatever it is."""
    for path in paths:
        try:
            seen = os.lstat(path)
        except (FileNotFoundError, NotADirectoryError, ValueError):
            # An agent's log may call anything its folder, a NUL included.
            continue
        except OSError:
            # It is there and cannot be looked at: reading it says why.
            return Stamp(path, 0, 0, 0)
        return Stamp(path, seen.st_ino, seen.st_size, seen.st_ctime_ns)
    return None


def load(path: str, bounds: Bounds, at: str) -> Snapshot:
    """What a file says now. Raises HeartbeatInvalid."""
    from wakeful.adapters.heartbeat.document import (  # noqa: PLC0415 - YAML costs only who has such a file
        bytes_max,
        parse,
    )

    content = _content(path, bytes_max(bounds))
    return snapshot_of(parse(content, path, bounds, find_zone), bounds, path, at)


@lru_cache(maxsize=256)
def find_zone(name: str) -> ZoneInfo | None:
    """The time zone of an IANA name."""
    if name.startswith(_NO_PLACES) or not name.isascii():
        return None
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


def _content(path: str, limit: int) -> bytes:
    try:
        # Opening a FIFO would wait for its writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
        try:
            return _read(path, descriptor, limit)
        finally:
            os.close(descriptor)
    except OSError as problem:
        if problem.errno == errno.ELOOP:
            raise _refused(path, "a symbolic link, which is not followed") from problem
        reason = problem.strerror or str(problem)
        raise HeartbeatUnread(file=plain(path), line=1, reason=reason) from problem


def _read(path: str, descriptor: int, limit: int) -> bytes:
    seen = os.fstat(descriptor)
    if not stat.S_ISREG(seen.st_mode):
        raise _refused(path, "not a regular file")
    if seen.st_size > limit:
        raise _refused(path, f"{seen.st_size} bytes, and {limit} are the most that is read")
    content = b""
    # One that grows meanwhile is cut off, and read again when it is looked at next.
    while len(content) < limit and (piece := os.read(descriptor, limit - len(content))):
        content += piece
    return content


def _refused(path: str, reason: str) -> HeartbeatInvalid:
    return HeartbeatInvalid(file=plain(path), line=1, reason=reason)
