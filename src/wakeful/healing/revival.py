"""Carries out one resume, from its budget to its outcome: spent, performed, verified and stored.

The budget is spent in the transaction that stores the `Revival`, so of several daemons one acts. A crash at
any point leaves a stored `Revival` that has begun; the next start inspects the state and continues from
there. It never acts twice.
"""

import logging
from collections import Counter
from typing import Final
from uuid import uuid4

import msgspec
from msgspec.structs import replace

from wakeful.control.briefs import PROMPT_FOLLOWS
from wakeful.control.controller import SessionController, brief_of
from wakeful.control.gate import ActionKind, ActionRecord, Precondition
from wakeful.control.ownership import ManagedSessions
from wakeful.core.clock import Clock, Instant
from wakeful.core.decoding import json_decoder
from wakeful.core.errors import WakefulError
from wakeful.core.fault_points import fault_point
from wakeful.core.ids import SessionId
from wakeful.healing.budget import RevivalBudget
from wakeful.healing.case import (
    CALLS_HAPPENED,
    EVENTS_RECALLED_MAX,
    REVIVAL_KIND,
    HealingCase,
    Revival,
    RevivalStage,
    completed_remote_calls,
    is_lost,
    reason_text,
    revival_context,
    steering_prompt,
)
from wakeful.healing.issues import EventHistory
from wakeful.healing.plan import (
    ENDED_TURN_CODES,
    OUTCOME_SECONDS_MAX,
    REVIVALS_MAX,
    HealingDecision,
    HealingStep,
)
from wakeful.healing.rate_limit import RevivalLimiter
from wakeful.healing.situation import AgentHosts, is_failure_told
from wakeful.incidents.model import DEATHS
from wakeful.judging.findings import FindingCode
from wakeful.judging.turn_state import TurnPhase
from wakeful.sessions.session import TrackedSession
from wakeful.storage.base import ActionOutcome, Note, Store
from wakeful.storage.note_decoding import decode_note_values

# A started agent is ready in its pane within this time, also on a busy host.
AGENT_READY_SECONDS_MAX: Final = 30.0
AGENT_POLL_SECONDS: Final = 0.1
# The pause between attempts to deliver the brief. Each one is stored.
AGENT_AGAIN_SECONDS: Final = 1.0
# A client writes a prompt into its log within 0.4 s; on two busy cores it took up to ten times that.
BRIEF_LOGGED_SECONDS: Final = 4.0
_decode: Final = json_decoder(Revival)
NEWER_PROMPT: Final = "it has a newer prompt"
REVIVED_BY_OTHER_DAEMON: Final = "another daemon with this store resumes it"

log = logging.getLogger("wakeful.healing")


