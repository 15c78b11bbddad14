"""On which socket a tmux server listens, by its process alone. It reads /proc; it asks no server.

A pane's `$TMUX` says the same, but an agent started with a cleared environment has none, and a server started with a
relative path says only that.
"""

import os
from pathlib import Path
from typing import Final

from wakeful.linux import proc

# `tmux: server` where a process may name itself, plain `tmux` elsewhere.
_SERVER_NAME: Final = "tmux"
# The kernel's __SO_ACCEPTCON: this end accepts connections.
_LISTENS: Final = 0x10000


def is_server(pid: int) -> bool:
    return proc.comm(pid).startswith(_SERVER_NAME)


def listening_at(pid: int) -> Path | None:
    """The socket of the tmux server with this pid; None if it listens nowhere or cannot be looked at.

    None may be wrong once: the kernel leaves rows out of its list of sockets while others open and close theirs.
    """
    inodes = _socket_inodes(pid)
    try:
        rows = Path(f"/proc/{pid}/net/unix").read_bytes().splitlines()
    except OSError:
        return None
    bound = next((path for inode, path in map(_listener, rows) if path and inode in inodes), None)
    # A relative path begins where the server was started, and there it stays.
    return Path(proc.cwd(pid) or "/", os.fsdecode(bound)) if bound else None


def _listener(row: bytes) -> tuple[bytes, bytes]:
    """Inode and path of a row of /proc/net/unix; no path for whoever only talks, or has no name in the file system."""
    fields = row.split(maxsplit=7)
    if len(fields) < 8 or not fields[3].isalnum() or fields[7].startswith(b"@"):
        return b"", b""
    listens = fields[3] != b"Flags" and int(fields[3], 16) & _LISTENS
    return (fields[6], fields[7]) if listens else (b"", b"")


def _socket_inodes(pid: int) -> set[bytes]:
    try:
        links = [_link(each) for each in Path(f"/proc/{pid}/fd").iterdir()]
    except OSError:
        return set()
    return {os.fsencode(each[8:-1]) for each in links if each.startswith("socket:[")}


def _link(descriptor: Path) -> str:
    """What a descriptor stands for; empty if it was closed while we looked."""
    try:
        return str(descriptor.readlink())
    except OSError:
        return ""
