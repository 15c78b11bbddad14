"""Reports problems of sessions by critical events and alerts.

A muted problem is logged at once; its alert follows after the mute if the problem lasts.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from wakeful.alerts.model import AlertKind, digest_entry_of
from wakeful.alerts.mute_pause import MutePause
from wakeful.alerts.notifier import Notifier, checkpoint_key, given_up_key
from wakeful.alerts.outbox import MUTED_SECONDS
from wakeful.core.clock import Clock
from wakeful.healing.case import HealingCase, case_alert_text
from wakeful.healing.plan import HealingDecision, HealingStep
from wakeful.incidents.critical_event import (
    ActionTaken,
    CriticalEvent,
    CriticalEventKind,
    critical_event,
    stamp,
)
from wakeful.incidents.model import Cause, Incident
from wakeful.judging.findings import MEANINGS, Notice
from wakeful.judging.summary import still_running_text
from wakeful.sessions.session import TrackedSession


class HealingNotifier:
    def __init__(
        self,
        *,
        clock: Clock,
        notifier: Notifier,
        mute_pause: MutePause,
        write: Callable[[CriticalEvent], Awaitable[None]],
        mode: str,
    ) -> None:
        self._clock = clock
        self._notifier = notifier
        self._mute_pause = mute_pause
        self._write = write
        self._mode = mode

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
            _details(case, session),
            at_wall=self._clock.now().wall,
        )
        await self._write(event)

    async def notify(
        self, incident: Incident, case: HealingCase, session: TrackedSession, decision: HealingDecision
    ) -> float | None:
        record = session.record
        assert record is not None, "judged before it is treated"
        is_question = case.code is not None and MEANINGS[case.code, record.state].notice is Notice.NEEDS_YOU
        if is_question and incident.cause is Cause.SESSION:
            # The attention monitor alerts about it, with its own delay.
            return None
        codes = {str(incident.cause), *((str(case.code),) if case.code is not None else ())}
        if self._mute_pause.is_muted(record, codes, self._clock.now().wall):
            return MUTED_SECONDS
        if incident.cause is not Cause.SESSION:
            await self._notifier.raise_incident(incident)
            return None
        if decision.step is HealingStep.HOLD:
            kind, key = AlertKind.NEEDS_YOU, checkpoint_key(incident)
        else:
            # A given-up case needs a person too, but does not wait for one.
            kind, key = AlertKind.TROUBLE, given_up_key(incident) if case.given_up else incident.id
        paused = self._mute_pause.current_pause
        paused_by = paused.by if paused is not None else None
        text = case_alert_text(
            case,
            record,
            decision,
            mode=self._mode,
            paused_by=paused_by,
            still_running=still_running_text(session.presence.orphans),
        )
        digest = digest_entry_of(record, case.code or incident.cause)
        await self._notifier.raise_alert(key, text, None, kind=kind, digest=digest)
        return None

    async def notify_resolved(self, incident: Incident) -> None:
        await self._notifier.resolve_incident(incident)


def _details(case: HealingCase, session: TrackedSession) -> Mapping[str, Any]:
    last = session.activity.call_at
    return {
        "last_tool_call": stamp(last.wall) if last is not None else None,
        "tool_count": session.activity.calls_total,
        "did": case.did,
        "incident": case.incident,
    }
