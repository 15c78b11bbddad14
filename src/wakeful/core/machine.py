"""The machine that a process or a stored row belongs to. It does not read the system.

Several machines may share a store or a home. A pid, a socket path and a boot id mean something on their own
machine only.
"""

from msgspec import Struct


class Machine(Struct, frozen=True):
    """One pid namespace of one system: a container with pids of its own is a machine, too.

    `id` stays the same over reboots, and `boot_id` does not. `host` is its name for people, which need not be unique.
    """

    id: str
    boot_id: str
    host: str
