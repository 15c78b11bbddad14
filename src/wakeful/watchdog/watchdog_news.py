"""What an operator hears of a queue and its sessions, and by whom: a callback that takes words, or a daemon's incidents.

Each thing is said once by whoever did it; the watchdog sees to that before it comes here.
"""

from collections.abc import Collection
from typing import Final, Protocol

from msgspec import Struct
from msgspec.structs import replace

from wakeful.alerts.alerts import resolved
from wakeful.alerts.news import News, text_of
from wakeful.core.ids import SessionId
from wakeful.core.moment import iso
from wakeful.incidents.critical_event import Happening
from wakeful.incidents.incident import Fate
from wakeful.watchdog.judging import Case
from wakeful.watchdog.watchdog_calls import Callback, Calls

# So many sessions of one project that are in trouble at one look have one cause: their worker, most likely.
TOGETHER_MIN: Final = 3
CHECKPOINT: Final = "wakeful checkpoint show"
EVENTS: Final = "wakeful events --since 1h"
STOPPED: Final = "it stays failed, and its message is not tried again"
_ENDS: Final = {
    Happening.QUEUE_STALLED: ("its jobs waited and none ran", "its work is being done again, or none waits"),
    Happening.MESSAGE_UNROUTED: ("its messages waited and nobody served it", "none waits any more"),
}


class QueueNews(Struct, frozen=True):
    """News of one session; `together` is how many of its project are in trouble at the same look."""

    session_id: SessionId
    project_key: str
    fate: Fate
    news: News
    together: int = 1
    codes: tuple[str, ...] = ()
    issue_url: str | None = None


class QueueEpisode(Struct, frozen=True):
    """A trouble of a whole project's queue, and since when it lasts."""

    happening: Happening
    project_key: str
    since: float

    @property
    def key(self) -> str:
        return f"{self.happening}/{self.project_key}"

    def end_text(self) -> str:
        """That it is over."""
        what, because = _ENDS[self.happening]
        return resolved(f"{self.project_key}: {what}", iso(self.since), because=because)


class Operator(Protocol):
    """Whoever answers for the queue."""

    async def told(self, news: QueueNews) -> None:
        """Hears of one session."""

    async def still(self, in_trouble: Collection[str], well: Collection[str]) -> None:
        """Hears after each look who is in trouble, being revived or unknown, and who was seen well or ended well.

        For everybody else it is over, too: they are not in the queue any more, and how they ended was not seen.
        """

    async def stalled(self, episode: QueueEpisode, news: News) -> str:
        """Hears of a queue that does not move; what came of telling, in words."""

    async def moves(self, lasting: Collection[str], ended: Collection[QueueEpisode]) -> None:
        """Hears after each look the keys of what lasts, and what this watchdog saw end."""

    async def lost(self, place: str, words: str) -> None:
        """Hears that the queue cannot be looked at."""

    async def back(self, place: str) -> None:
        """Hears that it can be again."""


class AlertOnly:
    """Implements Operator by a callback that takes words: of a program that has no daemon, so without its commands.

    Of many sessions of one project in trouble at one look only the first is told, and how many they are.
    """

    def __init__(self, calls: Calls, alert: Callback | None) -> None:
        self._calls = calls
        self._alert = alert
        self._crowds: set[str] = set()

    async def told(self, news: QueueNews) -> None:
        if news.together >= TOGETHER_MIN and news.fate is not Fate.HELD:
            if news.project_key in self._crowds:
                return
            self._crowds.add(news.project_key)
        await self._say(news.news, _by_hand(news))

    async def still(self, in_trouble: Collection[str], well: Collection[str]) -> None:
        """The look is over: whoever is in trouble at the next one is told anew."""
        del in_trouble, well
        self._crowds.clear()

    async def stalled(self, episode: QueueEpisode, news: News) -> str:
        del episode
        return await self._say(news)

    async def moves(self, lasting: Collection[str], ended: Collection[QueueEpisode]) -> None:
        del lasting
        for each in ended:
            await self._calls.call("alert", self._alert, each.end_text())

    async def lost(self, place: str, words: str) -> None:
        """The program's own log says so; its alerts may well travel through the same server."""

    async def back(self, place: str) -> None:
        """As above."""

    async def _say(self, news: News, command: str = "") -> str:
        text = text_of(replace(news, command=command))
        return (await self._calls.call("alert", self._alert, text)).words


def _by_hand(news: QueueNews) -> str:
    """How a held session goes on: by its checkpoint where there is one, else by the program itself."""
    if news.fate is not Fate.HELD:
        return ""
    is_asked = news.news.command.startswith(CHECKPOINT)
    return news.news.command if is_asked else f"await attempt_revival({news.session_id!r}, approved=True)"


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
