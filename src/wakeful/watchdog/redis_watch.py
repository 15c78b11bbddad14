"""Joins the watchdog with its Redis: one object for `watchdog_loop()` and for the daemon. No rule lives here."""

import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from pathlib import Path

from wakeful.core.clock import Clock
from wakeful.core.ids import SessionId
from wakeful.healing.pace import Pace
from wakeful.healing.plan import Rules
from wakeful.incidents.issue_tracker import Forge
from wakeful.judging.thresholds import Policy
from wakeful.judging.user_effect_rules import Lesson
from wakeful.metrics.model import Spread
from wakeful.watchdog.healing import Healing
from wakeful.watchdog.jobs import RedisJobs
from wakeful.watchdog.judging import Cases
from wakeful.watchdog.queue import Ground, Jobs
from wakeful.watchdog.queue_health import CONFIRM_SECONDS, STALLED_SECONDS_MAX, QueueWatch
from wakeful.watchdog.redis_connection import DEADLINE_SECONDS, Connection
from wakeful.watchdog.tool_logs import ToolLogGround
from wakeful.watchdog.verification import Verifying
from wakeful.watchdog.watchdog import Cycle, Watchdog
from wakeful.watchdog.watchdog_calls import CALL_SECONDS_MAX, Calls, Chats
from wakeful.watchdog.watchdog_ledger import Callbacks, Ledger
from wakeful.watchdog.watchdog_news import AlertOnly, Operator

log = logging.getLogger("wakeful.watchdog")


def connect(url: str, deadline_seconds: float = DEADLINE_SECONDS) -> RedisJobs:
    """The queue world at this address; nothing is asked yet. Raises BadRedisUrl."""
    return RedisJobs(Connection(url, deadline_seconds))


class RedisWatch:
    """A watchdog over one queue world. `callbacks.write` gets every critical event; `rules` is asked before each act.

    `operator` hears what a person should; without one, `callbacks.alert` gets the words. Without a `pace` everybody who
    is to be revived is revived at once. `present` hears of everybody who runs. `errand` is what every cycle ends with.
    """

    def __init__(
        self,
        *,
        jobs: Jobs,
        logs: Path | Ground,
        clock: Clock,
        callbacks: Callbacks,
        rules: Callable[[], Rules],
        forge: Forge | None = None,
        policy: Policy | None = None,
        active_projects: Collection[str] | None = None,
        interval_seconds: float = 300.0,
        stalled_seconds: float = STALLED_SECONDS_MAX,
        confirm_seconds: float = CONFIRM_SECONDS,
        call_seconds: float = CALL_SECONDS_MAX,
        operator: Operator | None = None,
        pace: Pace | None = None,
        present: Callable[[Collection[SessionId]], None] = lambda _session_ids: None,
        taught: Callable[[str], Sequence[Lesson]] = lambda _project: (),
        errand: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        ground = ToolLogGround(logs) if isinstance(logs, Path) else logs
        calls = Calls(clock, call_seconds)
        chats = Chats(jobs, calls, callbacks.send_message)
        ledger = Ledger(jobs, clock, calls, forge, callbacks.write)
        cases = Cases(ground, clock, calls, policy if policy is not None else Policy())
        voice = operator if operator is not None else AlertOnly(calls, callbacks.alert)
        self.jobs = jobs
        self.healing = Healing(
            jobs=jobs,
            cases=cases,
            ground=ground,
            clock=clock,
            calls=calls,
            chats=chats,
            ledger=ledger,
            callbacks=callbacks,
            rules=rules,
            operator=voice,
            pace=pace,
            taught=taught,
        )
        queue = QueueWatch(
            jobs=jobs,
            clock=clock,
            calls=calls,
            ledger=ledger,
            operator=voice,
            start_worker=callbacks.start_worker,
            active_projects=active_projects,
            stalled_seconds=stalled_seconds,
            confirm_seconds=confirm_seconds,
        )
        self._watchdog = Watchdog(
            jobs=jobs,
            clock=clock,
            cases=cases,
            healing=self.healing,
            queue=queue,
            chats=chats,
            ledger=ledger,
            verifying=Verifying(
                jobs=jobs,
                cases=cases,
                clock=clock,
                chats=chats,
                ledger=ledger,
                operator=voice,
                rules=rules,
            ),
            operator=voice,
            present=present,
            errand=errand,
            interval_seconds=interval_seconds,
        )
        self._says_unrouted_off = active_projects is None

    async def run(self) -> None:
        """Watch until cancelled; then let go of Redis."""
        if self._says_unrouted_off:
            log.info("watchdog: nobody said which projects are served, so message_unrouted is off")
        try:
            await self._watchdog.run()
        finally:
            await self.close()

    async def check(self) -> Cycle:
        """One cycle."""
        return await self._watchdog.check()

    async def release(
        self, session_id: str, *, work: str | None = None, happened: bool = False
    ) -> str | None:
        """Revive a held session because a person approved it; what was done, None if it is not active."""
        return await self._watchdog.release(session_id, work=work, happened=happened)

    async def give_up(self, session_id: str, by: str, *, work: str | None = None) -> str | None:
        """End a held session's attempt because a person gave it up; what was done, None if it is not active."""
        return await self._watchdog.give_up(session_id, by, work=work)

    async def waits(self, session_id: str) -> str | None:
        """What a session that runs waits for, in words; empty if for nothing, None if it does not run."""
        return await self._watchdog.waits(session_id)

    @property
    def trouble(self) -> str | None:
        """Why the last look came to nothing, for `wakeful status`."""
        return self._watchdog.trouble

    @property
    def cycles(self) -> Spread:
        """How long cycles took."""
        return self._watchdog.cycles

    @property
    def failed(self) -> int:
        """How many of them could not look, or not to the end."""
        return self._watchdog.failed

    async def close(self) -> None:
        await self.jobs.close()
