"""Verifies resumed tasks of a queue: the next job runs, ended, failed, or never starts.

Each result is reported once. This module resumes no session itself. If the watchdog that resumed a task ended
in between, this module completes the events and actions that are missing.
"""

import logging
from collections.abc import Awaitable, Callable, Collection
from typing import Final
from uuid import uuid4

from msgspec import Struct
from msgspec.structs import replace

from wakeful.alerts.model import News
from wakeful.core.clock import Clock
from wakeful.core.errors import WorldError
from wakeful.core.ids import SessionId
from wakeful.healing.plan import Rules
from wakeful.incidents.critical_event import ActionTaken, Happening
from wakeful.incidents.model import Fate
from wakeful.watchdog.callbacks import Chats, Ledger, action_of
from wakeful.watchdog.healing import CLAIM_SECONDS
from wakeful.watchdog.judging import Case, Cases
from wakeful.watchdog.notifications import EVENTS, STOPPED, Operator, QueueNews
from wakeful.watchdog.queue import Jobs, Revival, Stage, Turn
from wakeful.watchdog.rules import FAILURE_MESSAGE

# A worker that was told of a job takes it within this time, or it was never told.
REVIVED_SECONDS_MAX: Final = 600.0
Settle = Callable[[Revival], Awaitable[None]]
CUT_OFF: Final = "unverified: this could not be written down when it was done; not yet seen running"

log = logging.getLogger("wakeful.watchdog")


class Verified(Struct, frozen=True):
    """The sessions whose next job was not seen to work yet; those whose next job ended well, or who went on without it."""

    reviving: set[SessionId]
    recovered: set[SessionId]


