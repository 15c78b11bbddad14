"""What the healer needs of others: whom it tells, and who asks a person before something may go on."""

from typing import Protocol

from wakeful.healing.plan import Decision
from wakeful.healing.trouble import Trouble
from wakeful.incidents.critical_event import ActionTaken, Happening
from wakeful.incidents.incident import Incident
from wakeful.judging.session_record import SessionRecord
from wakeful.sessions.session import Watched


class Telling(Protocol):
    """Everything people and programs hear of a trouble."""

    async def logged(
        self, happening: Happening, action: ActionTaken, trouble: Trouble, watched: Watched
    ) -> None:
        """Write a critical event."""

    async def told(
        self, incident: Incident, trouble: Trouble, record: SessionRecord, decision: Decision
    ) -> float | None:
        """Owe people an alert about the incident. Seconds: it is muted, ask again after these."""

    async def resolved(self, incident: Incident) -> None:
        """Owe people the news that it is over."""


class Holding(Protocol):
    """Asks a person about a session that must not go on by itself: its checkpoint."""

    async def hold(self, watched: Watched, trouble: Trouble) -> int:
        """The number of the checkpoint that asks, opened once."""

    async def gone_on(self, number: int, by: str) -> None:
        """It goes on because of this one. Raises AlreadyDecided if a person wanted otherwise."""

    async def called_off(self, number: int) -> None:
        """A person stopped the session it asks about: there is nothing left to decide."""

    async def settled(self, number: int) -> None:
        """What was decided is done, or its memory is kept."""
