"""Verifies resumed tasks of a queue: the next job runs, ended, failed, or never starts.

Each result is reported once. This module begins no revival. If the watchdog that began one ended in between,
this module completes the events and actions that are missing.
"""

import logging
from collections.abc import Awaitable, Callable, Collection
from functools import partial
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from wakeful.alerts.model import AlertBody
from wakeful.core.errors import WorldError
from wakeful.core.ids import SessionId
from wakeful.healing.plan import HealingRules
from wakeful.incidents.critical_event import ActionTaken, CriticalEventKind
from wakeful.incidents.model import MemberStatus
from wakeful.watchdog.callbacks import action_of
from wakeful.watchdog.healing import CLAIM_SECONDS
from wakeful.watchdog.judging import JudgedAttempt
from wakeful.watchdog.notifications import (
    EVENTS_COMMAND,
    OTHERWISE_STOPPED,
    QueueSessionAlert,
)
from wakeful.watchdog.parts import WatchdogParts
from wakeful.watchdog.queue import NextJobState, QueueRevival, QueueRevivalStage, claimed
from wakeful.watchdog.rules import FAILURE_MESSAGE

# A worker that was notified of a job takes it within this time, or the notification was lost.
REVIVED_SECONDS_MAX: Final = 600.0
RevivalHandler = Callable[[QueueRevival], Awaitable[None]]
UNWRITTEN_OUTCOME: Final = "unverified: it was done but could not be recorded then; not yet seen running"

log = logging.getLogger("wakeful.watchdog")


class VerifiedRevivals(Struct, frozen=True):
    # The next job was not seen to work yet.
    reviving: set[SessionId]
    # The next job ended well, or the session went on without it.
    recovered: set[SessionId]