class Verifying:
    """Looks at every revival that is still open, once a cycle."""

    def __init__(
        self,
        *,
        jobs: Jobs,
        cases: Cases,
        clock: Clock,
        chats: Chats,
        ledger: Ledger,
        operator: Operator,
        rules: Callable[[], Rules],
    ) -> None:
        self._jobs = jobs
        self._cases = cases
        self._clock = clock
        self._chats = chats
        self._ledger = ledger
        self._operator = operator
        self._rules = rules

    async def verify(self, judged: Collection[Case]) -> Verified:
        """Look what became of earlier revivals."""
        cases = {each.watched.session.session_id: each for each in judged}
        settled = set()
        for revival in await self._jobs.open_revivals():
            turn = await self._jobs.turn_of(revival)
            settle = await self._due(revival, turn, cases.get(revival.session_id))
            if settle is not None or revival.unwritten:
                await self._alone_with(revival, settle)
            if settle is not None and turn in (Turn.COMPLETED, Turn.PENDING):
                settled.add(revival.session_id)
        still_open = await self._jobs.open_revivals()
        reviving = {revival.session_id for revival in still_open if revival.stage is not Stage.RUNNING}
        return Verified(reviving, settled - {revival.session_id for revival in still_open})

    async def _due(self, revival: Revival, turn: Turn, case: Case | None) -> Settle | None:
        """What follows from the turn its next job has taken; None while nothing does."""
        age_seconds = self._clock.now().wall - revival.began_at
        if turn is Turn.FAILED:
            return self._failed
        if revival.stage is Stage.RUNNING:
            return self._ended if turn in (Turn.COMPLETED, Turn.MISSING) else None
        if turn is Turn.RUNNING:
            # A job that runs is not yet a session that works, and what was written before may be the old attempt's.
            if revival.running_at is None:
                return self._runs
            return self._works if case is not None and case.has_worked_since(revival.running_at) else None
        if turn is Turn.COMPLETED:
            return self._completed
        if turn is Turn.PENDING:
            return self._withdraw if await self._goes_on(revival) else None
        if revival.stage is Stage.FENCED:
            return self._enqueue if age_seconds > CLAIM_SECONDS and self._rules().acts else None
        return self._missing if age_seconds > REVIVED_SECONDS_MAX else None

    async def _goes_on(self, revival: Revival) -> bool:
        """Whether the attempt that was given up does something all the same; its next job still waits."""
        if revival.job_id is None or revival.stage is not Stage.ENQUEUED or revival.stopped:
            return False
        seen = await self._jobs.last_activity(revival), await self._cases.logged_at(revival.session_id)
        if all(at is None or at <= revival.began_at for at in seen):
            return False
        # Asked last: who was seen may be whoever ran until now, and nobody else.
        return not await self._jobs.others_ran(revival)

    async def _alone_with(self, revival: Revival, settle: Settle | None) -> None:
        """Unless another watchdog or a healing is at it, or was since we looked."""
        token = uuid4().hex
        if not await self._jobs.claim(revival.work, token, CLAIM_SECONDS):
            return
        try:
            if await self._jobs.is_open(revival):
                revival = await self._written(revival)
                if settle is not None:
                    await settle(revival)
        finally:
            await self._jobs.yield_(revival.work, token)

    async def _written(self, revival: Revival) -> Revival:
        """What it was about, if whoever revived was ended before that was written down."""
        if not revival.unwritten:
            return revival
        action = ActionTaken.REVIVAL_ATTEMPTED
        if not await self._write(revival, Happening.SESSION_UNHEALTHY, CUT_OFF, action):
            return revival
        written = replace(revival, unwritten=False)
        await self._jobs.advance(revival, written)
        return written

    async def _runs(self, revival: Revival) -> None:
        await self._jobs.advance(revival, replace(revival, running_at=self._clock.now().wall))

    async def _works(self, revival: Revival) -> None:
        await self._write(
            revival, Happening.SESSION_RECOVERED, "recovered: its next job is at work", owed=True
        )
        await self._jobs.advance(revival, replace(revival, stage=Stage.RUNNING))

    async def _withdraw(self, revival: Revival) -> None:
        words = "recovered: it went on by itself before anybody took its next job, which was withdrawn"
        events = self._ledger.owed_forms(Happening.SESSION_RECOVERED, revival, words)
        if await self._jobs.withdraw(revival, events):
            log.info("watchdog: %s: %s", revival.session_id, words)
            await self._ledger.try_again()

    async def _completed(self, revival: Revival) -> None:
        words = "recovered: its next job is completed"
        await self._write(revival, Happening.SESSION_RECOVERED, words, owed=True)
        await self._ended(revival)

    async def _ended(self, revival: Revival) -> None:
        await self._jobs.close_revival(revival.work)

    async def _enqueue(self, revival: Revival) -> None:
        """Whoever began it was ended in between; the queue is ours, and the failed job is still there."""
        await self._jobs.enqueue(revival, replace(revival, stage=Stage.ENQUEUED))

    async def _missing(self, revival: Revival) -> None:
        if revival.stage is Stage.ENQUEUED and revival.job_id is None:
            # Its queue took it and is not the one we see: nothing more will be known.
            await self._ended(revival)
            log.warning("watchdog: %s: its revival stays unverified", revival.session_id)
            return
        await self._fail(revival, "ineffective: no next job was seen")

    async def _failed(self, revival: Revival) -> None:
        await self._fail(revival, "ineffective: its next job failed")

    async def _fail(self, revival: Revival, outcome: str) -> None:
        """Closed last: whoever is ended in between leaves it to the next one, who says nothing twice."""
        said = await self._chats.tell(f"failure:{revival.work}", revival.chat_id, FAILURE_MESSAGE)
        outcome = f"{outcome}; the chat: {said}"
        if await self._write(revival, Happening.REVIVAL_FAILED, outcome, action_of(said)):
            await self._jobs.close_revival(revival.work)
            await self._say(revival, outcome)

    async def _write(
        self,
        revival: Revival,
        happening: Happening,
        outcome: str,
        action: ActionTaken = ActionTaken.NONE,
        *,
        owed: bool = False,
    ) -> bool:
        """One line for each finding it was about. False: the log did not take them all, and they are not owed either."""
        log.info("watchdog: %s: %s", revival.session_id, outcome)
        about, details = (revival.session_id, revival.project_key), {"outcome": outcome}
        return all(
            [
                await self._ledger.event(
                    happening, *about, reason, action, revival.issue_url, details, owed=owed
                )
                for reason in revival.reasons
            ]
        )

    async def _say(self, revival: Revival, outcome: str) -> None:
        news = News(
            what=f"{revival.project_key}: it was revived, and that came to nothing ({revival.reason})",
            where=f"session {revival.session_id}, in {self._jobs.place}",
            since=revival.began_at,
            did=outcome,
            otherwise=STOPPED,
            command=EVENTS,
        )
        try:
            await self._operator.told(QueueNews(revival.session_id, revival.project_key, Fate.GIVEN_UP, news))
        except WorldError as problem:
            log.warning("watchdog: nobody could be told of %s: %s", revival.session_id, problem)
