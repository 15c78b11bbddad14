"""Judges queued sessions: folds their tool logs as they grow, and gives each a verdict by the common rules.

It has no rules of its own and never acts. For a session without a log, the last activity of its record is
used.
"""

import asyncio
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final

from msgspec import Struct

from wakeful.core.clock import Clock, Instant
from wakeful.core.ids import SessionId
from wakeful.incidents.critical_event import reason_of
from wakeful.judging import events as e
from wakeful.judging.evidence import RuntimeState
from wakeful.judging.findings import Finding, Health, Verdict
from wakeful.judging.folding import fold
from wakeful.judging.interrupted_calls import InterruptedCall, interrupted_calls
from wakeful.judging.judge import judge
from wakeful.judging.thresholds import Policy
from wakeful.watchdog.callbacks import CallbackOutcome, CallbackRunner
from wakeful.watchdog.queue import LogReading, LogsUnreadable, QueueAttempt, QueueSessionFiles
from wakeful.watchdog.rules import AttemptLog, fold_log_event

# Folding so many events takes some ten milliseconds; then other tasks run.
EVENTS_AT_ONCE_MAX: Final = 2000
# A gigabyte of logs takes some ten seconds; a slower file system does not answer.
READ_SECONDS_MAX: Final = 60.0


class SkipReason(StrEnum):
    RECORD_STALE = "record_stale: no running job has this session"
    NO_EVIDENCE = "unknown: neither a tool log nor a last activity"


class JudgedAttempt(Struct, frozen=True):
    watched: QueueAttempt
    log: AttemptLog
    verdict: Verdict
    now: Instant

    @property
    def is_healthy(self) -> bool:
        return not self.verdict.findings

    def has_worked_since(self, wall: float) -> bool:
        """Whether it is healthy and did something after that time. Creating its record is no work."""
        last_at, started_at = self.log.activity.last_at, self.watched.session.started_at
        return self.is_healthy and last_at is not None and last_at.wall > max(wall, started_at or 0.0)

    @property
    def is_unknown(self) -> bool:
        return self.verdict.health is Health.UNKNOWN

    @property
    def interrupted_calls(self) -> tuple[InterruptedCall, ...]:
        return interrupted_calls(self.log.activity)

    def reason(self, finding: Finding) -> str:
        """The reason as a critical event has it (docs/specs/watchdog.md)."""
        seconds = self.now.seconds_since(finding.since)
        return reason_of(finding.code, seconds=seconds, errors=self.log.activity.errors_in_a_row)

    @property
    def reasons(self) -> str:
        return ", ".join(self.reason(finding) for finding in self.verdict.findings)


class _OpenLog(Struct):
    """The log of one attempt as far as it was read. Each attempt of a session has its own."""

    began_at: float | None
    log: AttemptLog


