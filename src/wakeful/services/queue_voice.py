"""A queue's sessions in the daemon's book of incidents, and what its operator is told of them.

Sessions that the healer treats are never touched here, and those of a queue never by the healer.
"""

from collections.abc import Awaitable, Callable, Collection

from msgspec.structs import replace

from wakeful.domain.alerts import Alert, AlertKind
from wakeful.domain.ids import SessionId
from wakeful.domain.incident import Cause, Incident, Origin, sentence_of
from wakeful.domain.news import News, text_of
from wakeful.services.alerts import AlertDesk
from wakeful.services.incidents import Incidents
from wakeful.services.watchdog_news import TOGETHER_MIN, NewsKind, QueueNews


class QueueVoice:
    """Implements the watchdog's Operator. `treated` says whether the healer has a session."""

    def __init__(
        self,
        *,
        incidents: Incidents,
        alerts: AlertDesk,
        over: Callable[[Incident], Awaitable[None]],
        treated: Callable[[SessionId], bool],
    ) -> None:
        self._incidents = incidents
        self._alerts = alerts
        self._over = over
        self._treated = treated
        self._given_up: set[SessionId] = set()

    async def told(self, news: QueueNews) -> None:
        session_id = news.session_id
        joined = await self._incidents.join(session_id, self._origin(news), news.news.what)
        incident = await self._incidents.keep(replace(joined, did=news.news.did))
        if news.kind is NewsKind.GIVEN_UP:
            self._given_up.add(session_id)
        shared = incident.cause is not Cause.SESSION
        kind = AlertKind.NEEDS_YOU if news.kind is NewsKind.HELD else AlertKind.TROUBLE
        # One alert for what they share; what waits for a person is said for each.
        apart = news.kind is NewsKind.HELD or (news.kind is NewsKind.GIVEN_UP and not shared)
        episode = f"{incident.id}/{session_id}/{news.kind}" if apart else incident.id
        await self._alerts.owe(Alert(kind, episode, text_of(news.news)))

    async def still(self, in_trouble: Collection[str]) -> None:
        ours = [each for each in self._incidents.sessions() if not self._treated(each)]
        for session_id in ours:
            if session_id not in in_trouble:
                await self._leave(session_id)

    async def lost(self, place: str, words: str) -> None:
        incident = await self._incidents.begin(Origin(Cause.QUEUE, place), words)
        news = News(
            what=sentence_of(incident),
            where=words,
            since=incident.opened_at,
            did="it goes on asking; nothing of this queue is checked or revived meanwhile",
            otherwise="sessions that hang there stay as they are",
            command="wakeful status",
        )
        await self._alerts.owe(Alert(AlertKind.TROUBLE, incident.id, text_of(news)))

    async def back(self, place: str) -> None:
        ended = await self._incidents.end(Origin(Cause.QUEUE, place))
        if ended is not None and not ended.is_open:
            await self._over(replace(ended, because="it answers again"))

    async def _leave(self, session_id: SessionId) -> None:
        incident = self._incidents.of(session_id)
        left = await self._incidents.leave(session_id)
        if incident is None or left is None:
            return
        for kind in (NewsKind.HELD, NewsKind.GIVEN_UP):
            await self._alerts.resolve(f"{incident.id}/{session_id}/{kind}")
        if left.is_open:
            return
        if session_id in self._given_up:
            # Nobody calls that resolved: it was told that it is over for good.
            self._given_up.discard(session_id)
            await self._alerts.resolve(left.id)
        else:
            await self._over(left)

    def _origin(self, news: QueueNews) -> Origin:
        """Its own; many of one project at once have one cause, whatever it is. An episode keeps its cause."""
        known = self._incidents.of(news.session_id)
        if known is not None:
            return Origin(known.cause, known.scope)
        if news.together >= TOGETHER_MIN:
            return Origin(Cause.WORKER, news.project_key)
        return Origin(Cause.SESSION, news.session_id)
