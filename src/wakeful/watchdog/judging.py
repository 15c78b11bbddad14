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
from wakeful.judging.activity import fold
from wakeful.judging.evidence import Presence
from wakeful.judging.findings import Finding, Health, Verdict
from wakeful.judging.interrupted_calls import InterruptedCall, interrupted
from wakeful.judging.judge import judge
from wakeful.judging.thresholds import Policy
from wakeful.watchdog.callbacks import Calls, Ending
from wakeful.watchdog.queue import Ground, LogReading, LogsUnreadable, Watched
from wakeful.watchdog.rules import Diary, note

# Folding so many events takes some ten milliseconds; then others have their turn.
EVENTS_AT_ONCE_MAX: Final = 2000
# A gigabyte of logs is read in some ten seconds; a file system that takes longer does not answer.
READ_SECONDS_MAX: Final = 60.0


class Skip(StrEnum):
    """Why a session was not judged."""

    RECORD_STALE = "record_stale: no running job has this session"
    NO_EVIDENCE = "unknown: neither a tool log nor a last activity"


class Case(Struct, frozen=True):
    """One session, judged."""

    watched: Watched
    diary: Diary
    verdict: Verdict
    now: Instant

    @property
    def is_well(self) -> bool:
        return not self.verdict.findings

    def has_worked_since(self, wall: float) -> bool:
        """Whether it is well, and did something after that moment. That its record was made is not yet work."""
        last_at, started_at = self.diary.activity.last_at, self.watched.session.started_at
        return self.is_well and last_at is not None and last_at.wall > max(wall, started_at or 0.0)

    @property
    def is_unknown(self) -> bool:
        return self.verdict.health is Health.UNKNOWN

    @property
    def interrupted(self) -> tuple[InterruptedCall, ...]:
        return interrupted(self.diary.activity)

    def reason(self, finding: Finding) -> str:
        """As the critical event spells it (docs/specs/watchdog.md)."""
        seconds = self.now.seconds_since(finding.since)
        return reason_of(finding.code, seconds=seconds, errors=self.diary.activity.errors_in_a_row)

    @property
    def reasons(self) -> str:
        return ", ".join(self.reason(finding) for finding in self.verdict.findings)


class _Open(Struct):
    """The diary of one attempt as far as it was read. Another attempt of the same session has another."""

    began_at: float | None
    diary: Diary


class Cases:
    """Judges sessions, remembering how far each log was read."""

    def __init__(self, ground: Ground, clock: Clock, calls: Calls, policy: Policy) -> None:
        self._ground = ground
        self._clock = clock
        self._calls = calls
        self._policy = policy
        self._open: dict[SessionId, _Open] = {}
        # Two looks at one log at once would each see half of what is new.
        self._one_look = asyncio.Lock()

    async def judged(self, watched: Sequence[Watched]) -> list[Case | Skip]:
        """A case or the reason why there is none, in the order given."""
        async with self._one_look:
            return await self._judged(watched)

    async def _judged(self, watched: Sequence[Watched]) -> list[Case | Skip]:
        running = [each for each in watched if each.job is not None]
        self._forget_ended_attempts(running)
        readings = await self._read([each.session.session_id for each in running])
        for each in running:
            await self._take_in(each, readings.get(each.session.session_id))
        return [self._judge(each) for each in watched]

    async def _read(self, session_ids: Sequence[SessionId]) -> dict[SessionId, LogReading]:
        """Raises LogsUnreadable: a log that was not read is not a log that is missing."""
        answer = await self._calls.call(
            "reading", self._ground.read, session_ids, seconds_max=READ_SECONDS_MAX
        )
        if answer.ending is not Ending.DONE:
            self.keep_only(())
            raise LogsUnreadable(reason=answer.words)
        found: dict[SessionId, LogReading] = answer.value
        return found

    async def logged_at(self, session_id: SessionId) -> float | None:
        """When the log of a session was last written to; None if nothing tells."""
        async with self._one_look:
            others = self._open.keys() - {session_id}
            # Read from its start, now and by whoever judges it later.
            self.keep_only(others)
            reading = (await self._read([session_id])).get(session_id)
            self.keep_only(others)
        return max((event.at for event in reading.events), default=None) if reading is not None else None

    def keep_only(self, session_ids: Iterable[SessionId]) -> None:
        """Forget the logs of sessions that are active no more."""
        kept = set(session_ids)
        self._open = {each: opened for each, opened in self._open.items() if each in kept}
        self._ground.forget(kept)

    def _forget_ended_attempts(self, running: Sequence[Watched]) -> None:
        """A log goes on over attempts, but nothing of an earlier one counts: it is read again for the new one."""
        over = {
            each.session.session_id
            for each in running
            if (opened := self._open.get(each.session.session_id)) is not None
            and opened.began_at != each.began_at
        }
        if over:
            self.keep_only(self._open.keys() - over)

    async def _take_in(self, watched: Watched, reading: LogReading | None) -> None:
        session_id = watched.session.session_id
        if reading is None:
            self._open.pop(session_id, None)
            return
        opened = self._open.get(session_id)
        if opened is None or reading.reset:
            opened = self._open[session_id] = _Open(watched.began_at, begun(watched, self._clock))
        for count, event in enumerate(reading.events, start=1):
            take_in(opened.diary, event, watched, self._clock)
            if count % EVENTS_AT_ONCE_MAX == 0:
                await asyncio.sleep(0)

    def _judge(self, watched: Watched) -> Case | Skip:
        if watched.job is None:
            return Skip.RECORD_STALE
        opened = self._open.get(watched.session.session_id)
        return judged_case(watched, opened.diary if opened is not None else None, self._clock, self._policy)


def judged_case(watched: Watched, diary: Diary | None, clock: Clock, policy: Policy) -> Case | Skip:
    """The verdict over an attempt by its log or, where that has nothing of it, by its record."""
    known = diary if diary is not None and diary.entries else _by_record(watched, clock)
    if known is None:
        return Skip.NO_EVIDENCE
    now = clock.now()
    presence = Presence(vouched=True, slept=clock.slept)
    return Case(watched, known, judge(known.activity, presence, policy, now), now)


def begun(watched: Watched, clock: Clock) -> Diary:
    """An empty diary. The attempt's clock starts with it, not with its first call."""
    diary = Diary()
    if watched.began_at is not None:
        fold(diary.activity, e.Prompted(watched.began_at), clock.instant(watched.began_at))
    return diary


def take_in(diary: Diary, event: e.Event, watched: Watched, clock: Clock) -> None:
    """Note what belongs to this attempt; a log goes on over attempts."""
    began_at = watched.began_at
    if began_at is None or not event.at or event.at >= began_at:
        note(diary, event, clock.instant(event.at))


def _by_record(watched: Watched, clock: Clock) -> Diary | None:
    """What the record alone tells: when the attempt began and when it last did something."""
    last_at = watched.session.last_activity
    if last_at is None:
        return None
    diary = begun(watched, clock)
    began_at = watched.began_at if watched.began_at is not None else last_at
    seen = clock.instant(max(last_at, began_at))
    fold(diary.activity, e.Progressed(seen.wall), seen)
    # One gap is all a record shows of what lay between, so here it counts whole.
    diary.activity.active_seconds = seen.seconds_since(clock.instant(began_at))
    diary.activity.calls_total = max(0, watched.session.tool_call_count)
    return diary
