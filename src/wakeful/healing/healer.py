"""The healer: asks the plan about sessions with problems, carries out each step, and watches for their end.

`cases.py` stores and reports a problem. Changes and deadlines wake the healer (`schedule.py`), so healthy
sessions cost nothing. Every step is stored before it is carried out.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from math import inf
from typing import Final

from msgspec.structs import replace

from wakeful.control.gate import ActionKind, ActionRecord
from wakeful.core.clock import Clock
from wakeful.core.errors import WakefulError, WorldError
from wakeful.core.fault_points import fault_point
from wakeful.core.ids import SessionId
from wakeful.healing.case import (
    WORKS_AGAIN,
    HealingCase,
    Revival,
    WorkStatus,
    is_answered,
    is_asked_anew,
    is_lost,
    work_status,
)
from wakeful.healing.case_ending import RECOVERED, ending_of
from wakeful.healing.cases import HealingCases, reason_for, summary_text
from wakeful.healing.plan import (
    ACTING_STEPS,
    FAILURE_TOLD,
    HealerObserves,
    HealingDecision,
    HealingRules,
    HealingStep,
    plan,
)
from wakeful.healing.rate_limit import OutageProbe
from wakeful.healing.revival import REVIVED_BY_OTHER_DAEMON, Reviver
from wakeful.healing.schedule import RETRY_SECONDS, TreatmentScheduler
from wakeful.healing.situation import SituationBuilder
from wakeful.incidents.critical_event import ActionTaken, CriticalEventKind
from wakeful.incidents.model import NO_ACTION
from wakeful.judging.evidence import stop_reason, why_final
from wakeful.judging.findings import FindingCode
from wakeful.sessions.registry import SessionRegistry
from wakeful.sessions.session import TrackedSession
from wakeful.storage.base import ActionOutcome

# A silent session is checked again: its log may be gone.
RECHECK_SECONDS: Final = 3600.0
# Containers show their sessions this long after a start at the latest; a session that is missing then is gone.
MISSING_SECONDS: Final = 60.0
SESSION_GONE: Final = "its session is gone, and so is its log"
RESUMES_SOON: Final = "it is about to resume its managed sessions, one after another"
PROBE_FIRST: Final = "one session is resumed first; the others follow once it gets an answer"
CONTINUED_BY: Final = "the session itself"
STOPPED_TEXT: Final = "{why}: `wakeful resume {name}` continues it"

log = logging.getLogger("wakeful.healing")


class ApprovalRequired(WorldError, code="held-for-person", http_status=409, exit_code=1):
    """{shown} was interrupted during {calls}; the call may have taken effect. Check (wakeful checkpoint list), then run: wakeful resume {shown} --yes"""


class Healer:
    def __init__(
        self,
        *,
        clock: Clock,
        registry: SessionRegistry,
        reviver: Reviver,
        cases: HealingCases,
        situations: SituationBuilder,
        probe: OutageProbe,
        rules: Callable[[], HealingRules],
    ) -> None:
        self._clock = clock
        self._registry = registry
        self._reviver = reviver
        self._cases = cases
        self._situations = situations
        self._outage_probe = probe
        self._rules = rules
        self._scheduler = TreatmentScheduler(clock)

    @property
    def outcome_counts(self) -> Counter[tuple[HealingStep, ActionOutcome]]:
        """The number of actions on sessions since the start, by step and outcome."""
        return self._reviver.outcome_counts

    def case_of(self, session_id: SessionId) -> HealingCase | None:
        return self._cases.get(session_id)

    def on_judged(self, session_id: SessionId) -> None:
        session = self._registry.sessions.get(session_id)
        if session is None and session_id in self._cases:
            self._scheduler.schedule(session_id)
        if session is None or session.verdict is None or session_id in self._situations.queue_sessions:
            return
        self._situations.count_death(session, self._clock.now())
        if session_id in self._cases or self._has_problem(session):
            self._scheduler.schedule(session_id)

    async def restore(self) -> None:
        """Continue where an earlier daemon stopped: its cases, its begun resumes, and sessions it did not treat."""
        await self._cases.load()
        for revival in await self._reviver.stored_revivals():
            # In tasks of their own, so that the listeners open meanwhile.
            self._scheduler.occupy(revival.session_id, asyncio.create_task(self._finish_revival(revival)))
        for session_id in list(self._registry.sessions):
            self.on_judged(session_id)
        for session_id in self._cases.ids():
            if session_id not in self._registry.sessions:
                self._scheduler.schedule(session_id, MISSING_SECONDS)

    async def _finish_revival(self, revival: Revival) -> None:
        """Finish a resume that was begun, and report it unless that was done."""
        try:
            await self._finish_stored_revival(revival)
        except WakefulError as error:
            log.warning("the outcome of resuming %s is not known: %s", revival.session_id, error)
        finally:
            self._scheduler.schedule(revival.session_id)

    async def _finish_stored_revival(self, revival: Revival) -> None:
        session = self._registry.sessions.get(revival.session_id)
        case = self._cases.get(revival.session_id)
        if session is None or session.record is None or case is None or case.work != revival.work:
            return
        revived = await self._save_revived(await self._reviver.finish(session, case, revival))
        if not case.logged:
            decision = HealingDecision(revival.step, revived.did, spends=True)
            await self._report(session, revived, decision, ActionTaken.REVIVAL_ATTEMPTED)
        if revived.heir is not None:
            await self._on_replaced(revived, revived.heir)

    async def revive(
        self, text: str, *, approved: bool, by: str = "a person", happened: bool = False
    ) -> ActionRecord:
        """Resume a session for a person, which answers its checkpoint. Earlier budgets do not apply.

        `happened`: the person checked that the interrupted calls have happened, and the agent's brief says so.
        Raises SessionNotFound, NotManaged, ApprovalRequired, HealerObserves.
        """
        session = self._find_managed(text)
        session_id = session.subject.id
        calls = self._situations.describe_remote_calls(session)
        if calls and not approved:
            raise ApprovalRequired(shown=session_id, calls="; ".join(calls))
        if self._rules().mode == "observe":
            # Before its checkpoint is answered: a command that is not allowed answers none.
            raise HealerObserves
        return await self._scheduler.run_alone(
            session_id, self._treat_for_person(session, by, happened=happened)
        )

    async def propose(self, text: str) -> ActionRecord:
        """Resume a session on a program's request: the plan decides, as about all automatic actions.

        No person asked, so a pause, the budget and the limiter apply. Raises SessionNotFound, NotManaged.
        """
        session = self._find_managed(text)
        return await self._scheduler.run_alone(session.subject.id, self._treat_confirmed(session))

    async def end_runaway(self, text: str) -> ActionRecord:
        """End the process of a session because the chat gateway found it, or the host, short of room; the plan decides.

        The session is resumed as after a crash. So the process is not ended if a resume would be refused: for a call
        with remote effects, a spent budget, a person's stop. Raises SessionNotFound, NotManaged.
        """
        session = self._find_managed(text)
        return await self._scheduler.run_alone(session.subject.id, self._end_runaway(session))

    async def leave_to_user(self, text: str) -> ActionRecord:
        """Leave a turn that failed to the user who asked for it: the chat gateway tells them so, and to write again.

        Declined if it was continued already, or waits for a person's decision. Raises SessionNotFound, NotManaged.
        """
        session = self._find_managed(text)
        return await self._scheduler.run_alone(session.subject.id, self._leave_to_user(session))

    def _find_managed(self, text: str) -> TrackedSession:
        session = self._registry.find(text)
        self._situations.require_managed(session.subject.id)
        return session

    async def _end_runaway(self, session: TrackedSession) -> ActionRecord:
        session_id, now = session.subject.id, self._clock.now()
        if session.verdict is None:
            return _declined_end(session_id, "it was not judged yet")
        case = self._cases.get(session_id) or HealingCase(
            session_id=session_id, work="", project="", code=None, opened_at=now.wall, code_since=now.wall
        )
        # The gateway checked before that its process takes too much for too long, or that the host is short of memory.
        situation = replace(
            self._situations.build(session, case, now),
            code=FindingCode.RUNAWAY,
            for_seconds=inf,
            since_progress_seconds=inf,
            breaker_seconds=self._reviver.limiter.breaker_seconds,
        )
        decision = plan(situation, case.history(now.wall), self._rules())
        if decision.step not in ACTING_STEPS:
            return _declined_end(session_id, decision.reason)
        return await self._reviver.end_process(session_id)

    async def _leave_to_user(self, session: TrackedSession) -> ActionRecord:
        session_id = session.subject.id

        def refusal_reason() -> str | None:
            case = self._cases.get(session_id)
            return None if case is None else _continued_reason(session, case)

        reason = await self._reviver.mark_failure_told(session_id, refusal_reason)
        outcome = ActionOutcome.CONFIRMED if reason is None else ActionOutcome.DECLINED
        self._scheduler.schedule(session_id)
        return ActionRecord(session_id, ActionKind.RESUME, session_id, outcome, reason or FAILURE_TOLD)

    async def _treat_confirmed(self, session: TrackedSession) -> ActionRecord:
        """Treat a session; if its finding is too new, once more when that has lasted."""
        decision = await self._treat_one(session.subject.id)
        if decision is not None and 0 < (decision.again_seconds or 0.0) <= self._rules().confirm_seconds:
            await self._clock.sleep(decision.again_seconds or 0.0)
            decision = await self._treat_one(session.subject.id)
        return self._action_record(session, decision)

    async def give_up(self, session_id: SessionId, by: str) -> None:
        await self._scheduler.wait_idle(session_id)
        await self._cases.give_up(session_id, by)

    async def _treat_for_person(self, session: TrackedSession, by: str, *, happened: bool) -> ActionRecord:
        session_id = session.subject.id
        known = self._cases.get(session_id)
        if known is None and session.record is not None and self._has_problem(session):
            # An approval may come before the healer has checked the session at all.
            known = await self._cases.open(session, self._code_of(session))
        if known is not None:
            work = f"{session_id}@{self._clock.now().wall:.3f}"
            approved = replace(
                known,
                work=work,
                approved=True,
                happened=happened,
                given_up=False,
                revivals=0,
                revived_at=None,
            )
            await self._cases.release(known, approved, by)
        return self._action_record(session, await self._treat_one(session_id, asked=True))

    def _action_record(self, session: TrackedSession, decision: HealingDecision | None) -> ActionRecord:
        """The result of a treatment, for the caller that requested it."""
        session_id = session.subject.id
        case = self._cases.get(session_id)
        outcome = ActionOutcome.DECLINED
        if decision is None or case is None:
            runtime = session.presence
            why = why_final(runtime.heir, by_gateway=runtime.by_gateway)
            stopped = STOPPED_TEXT.format(why=why, name=session.shown_name)
            words = stopped if runtime.stopped else "nothing is wrong with it"
        elif decision.step not in ACTING_STEPS:
            words = decision.reason
        else:
            outcome, words = self._reviver.last_outcome(session_id), case.did
        return ActionRecord(session_id, ActionKind.RESUME, session_id, outcome, words)

    def recheck_all(self) -> None:
        """Treat every open case again, after a change that concerns them all, such as a pause."""
        for session_id in self._cases.ids():
            self._scheduler.schedule(session_id)

    async def run(self) -> None:
        """Treat the sessions that are due, until cancelled."""
        await self._scheduler.run(self._treat_one)

    async def _treat_one(self, session_id: SessionId, *, asked: bool = False) -> HealingDecision | None:
        """The decision; None if nothing is wrong."""
        if session_id in self._situations.restoring_sessions:
            self._scheduler.schedule(session_id, RETRY_SECONDS)
            return None
        session = await self._judged_session(session_id)
        if session is None:
            return None
        if not self._has_problem(session):
            await self._check_recovery(session)
            return None
        known = self._cases.get(session_id)
        if known is not None and is_asked_anew(known, session.activity):
            # A person asked for something else: that is another task, with a budget of its own.
            await self._cases.close(await self._cases.release(known, known, CONTINUED_BY))
        code = self._code_of(session)
        case = await self._cases.open(session, code)
        if not case.told:
            await self._situations.refresh_ownership(session_id)
        now = self._clock.now()
        decision = self._decide(session, case, asked=asked)
        if decision.step is not HealingStep.WAIT or decision.tells:
            if not case.logged:
                summary = summary_text(session)
                case = replace(case, reason=reason_for(session, code, now), summary=summary)
            case = await self._cases.join_incident(session, case)
            await self._carry_out(session, case, decision, asked=asked)
        elif decision.again_seconds is not None and self._situations.is_shared(session, code):
            # The alert about the cause covers this session, too. If its problem passes, it leaves the incident.
            await self._cases.join_incident(session, case, RESUMES_SOON)
        if self._situations.is_cause_over(session, code, now):
            await self._cases.leave_incident(session_id)
        again_seconds = RECHECK_SECONDS if decision.again_seconds is None else decision.again_seconds
        self._scheduler.schedule(session_id, again_seconds)
        return decision

    def _decide(self, session: TrackedSession, case: HealingCase, *, asked: bool) -> HealingDecision:
        """The plan's decision. Pause, breaker and probe stop automatic actions, not those that a person asks for."""
        now, rules = self._clock.now(), self._rules()
        situation, history = self._situations.build(session, case, now), case.history(now.wall)
        if asked:
            return plan(situation, history, replace(rules, paused_by=None))
        situation = replace(situation, breaker_seconds=self._reviver.limiter.breaker_seconds)
        decision = plan(situation, history, rules)
        return (self._wait_for_probe(session, case.code) if decision.spends else None) or decision

    async def _judged_session(self, session_id: SessionId) -> TrackedSession | None:
        """The session, if it exists and was judged. `on_judged` is called later if it was not."""
        if session_id in self._registry.old_logs and session_id in self._cases:
            # The registry folds it for its age, but its case is open.
            self._registry.unfold(session_id, True)
        session = self._registry.sessions.get(session_id)
        if session is None:
            await self._cases.dismiss(session_id, SESSION_GONE)
        return session if session is not None and session.verdict and session.record else None

    def _wait_for_probe(self, session: TrackedSession, code: FindingCode | None) -> HealingDecision | None:
        """In an outage one session goes first: the only resume of the others would be wasted."""
        wait_seconds = self._outage_probe.wait_seconds(
            session.subject.id, self._situations.origin(session, code)
        )
        return HealingDecision(HealingStep.NOTIFY, PROBE_FIRST, wait_seconds) if wait_seconds > 0 else None

    def _has_problem(self, session: TrackedSession) -> bool:
        return self._code_of(session) is not None or self._situations.loss_origin(session) is not None

    def _code_of(self, session: TrackedSession) -> FindingCode | None:
        """The code of its problem. An agent that ended between its resume and the end of its task has no finding."""
        if session.presence.other_machine is not None:
            # Its own machine knows whether it has a problem.
            return None
        if session.verdict is not None and session.verdict.findings:
            return session.verdict.findings[0].code
        case = self._cases.get(session.subject.id)
        if case is None or session.presence.stopped:
            return None
        lost = is_lost(case, session.activity, session.verdict)
        return FindingCode.SESSION_DEAD if lost else None

    async def _carry_out(
        self, session: TrackedSession, case: HealingCase, decision: HealingDecision, *, asked: bool
    ) -> None:
        match decision.step:
            case HealingStep.NOTIFY | HealingStep.WAIT:
                if decision.reason == FAILURE_TOLD:
                    case = await self._cases.save(replace(case, did=f"{NO_ACTION}{FAILURE_TOLD}"))
                await self._report(session, case, decision, ActionTaken.NONE)
            case HealingStep.HOLD:
                held = await self._cases.hold(session, case, decision)
                await self._report(session, held, decision, ActionTaken.HELD_FOR_APPROVAL)
            case HealingStep.GIVE_UP:
                await self._give_up(session, case, decision)
            case _:
                await self._revive(session, case, decision, asked=asked)

    async def _revive(
        self, session: TrackedSession, case: HealingCase, decision: HealingDecision, *, asked: bool
    ) -> None:
        if case.held:
            case = await self._cases.release(case, case, "what was taught since")
        if decision.spends:
            case = await self._cases.file_issue(session, case)
            fault_point("heal.filed")
        revived = await self._reviver.revive(session, case, decision, asked=asked)
        if revived is None:
            self._outage_probe.on_not_revived(case.session_id)
        else:
            await self._save_revived(revived)
            fault_point("heal.kept")
        if revived is not None and revived.did != REVIVED_BY_OTHER_DAEMON:
            await self._conclude(session, case, revived, decision, asked=asked)
        self._scheduler.schedule(case.session_id, RETRY_SECONDS)

    async def _save_revived(self, revived: HealingCase) -> HealingCase:
        saved = await self._cases.save_revived(revived)
        if revived.heir is not None:
            self._scheduler.schedule(revived.heir)
        return saved

    async def _conclude(
        self,
        session: TrackedSession,
        before: HealingCase,
        case: HealingCase,
        decision: HealingDecision,
        *,
        asked: bool,
    ) -> None:
        """Report the action or its failure, once."""
        await self._cases.record_action(case, decision)
        # The action is new even if its problem was reported. A person who asked for it needs no second alert, and waits
        # for the answer now.
        unreported = replace(case, logged=False, told=asked and before.told)
        if asked:
            unreported = replace(unreported, outcome_due_at=None)
        if case.declined:
            self._outage_probe.on_not_revived(case.session_id)
            await self._report(session, case if before.declined else unreported, decision, ActionTaken.NONE)
            return
        if decision.spends:
            self._reviver.limiter.record_result(gave_up=False)
        if decision.spends or before.code is None:
            await self._report(session, unreported, decision, ActionTaken.REVIVAL_ATTEMPTED)
        if case.heir is not None and case.revival_seen:
            await self._on_replaced(case, case.heir)

    async def _on_replaced(self, case: HealingCase, heir: SessionId) -> None:
        """Close the case of a session that another conversation replaced: it ended without a recovery."""
        await self._cases.leave_incident(case.session_id, stop_reason(heir))
        await self._cases.close(case)

    async def _give_up(self, session: TrackedSession, case: HealingCase, decision: HealingDecision) -> None:
        self._reviver.limiter.record_result(gave_up=True)
        self._outage_probe.on_given_up(case.session_id, self._situations.origin(session, case.code))
        before = f"{case.did}; then " if case.did else ""
        did = f"{before}gave up: {decision.reason}"
        ended = replace(case, given_up=True, did=did, logged=False, told=False, outcome_due_at=None)
        await self._report(session, ended, decision, ActionTaken.NONE, CriticalEventKind.REVIVAL_FAILED)

    async def _report(
        self,
        session: TrackedSession,
        case: HealingCase,
        decision: HealingDecision,
        action: ActionTaken,
        kind: CriticalEventKind = CriticalEventKind.SESSION_UNHEALTHY,
    ) -> None:
        again_seconds = await self._cases.report(session, case, decision, action, kind)
        if again_seconds is not None:
            self._scheduler.schedule(case.session_id, again_seconds)

    async def _report_outcome(self, session: TrackedSession, case: HealingCase, did: str = "") -> HealingCase:
        reported, again_seconds = await self._cases.report_outcome(session, case, did)
        if again_seconds is not None:
            self._scheduler.schedule(case.session_id, again_seconds)
        return reported

    async def _check_recovery(self, session: TrackedSession) -> None:
        """Check a session whose finding is gone. Its problem ends when the turn has ended well."""
        case = self._cases.get(session.subject.id)
        if case is None:
            return
        if session.presence.stopped:
            await self._cases.dismiss(
                case.session_id, stop_reason(session.presence.heir, by_gateway=session.presence.by_gateway)
            )
            return
        assert session.verdict is not None, "judged before it is treated"
        status = work_status(case, session.activity, session.verdict)
        if case.is_budget_spent and status is WorkStatus.CUT_SHORT:
            await self._cases.dismiss(case.session_id, "a person interrupted it")
            return
        if status is WorkStatus.UNCLEAR:
            unclear_since = case.unclear_since or self._clock.now().wall
            unclear = replace(case, unclear_since=unclear_since, revived_at=None)
            await self._report_outcome(session, await self._cases.save(unclear))
            return
        if case.calm_since is None:
            in_outage = self._cases.is_in_outage(session.subject.id)
            if in_outage and session.activity.in_turn and not is_answered(session.activity):
                # In an outage a new turn without a reply proves nothing yet.
                return
            if not await self._is_recovered(session, case):
                return
            case = await self._report_outcome(session, case, WORKS_AGAIN)
            await self._cases.report_recovery(session, case)
            await self._cases.leave_incident(case.session_id)
            # An approval was for the interrupted calls of that time.
            now = self._clock.now().wall
            released = replace(case, calm_since=now, revived_at=None, approved=False, happened=False)
            case = await self._cases.release(case, released, CONTINUED_BY)
        if status is not WorkStatus.RUNNING:
            await self._cases.close(case)

    async def _is_recovered(self, session: TrackedSession, case: HealingCase) -> bool:
        """Whether it recovered. If it only ended, it leaves its incident with the reason.

        A session that is held, or whose problem a dialog hides, keeps its case.
        """
        assert session.verdict is not None, "judged before it is treated"
        now = self._clock.now()
        ending = ending_of(case, session.verdict, session.activity, session.presence, now)
        if ending is None:
            return False
        if ending == RECOVERED:
            return True
        if ending.in_seconds > 0:
            self._scheduler.schedule(case.session_id, ending.in_seconds)
        elif not case.held:
            case = await self._report_outcome(session, case, ending.words)
            await self._cases.leave_incident(case.session_id, ending.words)
            if session.activity.in_turn:
                # If the problem comes back after this report, it is reported again.
                await self._cases.save(replace(case, told=False))
            else:
                await self._cases.close(case)
        return False


def _continued_reason(session: TrackedSession, case: HealingCase) -> str | None:
    """Why a failed turn is not its user's alone; None: Wakeful did not act on it, or it failed again since."""
    if case.held:
        return "it waits for a person's decision"
    if case.acted_at is None or case.declined or case.given_up or is_asked_anew(case, session.activity):
        return None
    findings = session.verdict.findings if session.verdict is not None else ()
    is_new = any(each.since.wall > case.acted_at for each in findings)
    return None if is_new else case.did


def _declined_end(session_id: SessionId, reason: str) -> ActionRecord:
    return ActionRecord(session_id, ActionKind.STOP, session_id, ActionOutcome.DECLINED, reason)