class Reviver:
    def __init__(
        self,
        *,
        clock: Clock,
        store: Store,
        controller: SessionController,
        person_controller: SessionController,
        managed_sessions: ManagedSessions,
        limiter: RevivalLimiter,
        history: EventHistory,
    ) -> None:
        self._clock = clock
        self._store = store
        self._budget = RevivalBudget(store)
        self._controller = controller
        # For a person's commands: a pause does not stop this one.
        self._person_controller = person_controller
        self._managed_sessions = managed_sessions
        self.limiter = limiter
        self._history = history
        self._agent_hosts: list[AgentHosts] = []
        self._outcomes: dict[SessionId, ActionOutcome] = {}
        # Actions since the start, by step and outcome.
        self.outcome_counts: Counter[tuple[HealingStep, ActionOutcome]] = Counter()

    def add_agents(self, hosts: AgentHosts) -> None:
        self._agent_hosts.append(hosts)

    def last_outcome(self, session_id: SessionId) -> ActionOutcome:
        """The outcome of the last action of this daemon on a session."""
        return self._outcomes.get(session_id, ActionOutcome.UNVERIFIED)

    async def end_process(self, session_id: SessionId) -> ActionRecord:
        """End the process of a runaway. No person asked, so a pause prevents it."""
        return await self._controller.end_process(session_id)

    async def mark_failure_told(self, session_id: SessionId, unless: Precondition) -> str | None:
        """Note that its user reads that its turn failed; returns the reason of `unless` not to."""
        return await self._controller.mark_failure_told(session_id, unless)

    async def revive(
        self, session: TrackedSession, case: HealingCase, decision: HealingDecision, *, asked: bool = False
    ) -> HealingCase | None:
        """Carry out a step within the budget; returns the case with the result. `asked`: a person wants it.

        None: the problem passed, or a person released the session, while this waited for the limiter: nothing was done.
        """
        was_managed = self._managed_sessions.is_managed(case.session_id)
        await self.limiter.acquire()
        managed = self._managed_sessions.find(case.session_id)
        if _has_passed(session, case) or (was_managed and managed is None):
            return None
        now = self._clock.now().wall
        revival = Revival(
            id=uuid4().hex,
            session_id=case.session_id,
            work=case.work,
            step=decision.step,
            began_at=now,
            epoch=managed.epoch if managed is not None else 0,
        )
        if decision.spends and not await self._budget.spend(revival.work, _note(revival)):
            # Another daemon resumes it, or did, and reports it: the outcome is observed, not repeated.
            return replace(case, revivals=REVIVALS_MAX, revived_at=now, did=REVIVED_BY_OTHER_DAEMON)
        fault_point("heal.spent")
        return await self.carry_out(session, case, revival, spent=decision.spends, asked=asked)

    async def carry_out(
        self,
        session: TrackedSession,
        case: HealingCase,
        revival: Revival,
        *,
        spent: bool = True,
        asked: bool = False,
    ) -> HealingCase:
        """Perform a resume that has begun, and store its outcome."""
        try:
            record = await self._perform(
                self._person_controller if asked else self._controller, session, case, revival
            )
            outcome, words = record.outcome, record.words
            started = record.session_id
            is_other = started != case.session_id and self._managed_sessions.find(started) is not None
            revival = replace(revival, heir=started if is_other else None)
        except WakefulError as error:
            outcome, words = ActionOutcome.DECLINED, str(error)
        fault_point("heal.acted")
        self._outcomes[revival.session_id] = outcome
        self.outcome_counts[revival.step, outcome] += 1
        if spent:
            await self._conclude(revival, outcome, words)
        fault_point("heal.concluded")
        return self._with_result(case, revival, outcome, words, spent=spent)

    async def stored_revivals(self) -> list[Revival]:
        """All stored resumes, oldest first, for a restart to check."""
        found = decode_note_values(await self._store.notes(REVIVAL_KIND), _decode)
        return sorted(found, key=lambda each: each.began_at)

    async def finish(self, session: TrackedSession, case: HealingCase, revival: Revival) -> HealingCase:
        """Continue a resume that a crash interrupted: perform it, or conclude from what was seen."""
        if revival.stage is RevivalStage.DONE and case.revival_id == revival.id:
            # The case has this result, and newer facts.
            return case
        if revival.stage is RevivalStage.DONE:
            return self._with_result(case, revival, ActionOutcome(revival.outcome), revival.words, spent=True)
        managed = self._managed_sessions.find(revival.session_id)
        last_at = session.activity.last_at
        has_events_since = last_at is not None and last_at.wall >= revival.began_at
        is_living = bool(session.presence.living_processes)
        has_new_process = managed is not None and managed.epoch > revival.epoch and is_living
        if _was_cut_short(session, revival) and not has_new_process:
            # Its only event since is that this resume ended its turn; its process may have outlived that.
            has_events_since = False
        # A new conversation is found by the id of its resume, so a second start is safe.
        if revival.step is HealingStep.FRESH or (not has_events_since and not has_new_process):
            await self.limiter.acquire()
            return await self.carry_out(session, case, revival)
        outcome, words = (
            ActionOutcome.CONFIRMED,
            "Wakeful ended in the middle of it; the session has been active since",
        )
        if has_new_process and managed is not None and not self._controller.is_per_turn(managed):
            outcome, words = await self._brief_unless_begun(session, case, revival) or (outcome, words)
        await self._conclude(revival, outcome, words)
        self.outcome_counts[revival.step, outcome] += 1
        return self._with_result(case, revival, outcome, words, spent=True)

    async def _brief_unless_begun(
        self, session: TrackedSession, case: HealingCase, revival: Revival
    ) -> tuple[ActionOutcome, str] | None:
        """Send its brief to a client that was started, unless it has it: None if a turn has begun since, or it ended."""
        until = self._clock.now().awake + BRIEF_LOGGED_SECONDS
        while not _has_begun_turn(session, revival) and self._clock.now().awake < until:
            await self._clock.sleep(AGENT_POLL_SECONDS)
        if _has_begun_turn(session, revival) or not session.presence.living_processes:
            return None
        id_ = revival.session_id
        started = ActionRecord(
            revival.id, ActionKind.RESUME, id_, ActionOutcome.CONFIRMED, "its agent runs already"
        )
        told = await self._brief_agent(self._controller, session, started, self._context(session, case))
        return told.outcome, told.words

    async def _conclude(self, revival: Revival, outcome: ActionOutcome, words: str) -> None:
        if outcome is ActionOutcome.DECLINED:
            # Nothing was done.
            await self._budget.refund(revival.work, _note(revival))
        else:
            done = replace(revival, stage=RevivalStage.DONE, outcome=outcome.value, words=words)
            await self._store.save_note(_note(done))

    def _with_result(
        self, case: HealingCase, revival: Revival, outcome: ActionOutcome, words: str, *, spent: bool
    ) -> HealingCase:
        now = self._clock.now().wall
        case = replace(case, acted_at=now)
        if outcome is ActionOutcome.DECLINED:
            return replace(case, did=f"could not {_VERBS[revival.step]}: {words}", declined=True)
        case = replace(case, declined=False)
        did = f"{_ACTION_TEXTS[revival.step]}{_OUTCOME_TEXTS[outcome]} ({words})"
        if not spent and revival.step is HealingStep.STEER:
            limited = case.code is FindingCode.USAGE_LIMITED
            return replace(case, did=did, steered_at=now, continued_after_limit=limited)
        limited = case.continued_after_limit or case.code is FindingCode.USAGE_LIMITED
        # A restart that checks it again does not count it twice.
        revivals = case.revivals + (1 if spent and case.revival_id != revival.id else 0)
        return replace(
            case,
            did=did,
            revivals=revivals,
            revived_at=now,
            revival_began_at=revival.began_at,
            revival_seen=outcome is ActionOutcome.CONFIRMED,
            revival_id=revival.id if spent else case.revival_id,
            heir=revival.heir,
            # A conversation that was replaced has no further outcome.
            outcome_due_at=now + OUTCOME_SECONDS_MAX
            if spent and revival.step is not HealingStep.FRESH
            else None,
            continued_after_limit=limited,
        )

    async def _perform(
        self, controller: SessionController, session: TrackedSession, case: HealingCase, revival: Revival
    ) -> ActionRecord:
        session_id = case.session_id
        if self._managed_sessions.find(session_id) is None:
            starts = (each.resume_agent(session_id) for each in self._agent_hosts)
            if (starting := next((start for start in starts if start is not None), None)) is not None:
                # The context is built before the agent runs again.
                context = self._context(session, case)
                return await self._brief_agent(controller, session, await starting, context)
            await controller.adopt(session_id)
        match revival.step:
            case HealingStep.STEER:
                return await self._continue_turn(controller, session, case)
            case HealingStep.INTERRUPT:
                return await self._interrupt(controller, session, case)
            case HealingStep.FRESH:
                return await self._start_fresh(controller, session, case, revival.id)
            case _:
                return await self._resume(controller, session, case)

    async def _brief_agent(
        self, controller: SessionController, session: TrackedSession, started: ActionRecord, context: str
    ) -> ActionRecord:
        """Send a session its brief when its agent of the hub runs again and can be reached."""
        if started.outcome is not ActionOutcome.CONFIRMED:
            return started
        fault_point("heal.agent_started")
        session_id = session.subject.id
        until = self._clock.now().awake + AGENT_READY_SECONDS_MAX
        while not controller.reach(session_id).path_open and self._clock.now().awake < until:
            await self._clock.sleep(AGENT_POLL_SECONDS)
        prompt = brief_of(session, self._clock.now().wall, context)
        if prompt is None:
            return started
        sent = await controller.deliver(session_id, prompt)
        while sent.outcome is ActionOutcome.DECLINED and self._clock.now().awake < until:
            # Nothing was typed: a client that reports idle may not show its input line yet.
            await self._clock.sleep(AGENT_AGAIN_SECONDS)
            sent = await controller.deliver(session_id, prompt)
        if sent.outcome is ActionOutcome.INEFFECTIVE:
            # A client that has just started may lose a paste. Enter was not pressed, so a second one is safe: if the
            # first is there after all, it is a draft, and the prompt is refused.
            sent = await controller.deliver(session_id, prompt)
        outcome = sent.outcome if sent.outcome is ActionOutcome.CONFIRMED else ActionOutcome.UNVERIFIED
        return replace(started, outcome=outcome, words=f"{started.words}; its prompt: {sent.words}")

    async def _continue_turn(
        self, controller: SessionController, session: TrackedSession, case: HealingCase
    ) -> ActionRecord:
        """Send it a prompt about its last turn, unless it got a newer one while this waited for other actions."""
        unless = self._unless_newer_prompt(controller, session, case)
        return await controller.deliver(case.session_id, steering_prompt(case.code), unless=unless)

    def _unless_newer_prompt(
        self, controller: SessionController, session: TrackedSession, case: HealingCase
    ) -> Precondition:
        managed = self._managed_sessions.find(case.session_id)
        # Where each prompt starts a process, a newer one does not wait for the dead turn.
        ends_with_process = managed is not None and controller.is_per_turn(managed) and case.code in DEATHS

        def refusal_reason() -> str | None:
            if case.code not in ENDED_TURN_CODES and not ends_with_process:
                return None
            prompted_at = controller.last_prompt_at(case.session_id)
            return NEWER_PROMPT if _has_newer_prompt(session, case, prompted_at) else None

        return refusal_reason

    async def _interrupt(
        self, controller: SessionController, session: TrackedSession, case: HealingCase
    ) -> ActionRecord:
        """Interrupt its turn and send it the reason; if that fails, replace its process."""
        record = await controller.interrupt(case.session_id)
        if record.outcome is not ActionOutcome.CONFIRMED:
            return await self._resume(controller, session, case)
        return await controller.deliver(case.session_id, steering_prompt(case.code))

    async def _resume(
        self, controller: SessionController, session: TrackedSession, case: HealingCase
    ) -> ActionRecord:
        """Stop the old process and verify that; then a new one continues the conversation."""
        if session.presence.living_processes or session.presence.orphans:
            # Tools that outlived their agent are stopped, too: it will run them again.
            stopped = await controller.stop(case.session_id, final=False)
            if stopped.outcome is not ActionOutcome.CONFIRMED and session.presence.living_processes:
                return stopped
            running = controller.running_tools_text(case.session_id)
            if stopped.outcome is not ActionOutcome.CONFIRMED and running:
                # Retried later: after the tool has ended, its agent can run it again.
                return replace(stopped, outcome=ActionOutcome.DECLINED, words=running)
            fault_point("heal.stopped")
        context = self._context(session, case)
        unless = self._unless_newer_prompt(controller, session, case)
        resumed = await controller.resume(case.session_id, context=context, approved=True, unless=unless)
        running = controller.running_tools_text(case.session_id)
        return replace(resumed, words=f"{resumed.words}; {running}") if running else resumed

    async def _start_fresh(
        self, controller: SessionController, session: TrackedSession, case: HealingCase, key: str
    ) -> ActionRecord:
        if session.presence.living_processes:
            stopped = await controller.stop(case.session_id, final=False)
            if stopped.outcome is not ActionOutcome.CONFIRMED:
                return stopped
        context = self._context(session, case)
        if is_failure_told(self._managed_sessions.find(case.session_id), session, case):
            context = f"{context} {PROMPT_FOLLOWS}".strip()
        return await controller.start_replacement(case.session_id, context, key)

    def _context(self, session: TrackedSession, case: HealingCase) -> str:
        if case.code is None:
            return CALLS_HAPPENED if case.happened else ""
        events = self._history.read_last_events(case.session_id, EVENTS_RECALLED_MAX)
        reason, remote = reason_text(case, session.verdict), completed_remote_calls(events)
        return revival_context(reason, case.issue_url, remote, happened=case.happened)


