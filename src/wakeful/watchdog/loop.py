"""The watchdog loop of a queue: checks every active session in every cycle; no problem ends it.

It logs one line per cycle. A problem that lasts is reported once, and once more when it is over.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from wakeful.core.clock import Clock
from wakeful.core.errors import WakefulError, WorldError
from wakeful.core.text import plain
from wakeful.metrics.model import Histogram
from wakeful.watchdog.callbacks import CallbackRunner, Callbacks, ChatSender, EventRecorder
from wakeful.watchdog.healing import NOT_ASKED_SUFFIX, QueueHealer
from wakeful.watchdog.judging import JudgedAttempt, QueueJudge, SkipReason
from wakeful.watchdog.notifications import CallbackNotifier, WatchdogNotifier
from wakeful.watchdog.parts import CycleObserver, HealingControls, WatchdogParts, WatchSettings
from wakeful.watchdog.queue import JobQueue, QueueAttempt, QueueSessionFiles, QueueSnapshot
from wakeful.watchdog.queue_health import QueueWatch
from wakeful.watchdog.redis_connection import DEADLINE_SECONDS, RedisConnection
from wakeful.watchdog.redis_queue import RedisJobQueue
from wakeful.watchdog.rules import QueueAction
from wakeful.watchdog.tool_logs import ToolLogFiles
from wakeful.watchdog.verification import RevivalVerifier

# Each waits for callbacks most of the time; more at once would only queue in Redis.
HEALS_AT_ONCE_MAX: Final = 8
# Messages that are logged once; above this number all of them may be logged again.
LOGGED_ONCE_MAX: Final = 10_000

log = logging.getLogger("wakeful.watchdog")


class Cycle(Struct, frozen=True):
    """The result of one cycle. `trouble`: why it failed, or did not finish."""

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


def connect(url: str, deadline_seconds: float = DEADLINE_SECONDS) -> RedisJobQueue:
    """The queue at this address; does not connect yet. Raises BadRedisUrl."""
    return RedisJobQueue(RedisConnection(url, deadline_seconds))


class RedisWatch:
    """The watchdog of one queue. `run` ends only on cancellation.

    `notifier` reports to the operator; without one, `callbacks.alert` gets the text.
    """

    def __init__(
        self,
        *,
        jobs: JobQueue,
        logs: Path | QueueSessionFiles,
        clock: Clock,
        callbacks: Callbacks,
        controls: HealingControls,
        settings: WatchSettings,
        notifier: WatchdogNotifier | None = None,
        observer: CycleObserver | None = None,
    ) -> None:
        files = ToolLogFiles(logs) if isinstance(logs, Path) else logs
        calls = CallbackRunner(clock, settings.call_seconds)
        parts = WatchdogParts(
            jobs=jobs,
            clock=clock,
            judge=QueueJudge(files, clock, calls, settings.policy),
            callbacks=callbacks,
            calls=calls,
            chats=ChatSender(jobs, calls, callbacks.send_message),
            recorder=EventRecorder(jobs, clock, calls, controls.tracker, callbacks.write),
            notifier=notifier if notifier is not None else CallbackNotifier(calls, callbacks.alert),
        )
        self.jobs = jobs
        self.healer = QueueHealer(parts, files, controls)
        self._clock = clock
        self._settings = settings
        self._judge = parts.judge
        self._chat_sender = parts.chats
        self._recorder = parts.recorder
        self._notifier = parts.notifier
        self._verifier = RevivalVerifier(parts, controls.rules)
        self._queue = QueueWatch(parts, settings)
        self._observer = observer if observer is not None else CycleObserver()
        self._logged_messages: set[str] = set()
        # Why the last cycle failed, or did not finish; for `wakeful status`.
        self.problem: str | None = None
        # How long cycles took, and how many of them failed, since the start.
        self.cycle_seconds = Histogram()
        self.failed_cycles = 0
        self._heal_slots = asyncio.Semaphore(HEALS_AT_ONCE_MAX)

    async def run(self) -> None:
        """Watch until cancelled; then close the connection."""
        if self._settings.active_projects is None:
            log.info("watchdog: active_projects is not set, so message_unrouted is off")
        try:
            while True:
                due_at = self._clock.now().awake + self._settings.interval_seconds
                await self.check()
                await self._clock.sleep_until(due_at)
        finally:
            await self.close()

    async def close(self) -> None:
        await self.jobs.close()

    async def check(self) -> Cycle:
        began = self._clock.now().awake
        try:
            cycle = await self._cycle()
        except WorldError as problem:
            cycle = Cycle(trouble=str(problem))
        except Exception as problem:  # one cycle that fails must not be the last one
            log.exception("watchdog: this cycle failed")
            cycle = Cycle(trouble=f"{type(problem).__name__}: {plain(str(problem), 200)}")
        self.cycle_seconds.observe(self._clock.now().awake - began)
        self.failed_cycles += cycle.trouble is not None
        await self._report_problem(cycle.trouble)
        log.info("%s", cycle)
        return cycle

    async def release(
        self, session_id: str, *, work: str | None = None, happened: bool = False
    ) -> str | None:
        """Revive a held session because a person approved it; returns the action, None if it is not active.

        `work` is the attempt that the person was asked about, if any; `happened`: the interrupted call has
        happened. Raises FolderGone.
        """
        attempt = await self._running_attempt(session_id, work)
        if attempt is None:
            return None
        choice = await self.healer.heal(attempt, approved=True, happened=happened)
        return choice.reason if choice is not None else None

    async def give_up(self, session_id: str, by: str, *, work: str | None = None) -> str | None:
        """End a held session because a person gave it up; returns the action, None if it is not active."""
        attempt = await self._running_attempt(session_id, work)
        sent = await self.healer.give_up(attempt, by) if attempt is not None else None
        return None if sent is None else f"its job is marked as failed; the chat: {sent}"

    async def waits(self, session_id: str) -> str | None:
        """Why a running session waits, in words; empty if it does not wait, None if it does not run."""
        if await self._running_attempt(session_id) is None:
            return None
        action, _, reason = (await self.jobs.episodes()).get(f"session:{session_id}", "").partition(": ")
        return reason.removesuffix(NOT_ASKED_SUFFIX) if action == QueueAction.HOLD else ""

    async def _running_attempt(self, session_id: str, work: str | None = None) -> QueueAttempt | None:
        """The running attempt of this session, if it is the one that `work` names."""
        snapshot = await self.jobs.snapshot()
        attempt = next((each for each in snapshot.watched if each.session.session_id == session_id), None)
        if attempt is None or attempt.job is None or work not in {None, attempt.work}:
            return None
        return attempt

    async def _cycle(self) -> Cycle:
        snapshot = await self.jobs.snapshot()
        for words in snapshot.strange:
            self._log_once(words)
        self._judge.keep_only(each.session.session_id for each in snapshot.watched)
        running = {each.session.session_id for each in snapshot.watched if each.job is not None}
        self._observer.on_running(running)
        results = await self._judge.judge(snapshot.watched)
        episodes = await self.jobs.episodes()
        cycle = self._count(snapshot.watched, results)
        # First: a message that is refused in this cycle is tried again in the next.
        await self._chat_sender.retry_refused()
        await self._recorder.retry_pending()
        judged = [each for each in results if isinstance(each, JudgedAttempt)]
        unhealthy = [case for case in judged if not case.is_healthy and not case.is_unknown]
        # All at once, a few at a time; one that fails is logged and delays no other.
        together = Counter(case.watched.session.project_key for case in unhealthy)
        async with asyncio.TaskGroup() as group:
            for case in unhealthy:
                group.create_task(self._heal_one(case.watched, together[case.watched.session.project_key]))
        await self._end_episodes(snapshot, judged, episodes)
        verified = await self._verifier.verify(judged)
        healthy = {
            case.watched.session.session_id for case in judged if case.is_healthy and not case.is_unknown
        }
        # A running session that is not healthy has a problem or is unknown.
        await self._notifier.on_cycle((running - healthy) | verified.reviving, healthy | verified.recovered)
        await self._queue.check(snapshot, episodes)
        await self._observer.after_cycle()
        return cycle

    def _count(self, watched: Sequence[QueueAttempt], results: Sequence[JudgedAttempt | SkipReason]) -> Cycle:
        healthy = unhealthy = skipped = 0
        for each, result in zip(watched, results, strict=True):
            if isinstance(result, SkipReason):
                skipped += 1
                self._log_once(f"{each.session.session_id} is skipped: {result}")
            elif result.is_unknown:
                skipped += 1
                self._log_once(f"{each.session.session_id} is skipped: {result.reasons or 'unknown'}")
            elif result.is_healthy:
                healthy += 1
            else:
                unhealthy += 1
        return Cycle(healthy, unhealthy, skipped)

    async def _heal_one(self, attempt: QueueAttempt, together: int) -> None:
        session_id = attempt.session.session_id
        async with self._heal_slots:
            try:
                await self.healer.heal(attempt, together=together)
            except WakefulError as problem:
                self._log_once(f"{session_id} could not be healed now: {problem}")
            except Exception:  # one failing check never stops the others
                log.exception("watchdog: healing %s failed", session_id)

    async def _end_episodes(
        self, snapshot: QueueSnapshot, judged: Sequence[JudgedAttempt], episodes: dict[str, str]
    ) -> None:
        """End the episodes of sessions that have recovered, or are gone."""
        known = {f"session:{each.session.session_id}" for each in snapshot.watched}
        for case in judged:
            if case.is_healthy and f"session:{case.watched.session.session_id}" in episodes:
                await self.healer.on_recovered(case)
        for name in episodes:
            if name.startswith("session:") and name not in known:
                await self.healer.close_checkpoint(name.removeprefix("session:"))
                await self.jobs.end_episode(name)

    def _log_once(self, words: str) -> None:
        if words in self._logged_messages:
            return
        if len(self._logged_messages) >= LOGGED_ONCE_MAX:
            self._logged_messages.clear()
        self._logged_messages.add(words)
        log.warning("watchdog: %s", plain(words, 300))

    async def _report_problem(self, trouble: str | None) -> None:
        """Report a problem once when it begins, and once when it is over, also one of an earlier run."""
        before, self.problem = self.problem, trouble
        try:
            if trouble is None:
                await self._notifier.on_reachable(self.jobs.address)
            elif before is None:
                log.warning("watchdog: %s; it keeps checking", trouble)
                await self._notifier.on_unreachable(self.jobs.address, trouble)
        except WorldError as problem:
            log.warning("watchdog: alert about the queue not sent: %s", problem)
        if trouble is None and before is not None:
            log.warning("watchdog: %s answers again, and everything is checked", self.jobs.address)
