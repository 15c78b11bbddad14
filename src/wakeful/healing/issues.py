"""Files issues about problems of sessions: one for each incident, which also records the actions.

A session that joins an incident later gets the incident's issue. How an issue is filed is defined elsewhere.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final, Protocol

from msgspec.structs import replace

from wakeful.core.clock import Clock, iso
from wakeful.core.ids import SessionId
from wakeful.healing.case import (
    CALLS_FILED_MAX,
    EVENTS_RECALLED_MAX,
    HealingCase,
    action_text,
    member_status_of,
    reason_text,
)
from wakeful.healing.plan import HealingDecision
from wakeful.incidents.issue_tracker import IssueReport, IssueTracker
from wakeful.incidents.model import Incident
from wakeful.incidents.service import Incidents
from wakeful.judging.events import CallEnded, CallStarted, Event
from wakeful.judging.session_record import safe
from wakeful.sessions.session import TrackedSession

# An issue tracker that is down is asked again after this.
FILE_AGAIN_SECONDS: Final = 600.0

log = logging.getLogger("wakeful.healing")


class EventHistory(Protocol):
    def read_last_events(self, session_id: SessionId, limit: int) -> list[Event]:
        """Its newest events, oldest first."""


class CaseIssues:
    """Files one issue at a time for each incident."""

    def __init__(
        self, clock: Clock, incidents: Incidents, history: EventHistory, tracker: IssueTracker | None
    ) -> None:
        self._clock = clock
        self._incidents = incidents
        self._history = history
        self._tracker = tracker
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def file(self, session: TrackedSession, case: HealingCase) -> HealingCase:
        """The case with the issue of its incident, or its own; without one if none is wanted, or it was not filed."""
        incident = self._incidents.of(case.session_id)
        if incident is None:
            return await self._file(session, case)
        async with self._locks[incident.id]:
            known = self._incidents.of(case.session_id) or incident
            if known.issue_url is not None:
                return replace(case, issue_url=known.issue_url)
            case = await self._file(session, case)
            if case.issue_url is not None:
                newest = self._incidents.of(case.session_id) or known
                await self._incidents.update(replace(newest, issue_url=case.issue_url))
            return case

    async def record_action(self, case: HealingCase, decision: HealingDecision) -> Incident | None:
        """Store the action, or why there is none, in its incident, and return that; None if it is in none."""
        incident = self._incidents.of(case.session_id)
        if incident is None:
            return None
        status, words = member_status_of(case, decision.step), action_text(case, decision)
        treated = incident.with_treatment(case.session_id, status, words, revived_at=case.revival_began_at)
        return incident if treated == incident else await self._incidents.update(treated)

    def on_resolved(self, incident: Incident) -> None:
        """Drop the lock of an incident: no session joins it any more."""
        self._locks.pop(incident.id, None)

    async def _file(self, session: TrackedSession, case: HealingCase) -> HealingCase:
        now = self._clock.now().wall
        tried_lately = case.filed_at is not None and now - case.filed_at < FILE_AGAIN_SECONDS
        if self._tracker is None or case.issue_url is not None or case.code is None or tried_lately:
            return case
        filing = await self._tracker.file(self._report(session, case))
        if filing.url is None:
            log.warning("no issue for %s: %s", case.session_id, filing.words)
        return replace(case, issue_url=filing.url, filed_at=now)

    def _report(self, session: TrackedSession, case: HealingCase) -> IssueReport:
        started = session.activity.first_at
        now = self._clock.now()
        return IssueReport(
            project=case.project,
            session_id=case.session_id,
            reason=str(case.code),
            summary=reason_text(case, session.verdict),
            duration_seconds=now.wall - started.wall if started is not None else 0.0,
            calls=tuple(_newest_calls(self._history.read_last_events(case.session_id, EVENTS_RECALLED_MAX))),
        )


def _newest_calls(events: Sequence[Event]) -> Iterator[tuple[str, str, str, str]]:
    """The newest calls: time, tool, input and result."""
    ends = {each.call: each for each in events if isinstance(each, CallEnded)}
    started = [each for each in events if isinstance(each, CallStarted)]
    for call in started[-CALLS_FILED_MAX:]:
        end = ends.get(call.call)
        result = "open" if end is None else "error" if end.is_error else "ok"
        yield iso(call.at), call.tool, safe(call.input.decode(errors="replace")), result
