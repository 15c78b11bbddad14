"""The watchdog loop of a queue: checks every active session in every cycle; no problem ends it.

It logs one line per cycle. A problem that lasts is reported once, and once more when it is over. `RedisWatch`
builds the watchdog on its queue, for `watchdog_loop()` and for the daemon.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from wakeful.core.clock import Clock
from wakeful.core.errors import WakefulError, WorldError
from wakeful.core.ids import SessionId
from wakeful.core.text import plain
from wakeful.healing.plan import Rules
from wakeful.healing.rate_limit import Pace
from wakeful.incidents.issue_tracker import Forge
from wakeful.judging.thresholds import Policy
from wakeful.judging.user_effect_rules import Lesson
from wakeful.metrics.model import Spread
from wakeful.watchdog.callbacks import CALL_SECONDS_MAX, Callbacks, Calls, Chats, Ledger
from wakeful.watchdog.healing import UNASKED, Healing
from wakeful.watchdog.judging import Case, Cases, Skip
from wakeful.watchdog.notifications import AlertOnly, Operator
from wakeful.watchdog.queue import Ground, Jobs, Snapshot, Watched
from wakeful.watchdog.queue_health import CONFIRM_SECONDS, STALLED_SECONDS_MAX, QueueWatch
from wakeful.watchdog.redis_connection import DEADLINE_SECONDS, Connection
from wakeful.watchdog.redis_queue import RedisJobs
from wakeful.watchdog.rules import Course
from wakeful.watchdog.tool_logs import ToolLogGround
from wakeful.watchdog.verification import Verifying

# Each waits for others most of the time; more at once would only queue up in Redis.
HEALED_AT_ONCE_MAX: Final = 8
# What is said once is remembered; a world with more strange records than this is said to be strange again.
SAID_MAX: Final = 10_000

log = logging.getLogger("wakeful.watchdog")


class Cycle(Struct, frozen=True):
    """What one cycle found. `trouble`: why it could not look, or not to the end."""

    healthy: int = 0
    unhealthy: int = 0
    skipped: int = 0
    trouble: str | None = None

    @property
    def checked(self) -> int:
        return self.healthy + self.unhealthy

    def __str__(self) -> str:
        counts = f"checked {self.checked}, healthy {self.healthy}, unhealthy {self.unhealthy}"
        return f"watchdog: {counts}, skipped {self.skipped}{f' ({self.trouble})' if self.trouble else ''}"


class Watchdog:
    """The loop. `run` never returns by itself and raises nothing but being cancelled."""

    def __init__(
        self,
        *,
        jobs: Jobs,
        clock: Clock,
        cases: Cases,
        healing: Healing,
        queue: QueueWatch,
        chats: Chats,
        ledger: Ledger,
        verifying: Verifying,
        operator: Operator,
        present: Callable[[Collection[SessionId]], None],
        errand: Callable[[], Awaitable[None]] | None,
        interval_seconds: float,
    ) -> None:
        self._jobs = jobs
        self._clock = clock
        self._cases = cases
        self._healing = healing
        self._queue = queue
        self._chats = chats
        self._ledger = ledger
        self._verifying = verifying
        self._operator = operator
        # Hears of everybody who runs.
        self._present = present
        # Done last in every cycle: what nobody waits for.
        self._errand = errand
        self._interval_seconds = interval_seconds
        self._said: set[str] = set()
        # Why the last cycle could not look, or not to the end.
        self.trouble: str | None = None
        # How long cycles took, and how many of them had trouble, since the start.
        self.cycles = Spread()
        self.failed = 0
        self._room = asyncio.Semaphore(HEALED_AT_ONCE_MAX)

    async def run(self) -> None:
        """Look, wait, look again, until cancelled."""
        while True:
            due_at = self._clock.now().awake + self._interval_seconds
            await self.check()
            await self._clock.sleep_until(due_at)

    async def check(self) -> Cycle:
        """One cycle, and its line in the log."""
        began = self._clock.now().awake
        try:
            cycle = await self._cycle()
        except WorldError as problem:
            cycle = Cycle(trouble=str(problem))
        except Exception as problem:  # one cycle that fails must not be the last one
            log.exception("watchdog: this cycle failed")
            cycle = Cycle(trouble=f"{type(problem).__name__}: {plain(str(problem), 200)}")
        self.cycles.take(self._clock.now().awake - began)
        self.failed += cycle.trouble is not None
        await self._tell_trouble(cycle.trouble)
        log.info("%s", cycle)
        return cycle

    async def release(
        self, session_id: str, *, work: str | None = None, happened: bool = False
    ) -> str | None:
        """A person approved the revival of a held session: what was done, in words; None if it is not active.

        `work` is the attempt the person was asked about, if it was one; `happened`: what was cut off has happened.
        Raises FolderGone.
        """
        found = await self._running(session_id, work)
        if found is None:
            return None
        choice = await self._healing.heal(found, approved=True, happened=happened)
        return choice.reason if choice is not None else None

    async def give_up(self, session_id: str, by: str, *, work: str | None = None) -> str | None:
        """A person wants nothing more done about a held session: what was done; None if it is not active."""
        found = await self._running(session_id, work)
        if found is None or not await self._healing.give_up(found, by):
            return None
        return "its job is marked as failed, and its chat was told"

    async def waits(self, session_id: str) -> str | None:
        """What a session that runs waits for, in words; empty if for nothing, None if it does not run."""
        if await self._running(session_id) is None:
            return None
        course, _, reason = (await self._jobs.episodes()).get(f"session:{session_id}", "").partition(": ")
        return reason.removesuffix(UNASKED) if course == Course.HOLD else ""

    async def _running(self, session_id: str, work: str | None = None) -> Watched | None:
        """The attempt that runs for this session, if it is the one meant by `work`."""
        snapshot = await self._jobs.look()
        found = next((each for each in snapshot.watched if each.session.session_id == session_id), None)
        if found is None or found.job is None or work not in {None, found.work}:
            return None
        return found

    async def _cycle(self) -> Cycle:
        snapshot = await self._jobs.look()
        for words in snapshot.strange:
            self._say_once(words)
        self._cases.keep_only(each.session.session_id for each in snapshot.watched)
        self._present([each.session.session_id for each in snapshot.watched if each.job is not None])
        results = await self._cases.judged(snapshot.watched)
        episodes = await self._jobs.episodes()
        cycle = self._counted(snapshot.watched, results)
        # First: what is refused in this cycle is tried again in the next.
        await self._chats.try_again()
        await self._ledger.try_again()
        ill = [each for each in results if isinstance(each, Case) and _is_ill(each)]
        await self._heal(ill)
        await self._end_episodes(snapshot, results, episodes)
        verified = await self._verifying.verify([each for each in results if isinstance(each, Case)])
        seen = [each for each in results if isinstance(each, Case) and each.is_well and not each.is_unknown]
        well = {each.watched.session.session_id for each in seen}
        running = {each.session.session_id for each in snapshot.watched if each.job is not None}
        # Who runs and is not seen well is in trouble or unknown.
        await self._operator.still((running - well) | verified.reviving, well | verified.recovered)
        await self._queue.look(snapshot, episodes)
        if self._errand is not None:
            await self._errand()
        return cycle

    def _counted(self, watched: Sequence[Watched], results: Sequence[Case | Skip]) -> Cycle:
        healthy = unhealthy = skipped = 0
        for each, result in zip(watched, results, strict=True):
            if isinstance(result, Skip):
                skipped += 1
                self._say_once(f"{each.session.session_id} is skipped: {result}")
            elif result.is_unknown:
                skipped += 1
                self._say_once(f"{each.session.session_id} is skipped: {result.reasons or 'unknown'}")
            elif result.is_well:
                healthy += 1
            else:
                unhealthy += 1
        return Cycle(healthy, unhealthy, skipped)

    async def _heal(self, ill: Sequence[Case]) -> None:
        """All at once, a few at a time; one that fails is said and keeps nobody else from being healed."""
        together = Counter(case.watched.session.project_key for case in ill)
        async with asyncio.TaskGroup() as group:
            for case in ill:
                group.create_task(self._heal_one(case.watched, together[case.watched.session.project_key]))

    async def _heal_one(self, watched: Watched, together: int) -> None:
        session_id = watched.session.session_id
        async with self._room:
            try:
                await self._healing.heal(watched, together=together)
            except WakefulError as problem:
                self._say_once(f"{session_id} could not be healed now: {problem}")
            except Exception:  # one failing check never stops the others
                log.exception("watchdog: healing %s failed", session_id)

    async def _end_episodes(
        self, snapshot: Snapshot, results: Sequence[Case | Skip], episodes: dict[str, str]
    ) -> None:
        """What was told of a session is over when it is well again, or gone."""
        known = {f"session:{each.session.session_id}" for each in snapshot.watched}
        for result in results:
            if isinstance(result, Case) and result.is_well:
                name = f"session:{result.watched.session.session_id}"
                if name in episodes:
                    await self._healing.recovered(result)
        for name in episodes:
            if name.startswith("session:") and name not in known:
                await self._healing.gone_on(name.removeprefix("session:"))
                await self._jobs.end(name)

    def _say_once(self, words: str) -> None:
        if words in self._said:
            return
        if len(self._said) >= SAID_MAX:
            self._said.clear()
        self._said.add(words)
        log.warning("watchdog: %s", plain(words, 300))

    async def _tell_trouble(self, trouble: str | None) -> None:
        """Once when it begins, whatever it turns into, and once when it is over, also of an earlier run."""
        before, self.trouble = self.trouble, trouble
        try:
            if trouble is None:
                await self._operator.back(self._jobs.place)
            elif before is None:
                log.warning("watchdog: %s; it goes on looking", trouble)
                await self._operator.lost(self._jobs.place, trouble)
        except WorldError as problem:
            log.warning("watchdog: nobody could be told: %s", problem)
        if trouble is None and before is not None:
            log.warning("watchdog: %s answers again, and all is checked", self._jobs.place)


def _is_ill(case: Case) -> bool:
    return not case.is_well and not case.is_unknown


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
