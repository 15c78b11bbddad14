"""Reports a queue and its sessions to the operator: by a callback, or as the daemon's incidents and alerts.

The watchdog makes sure that each problem is reported once before it calls this module. Sessions that the
healer treats are not changed here, and the healer does not treat sessions of a queue.
"""

from collections.abc import Awaitable, Callable, Collection
from typing import Final, Protocol

from msgspec import Struct
from msgspec.structs import replace

from wakeful.alerts.model import Alert, AlertKind, News, Topic, resolved, text_of
from wakeful.alerts.outbox import AlertDesk
from wakeful.core.clock import iso
from wakeful.core.ids import SessionId
from wakeful.incidents.critical_event import Happening
from wakeful.incidents.model import Cause, Fate, Incident, Member, Origin, sentence_of
from wakeful.incidents.service import Incidents
from wakeful.watchdog.callbacks import Callback, Calls
from wakeful.watchdog.judging import Case

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


_EPISODES: Final = "queue/"
NOT_THERE: Final = "the queue runs it no more, and how it ended was not seen"
# What waits for a person, and what nobody tries any more, is said for each session.
_APART: Final = (Fate.HELD, Fate.GIVEN_UP)
# A queue's sessions are in no other incident; an engine's or a login's belong to others.
_CAUSES: Final = frozenset({Cause.SESSION, Cause.WORKER})


class QueueVoice:
    """Implements the watchdog's Operator. `soon` has a shared incident told once all its sessions had their turn,
    `over` that it ended; `treated` says whether the healer has a session.
    """

    def __init__(
        self,
        *,
        incidents: Incidents,
        alerts: AlertDesk,
        soon: Callable[[Incident, Topic], Awaitable[None]],
        over: Callable[[Incident], Awaitable[None]],
        treated: Callable[[SessionId], bool],
    ) -> None:
        self._incidents = incidents
        self._alerts = alerts
        self._soon = soon
        self._over = over
        self._treated = treated

    async def told(self, news: QueueNews) -> None:
        session_id = news.session_id
        joined = await self._incidents.join(session_id, self._origin(news), news.news.what)
        treated = joined.treated(session_id, news.fate, news.news.did)
        incident = await self._incidents.keep(replace(treated, issue_url=treated.issue_url or news.issue_url))
        topic = Topic((incident.cause, *news.codes), news.project_key, session_id)
        shared = incident.cause is not Cause.SESSION
        if shared and news.fate is not Fate.HELD:
            await self._soon(incident, topic)
            return
        kind = AlertKind.NEEDS_YOU if news.fate is Fate.HELD else AlertKind.TROUBLE
        episode = _apart(incident, session_id, news.fate) if news.fate in _APART else incident.id
        await self._alerts.owe(Alert(kind, episode, text_of(news.news), topic=topic))

    async def still(self, in_trouble: Collection[str], well: Collection[str]) -> None:
        for session_id in self._incidents.sessions():
            if session_id not in in_trouble and not self._treated(session_id):
                await self._leave(session_id, "" if session_id in well else NOT_THERE)

    async def stalled(self, episode: QueueEpisode, news: News) -> str:
        topic = Topic((episode.happening,), episode.project_key)
        alert = Alert(AlertKind.TROUBLE, f"{_EPISODES}{episode.key}", text_of(news), topic=topic)
        told = await self._alerts.owe(alert)
        return "people are told" if told else "nobody is to be told"

    async def moves(self, lasting: Collection[str], ended: Collection[QueueEpisode]) -> None:
        """Whoever was told hears of the end, whichever watchdog noticed it."""
        for owed in self._alerts.open_episodes(_EPISODES):
            key = owed.alert.episode.removeprefix(_EPISODES)
            if key not in lasting:
                happening, _, project = key.partition("/")
                since = next((each.since for each in ended if each.key == key), owed.owed_at)
                over = QueueEpisode(Happening(happening), project, since)
                await self._alerts.resolve(owed.alert.episode, over.end_text())

    async def lost(self, place: str, words: str) -> None:
        incident = await self._incidents.begin(Origin(Cause.QUEUE, place), words)
        text, topic = text_of(lost_news(incident, words)), Topic((incident.cause,))
        await self._alerts.owe(Alert(AlertKind.TROUBLE, incident.id, text, topic=topic))

    async def back(self, place: str) -> None:
        ended = await self._incidents.end(Origin(Cause.QUEUE, place))
        if ended is not None and not ended.is_open:
            await self._over(replace(ended, because="it answers again"))

    async def _leave(self, session_id: SessionId, ended: str) -> None:
        incident = self._incidents.of(session_id)
        if incident is None or incident.cause not in _CAUSES:
            return
        member = incident.member(session_id)
        given_up = member is not None and member.fate is Fate.GIVEN_UP
        if member is not None and given_up:
            await self._incidents.keep(incident.treated(session_id, Fate.ENDED, member.words))
        # What was given up says so itself.
        left = await self._incidents.leave(session_id, "" if given_up else ended)
        for fate in _APART:
            await self._alerts.resolve(_apart(incident, session_id, fate))
        if left is None or left.is_open:
            return
        if _came_back(left.members):
            await self._over(left)
        else:
            # Nobody calls that resolved: it was told that it is over for good.
            await self._alerts.resolve(left.id)

    def _origin(self, news: QueueNews) -> Origin:
        """Its own; many of one project at once have one cause, whatever it is. An episode keeps its cause."""
        known = self._incidents.of(news.session_id)
        if known is not None:
            return Origin(known.cause, known.scope)
        if news.together >= TOGETHER_MIN:
            return Origin(Cause.WORKER, news.project_key)
        return Origin(Cause.SESSION, news.session_id)


def lost_news(incident: Incident, words: str) -> News:
    """That a queue cannot be looked at."""
    return News(
        what=sentence_of(incident),
        where=words,
        since=incident.opened_at,
        did="it goes on asking; nothing of this queue is checked or revived meanwhile",
        otherwise="sessions that hang there stay as they are",
        command="wakeful status",
    )


def _apart(incident: Incident, session_id: SessionId, fate: Fate) -> str:
    return f"{incident.id}/{session_id}/{fate}"


def _came_back(members: Collection[Member]) -> bool:
    return any(each.fate is not Fate.ENDED for each in members)
