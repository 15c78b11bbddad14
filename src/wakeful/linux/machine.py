"""Reads which machine this process runs on. Nothing else reads the machine id or the pid namespace.

The system's machine id is confidential (machine-id(5)), so only a digest of it leaves this module.
"""

import os
import re
import socket
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Final

from wakeful.core.machine import Machine

# The second is where older systems without systemd keep it; see machine-id(5).
_MACHINE_ID_FILES: Final = (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id"))
_MACHINE_ID: Final = re.compile(r"[0-9a-f]{32}")
_BOOT_ID_FILE: Final = Path("/proc/sys/kernel/random/boot_id")
_PID_NAMESPACE: Final = Path("/proc/self/ns/pid")


@cache
def this_machine() -> Machine:
    pid_namespace = _PID_NAMESPACE.stat().st_ino
    return Machine(machine_id(_system_id(), pid_namespace), boot_id(), socket.gethostname())


@cache
def boot_id() -> str:
    return _read(_BOOT_ID_FILE)


def machine_id(system_id: str, pid_namespace: int) -> str:
    """The id of one pid namespace of one system. Two systems with one id (copied images) count as one machine."""
    # 64 bits: two of a thousand machines collide with a probability below 1e-13.
    return sha256(f"wakeful/{system_id}/{pid_namespace}".encode()).hexdigest()[:16]


# File systems that only one kernel mounts: a socket and a lock there are seen by every process that has the folder.
_LOCAL_FILE_SYSTEMS: Final = frozenset(
    {"bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "jfs", "overlay", "tmpfs", "xfs", "zfs"}
)
_OCTAL: Final = re.compile(rb"\\([0-7]{3})")


def is_on_local_disk(path: Path) -> bool:
    """Whether no other system can have this file; False if that is not known."""
    try:
        mounts = Path("/proc/self/mountinfo").read_bytes()
        return file_system_of(os.fsencode(path.resolve()), mounts) in _LOCAL_FILE_SYSTEMS
    except OSError:
        return False


def file_system_of(path: bytes, mountinfo: bytes) -> str:
    """The type of the file system of this resolved path, by proc(5); empty if none is found."""
    found, longest = b"", -1
    for line in mountinfo.splitlines():
        fields, _, kind = line.partition(b" - ")
        point = _OCTAL.sub(lambda code: bytes([int(code[1], 8)]), (fields.split() + [b""] * 5)[4])
        # Of two mounts at one point the later one hides the other.
        if len(point) >= longest and (path + b"/").startswith(point.rstrip(b"/") + b"/"):
            found, longest = kind.split(b" ")[0], len(point)
    return found.decode("ascii", "replace")


def _system_id() -> str:
    """The system's own id; without one its boot id, so that after a reboot it is another machine."""
    for file in _MACHINE_ID_FILES:
        with suppress(OSError):
            if _MACHINE_ID.fullmatch(text := _read(file)):
                return text
    return boot_id()


def _read(file: Path) -> str:
    return file.read_bytes().decode("ascii", "replace").strip()
