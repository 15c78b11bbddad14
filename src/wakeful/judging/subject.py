"""Who a session is, apart from how it is: what never changes with a verdict. A value, and nothing is judged here."""

from typing import Final

from msgspec import Struct

from wakeful.core.ids import ConversationId, SessionId

STREAM: Final = "stream"
"""The source of what a driven client says on its own stream, whose lines carry no time."""


class Subject(Struct, frozen=True, gc=False):
    """Who a session is, apart from how it is."""

    id: SessionId
    provider: str
    host: str
    source: str
    conversation_id: ConversationId | None = None
    project: str = ""
    agent: str | None = None
    attempt: int = 0
    # Held by itself, with a hosting of its own. The record calls what an agent of the hub hosts managed, too.
    managed: bool = False
    # Its log is its own word: alive until it says that it closed. Only where no process can be known.
    vouched: bool = False
    # What a person called it, and what Wakeful did not see the end of.
    name: str | None = None
    note: str = ""
    # The client's own folder that its log is in, where the conversation is found only from the place it was begun in.
    folder: str = ""
    # Its client has begun no conversation yet: it stands for the one to come, and goes when that begins.
    awaited: bool = False

    @property
    def ours(self) -> bool:
        """Whether Wakeful started it or was given it: the session itself, or the agent of the hub that hosts it."""
        return self.managed or self.agent is not None
