"""Which process is at the other end of a loopback TCP connection: by the kernel's table and its descriptors.

A walk over every process of this user, some milliseconds: for the few questions where it matters who asks.
"""

import os
import sys
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path
from typing import Final

Address = tuple[str, int]
_TABLES: Final = {4: Path("/proc/net/tcp"), 6: Path("/proc/net/tcp6")}
# The columns of a row: its own address, the other one, and the inode of its socket.
_OWN, _OTHER, _INODE = 1, 2, 9


def tcp_callers(client: Address, server: Address) -> list[int]:
    """The processes that have the client's end of this connection open."""
    table = _TABLES[ip_address(client[0]).version]
    inode = inode_of(table.read_text(), client, server)
    return [] if inode is None else list(_openers(f"socket:[{inode}]"))


def inode_of(table: str, own: Address, other: Address) -> int | None:
    """The inode of the socket with these addresses, from /proc/net/tcp or /proc/net/tcp6."""
    wanted = (_hexadecimal(own), _hexadecimal(other))
    for line in table.splitlines()[1:]:
        fields = line.split()
        if (fields[_OWN], fields[_OTHER]) == wanted:
            return int(fields[_INODE])
    return None


def _hexadecimal(address: Address) -> str:
    """As the kernel writes it: the address in words of four bytes, each in the host's own order, then the port."""
    host, port = address[0], address[1]
    packed = ip_address(host).packed
    words = (int.from_bytes(packed[at : at + 4], sys.byteorder) for at in range(0, len(packed), 4))
    return f"{''.join(f'{word:08X}' for word in words)}:{port:04X}"


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
