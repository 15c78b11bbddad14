"""What became of revivals: the next job runs, it failed, or nobody will ever run it. Said once, and nothing is revived."""

import logging
from typing import Final

from msgspec.structs import replace

from wakeful.domain.critical import ActionTaken, Happening
from wakeful.domain.errors import WorldError
from wakeful.domain.incident import Fate
from wakeful.domain.news import News
from wakeful.domain.revival import FAILURE_MESSAGE
from wakeful.ports.clock import Clock
from wakeful.ports.jobs import Jobs, Revival, Stage, Turn
from wakeful.services.watchdog_calls import Chats
from wakeful.services.watchdog_healing import CLAIM_SECONDS
from wakeful.services.watchdog_ledger import Ledger, action_of
from wakeful.services.watchdog_news import EVENTS, STOPPED, Operator, QueueNews

# A worker that was told of a job takes it within this time, or it was never told.
REVIVED_SECONDS_MAX: Final = 600.0

log = logging.getLogger("wakeful.watchdog")


class Verifying:
    """Looks at every revival that is still open, once a cycle."""

    def __init__(self, *, jobs: Jobs, clock: Clock, chats: Chats, ledger: Ledger, operator: Operator) -> None:
        self._jobs = jobs
        self._clock = clock
        self._chats = chats
        self._ledger = ledger
        self._operator = operator

    async def verify(self) -> set[str]:
        """Look what became of earlier revivals: the next job runs, or nobody will ever run it.

        The sessions whose revival is still open.
        """
        for revival in await self._jobs.open_revivals():
            await self._verify(revival, await self._jobs.turn_of(revival))
        return {revival.session_id for revival in await self._jobs.open_revivals()}

    async def _verify(self, revival: Revival, turn: Turn) -> None:
        age_seconds = self._clock.now().wall - revival.began_at
        if turn in (Turn.RUNNING, Turn.COMPLETED):
            await self._settle(revival, Happening.SESSION_RECOVERED, f"recovered: its next job is {turn}")
        elif turn is Turn.FAILED:
            await self._settle(revival, Happening.REVIVAL_FAILED, "ineffective: its next job failed")
        elif turn is Turn.MISSING and revival.stage is Stage.FENCED and age_seconds > CLAIM_SECONDS:
            # Whoever began it was ended in between; the queue is ours, and the failed job is still there.
            await self._jobs.enqueue(revival, replace(revival, stage=Stage.ENQUEUED))
        elif turn is Turn.MISSING and age_seconds > REVIVED_SECONDS_MAX:
            await self._settle_missing(revival)

    async def _settle_missing(self, revival: Revival) -> None:
        if revival.stage is Stage.ENQUEUED and revival.job_id is None:
            # Its queue took it and is not the one we see: nothing more will be known.
            await self._jobs.close_revival(revival.work)
            log.warning("watchdog: %s: its revival stays unverified", revival.session_id)
            return
        await self._settle(
            revival, Happening.REVIVAL_FAILED, "ineffective: no next job was seen", tell_chat=True
        )

    async def _settle(
        self, revival: Revival, happening: Happening, outcome: str, *, tell_chat: bool = False
    ) -> None:
        if not await self._jobs.close_revival(revival.work):
            return
        action = ActionTaken.NONE
        if tell_chat:
            said = await self._chats.tell(f"failure:{revival.work}", revival.chat_id, FAILURE_MESSAGE)
            action, outcome = action_of(said), f"{outcome}; the chat: {said}"
        await self._ledger.event(
            happening,
            revival.session_id,
            revival.project_key,
            revival.reason,
            action,
            None,
            {"outcome": outcome},
        )
        log.info("watchdog: %s: %s", revival.session_id, outcome)
        if happening is Happening.REVIVAL_FAILED:
            await self._say(revival, outcome)

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