class RevivalVerifier:
    """Checks every open revival, once a cycle."""

    def __init__(self, parts: WatchdogParts, rules: Callable[[], HealingRules]) -> None:
        self._jobs = parts.jobs
        self._judge = parts.judge
        self._clock = parts.clock
        self._chat_sender = parts.chats
        self._recorder = parts.recorder
        self._notifier = parts.notifier
        self._rules = rules

    async def verify(self, judged: Collection[JudgedAttempt]) -> VerifiedRevivals:
        cases = {each.watched.session.session_id: each for each in judged}
        recovered = set()
        for revival in await self._jobs.open_revivals():
            state = await self._jobs.next_job_state(revival)
            handler = await self._next_handler(revival, state, cases.get(revival.session_id))
            if handler is not None or revival.unwritten:
                await self._run_claimed(revival, handler)
            if handler is not None and state in (NextJobState.COMPLETED, NextJobState.PENDING):
                recovered.add(revival.session_id)
        still_open = await self._jobs.open_revivals()
        reviving = {
            revival.session_id for revival in still_open if revival.stage is not QueueRevivalStage.RUNNING
        }
        return VerifiedRevivals(reviving, recovered - {revival.session_id for revival in still_open})

    async def _next_handler(
        self, revival: QueueRevival, state: NextJobState, case: JudgedAttempt | None
    ) -> RevivalHandler | None:
        """The handler for the state of its next job; None while there is nothing to do."""
        age_seconds = self._clock.now().wall - revival.began_at
        if state is NextJobState.FAILED:
            return partial(self._fail, outcome="ineffective: its next job failed")
        if revival.stage is QueueRevivalStage.RUNNING:
            return self._close if state in (NextJobState.COMPLETED, NextJobState.MISSING) else None
        if state is NextJobState.RUNNING:
            # A running job is not yet a working session, and earlier entries may be the old attempt's.
            if revival.running_at is None:
                return self._on_running
            has_worked = case is not None and case.has_worked_since(revival.running_at)
            return self._on_working if has_worked else None
        if state is NextJobState.COMPLETED:
            return self._on_completed
        if state is NextJobState.PENDING:
            return self._withdraw if await self._is_continuing(revival) else None
        if revival.stage is QueueRevivalStage.FENCED:
            return self._enqueue if age_seconds > CLAIM_SECONDS and self._rules().may_act else None
        return self._on_missing if age_seconds > REVIVED_SECONDS_MAX else None

    async def _is_continuing(self, revival: QueueRevival) -> bool:
        """Whether the abandoned attempt still works while its next job waits."""
        if revival.job_id is None or revival.stage is not QueueRevivalStage.ENQUEUED or revival.stopped:
            return False
        last_activity = await self._jobs.last_activity(revival)
        last_logged_at = await self._judge.last_logged_at(revival.session_id)
        if all(at is None or at <= revival.began_at for at in (last_activity, last_logged_at)):
            return False
        # Checked last: the activity may come from another run that has ended.
        return not await self._jobs.has_other_runs(revival)

    async def _run_claimed(self, revival: QueueRevival, handler: RevivalHandler | None) -> None:
        """Run the handler, unless another watchdog or a healing has the revival, or changed it since the check."""
        async with claimed(self._jobs, revival.work, CLAIM_SECONDS) as has_claim:
            if has_claim and await self._jobs.is_open(revival):
                revival = await self._write_if_missing(revival)
                if handler is not None:
                    await handler(revival)

    async def _write_if_missing(self, revival: QueueRevival) -> QueueRevival:
        """Write its events, if the watchdog that revived it could not."""
        if not revival.unwritten:
            return revival
        action = ActionTaken.REVIVAL_ATTEMPTED
        if not await self._write_events(
            revival, CriticalEventKind.SESSION_UNHEALTHY, UNWRITTEN_OUTCOME, action
        ):
            return revival
        written = replace(revival, unwritten=False)
        await self._jobs.advance(revival, written)
        return written

    async def _on_running(self, revival: QueueRevival) -> None:
        await self._jobs.advance(revival, replace(revival, running_at=self._clock.now().wall))

    async def _on_working(self, revival: QueueRevival) -> None:
        await self._write_events(
            revival, CriticalEventKind.SESSION_RECOVERED, "recovered: its next job is running", owed=True
        )
        await self._jobs.advance(revival, replace(revival, stage=QueueRevivalStage.RUNNING))

    async def _withdraw(self, revival: QueueRevival) -> None:
        words = "recovered: it continued by itself before a worker took its next job, which was withdrawn"
        events = self._recorder.encode_revival_events(CriticalEventKind.SESSION_RECOVERED, revival, words)
        if await self._jobs.withdraw(revival, events):
            log.info("watchdog: %s: %s", revival.session_id, words)
            await self._recorder.retry_pending()

    async def _on_completed(self, revival: QueueRevival) -> None:
        words = "recovered: its next job is completed"
        await self._write_events(revival, CriticalEventKind.SESSION_RECOVERED, words, owed=True)
        await self._close(revival)

    async def _close(self, revival: QueueRevival) -> None:
        await self._jobs.close_revival(revival.work)

    async def _enqueue(self, revival: QueueRevival) -> None:
        """Make the next job from the failed one: the watchdog that began this was killed before."""
        await self._jobs.enqueue(revival, replace(revival, stage=QueueRevivalStage.ENQUEUED))

    async def _on_missing(self, revival: QueueRevival) -> None:
        if revival.stage is QueueRevivalStage.ENQUEUED and revival.job_id is None:
            # Another program's queue took it: its further state is unknown.
            await self._close(revival)
            log.warning("watchdog: %s: whether it was resumed stays unconfirmed", revival.session_id)
            return
        await self._fail(revival, "ineffective: no next job was seen")

    async def _fail(self, revival: QueueRevival, outcome: str) -> None:
        """Report the failure, then close the revival: after a kill in between, the next watchdog continues."""
        sent = await self._chat_sender.send_once(f"failure:{revival.work}", revival.chat_id, FAILURE_MESSAGE)
        outcome = f"{outcome}; the chat: {sent}"
        if await self._write_events(revival, CriticalEventKind.REVIVAL_FAILED, outcome, action_of(sent)):
            await self._jobs.close_revival(revival.work)
            await self._notify_operator(revival, outcome)

    async def _write_events(
        self,
        revival: QueueRevival,
        kind: CriticalEventKind,
        outcome: str,
        action: ActionTaken = ActionTaken.NONE,
        *,
        owed: bool = False,
    ) -> bool:
        """One line for each finding. False: the log did not take them all, and they are not pending either."""
        log.info("watchdog: %s: %s", revival.session_id, outcome)
        about, details = (revival.session_id, revival.project_key), {"outcome": outcome}
        return all(
            [
                await self._recorder.record_event(
                    kind, *about, reason, action, revival.issue_url, details, owed=owed
                )
                for reason in revival.reasons
            ]
        )

    async def _notify_operator(self, revival: QueueRevival, outcome: str) -> None:
        body = AlertBody(
            what=f"{revival.project_key}: resuming it had no effect ({revival.reason})",
            where=f"session {revival.session_id}, in {self._jobs.address}",
            since=revival.began_at,
            did=outcome,
            otherwise=OTHERWISE_STOPPED,
            command=EVENTS_COMMAND,
        )
        try:
            await self._notifier.notify_session(
                QueueSessionAlert(revival.session_id, revival.project_key, MemberStatus.GIVEN_UP, body)
            )
        except WorldError as problem:
            log.warning("watchdog: alert about %s not sent: %s", revival.session_id, problem)
