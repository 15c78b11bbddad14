"""Whether somebody has a pane in front of them right now. It looks; it never types."""

from typing import Final

from wakeful.integrations.tmux.failure import TmuxFailed
from wakeful.integrations.tmux.server import TmuxServer

LOOK_SECONDS_MAX: Final = 2.0
# In the context of a client: the active pane of the window its session shows.
_PANE_OF_CLIENT: Final = "#{pane_id}"


async def is_visible(socket: str, target: str, deadline_seconds: float = LOOK_SECONDS_MAX) -> bool:
    """Whether a client is attached whose active pane it is. A server that cannot be asked shows it to nobody."""
    try:
        listed = await TmuxServer(socket, deadline_seconds).tell("list-clients", "-F", _PANE_OF_CLIENT)
    except TmuxFailed:
        return False
    return target.encode() in listed.split()
