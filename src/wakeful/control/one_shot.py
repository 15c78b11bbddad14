"""One question to a provider's model, outside every conversation: nothing is kept of it and no tool may be used."""

from typing import Protocol


class OneShot(Protocol):
    """One provider's."""

    async def ask(self, prompt: str, seconds_max: float) -> str | None:
        """What it answered; None if it did not, in that time or at all. Never raises."""
