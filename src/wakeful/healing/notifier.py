"""Reports problems of sessions: critical events, alerts, and one issue for each incident.

Sessions with a shared cause are gathered for a moment, so that six deaths are one message that says what
became of each. A muted problem is logged at once; its alert follows after the mute if the problem lasts. A
session that joins an incident later gets the incident's issue. How an issue is filed is defined elsewhere.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, Final, Protocol

from msgspec.structs import replace

from wakeful.alerts import model as words
from wakeful.alerts.model import Alert, AlertKind, DigestEntry, Topic
from wakeful.alerts.mute_pause import MutePause
from wakeful.alerts.outbox import AlertOutbox
from wakeful.core.clock import Clock, iso
from wakeful.core.errors import WakefulError
from wakeful.healing.case import HealingCase, action_text, case_alert_text, member_status_of
from wakeful.healing.plan import HealingDecision, HealingStep
from wakeful.incidents.critical_event import (
    ActionTaken,
    CriticalEvent,
    CriticalEventKind,
    critical_event,
    stamp,
)
from wakeful.incidents.model import Cause, Incident, MemberStatus, actions_text, summary_of
from wakeful.incidents.service import REOPEN_SECONDS, Incidents
from wakeful.judging.findings import MEANINGS, Notice
from wakeful.judging.session_record import SessionRecord
from wakeful.sessions.session import TrackedSession

# Deaths with one cause are seen and treated within this time of each other.
GATHER_SECONDS: Final = 5.0
# Whoever still waits for their turn by then is said to.
GATHER_SECONDS_MAX: Final = 60.0
# Whether a mute has ended is asked this often.
MUTED_SECONDS: Final = 60.0

log = logging.getLogger("wakeful.healing")


class HealingNotifier:
    """Implements the healer's Telling."""

    def __init__(
        self,
        *,
        clock: Clock,
        incidents: Incidents,
        outbox: AlertOutbox,
        mute_pause: MutePause,
        write: Callable[[CriticalEvent], Awaitable[None]],
        mode: str,
    ) -> None:
        self._clock = clock
        self._incidents = incidents
        self._alerts = outbox
        self._mute_pause = mute_pause
        self._write = write
        self._mode = mode
        self._gather_tasks: dict[str, asyncio.Task[None]] = {}
        self._end_tasks: dict[str, asyncio.Task[None]] = {}

    async def restore(self) -> None:
        """Go on with what an earlier daemon had begun to tell: call it once incidents and alerts are taken up."""
        told = {each.alert.episode.partition("/")[0] for each in self._alerts.open_episodes("")}
        for incident in await self._incidents.list_incidents(include_resolved=True):
            if incident.is_due:
                self._start_task(self._gather_tasks, incident, self._gather(incident))
            elif not incident.is_open and incident.id in told:
                await self.notify_resolved(incident)

    async def log_event(
        self, kind: CriticalEventKind, action: ActionTaken, case: HealingCase, session: TrackedSession
    ) -> None:
        event = critical_event(
            kind,
            case.session_id,
            case.project,
            case.reason,
            action,
            case.issue_url,
            self._details(case, session),
            at_wall=self._clock.now().wall,
        )
        await self._write(event)

    async def notify(
        self, incident: Incident, case: HealingCase, record: SessionRecord, decision: HealingDecision
    ) -> float | None:
        asked = case.code is not None and MEANINGS[case.code, record.state].notice is Notice.NEEDS_YOU
        if asked and incident.cause is Cause.SESSION:
            # Told as a question, with its own delay.
            return None
        codes = {str(incident.cause), *((str(case.code),) if case.code is not None else ())}
        if self._mute_pause.is_muted(record, codes, self._clock.now().wall):
            return MUTED_SECONDS
        if incident.cause is Cause.SESSION:
            kind, episode = _alert_key(incident, case, decision.step)
            text = case_alert_text(case, record, decision, mode=self._mode, paused_by=self._paused_by)
            gist = words.digest_entry_of(record, case.code or incident.cause)
            await self._alerts.enqueue(Alert(kind, episode, text, gist=gist))
        else:
            await self.notify_soon(incident)
        return None

    async def notify_soon(self, incident: Incident, topic: Topic | None = None) -> None:
        """Have it told once everybody in it had their turn, unless that is under way. `topic`: what may mute it yet."""
        if incident.id not in self._gather_tasks:
            due = replace(self._incidents.newest(incident), is_due=True)
            self._start_task(self._gather_tasks, due, self._gather(due, topic))
            await self._incidents.update(due)

    async def notify_resolved(self, incident: Incident) -> None:
        self._start_task(self._end_tasks, incident, self._notify_end(incident))

    def _start_task(
        self, tasks: dict[str, asyncio.Task[None]], incident: Incident, work: Coroutine[Any, Any, None]
    ) -> None:
        if (earlier := tasks.pop(incident.id, None)) is not None:
            earlier.cancel()
        task = tasks[incident.id] = asyncio.create_task(self._run_guarded(incident, work))
        task.add_done_callback(lambda done: tasks.get(incident.id) is done and tasks.pop(incident.id))

    async def _run_guarded(self, incident: Incident, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except WakefulError as error:
            log.warning("nobody could be told of incident %s: %s", incident.id, error)

    async def _notify_end(self, incident: Incident) -> None:
        """What comes back within this time is the same incident, so only then it is over."""
        assert incident.resolved_at is not None, "only what is over is told to be"
        rest_seconds = incident.resolved_at + REOPEN_SECONDS - self._clock.now().wall
        await self._sleep(min(max(rest_seconds, 0.0), REOPEN_SECONDS))
        if self._incidents.is_open(incident):
            return
        text, heard = self._ending_text(incident), False
        for episode in (incident.id, _given_up_episode(incident), _checkpoint_episode(incident)):
            # Whoever heard of it more than once hears of its end once.
            heard = await self._alerts.resolve(episode, None if heard else text) or heard

    def _ending_text(self, incident: Incident) -> str:
        since = iso(incident.opened_at)
        did = actions_text(incident)
        ended = incident.members[0].ended if len(incident.members) == 1 else ""
        because, well = incident.because or ended, incident.is_well
        return words.resolved_text(summary_of(incident), since, did=did, because=because, well=well)

    async def _gather(self, incident: Incident, topic: Topic | None = None) -> None:
        """Until everybody who is in it had their turn and nothing has changed for a while."""
        until = self._clock.now().awake + GATHER_SECONDS_MAX
        before: Incident | None = None
        newest = incident
        while (newest != before or _awaits_turn(newest)) and self._clock.now().awake < until:
            await self._sleep(GATHER_SECONDS)
            newest, before = self._incidents.newest(incident), newest
        text = words.incident_text(newest)
        gist = DigestEntry(summary_of(newest), "", newest.cause)
        await self._alerts.enqueue(Alert(AlertKind.TROUBLE, newest.id, text, topic=topic, gist=gist))
        await self._incidents.update(replace(self._incidents.newest(incident), is_due=False))

    async def _sleep(self, seconds: float) -> None:
        await self._clock.sleep(seconds)

    @property
    def _paused_by(self) -> str | None:
        paused = self._mute_pause.current_pause
        return paused.by if paused is not None else None

    def _details(self, case: HealingCase, session: TrackedSession) -> Mapping[str, Any]:
        activity = session.activity
        last = activity.call_at
        return {
            "last_tool_call": stamp(last.wall) if last is not None else None,
            "tool_count": activity.calls_total,
            "did": case.did,
            "incident": case.incident,
        }


def _awaits_turn(incident: Incident) -> bool:
    return any(each.is_in and each.fate is MemberStatus.OPEN for each in incident.members)


def _alert_key(incident: Incident, case: HealingCase, step: HealingStep) -> tuple[AlertKind, str]:
    """What waits for a decision needs a person; so does what is given up, but nothing waits for it."""
    if step is HealingStep.HOLD:
        return AlertKind.NEEDS_YOU, _checkpoint_episode(incident)
    return AlertKind.TROUBLE, _given_up_episode(incident) if case.given_up else incident.id


def _checkpoint_episode(incident: Incident) -> str:
    """Told apart from the trouble itself, which may have been told before it was held."""
    return f"{incident.id}/held"


def _given_up_episode(incident: Incident) -> str:
    """A second word about the same trouble: nobody tries any more."""
    return f"{incident.id}/given-up"


class IssueFiler(Protocol):
    """Has an issue about one trouble."""

    async def file(self, session: TrackedSession, case: HealingCase) -> HealingCase:
        """The trouble with its issue, where there could be one."""


class IncidentIssues:
    """Files within incidents. Sessions of one incident take turns; those of others do not wait for them."""

    def __init__(self, incidents: Incidents, filing: IssueFiler) -> None:
        self._incidents = incidents
        self._filer = filing
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def file(self, session: TrackedSession, case: HealingCase) -> HealingCase:
        """The trouble with the issue of its incident."""
        incident = self._incidents.of(case.session_id)
        if incident is None:
            return await self._filer.file(session, case)
        async with self._locks[incident.id]:
            known = self._incidents.of(case.session_id) or incident
            if known.issue_url is not None:
                return replace(case, issue_url=known.issue_url)
            filed = await self._filer.file(session, case)
            if filed.issue_url is not None:
                newest = self._incidents.of(case.session_id) or known
                await self._incidents.update(replace(newest, issue_url=filed.issue_url))
            return filed

    async def record_action(self, case: HealingCase, decision: HealingDecision) -> Incident | None:
        """Its incident with what was done about it, or why nothing is, as of now; None if it is in none."""
        incident = self._incidents.of(case.session_id)
        if incident is None:
            return None
        status, words = member_status_of(case, decision.step), action_text(case, decision)
        treated = incident.with_treatment(case.session_id, status, words, revived_at=case.revival_began_at)
        return incident if treated == incident else await self._incidents.update(treated)

    def on_resolved(self, incident: Incident) -> None:
        """Nobody joins it any more."""
        self._locks.pop(incident.id, None)
