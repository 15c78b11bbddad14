"""Stores the case of each session, from its first finding to its end.

A case is in memory and a note in the store; its incident, issue, checkpoint and alerts follow from it here.
`CaseNotifier` and `CaseCheckpoints` are the interfaces to alerts and checkpoints. The healer decides and acts.
"""

from typing import Final, Protocol

import msgspec
from msgspec.structs import replace

from wakeful.alerts.model import display_name
from wakeful.core.clock import Clock, Instant
from wakeful.core.decoding import json_decoder
from wakeful.core.ids import SessionId, agent_member_id
from wakeful.healing.case import REVIVAL_KIND, HealingCase, inherit_case
from wakeful.healing.issues import CaseIssues
from wakeful.healing.plan import ACTING_STEPS, HealingDecision, HealingStep
from wakeful.healing.rate_limit import OUTAGES, OutageProbe
from wakeful.healing.situation import SituationBuilder
from wakeful.incidents.critical_event import ActionTaken, CriticalEventKind, reason_of
from wakeful.incidents.model import DEATHS, NO_ACTION, Cause, Incident, MemberStatus, Origin
from wakeful.incidents.service import Incidents
from wakeful.judging.findings import FindingCode
from wakeful.judging.summary import quiet_seconds, still_running_text
from wakeful.sessions.session import TrackedSession
from wakeful.storage.base import Note, Store
from wakeful.storage.note_decoding import decode_note_values

KIND: Final = "trouble"
# The summary of a session without a finding, by whether it was idle when it ended.
LOST_TEXTS: Final = {
    True: "idle, and its host is gone",
    False: "ended again before its work was done",
}
_decode: Final = json_decoder(HealingCase)


class CaseNotifier(Protocol):
    async def log_event(
        self, kind: CriticalEventKind, action: ActionTaken, case: HealingCase, session: TrackedSession
    ) -> None:
        """Write a critical event."""

    async def notify(
        self, incident: Incident, case: HealingCase, session: TrackedSession, decision: HealingDecision
    ) -> float | None:
        """Raise an alert about the incident. Returns seconds if it is muted: try again after these."""

    async def notify_resolved(self, incident: Incident) -> None:
        """Resolve the alerts about the incident."""


class CaseCheckpoints(Protocol):
    """Checkpoints of sessions that must not go on without a person's decision."""

    async def open_checkpoint(self, session: TrackedSession, case: HealingCase) -> int:
        """Open its checkpoint, once; returns the number."""

    async def record_continue(self, number: int, by: str) -> None:
        """Record that `by` lets it go on. Raises AlreadyDecided if a person decided otherwise."""

    async def record_abort(self, number: int) -> None:
        """Close it without a decision: its session was stopped or is gone."""

    async def mark_done(self, number: int) -> None:
        """The decision is carried out, or stored."""


# The end of an agent is noticed at once, that of its tmux server at the next listing: every 10 s, later on a busy host.
SERVER_END_SECONDS: Final = 20.0


