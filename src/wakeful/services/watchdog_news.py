"""What an operator hears of a queue's sessions, and by whom: a callback that takes words, or a daemon's incidents.

Each thing is said once by whoever did it; the watchdog sees to that before it comes here.
"""

from collections.abc import Collection
from enum import StrEnum
from typing import Final, Protocol

from msgspec import Struct
from msgspec.structs import replace

from wakeful.domain.ids import SessionId
from wakeful.domain.news import News, text_of
from wakeful.services.watchdog_calls import Callback, Calls
from wakeful.services.watchdog_cases import Case

# So many sessions of one project that are in trouble at one look have one cause: their worker, most likely.
TOGETHER_MIN: Final = 3
CHECKPOINT: Final = "wakeful checkpoint show"
EVENTS: Final = "wakeful events --since 1h"
STOPPED: Final = "it stays failed, and its message is not tried again"


class NewsKind(StrEnum):
    """Which turn a trouble takes with this news."""

    BEGAN = "began"
    HELD = "held"
    GIVEN_UP = "given-up"


class QueueNews(Struct, frozen=True):
    """News of one session; `together` is how many of its project are in trouble at the same look."""

    session_id: SessionId
    project_key: str
    kind: NewsKind
    news: News
    together: int = 1


class Operator(Protocol):
    """Whoever answers for the queue."""

    async def told(self, news: QueueNews) -> None:
        """Hears of one session."""

    async def still(self, in_trouble: Collection[str]) -> None:
        """Hears after each look who is in trouble or being revived; for everybody else it is over."""

    async def lost(self, place: str, words: str) -> None:
        """Hears that the queue cannot be looked at."""

    async def back(self, place: str) -> None:
        """Hears that it can be again."""


class AlertOnly:
    """Implements Operator by a callback that takes words: of a program that has no daemon, so without its commands.

    Only where there is one a held session has a checkpoint, and can be decided about.
    """

    def __init__(self, calls: Calls, alert: Callback | None) -> None:
        self._calls = calls
        self._alert = alert

    async def told(self, news: QueueNews) -> None:
        command = news.news.command if news.news.command.startswith(CHECKPOINT) else ""
        await self._calls.call("alert", self._alert, text_of(replace(news.news, command=command)))

    async def still(self, in_trouble: Collection[str]) -> None:
        """Nothing is kept here that could end."""

    async def lost(self, place: str, words: str) -> None:
        """The program's own log says so; its alerts may well travel through the same server."""

    async def back(self, place: str) -> None:
        """As above."""


def news_of(case: Case, did: str, otherwise: str, *, place: str, command: str, together: int = 1) -> News:
    """A session's trouble in words."""
    session, findings = case.watched.session, case.verdict.findings
    what = "; ".join(finding.summary for finding in findings) or "a person asked for it"
    many = f"{together} sessions are in trouble at once, this one " if together >= TOGETHER_MIN else ""
    code = f" ({case.reasons})" if findings else ""
    chat = f", chat {case.watched.chat_id}" if case.watched.chat_id is not None else ""
    return News(
        what=f"{session.project_key}: {many}{what}{code}",
        where=f"session {session.session_id}{chat}, in {place}",
        since=findings[0].since.wall if findings else case.now.wall,
        did=did,
        otherwise=otherwise,
        command=command,
    )
