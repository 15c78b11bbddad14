"""The daemon as a whole, as somebody beside it sees it: how it stands, what waits for a person, what a person may say."""

from typing import Protocol

from msgspec import Struct

from wakeful.core.ids import SessionId
from wakeful.reports.model import Report


class HouseStanding(Struct, frozen=True):
    """How the daemon stands. `paused`: by whom, if it is."""

    mode: str
    paused: str | None = None
    notes: tuple[str, ...] = ()


class OpenCheckpoint(Struct, frozen=True):
    """Something that waits for a person's word: what it is about, and what may be said, each with what it leads to."""

    number: int
    subject: str
    lines: tuple[str, ...]
    choices: tuple[tuple[str, str], ...]


class House(Protocol):
    """Raises what ports.sessions raises. `by` is who decided, for whoever reads it later."""

    async def standing(self) -> HouseStanding: ...

    async def checkpoints(self) -> tuple[OpenCheckpoint, ...]:
        """Those that are open, the newest first."""

    async def decide(self, number: int, choice: str, by: str) -> str:
        """Carry out what was chosen; what became of it, in words."""

    async def pause(self, by: str) -> None:
        """Stop everything that would be done by itself."""

    async def resume(self, by: str) -> None:
        """End a pause."""

    async def mute(self, session_id: SessionId, seconds: float, by: str) -> None:
        """Tell nothing about a session for a while."""

    async def report(self, since: str) -> Report:
        """What happened since a moment, as a person writes it: `22:00`, `12h`, or a time."""
