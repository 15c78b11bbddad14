"""Ways to reach a person. Each has a deadline of its own and says whether the words arrived."""

from typing import Protocol

from wakeful.core.errors import WorldError


class NotDelivered(WorldError):
    """{channel} did not take the message: {reason}."""

    code = "not-delivered"


class Refused(NotDelivered):
    """{channel} refused the message: {reason}."""

    # Definite: the message is not there, so sending it again cannot tell anybody twice.
    code = "message-refused"


class Messenger(Protocol):
    """One way. `name` is how people know it: telegram, desktop, or the kind of an apprise address."""

    name: str

    async def send(self, text: str, *, chat: str | None = None) -> None:
        """Say it: to this chat, or to whom the channel was set up for.

        Raises Refused when it surely did not arrive, NotDelivered when nobody knows. Never waits for ever.
        """

    async def close(self) -> None:
        """Let go of what it holds open."""
