"""A managed session: the address needed to prompt or stop it after a restart.

A session is managed as long as its ManagedSession is stored. It is an address, never a proof of life: evidence
says which process is alive, by identity.
"""

from msgspec import Struct, field

from wakeful.core.ids import ConversationId, SessionId
from wakeful.core.process import Process

# Environment variables that give a process, its tools and its tmux session their session and their epoch.
SESSION_VARIABLE = "WAKEFUL_SESSION"
EPOCH_VARIABLE = "WAKEFUL_EPOCH"
INTENT_VARIABLE = "WAKEFUL_INTENT"
# The hub agent that a process in a container is, or descends from.
AGENT_VARIABLE = "WAKEFUL_AGENT"


class PaneAddress(Struct, frozen=True):
    """A pane on a tmux server: `target` (`%3`) is its address there, `session` its name for people."""

    socket: str
    target: str
    session: str
    # Its first process: a restarted server gives the same target to another pane.
    process: Process | None = None
    # The tmux server: if that is gone too, the pane did not end by itself.
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
    # Adopted by a person, not started by Wakeful.
    adopted: bool = False
    name: str | None = None
    # The names of Wakeful's secrets that its agent had when it was adopted: its shell has them, too.
    kept_back: tuple[str, ...] = ()
    # A person's stop is final: only a person resumes the session.
    stopped: bool = False
    # The chat gateway stopped it, for room or memory: a chat message may resume it.
    by_gateway: bool = False
    # The conversation that Wakeful began in its place: the work goes on there, and this one is never resumed.
    heir: SessionId | None = None
    # Its agent ended by itself while its host (pane, container) lived: a later end of the host is not the cause.
    closed: bool = False
    # The client's folders, for clients that run one process per turn; contains no secrets.
    places: dict[str, str] = field(default_factory=dict)
    # A digest of the last text that Wakeful typed: it tells a returned prompt from a person's draft.
    typed: str = ""
    # An action whose end is unknown, because Wakeful ended during it; kept until the next confirmed prompt.
    note: str = ""
    # The process that Wakeful ended in its turn, to free memory or processor time: it did not die by itself.
    ended_process: Process | None = None
    # When the chat gateway told its user that the last turn failed: nothing continues that turn by itself.
    failure_told_at: float | None = None

    @property
    def is_ended(self) -> bool:
        """Ended on purpose: a person or the chat gateway stopped it, or another conversation took its place."""
        return self.stopped or self.heir is not None

    def is_ended_in(self, process: Process | None) -> bool:
        """Whether it is ended and `process` is its process or None. Another process that resumed it is news."""
        return self.is_ended and (process is None or self.process in {None, process})
