"""Shares of the file descriptor limit, so that connections never use those that watching needs.

Every live session costs a pidfd. `RESERVED` is for the rest: the store, inotify, logs being read, pipes of child
processes, and accepted connections that are not counted yet.
"""

from typing import Final, NamedTuple

RESERVED: Final = 64
CONNECTIONS_MAX: Final = 512
# One command and one page need this many, whatever the limit is.
CONNECTIONS_MIN: Final = 8
LISTENERS: Final = 2
UNLIMITED: Final = 2**31


class Shares(NamedTuple):
    """`connections` is for each listener."""

    connections: int
    pidfds: int


def shares(descriptors_max: int) -> Shares:
    """Half of the free descriptors for the two listeners, the rest for pidfds. A negative maximum is no limit."""
    free = max(0, descriptors_max - RESERVED) if descriptors_max >= 0 else UNLIMITED
    connections = max(CONNECTIONS_MIN, min(CONNECTIONS_MAX, free // (2 * LISTENERS)))
    return Shares(connections, max(0, free - LISTENERS * connections))
