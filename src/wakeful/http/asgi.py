"""Types of ASGI, and the keys that Wakeful adds to a scope."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

from msgspec import Struct

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

PEER: Final = "wakeful.peer"
"""Key of the Peer in a scope; only connections of the Unix socket have one."""
AUTH_METHOD: Final = "wakeful.proof"
"""Key of the AuthMethod that the gate accepted."""


class Peer(Struct, frozen=True):
    """The process at the other end of the Unix socket, as the kernel reports it."""

    pid: int
    uid: int
    gid: int