_ACTION_TEXTS: Final = {
    HealingStep.STEER: "sent a prompt to continue",
    HealingStep.INTERRUPT: "interrupted its turn",
    HealingStep.RESUME: "resumed its conversation",
    HealingStep.FRESH: "started a new conversation",
}

_OUTCOME_TEXTS: Final = {
    ActionOutcome.CONFIRMED: "",
    ActionOutcome.UNVERIFIED: ": unconfirmed",
    ActionOutcome.INEFFECTIVE: ": no effect",
    ActionOutcome.DECLINED: ": refused",
}

_VERBS: Final = {
    HealingStep.STEER: "send a prompt to continue",
    HealingStep.INTERRUPT: "interrupt its turn",
    HealingStep.RESUME: "resume its conversation",
    HealingStep.FRESH: "start a new conversation",
}


def _has_begun_turn(session: TrackedSession, revival: Revival) -> bool:
    since = session.activity.turn_since
    return since is not None and since.wall >= revival.began_at


def _has_newer_prompt(session: TrackedSession, case: HealingCase, prompted_at: Instant | None) -> bool:
    """Whether a prompt came after the end of the turn that the case is about."""
    findings = session.verdict.findings if session.verdict is not None else ()
    ended_at = next((each.since for each in findings if each.code is case.code), None)
    if ended_at is None:
        # A lifted limit is no finding any more, and its turn still waits.
        return case.code is FindingCode.TURN_FAILED
    return any(
        at is not None and at.wall > ended_at.wall for at in (session.activity.turn_since, prompted_at)
    )


def _was_cut_short(session: TrackedSession, revival: Revival) -> bool:
    """Whether the last that its log says is that its turn was interrupted, since the resume began."""
    activity = session.activity
    since = activity.phase_since
    return activity.phase is TurnPhase.INTERRUPTED and since is not None and since.wall >= revival.began_at


def _note(revival: Revival) -> Note:
    return Note(REVIVAL_KIND, revival.id, msgspec.json.encode(revival))


def _has_passed(session: TrackedSession, case: HealingCase) -> bool:
    """Whether its finding is gone: a person, another program or the session itself resolved it."""
    findings = session.verdict.findings if session.verdict is not None else ()
    if case.code is None or (not findings and is_lost(case, session.activity, session.verdict)):
        return bool(session.presence.living_processes)
    return all(each.code is not case.code for each in findings)
