"""Opens checkpoints for held sessions of a queue, and carries out the decisions on them.

The queue's own fence makes a second action impossible. A decision that meets another attempt than the one it
was asked about does nothing.
"""

from typing import Final, Protocol

from wakeful.checkpoints.model import Checkpoint, CheckpointKind, ChoiceName
from wakeful.checkpoints.service import Checkpoints, DecisionOutcome
from wakeful.checkpoints.session_draft import queue_draft
from wakeful.storage.base import ActionOutcome
from wakeful.watchdog.judging import JudgedAttempt
from wakeful.watchdog.rules import QueueDecision

CONTINUED_BY: Final = "the session itself"
NOTHING_LEFT: Final = DecisionOutcome(
    ActionOutcome.CONFIRMED, "its attempt has ended meanwhile: nothing was left to do"
)


class QueueControl(Protocol):
    async def release(
        self, session_id: str, *, work: str | None = None, happened: bool = False
    ) -> str | None:
        """Let a held attempt continue; returns the action, None if that attempt is gone."""

    async def give_up(self, session_id: str, by: str, *, work: str | None = None) -> str | None:
        """End a held attempt for good; returns the action, None if it is gone."""

    async def waits(self, session_id: str) -> str | None:
        """Why it waits, in words; empty if it does not wait, None if the queue runs no session of that name."""


class QueueCheckpoints:
    """Opens checkpoints for a watchdog, and closes those that need no decision any more."""

    def __init__(self, checkpoints: Checkpoints) -> None:
        self._checkpoints = checkpoints

    async def open_checkpoint(self, case: JudgedAttempt, choice: QueueDecision) -> int:
        """The number of the checkpoint about this attempt; a second call returns the same one."""
        session = case.watched.session
        draft = queue_draft(
            session_id=session.session_id,
            project=session.project_key,
            work=case.watched.work,
            reason=choice.reason,
            calls=case.interrupted_calls,
            done=tuple(case.log.remote),
        )
        return (await self._checkpoints.open(draft)).number

    async def find_open(self, session_id: str) -> Checkpoint | None:
        found = await self._checkpoints.list_checkpoints(everything=False)
        of_queue = (each for each in found if each.kind is CheckpointKind.QUEUE)
        return next((each for each in of_queue if each.subject == session_id), None)

    async def on_continued(self, session_id: str) -> None:
        """Close the checkpoint of a session that recovered or ended."""
        checkpoint = await self.find_open(session_id)
        if checkpoint is not None:
            await self._checkpoints.record(checkpoint.number, ChoiceName.CONTINUE, CONTINUED_BY)
            await self._checkpoints.mark_done(checkpoint.number)


class QueueDecisionExecutor:
    """Carries out a person's decision on a queue."""

    def __init__(self, queue: QueueControl) -> None:
        self._queue = queue

    async def carry_out(self, checkpoint: Checkpoint, choice: ChoiceName) -> DecisionOutcome:
        session_id, work = checkpoint.subject, checkpoint.trace_id
        if choice is ChoiceName.ABORT:
            by = checkpoint.decided_by or "a person"
            words = await self._queue.give_up(session_id, by, work=work)
            return NOTHING_LEFT if words is None else DecisionOutcome(ActionOutcome.CONFIRMED, words)
        happened = choice is ChoiceName.DONE
        words = await self._queue.release(session_id, work=work, happened=happened)
        # Whether a worker takes it is checked and reported later.
        return NOTHING_LEFT if words is None else DecisionOutcome(ActionOutcome.UNVERIFIED, words)


class QueueApproval:
    """Approves a session of the queue by answering its checkpoint, if it has one."""

    def __init__(
        self, queue: QueueControl, queue_checkpoints: QueueCheckpoints, checkpoints: Checkpoints
    ) -> None:
        self._queue = queue
        self._queue_checkpoints = queue_checkpoints
        self._checkpoints = checkpoints

    async def release(self, session_id: str, by: str) -> str | None:
        """Returns the action; None if there is no such session."""
        checkpoint = await self._queue_checkpoints.find_open(session_id)
        if checkpoint is None:
            return await self._queue.release(session_id)
        return (await self._checkpoints.decide(checkpoint.number, ChoiceName.CONTINUE, by)).words

    async def waits(self, session_id: str) -> str | None:
        """Why it waits, in words; empty if it does not wait, None if the queue runs no session of that name."""
        return await self._queue.waits(session_id)
