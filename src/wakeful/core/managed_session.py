"""Hosting of a managed session: the address needed to prompt or stop it after a restart.

A session is managed as long as its Hosting is stored. A Hosting is an address, never a proof of life:
evidence says which process is alive, by identity.
"""

from msgspec import Struct, field

from wakeful.core.ids import ConversationId, SessionId
from wakeful.core.process import Process

# How a process, its tools and its tmux session tell whose they are and how old their claim is.
SESSION_VARIABLE = "WAKEFUL_SESSION"
EPOCH_VARIABLE = "WAKEFUL_EPOCH"
INTENT_VARIABLE = "WAKEFUL_INTENT"
# The agent of the hub that a process in a container is, or descends from.
AGENT_VARIABLE = "WAKEFUL_AGENT"


class PaneAddress(Struct, frozen=True):
    """A pane on a tmux server: `target` (`%3`) is its address there, `session` its name for people."""

    socket: str
    target: str
    session: str
    # Its first process: a server that was started anew gives the same target to another pane.
    process: Process | None = None
    # Whoever shows it: when that is gone too, it did not end by itself.
    server: Process | None = None


class ManagedSession(Struct, frozen=True):
    """One managed session. `process` is its newest agent process, `epoch` the claim it was started under."""

    session_id: SessionId
    conversation_id: ConversationId
    driver: str
    cwd: str
    argv: tuple[str, ...]
    epoch: int
    since: float
    process: Process | None = None
    # The folder with its FIFO and its append-only output, for drivers that talk through files.
    folder: str | None = None
    pane: PaneAddress | None = None
    # Handed over by a person, not started by Wakeful.
    adopted: bool = False
    name: str | None = None
    # The names of what its agent had of Wakeful's secrets when it was handed over: its shell has them, too.
    kept_back: tuple[str, ...] = ()
    # A person's stop is final: nothing brings it back but a person.
    stopped: bool = False
    # Not a person, but the chat gateway stopped it, for room or memory: a message there may bring it back.
    by_gateway: bool = False
    # The conversation that Wakeful began in its place: its work goes on there, and nothing brings this one back.
    heir: SessionId | None = None
    # Its agent ended by itself while whatever hosted it lived: nothing that ends later took it along.
    closed: bool = False
    # Where its client keeps things, for those that run one process per turn; nothing secret is among them.
    places: dict[str, str] = field(default_factory=dict)
    # A digest of what was last typed for it: a client that gives it back is told from a person's draft.
    typed: str = ""
    # What nobody saw the end of, because Wakeful ended in its middle; until the next prompt that is seen taken.
    note: str = ""

    @property
    def is_ended(self) -> bool:
        """It ended on purpose: a person or the chat gateway stopped it, or another conversation took its place."""
        return self.stopped or self.heir is not None

    def is_ended_in(self, process: Process | None) -> bool:
        """Whether that is true of this process, or of none: one that went on with it elsewhere is news again."""
        return self.is_ended and (process is None or self.process in {None, process})
