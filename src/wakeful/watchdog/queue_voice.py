"""A queue and its sessions in the daemon's book of incidents, and what its operator is told of them.

Sessions that the healer treats are never touched here, and those of a queue never by the healer.
"""

from collections.abc import Awaitable, Callable, Collection
from typing import Final

from msgspec.structs import replace

from wakeful.alerts.alerts import Alert, AlertKind, Topic
from wakeful.alerts.news import News, text_of
from wakeful.alerts.outbox import AlertDesk
from wakeful.core.ids import SessionId
from wakeful.incidents.critical_event import Happening
from wakeful.incidents.incident import Cause, Fate, Incident, Member, Origin, sentence_of
from wakeful.incidents.service import Incidents
from wakeful.watchdog.watchdog_news import TOGETHER_MIN, QueueEpisode, QueueNews

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