class QueueJudge:
    """Judges sessions, and remembers how far each log was read."""

    def __init__(self, files: QueueSessionFiles, clock: Clock, calls: CallbackRunner, policy: Policy) -> None:
        self._session_files = files
        self._clock = clock
        self._callback_runner = calls
        self._policy = policy
        self._open_logs: dict[SessionId, _OpenLog] = {}
        # Two simultaneous reads of one log would each see half of the new entries.
        self._read_lock = asyncio.Lock()

    async def judge(self, watched: Sequence[QueueAttempt]) -> list[JudgedAttempt | SkipReason]:
        """A judged attempt for each, in their order, or the reason why there is none. Raises LogsUnreadable."""
        running = [each for each in watched if each.job is not None]
        async with self._read_lock:
            self._forget_ended_attempts(running)
            readings = await self._read([each.session.session_id for each in running])
            for each in running:
                await self._fold_reading(each, readings.get(each.session.session_id))
            return [self._judge(each) for each in watched]

    async def _read(self, session_ids: Sequence[SessionId]) -> dict[SessionId, LogReading]:
        """Raises LogsUnreadable: an unread log is not a missing log."""
        answer = await self._callback_runner.call(
            "reading", self._session_files.read, session_ids, seconds_max=READ_SECONDS_MAX
        )
        if answer.outcome is not CallbackOutcome.DONE:
            self.keep_only(())
            raise LogsUnreadable(reason=answer.words)
        readings: dict[SessionId, LogReading] = answer.value
        return readings

    async def last_logged_at(self, session_id: SessionId) -> float | None:
        """The time of the newest entry in the log of a session; None if that is unknown."""
        async with self._read_lock:
            others = self._open_logs.keys() - {session_id}
            # So that its log is read from the start, here and when it is judged later.
            self.keep_only(others)
            reading = (await self._read([session_id])).get(session_id)
            self.keep_only(others)
        return max((event.at for event in reading.events), default=None) if reading is not None else None

    def keep_only(self, session_ids: Iterable[SessionId]) -> None:
        """Forget the logs of all other sessions."""
        kept = set(session_ids)
        self._open_logs = {each: opened for each, opened in self._open_logs.items() if each in kept}
        self._session_files.forget(kept)

    def _forget_ended_attempts(self, running: Sequence[QueueAttempt]) -> None:
        """A log spans attempts, but entries of an earlier one do not count: a new attempt reads it again."""
        over = {
            each.session.session_id
            for each in running
            if (opened := self._open_logs.get(each.session.session_id)) is not None
            and opened.began_at != each.began_at
        }
        if over:
            self.keep_only(self._open_logs.keys() - over)

    async def _fold_reading(self, attempt: QueueAttempt, reading: LogReading | None) -> None:
        session_id = attempt.session.session_id
        if reading is None:
            self._open_logs.pop(session_id, None)
            return
        opened = self._open_logs.get(session_id)
        if opened is None or reading.reset:
            opened = self._open_logs[session_id] = _OpenLog(
                attempt.began_at, new_attempt_log(attempt, self._clock)
            )
        for count, event in enumerate(reading.events, start=1):
            fold_attempt_event(opened.log, event, attempt, self._clock)
            if count % EVENTS_AT_ONCE_MAX == 0:
                await asyncio.sleep(0)

    def _judge(self, attempt: QueueAttempt) -> JudgedAttempt | SkipReason:
        if attempt.job is None:
            return SkipReason.RECORD_STALE
        opened = self._open_logs.get(attempt.session.session_id)
        return judge_attempt(attempt, opened.log if opened is not None else None, self._clock, self._policy)


def judge_attempt(
    attempt: QueueAttempt, log: AttemptLog | None, clock: Clock, policy: Policy
) -> JudgedAttempt | SkipReason:
    """The verdict on an attempt by its log or, if that has no entry of it, by its record."""
    known = log if log is not None and log.entries else _log_from_record(attempt, clock)
    if known is None:
        return SkipReason.NO_EVIDENCE
    now = clock.now()
    runtime = RuntimeState(vouched=True, slept=clock.last_sleep)
    return JudgedAttempt(attempt, known, judge(known.activity, runtime, policy, now), now)


def new_attempt_log(attempt: QueueAttempt, clock: Clock) -> AttemptLog:
    """An empty log. The attempt's clock starts with it, not with its first call."""
    log = AttemptLog()
    if attempt.began_at is not None:
        fold(log.activity, e.Prompted(attempt.began_at), clock.instant(attempt.began_at))
    return log


def fold_attempt_event(log: AttemptLog, event: e.Event, attempt: QueueAttempt, clock: Clock) -> None:
    """Fold an event if it belongs to this attempt; a log spans attempts."""
    began_at = attempt.began_at
    if began_at is None or not event.at or event.at >= began_at:
        fold_log_event(log, event, clock.instant(event.at))


def _log_from_record(attempt: QueueAttempt, clock: Clock) -> AttemptLog | None:
    """The facts of the record alone: when the attempt began and when it last did something."""
    last_at = attempt.session.last_activity
    if last_at is None:
        return None
    log = new_attempt_log(attempt, clock)
    began_at = attempt.began_at if attempt.began_at is not None else last_at
    last = clock.instant(max(last_at, began_at))
    fold(log.activity, e.Progressed(last.wall), last)
    # A record shows only one gap, so it counts whole here.
    log.activity.active_seconds = last.seconds_since(clock.instant(began_at))
    log.activity.calls_total = max(0, attempt.session.tool_call_count)
    return log
