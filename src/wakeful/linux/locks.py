"""Locks for one process at a time, which the kernel releases when the holder ends, however it ends.

A file lock is for processes that share its folder; a name lock is for the whole host and all its users.
"""

import asyncio
import errno
import fcntl
import hashlib
import os
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from wakeful.core.errors import WorldError

# SO_PEERCRED: pid, uid and gid of the process at the other end.
_PEER: Final = struct.Struct("3i")
_HOLDER_SECONDS_MAX: Final = 1.0


class LockTaken(WorldError):
    """{what} is already running: pid {pid}. Stop it first."""

    code = "held-by-another"
    exit_code = 1


@contextmanager
def exclusive_file_lock(path: Path, what: str) -> Iterator[None]:
    """Hold the lock of this file. Raises LockTaken."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 20, 0).decode(errors="replace").strip()
            raise LockTaken(what=what, pid=holder or "unknown") from None
        os.truncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def exclusive_host_lock(name: str, what: str) -> Iterator[None]:
    """Hold this name on the host; inside a running loop. Raises LockTaken."""
    with socket.socket(socket.AF_UNIX) as listener:
        try:
            # An abstract address leaves no file behind and needs no agreed folder.
            listener.bind(f"\0{name}")
        except OSError as problem:
            if problem.errno != errno.EADDRINUSE:
                raise
            raise LockTaken(what=what, pid=holder_on_host(name) or "unknown") from None
        listener.listen()
        listener.setblocking(False)
        loop = asyncio.get_running_loop()
        loop.add_reader(listener, _close_connection, listener)
        try:
            yield
        finally:
            loop.remove_reader(listener)


def gateway_name(token: str) -> str:
    """The lock name of a bot's gateway. All users can read names on a host, so it contains only a hash of the token."""
    return f"wakeful-gateway-{hashlib.sha256(token.encode()).hexdigest()}"


def _close_connection(listener: socket.socket) -> None:
    # The caller only wanted the peer credentials, which it has by now.
    with suppress(BlockingIOError):
        listener.accept()[0].close()


def holder_on_host(name: str) -> int | None:
    """The process that holds the name. None: it ended meanwhile, or it is in a container and not visible here."""
    with socket.socket(socket.AF_UNIX) as asker:
        asker.settimeout(_HOLDER_SECONDS_MAX)
        try:
            asker.connect(f"\0{name}")
            pid: int = _PEER.unpack(asker.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))[0]
        except OSError:
            return None
    return pid or None
