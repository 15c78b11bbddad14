"""Opens checkpoints for sessions that need a decision, and carries the decision out on the agent.

Both check the state before they act, so a crash between a decision and its effect never causes a second effect.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from wakeful.checkpoints.model import Checkpoint, CheckpointState, ChoiceName
from wakeful.checkpoints.service import AlreadyDecided, Checkpoints, DecisionOutcome
from wakeful.checkpoints.session_draft import session_draft
from wakeful.control.controller import SessionController
from wakeful.control.ownership import HostedByAgent, ManagedSessions
from wakeful.core.errors import SessionNotFound
from wakeful.core.ids import SessionId
from wakeful.core.process import Process
from wakeful.healing.case import EVENTS_RECALLED_MAX, HealingCase, completed_remote_calls
from wakeful.healing.healer import Healer
from wakeful.healing.issues import EventHistory
from wakeful.healing.situation import SituationBuilder
from wakeful.sessions.session import TrackedSession
from wakeful.storage.base import ActionOutcome

NOTHING_TO_DO: Final = DecisionOutcome(
    ActionOutcome.CONFIRMED, "it has continued or was forgotten meanwhile: nothing was left to do"
)
ALREADY_CONTINUED: Final = DecisionOutcome(ActionOutcome.CONFIRMED, "it was allowed to continue")

StopTools = Callable[[SessionId], Awaitable[Sequence[Process]]]
"""Ends the tools that outlived a session's agent; returns those that still run."""

log = logging.getLogger("wakeful.healing")


class SessionCheckpoints:
    """Implements healing.cases.CaseCheckpoints."""

    def __init__(self, checkpoints: Checkpoints, situations: SituationBuilder, past: EventHistory) -> None:
        self._checkpoints = checkpoints
        self._situations = situations
        self._history = past

    async def open_checkpoint(self, session: TrackedSession, case: HealingCase) -> int:
        events = self._history.read_last_events(case.session_id, EVENTS_RECALLED_MAX)
        draft = session_draft(
            case,
            self._situations.classify_interrupted(session),
            completed_remote_calls(events),
            session.presence.orphans,
        )
        return (await self._checkpoints.open(draft)).number

    async def record_continue(self, number: int, by: str) -> None:
        checkpoint = await self._checkpoints.get(number)
        is_done = checkpoint.state is CheckpointState.COUNTED_DONE
        await self._checkpoints.record(number, ChoiceName.DONE if is_done else ChoiceName.CONTINUE, by)

    async def record_abort(self, number: int) -> None:
        try:
            await self._checkpoints.record(number, ChoiceName.ABORT, "the person who stopped it")
        except AlreadyDecided:
            log.info("checkpoint %s was decided before its session was stopped", number)
        await self._checkpoints.mark_done(number)

    async def mark_done(self, number: int) -> None:
        await self._checkpoints.mark_done(number)


class SessionDecisionExecutor:
    def __init__(
        self,
        healer: Healer,
        controller: SessionController,
        managed_sessions: ManagedSessions,
        end_tools: StopTools,
        judge: Callable[[SessionId], None],
    ) -> None:
        self._judge = judge
        self._healer = healer
        self._controller = controller
        self._managed_sessions = managed_sessions
        self._stop_tools = end_tools

    async def carry_out(self, checkpoint: Checkpoint, choice: ChoiceName) -> DecisionOutcome:
        session_id = SessionId(checkpoint.subject)
        case = self._healer.case_of(session_id)
        # Decided, or interrupted by a crash, before the healer stored its number.
        not_stored = case is not None and case.checkpoint is None and case.work == checkpoint.trace_id
        if case is None or not (not_stored or case.checkpoint == checkpoint.number):
            return NOTHING_TO_DO
        by = checkpoint.decided_by or "a person"
        if choice not in {ChoiceName.CONTINUE, ChoiceName.DONE}:
            return await self._abort(session_id, by)
        if not case.held and not not_stored:
            # The healer has stored that it goes on, and does the rest.
            return ALREADY_CONTINUED
        record = await self._healer.revive(
            session_id, approved=True, by=by, happened=choice is ChoiceName.DONE
        )
        return DecisionOutcome(record.outcome, record.words)

    async def _abort(self, session_id: SessionId, by: str) -> DecisionOutcome:
        if self._managed_sessions.find(session_id) is None:
            outcome = await self._stop_agent_tools(session_id)
            await self._healer.give_up(session_id, by)
            # Judged only now, so that the incident closes as aborted.
            self._judge(session_id)
            return outcome
        try:
            record = await self._controller.stop(session_id)
        except SessionNotFound:
            return NOTHING_TO_DO
        await self._healer.give_up(session_id, by)
        return DecisionOutcome(record.outcome, f"aborted: {record.words}")

    async def _stop_agent_tools(self, session_id: SessionId) -> DecisionOutcome:
        """End the tools that an ended agent of the hub left running, as the checkpoint promised."""
        try:
            self._managed_sessions.require_no_agent(session_id)
        except HostedByAgent as hosted:
            running = await self._stop_tools(session_id)
            pids = ", ".join(str(each.pid) for each in running)
            if running:
                return DecisionOutcome(
                    ActionOutcome.INEFFECTIVE,
                    f"aborted, but these still run and may still take effect: {pids}",
                )
            text = f"aborted: none of its tools still runs; agent {hosted.facts['agent']} stays as it is"
            return DecisionOutcome(ActionOutcome.CONFIRMED, text)
        return NOTHING_TO_DO
