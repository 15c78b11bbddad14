"""Reports a queue and its sessions to the operator: by a callback, or as the daemon's incidents and alerts.

The watchdog makes sure that each problem is reported once before it calls this module. Sessions that the
healer treats are not changed here, and the healer does not treat sessions of a queue.
"""

from collections.abc import Callable, Collection
from typing import Final, Protocol

from msgspec import Struct
from msgspec.structs import replace

from wakeful.alerts.model import AlertBody, AlertKind, Topic, format_alert, resolved_text
from wakeful.alerts.notifier import Notifier
from wakeful.core.clock import iso
from wakeful.core.ids import SessionId
from wakeful.incidents.critical_event import CriticalEventKind
from wakeful.incidents.model import Cause, Incident, MemberStatus, Origin, cause_text
from wakeful.incidents.service import Incidents
from wakeful.watchdog.callbacks import Callback, CallbackRunner
from wakeful.watchdog.judging import JudgedAttempt

# So many sessions of one project with a problem in one cycle have one cause: most likely their worker.
SHARED_CAUSE_MIN: Final = 3
CHECKPOINT_COMMAND: Final = "wakeful checkpoint show"
EVENTS_COMMAND: Final = "wakeful events --since 1h"
OTHERWISE_STOPPED: Final = "it stays failed, and its message is not retried"
_END_TEXTS: Final = {
    CriticalEventKind.QUEUE_STALLED: (
        "its jobs waited and none ran",
        "its jobs run again, or none waits",
    ),
    CriticalEventKind.MESSAGE_UNROUTED: (
        "its messages waited and no worker took them",
        "no message waits now",
    ),
}


class QueueSessionAlert(Struct, frozen=True):
    """An alert about one session; `together` is how many of its project have a problem in the same cycle."""

    session_id: SessionId
    project_key: str
    status: MemberStatus
    body: AlertBody
    together: int = 1
    codes: tuple[str, ...] = ()
    issue_url: str | None = None


class QueueEpisode(Struct, frozen=True):
    """A problem of the queue of a whole project, and when it began."""

    kind: CriticalEventKind
    project_key: str
    since: float

    @property
    def key(self) -> str:
        return f"{self.kind}/{self.project_key}"

    def end_text(self) -> str:
        what, because = _END_TEXTS[self.kind]
        return resolved_text(f"{self.project_key}: {what}", iso(self.since), because=because)


class WatchdogNotifier(Protocol):
    async def notify_session(self, alert: QueueSessionAlert) -> None:
        """Report one session."""

    async def on_cycle(self, unresolved: Collection[str], healthy: Collection[str]) -> None:
        """After each cycle: `unresolved` sessions have a problem, are being revived, or are unknown.

        `healthy` ones are healthy or ended well. All others left the queue, and their end was not seen.
        """

    async def notify_queue(self, episode: QueueEpisode, body: AlertBody) -> str:
        """Report a queue that does not move; returns the result in words."""

    async def resolve_queues(self, lasting: Collection[str], ended: Collection[QueueEpisode]) -> None:
        """After each cycle: the keys of episodes that last, and the episodes that this watchdog ended."""

    async def on_unreachable(self, place: str, words: str) -> None:
        """The queue cannot be reached."""

    async def on_reachable(self, place: str) -> None:
        """The queue can be reached again."""


class CallbackNotifier:
    """Implements WatchdogNotifier by a callback that takes text, for a program without a daemon.

    Of many sessions of one project in one cycle, only the first is reported, with their number, and each held one.
    """

    def __init__(self, calls: CallbackRunner, alert: Callback | None) -> None:
        self._callback_runner = calls
        self._alert = alert
        self._reported_projects: set[str] = set()

    async def notify_session(self, alert: QueueSessionAlert) -> None:
        if alert.together >= SHARED_CAUSE_MIN and alert.status is not MemberStatus.HELD:
            if alert.project_key in self._reported_projects:
                return
            self._reported_projects.add(alert.project_key)
        await self._send_alert(alert.body, _manual_command(alert))

    async def on_cycle(self, unresolved: Collection[str], healthy: Collection[str]) -> None:
        """The cycle is over: the next one may report the same project again."""
        del unresolved, healthy
        self._reported_projects.clear()

    async def notify_queue(self, episode: QueueEpisode, body: AlertBody) -> str:
        del episode
        return await self._send_alert(body)

    async def resolve_queues(self, lasting: Collection[str], ended: Collection[QueueEpisode]) -> None:
        del lasting
        for each in ended:
            await self._callback_runner.call("alert", self._alert, each.end_text())

    async def on_unreachable(self, place: str, words: str) -> None:
        """Only logged: the program's alerts may need the same Redis."""

    async def on_reachable(self, place: str) -> None:
        """Only logged, for the same reason."""

    async def _send_alert(self, body: AlertBody, command: str = "") -> str:
        text = format_alert(replace(body, command=command))
        return (await self._callback_runner.call("alert", self._alert, text)).words


def _manual_command(alert: QueueSessionAlert) -> str:
    """The command that lets a held session continue: its checkpoint if it has one, else a call of the library."""
    if alert.status is not MemberStatus.HELD:
        return ""
    is_asked = alert.body.command.startswith(CHECKPOINT_COMMAND)
    return alert.body.command if is_asked else f"await attempt_revival({alert.session_id!r}, approved=True)"


def session_alert_body(
    case: JudgedAttempt, did: str, otherwise: str, *, place: str, command: str, together: int = 1
) -> AlertBody:
    session, findings = case.watched.session, case.verdict.findings
    what = "; ".join(finding.summary for finding in findings) or "a person asked for it"
    many = f"{together} sessions have a problem at once, this one: " if together >= SHARED_CAUSE_MIN else ""
    code = f" ({case.reasons})" if findings else ""
    chat = f", chat {case.watched.chat_id}" if case.watched.chat_id is not None else ""
    return AlertBody(
        what=f"{session.project_key}: {many}{what}{code}",
        where=f"session {session.session_id}{chat}, in {place}",
        since=findings[0].since.wall if findings else case.now.wall,
        did=did,
        otherwise=otherwise,
        command=command,
    )