class HealingCases:
    def __init__(
        self,
        *,
        store: Store,
        clock: Clock,
        incidents: Incidents,
        issues: CaseIssues,
        notifier: CaseNotifier,
        checkpoints: CaseCheckpoints,
        situations: SituationBuilder,
        probe: OutageProbe,
    ) -> None:
        self._store = store
        self._clock = clock
        self._incidents = incidents
        self._issues = issues
        self._notifier = notifier
        self._checkpoints = checkpoints
        self._situations = situations
        self._probe = probe
        self._cases: dict[SessionId, HealingCase] = {}

    def __contains__(self, session_id: SessionId) -> bool:
        return session_id in self._cases

    def get(self, session_id: SessionId) -> HealingCase | None:
        return self._cases.get(session_id)

    def ids(self) -> list[SessionId]:
        return list(self._cases)

    async def load(self) -> None:
        """Load the cases of an earlier daemon, with their incidents."""
        await self._incidents.load()
        found = decode_note_values(await self._store.notes(KIND), _decode)
        self._cases = {each.session_id: each for each in found}

    async def open(self, session: TrackedSession, code: FindingCode | None) -> HealingCase:
        """Its case, new or open already."""
        known = self._cases.get(session.subject.id)
        if known is None:
            return await self.save(_new_case(session, code, self._clock.now().wall))
        if known.code is code and known.calm_since is None and known.unclear_since is None:
            return known
        if {known.code, code} <= DEATHS and known.calm_since is None:
            # The same death: its pane, which showed a shell, was closed since.
            return await self.save(replace(known, code=code, unclear_since=None))
        now = self._clock.now().wall
        case = replace(known, code=code, code_since=now, calm_since=None, unclear_since=None)
        if known.is_budget_spent and known.calm_since is None:
            # The same failure in another form: it was reported, and its outcome will be.
            return await self.save(case)
        return await self.save(replace(case, logged=False, told=False))

    async def save(self, case: HealingCase) -> HealingCase:
        if self._cases.get(case.session_id) != case:
            await self._store.save_note(Note(KIND, case.session_id, msgspec.json.encode(case)))
            self._cases[case.session_id] = case
        return case

    async def save_revived(self, revived: HealingCase) -> HealingCase:
        """Save a case after its resume. A conversation that replaced it gets its budget first."""
        if revived.heir is not None:
            await self.save(inherit_case(revived, revived.heir))
        return await self.save(revived)

    async def close(self, case: HealingCase) -> None:
        """Drop a case that is over. The store keeps its spent budget."""
        self._cases.pop(case.session_id, None)
        await self._store.drop_note(KIND, case.session_id)
        if case.revival_id is not None:
            await self._store.drop_note(REVIVAL_KIND, case.revival_id)

    async def dismiss(self, session_id: SessionId, because: str) -> None:
        """Close the case of a session that is stopped or gone, with its checkpoint."""
        case = self._cases.get(session_id)
        if case is None:
            return
        incident = self._incidents.of(session_id)
        if case.held and incident is not None:
            await self._incidents.update(incident.with_treatment(session_id, MemberStatus.HELD, case.did))
        await self.leave_incident(session_id, because)
        if case.held and case.checkpoint is not None:
            await self._checkpoints.record_abort(case.checkpoint)
        await self.close(case)

    async def give_up(self, session_id: SessionId, by: str) -> None:
        """Give a case up for a person."""
        case = self._cases.get(session_id)
        if case is None:
            return
        ended = replace(case, held=False, approved=False, given_up=True, did=f"gave up: aborted by {by}")
        incident = self._incidents.of(session_id)
        if incident is not None:
            await self._incidents.update(incident.with_treatment(session_id, MemberStatus.ENDED, ended.did))
        await self.save(ended)
        await self.leave_incident(session_id, f"aborted by {by}")

    async def hold(
        self, session: TrackedSession, case: HealingCase, decision: HealingDecision
    ) -> HealingCase:
        """Open its checkpoint, once. The case is reported again: an earlier report named no checkpoint."""
        if case.held:
            return case
        number = await self._checkpoints.open_checkpoint(session, case)
        did = f"{NO_ACTION}{decision.reason} (checkpoint {number})"
        held = replace(case, held=True, checkpoint=number, did=did, logged=False, told=False)
        # Saved before the report: a person may answer before that is done.
        return await self.save(replace(held, outcome_due_at=None))

    async def release(self, before: HealingCase, after: HealingCase, by: str) -> HealingCase:
        """Save `after`, not held. If `before` was held, its checkpoint records that `by` lets it go on."""
        checkpoint = before.checkpoint if before.held else None
        if checkpoint is not None:
            await self._checkpoints.record_continue(checkpoint, by)
        released = await self.save(replace(after, held=False))
        if checkpoint is not None:
            await self._checkpoints.mark_done(checkpoint)
        return released

    async def file_issue(self, session: TrackedSession, case: HealingCase) -> HealingCase:
        return await self.save(await self._issues.file(session, case))

    async def record_action(self, case: HealingCase, decision: HealingDecision) -> None:
        await self._issues.record_action(case, decision)

    async def join_incident(self, session: TrackedSession, case: HealingCase, did: str = "") -> HealingCase:
        """Join the incident of its cause. `did` is the incident's text until something is done."""
        origin, known = self._situations.origin(session, case.code), self._incidents.of(case.session_id)
        counted_late = known is not None and {known.cause, origin.cause} == {Cause.SESSION, Cause.MANY_DEATHS}
        # A server that ended long after the session is not the cause: a person closed the rest of its terminal.
        ended_later = origin.cause is Cause.TMUX_SERVER and (
            case.code in DEATHS and self._clock.now().wall - case.code_since > SERVER_END_SECONDS
        )
        if known is not None and (counted_late or ended_later or case.given_up):
            # The number of other deaths is known a moment later, and a session that was given up is reported: another
            # form of its failure is no reason for a second alert, or for saying that the problem is over.
            origin = Origin(known.cause, known.scope)
        summary = summary_text(session) or LOST_TEXTS[case.code is None]
        name = display_name(session.record) if session.record is not None else ""
        limit = session.activity.limit_until if origin.cause is Cause.USAGE_LIMIT else None
        until = limit.wall if limit is not None else None
        agent = agent_member_id(session.subject.agent) if session.subject.agent is not None else None
        died = case.code in DEATHS
        incident = await self._incidents.join(
            case.session_id, origin, summary, name, until=until, instead_of=agent, died=died
        )
        if known is not None and known.id != incident.id:
            await self._on_left(self._incidents.newest(known))
        if did and not incident.did:
            incident = await self._incidents.update(replace(incident, did=did))
        return await self.save(replace(case, incident=incident.id))

    async def leave_incident(self, session_id: SessionId, ended: str = "") -> None:
        """Leave its incident, and resolve that after its last session. `ended`: how it ended without a recovery."""
        incident = await self._incidents.leave(session_id, ended)
        if incident is not None:
            await self._on_left(incident)

    async def _on_left(self, incident: Incident) -> None:
        """A session left this incident. If it was the last one, the incident is over."""
        if not incident.is_open:
            await self._notifier.notify_resolved(incident)
            self._issues.on_resolved(incident)
            self._probe.on_resolved(Origin(incident.cause, incident.scope))

    def is_in_outage(self, session_id: SessionId) -> bool:
        incident = self._incidents.of(session_id)
        return incident is not None and incident.cause in OUTAGES

    async def report(
        self,
        session: TrackedSession,
        case: HealingCase,
        decision: HealingDecision,
        action: ActionTaken,
        kind: CriticalEventKind = CriticalEventKind.SESSION_UNHEALTHY,
    ) -> float | None:
        """Log each problem and each change of it once, and alert once, with the outcome of a resume.

        Returns seconds if the alert has to wait: check again after these.
        """
        muted_seconds, later_seconds = None, 0.0
        incident = await self._issues.record_action(_as_of_now(session, case), decision)
        if incident is not None and incident.cause is Cause.SESSION and decision.step in ACTING_STEPS:
            later_seconds = case.outcome_in_seconds(self._clock.now().wall)
        if not later_seconds and incident is not None and not case.told:
            muted_seconds = await self._notifier.notify(incident, case, session, decision)
        # After the alert: an issue tracker may take long.
        if not case.logged:
            if action is not ActionTaken.REVIVAL_ATTEMPTED:
                case = await self._issues.file(session, case)
            await self._notifier.log_event(kind, action, _as_of_now(session, case), session)
        if not (case.logged and case.told):
            is_told = case.told or (muted_seconds is None and not later_seconds)
            await self.save(replace(case, logged=True, told=is_told))
        return later_seconds or muted_seconds

    async def report_outcome(
        self, session: TrackedSession, case: HealingCase, did: str = ""
    ) -> tuple[HealingCase, float | None]:
        """Report a resume now: `did` is its outcome; without it, nothing was seen of the session for long.

        Returns the case, and the seconds until the next check if its alert has to wait.
        """
        if case.outcome_due_at is None:
            return case, None
        in_seconds = case.outcome_in_seconds(self._clock.now().wall)
        if not did and in_seconds > 0:
            return case, in_seconds
        did = f"{case.did}; {did}" if did else case.did
        case, again_seconds = await self.save(replace(case, did=did, outcome_due_at=None)), None
        if not case.told:
            decision = HealingDecision(HealingStep.RESUME, case.did)
            again_seconds = await self.report(session, case, decision, ActionTaken.REVIVAL_ATTEMPTED)
        return self._cases.get(case.session_id) or case, again_seconds

    async def report_recovery(self, session: TrackedSession, case: HealingCase) -> None:
        """Log that it works again, if it was logged that it did not."""
        if case.logged:
            await self._notifier.log_event(
                CriticalEventKind.SESSION_RECOVERED, ActionTaken.NONE, case, session
            )


def _new_case(session: TrackedSession, code: FindingCode | None, now: float) -> HealingCase:
    assert session.record is not None, "judged before it is treated"
    session_id = session.subject.id
    began = session.activity.turn_since or session.activity.last_at
    return HealingCase(
        session_id=session_id,
        work=f"{session_id}@{began.wall if began is not None else now:.3f}",
        project=session.record.project,
        code=code,
        opened_at=now,
        code_since=now,
    )


def _as_of_now(session: TrackedSession, case: HealingCase) -> HealingCase:
    """The case as it is shown now: the command of a held session may run on, and end before a person decides."""
    still = still_running_text(session.presence.orphans) if case.held else ""
    return replace(case, did=f"{case.did}; {still}") if still else case


def reason_for(session: TrackedSession, code: FindingCode | None, now: Instant) -> str:
    """The reason, as the log of critical events has it."""
    if code is None:
        return "lost"
    activity = session.activity
    seconds = activity.active_seconds if code is FindingCode.RUNAWAY else quiet_seconds(activity, now)
    return reason_of(code, seconds=seconds, errors=activity.errors_in_a_row)


def summary_text(session: TrackedSession) -> str:
    findings = session.verdict.findings if session.verdict is not None else ()
    return findings[0].summary if findings else ""
