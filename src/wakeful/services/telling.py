"""What programs and people hear of a trouble: a line in the log of critical events, and an alert for each incident.

Trouble with a shared cause is gathered for a moment, so that six deaths are one message. Muted things are logged, not
told.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from wakeful.domain import alerts as words
from wakeful.domain.alerts import Alert, AlertKind
from wakeful.domain.critical import ActionTaken, CriticalEvent, Happening, critical_event
from wakeful.domain.errors import WakefulError
from wakeful.domain.findings import MEANINGS, Notice
from wakeful.domain.incident import SENTENCES, Cause, Incident, sentence_of
from wakeful.domain.moment import iso
from wakeful.domain.plan import Decision, Step
from wakeful.domain.record import FindingRecord, SessionRecord
from wakeful.domain.trouble import Trouble
from wakeful.ports.clock import Clock
from wakeful.services.alerts import AlertDesk
from wakeful.services.calm import Calm
from wakeful.services.incidents import Incidents
from wakeful.services.roster import Roster
from wakeful.services.watched import Watched

# Deaths with one cause are seen within this time of each other.
GATHER_SECONDS: Final = 2.0
# What was over at once is told all the same: first that it happened, then that it is over.
ENDING_SECONDS: Final = 5.0

log = logging.getLogger("wakeful.healing")


class Voice:
    """Implements the healer's Telling."""

    def __init__(
        self,
        *,
        clock: Clock,
        roster: Roster,
        incidents: Incidents,
        alerts: AlertDesk,
        calm: Calm,
        write: Callable[[CriticalEvent], Awaitable[None]],
        mode: str,
    ) -> None:
        self._clock = clock
        self._roster = roster
        self._incidents = incidents
        self._alerts = alerts
        self._calm = calm
        self._write = write
        self._mode = mode
        self._gathering: dict[str, asyncio.Task[None]] = {}
        self._ending: set[asyncio.Task[None]] = set()
        # Incidents being gathered in which somebody waits for a person.
        self._held: set[str] = set()

    async def logged(
        self, happening: Happening, action: ActionTaken, trouble: Trouble, watched: Watched
    ) -> None:
        event = critical_event(
            happening,
            trouble.session_id,
            trouble.project,
            trouble.reason,
            action,
            trouble.issue_url,
            self._details(trouble, watched),
            at_wall=self._clock.now().wall,
        )
        await self._write(event)

    async def told(
        self, incident: Incident, trouble: Trouble, record: SessionRecord, decision: Decision
    ) -> None:
        asked = trouble.code is not None and MEANINGS[trouble.code, record.state].notice is Notice.NEEDS_YOU
        if asked and incident.cause is Cause.SESSION:
            # Told as a question, with its own delay.
            return
        if self._calm.is_muted(record, str(trouble.code or incident.cause), self._clock.now().wall):
            return
        if incident.cause is Cause.SESSION:
            kind, episode = _told_as(incident, decision.step)
            await self._alerts.owe(Alert(kind, episode, self._text(trouble, record, decision)))
            return
        if decision.step is Step.HOLD:
            self._held.add(incident.id)
        if incident.id not in self._gathering:
            task = asyncio.create_task(self._gather(incident, decision))
            self._gathering[incident.id] = task
            task.add_done_callback(lambda _done: self._gathering.pop(incident.id, None))

    async def resolved(self, incident: Incident) -> None:
        what = SENTENCES[incident.cause].format(scope=incident.scope)
        if incident.cause is Cause.SESSION:
            what = f"{incident.scope}: {incident.summary}"
        text = words.resolved(what, iso(incident.opened_at), how=incident.did)
        task = asyncio.create_task(self._end(incident, text))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def _end(self, incident: Incident, text: str) -> None:
        await self._clock.sleep_until(self._clock.now().awake + ENDING_SECONDS)
        if self._incidents.is_open(incident):
            return
        try:
            heard = await self._alerts.resolve(incident.id, text)
            await self._alerts.resolve(_given_up(incident))
            await self._alerts.resolve(_held(incident), None if heard else text)
        except WakefulError as error:
            log.warning("nobody could be told that incident %s is over: %s", incident.id, error)

    async def _gather(self, incident: Incident, decision: Decision) -> None:
        await self._clock.sleep_until(self._clock.now().awake + GATHER_SECONDS)
        newest = next((each for each in await self._incidents.listed() if each.id == incident.id), incident)
        known = (self._roster.watched.get(each) for each in newest.sessions)
        records = [each.record for each in known if each is not None and each.record is not None]
        text = words.incident(
            sentence_of(newest),
            records,
            since=iso(newest.opened_at),
            count=newest.affected,
            did=newest.did,
            otherwise=_OTHERWISE[decision.step],
            paused_by=self._paused_by,
            command="wakeful checkpoint list" if newest.id in self._held else "wakeful incidents",
        )
        self._held.discard(newest.id)
        try:
            await self._alerts.owe(Alert(AlertKind.TROUBLE, newest.id, text))
        except WakefulError as error:
            log.warning("nobody could be told of incident %s: %s", newest.id, error)

    def _text(self, trouble: Trouble, record: SessionRecord, decision: Decision) -> str:
        held = decision.step is Step.HOLD and trouble.checkpoint is not None
        return words.trouble(
            record,
            _finding(trouble, record),
            did=trouble.did,
            otherwise=_OTHERWISE[decision.step],
            mode=self._mode,
            paused_by=self._paused_by,
            command=f"wakeful checkpoint show {trouble.checkpoint}" if held else None,
        )

    @property
    def _paused_by(self) -> str | None:
        paused = self._calm.paused
        return paused.by if paused is not None else None

    def _details(self, trouble: Trouble, watched: Watched) -> Mapping[str, Any]:
        activity = watched.activity
        last = activity.progress_at
        return {
            "last_tool_call": iso(last.wall) if last is not None else None,
            "tool_count": activity.calls_total,
            "did": trouble.did,
            "incident": trouble.incident,
        }


def _finding(trouble: Trouble, record: SessionRecord) -> FindingRecord | None:
    """What was found; its record may have forgotten it since, because it was healed."""
    found = next((each for each in record.findings if each.code is trouble.code), None)
    if found is not None or trouble.code is None:
        return found
    severity = MEANINGS[trouble.code, record.state].severity
    return FindingRecord(trouble.code, severity, iso(trouble.code_since), trouble.summary, (), ())


def _told_as(incident: Incident, step: Step) -> tuple[AlertKind, str]:
    """What waits for a decision needs a person; so does what is given up, but nothing waits for it."""
    if step is Step.HOLD:
        return AlertKind.NEEDS_YOU, _held(incident)
    return AlertKind.TROUBLE, _given_up(incident) if step is Step.GIVE_UP else incident.id


def _held(incident: Incident) -> str:
    """Told apart from the trouble itself, which may have been told before it was held."""
    return f"{incident.id}/held"


def _given_up(incident: Incident) -> str:
    """A second word about the same trouble: nobody tries any more."""
    return f"{incident.id}/given-up"


_OTHERWISE: Final[Mapping[Step, str]] = {
    Step.WAIT: "it is looked at again by itself",
    Step.NOTIFY: "it stays as it is",
    Step.STEER: "it goes on, or its turn is cut short next",
    Step.INTERRUPT: "it goes on; a second failure is given up",
    Step.RESUME: "it goes on; a second failure is given up",
    Step.FRESH: "it goes on; a second failure is given up",
    Step.HOLD: "it waits until somebody decides",
    Step.GIVE_UP: "it stays stopped",
}