_EPISODES: Final = "queue/"
LEFT_QUEUE: Final = "the queue no longer runs it; how it ended is unknown"
# A session that is held or was given up has an alert of its own.
_SEPARATE_FATES: Final = (MemberStatus.HELD, MemberStatus.GIVEN_UP)
# A queue's sessions are in no other incident; an engine's or a login's belong to others.
_CAUSES: Final = frozenset({Cause.SESSION, Cause.WORKER})


class QueueNotifier:
    """Implements WatchdogNotifier. `is_treated`: whether the healer treats a session."""

    def __init__(
        self, *, incidents: Incidents, notifier: Notifier, is_treated: Callable[[SessionId], bool]
    ) -> None:
        self._incidents = incidents
        self._notifier = notifier
        self._is_treated = is_treated

    async def notify_session(self, alert: QueueSessionAlert) -> None:
        session_id = alert.session_id
        joined = await self._incidents.join(session_id, self._origin(alert), alert.body.what)
        treated = joined.with_treatment(session_id, alert.status, alert.body.did)
        incident = await self._incidents.update(
            replace(treated, issue_url=treated.issue_url or alert.issue_url)
        )
        topic = Topic((incident.cause, *alert.codes), alert.project_key, session_id)
        shared = incident.cause is not Cause.SESSION
        if shared and alert.status is not MemberStatus.HELD:
            await self._notifier.raise_incident(incident, topic)
            return
        kind = AlertKind.NEEDS_YOU if alert.status is MemberStatus.HELD else AlertKind.TROUBLE
        is_separate = alert.status in _SEPARATE_FATES
        key = _separate_key(incident, session_id, alert.status) if is_separate else incident.id
        await self._notifier.raise_alert(key, alert.body, topic, kind=kind)

    async def on_cycle(self, unresolved: Collection[str], healthy: Collection[str]) -> None:
        for session_id in self._incidents.sessions():
            if session_id not in unresolved and not self._is_treated(session_id):
                await self._remove_session(session_id, "" if session_id in healthy else LEFT_QUEUE)

    async def notify_queue(self, episode: QueueEpisode, body: AlertBody) -> str:
        topic = Topic((episode.kind,), episode.project_key)
        is_raised = await self._notifier.raise_alert(f"{_EPISODES}{episode.key}", body, topic)
        return "alert sent" if is_raised else "no alert wanted"

    async def resolve_queues(self, lasting: Collection[str], ended: Collection[QueueEpisode]) -> None:
        """Resolve the open alerts of episodes that are over, also of those that another watchdog ended."""
        for pending in self._notifier.open_alerts(_EPISODES):
            key = pending.alert.episode.removeprefix(_EPISODES)
            if key not in lasting:
                kind, _, project = key.partition("/")
                since = next((each.since for each in ended if each.key == key), pending.owed_at)
                episode = QueueEpisode(CriticalEventKind(kind), project, since)
                await self._notifier.resolve(pending.alert.episode, episode.end_text())

    async def on_unreachable(self, place: str, words: str) -> None:
        incident = await self._incidents.begin(Origin(Cause.QUEUE, place), words)
        body = unreachable_alert_body(incident, words)
        await self._notifier.raise_alert(incident.id, body, Topic((incident.cause,)))

    async def on_reachable(self, place: str) -> None:
        ended = await self._incidents.end(Origin(Cause.QUEUE, place))
        if ended is not None and not ended.is_open:
            await self._notifier.resolve_incident(replace(ended, because="it answers again"))

    async def _remove_session(self, session_id: SessionId, ended: str) -> None:
        incident = self._incidents.of(session_id)
        if incident is None or incident.cause not in _CAUSES:
            return
        member = incident.member(session_id)
        given_up = member is not None and member.fate is MemberStatus.GIVEN_UP
        if member is not None and given_up:
            await self._incidents.update(
                incident.with_treatment(session_id, MemberStatus.ENDED, member.words)
            )
        # A session that was given up has its own alert.
        remaining = await self._incidents.leave(session_id, "" if given_up else ended)
        for status in _SEPARATE_FATES:
            await self._notifier.resolve(_separate_key(incident, session_id, status))
        if remaining is None or remaining.is_open:
            return
        if any(each.fate is not MemberStatus.ENDED for each in remaining.members):
            await self._notifier.resolve_incident(remaining)
        else:
            # No message that it is resolved: its alert said that the session ended for good.
            await self._notifier.resolve(remaining.id)

    def _origin(self, alert: QueueSessionAlert) -> Origin:
        """The session, or the worker for many of one project at once. A session in an incident keeps its origin."""
        known = self._incidents.of(alert.session_id)
        if known is not None:
            return Origin(known.cause, known.scope)
        if alert.together >= SHARED_CAUSE_MIN:
            return Origin(Cause.WORKER, alert.project_key)
        return Origin(Cause.SESSION, alert.session_id)


def unreachable_alert_body(incident: Incident, words: str) -> AlertBody:
    return AlertBody(
        what=cause_text(incident),
        where=words,
        since=incident.opened_at,
        did="keeps trying to reach it; nothing in this queue is checked or resumed until then",
        otherwise="stuck sessions in this queue stay as they are",
        command="wakeful status",
    )


def _separate_key(incident: Incident, session_id: SessionId, status: MemberStatus) -> str:
    return f"{incident.id}/{session_id}/{status}"
