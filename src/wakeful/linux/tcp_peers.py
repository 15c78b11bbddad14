"""Finds the process at the other end of a loopback TCP connection, from kernel tables and descriptors.

It scans every process of this user, which takes some milliseconds, so it is for the few requests where the
caller matters.
"""

import os
import socket
import struct
from pathlib import Path
from typing import Final

from wakeful.linux import proc
from wakeful.linux.client_processes import user_of

Address = tuple[str, int]
_TABLES: Final = {socket.AF_INET: Path("/proc/net/tcp"), socket.AF_INET6: Path("/proc/net/tcp6")}
# Columns of a row: own address, peer address, inode of the socket.
_OWN, _OTHER, _INODE = 1, 2, 9


def tcp_callers(client: Address, server: Address) -> list[int]:
    """The processes that have the client's end of this connection open; none if that end is closed.

    If no visible process has it open, the processes with hidden descriptors: one of them has it.
    """
    family = socket.AF_INET6 if ":" in client[0] else socket.AF_INET
    inode = inode_of(_TABLES[family].read_text(), client, server)
    # The kernel keeps the row of a closed end for a while, without an inode.
    return [] if not inode else _openers(f"socket:[{inode}]")


def inode_of(table: str, own: Address, other: Address) -> int | None:
    """The inode of the socket with these addresses, from /proc/net/tcp or tcp6."""
    wanted = (_hexadecimal(own), _hexadecimal(other))
    for line in table.splitlines()[1:]:
        fields = line.split()
        if (fields[_OWN], fields[_OTHER]) == wanted:
            return int(fields[_INODE])
    return None


def _hexadecimal(address: Address) -> str:
    """The kernel's format: the host in words of four bytes, each in the machine's byte order, then the port."""
    host, port = address
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    packed = socket.inet_pton(family, host.partition("%")[0])
    words = struct.unpack(f"={len(packed) // 4}I", packed)
    return f"{''.join(f'{word:08X}' for word in words)}:{port:04X}"


def _openers(link: str) -> list[int]:
    numbers = (int(each.name) for each in Path("/proc").iterdir() if each.name.isdigit())
    own = [pid for pid in numbers if user_of(pid) == os.getuid()]
    # An SSH server, for example, hides its descriptors.
    hidden = (pid for pid in own if not os.access(f"/proc/{pid}/fd", os.R_OK))
    return [pid for pid in own if link in proc.open_files(pid)] or list(hidden)
