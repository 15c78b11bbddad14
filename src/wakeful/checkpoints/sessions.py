"""Opens checkpoints for sessions that need a decision, and carries the decision out on the agent.

Both check the state before they act, so a crash between a decision and its effect costs a moment and never a
second effect.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from wakeful.checkpoints.model import Checkpoint, CheckpointState, ChoiceName
from wakeful.checkpoints.service import AlreadyDecided, Checkpoints, Done
from wakeful.checkpoints.session_draft import session_draft
from wakeful.control.controller import Hands
from wakeful.control.ownership import Holdings, HostedByAgent
from wakeful.core.errors import SessionNotFound
from wakeful.core.ids import SessionId
from wakeful.core.process import Process
from wakeful.healing.healer import Healer
from wakeful.healing.revival import EVENTS_RECALLED_MAX, Past
from wakeful.healing.situation import Circumstances
from wakeful.healing.trouble import Trouble, completed_remote
from wakeful.sessions.session import Watched
from wakeful.storage.base import Outcome

NOTHING_LEFT: Final = Done(
    Outcome.RECOVERED, "it had gone on or was forgotten meanwhile: nothing was left to do"
)
LET_GO: Final = Done(Outcome.RECOVERED, "it was let go on")

EndTools = Callable[[SessionId], Awaitable[Sequence[Process]]]
"""Ends the tools that outlived a session's agent; gives those that still run."""

log = logging.getLogger("wakeful.healing")


class HeldSessions:
    """Implements the healer's Holding."""

    def __init__(self, checkpoints: Checkpoints, circumstances: Circumstances, past: Past) -> None:
        self._checkpoints = checkpoints
        self._around = circumstances
        self._past = past

    async def hold(self, watched: Watched, trouble: Trouble) -> int:
        events = self._past.recall_events(trouble.session_id, EVENTS_RECALLED_MAX)
        draft = session_draft(
            trouble, self._around.cut_off(watched), completed_remote(events), watched.presence.orphans
        )
        return (await self._checkpoints.open(draft)).number

    async def gone_on(self, number: int, by: str) -> None:
        checkpoint = await self._checkpoints.get(number)
        counted = checkpoint.state is CheckpointState.COUNTED_DONE
        await self._checkpoints.record(number, ChoiceName.DONE if counted else ChoiceName.CONTINUE, by)

    async def called_off(self, number: int) -> None:
        try:
            await self._checkpoints.record(number, ChoiceName.ABORT, "whoever stopped it")
        except AlreadyDecided:
            log.info("checkpoint %s was decided before its session was stopped", number)
        await self._checkpoints.settle(number)

    async def settled(self, number: int) -> None:
        await self._checkpoints.settle(number)


class SessionCarrier:
    """Does to an agent what a person decided."""

    def __init__(
        self,
        healer: Healer,
        hands: Hands,
        holdings: Holdings,
        end_tools: EndTools,
        judge: Callable[[SessionId], None],
    ) -> None:
        self._judge = judge
        self._healer = healer
        self._hands = hands
        self._holdings = holdings
        self._end_tools = end_tools

    async def carry_out(self, checkpoint: Checkpoint, choice: ChoiceName) -> Done:
        session_id = SessionId(checkpoint.subject)
        trouble = self._healer.trouble_of(session_id)
        # Answered, or cut off, before the healer had noted its number.
        unnoted = trouble is not None and trouble.checkpoint is None and trouble.work == checkpoint.trace_id
        if trouble is None or not (unnoted or trouble.checkpoint == checkpoint.number):
            return NOTHING_LEFT
        by = checkpoint.decided_by or "somebody"
        if choice not in {ChoiceName.CONTINUE, ChoiceName.DONE}:
            return await self._abort(session_id, by)
        if not trouble.held and not unnoted:
            # From there on the healer's own memory brings it to its end.
            return LET_GO
        happened = choice is ChoiceName.DONE
        deed = await self._healer.revive(session_id, approved=True, by=by, happened=happened)
        return Done(deed.outcome, deed.words)

    async def _abort(self, session_id: SessionId, by: str) -> Done:
        if self._holdings.find(session_id) is None:
            done = await self._end_beside_agent(session_id)
            await self._healer.give_up(session_id, by)
            # Only now, so that the incident closes as aborted: its end no longer needs a person.
            self._judge(session_id)
            return done
        try:
            deed = await self._hands.stop(session_id)
        except SessionNotFound:
            return NOTHING_LEFT
        await self._healer.give_up(session_id, by)
        return Done(deed.outcome, f"aborted: {deed.words}")

    async def _end_beside_agent(self, session_id: SessionId) -> Done:
        """An agent of the hub ended and stays as it is; what it left running was promised to end."""
        try:
            self._holdings.require_no_agent(session_id)
        except HostedByAgent as hosted:
            left = await self._end_tools(session_id)
            pids = ", ".join(str(each.pid) for each in left)
            if left:
                return Done(Outcome.INEFFECTIVE, f"aborted, but these still run and may yet happen: {pids}")
            words = (
                f"aborted: nothing that it left runs any more; agent {hosted.facts['agent']} stays as it is"
            )
            return Done(Outcome.RECOVERED, words)
        return NOTHING_LEFT
