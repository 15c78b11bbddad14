"""Which process is at the other end of a loopback TCP connection: by the kernel's table and its descriptors.

A walk over every process of this user, some milliseconds: for the few questions where it matters who asks.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

Address = tuple[str, int]
_TABLE: Final = Path("/proc/net/tcp")
# The columns of a row: its own address, the other one, and the inode of its socket.
_OWN, _OTHER, _INODE = 1, 2, 9


def tcp_callers(client: Address, server: Address) -> list[int]:
    """The processes that have the client's end of this connection open."""
    inode = inode_of(_TABLE.read_text(), client, server)
    return [] if inode is None else list(_openers(f"socket:[{inode}]"))


def inode_of(table: str, own: Address, other: Address) -> int | None:
    """The inode of the socket with these addresses, from /proc/net/tcp."""
    wanted = (_hexadecimal(own), _hexadecimal(other))
    for line in table.splitlines()[1:]:
        fields = line.split()
        if (fields[_OWN], fields[_OTHER]) == wanted:
            return int(fields[_INODE])
    return None


def _hexadecimal(address: Address) -> str:
    """As the kernel writes it: the host's bytes in its own order, then the port."""
    host, port = address
    number = int.from_bytes(bytes(int(part) for part in host.split(".")), "little")
    return f"{number:08X}:{port:04X}"


def _openers(link: str) -> Iterator[int]:
    uid = os.getuid()
    with os.scandir("/proc") as entries:
        pids = [entry for entry in entries if entry.name.isdigit()]
    for entry in pids:
        try:
            mine = entry.stat().st_uid == uid
            links = Path(entry.path, "fd").iterdir() if mine else ()
            if any(str(each.readlink()) == link for each in links):
                yield int(entry.name)
        except OSError:
            # It ended, or closed a descriptor, while we looked; or it is not ours to look into.
            continue
