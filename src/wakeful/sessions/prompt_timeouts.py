"""Inactivity timers of running prompts: progress, warning and timeout.

The rules are pure; `SupervisionTimers` checks all running prompts at an interval. Timers read sessions and
never write health: warnings are shown beside the record, events go to the feed, and the listener decides
whether a prompt that timed out is interrupted.
"""

import logging
from enum import StrEnum
from typing import Protocol

from msgspec import Struct

from wakeful.core.clock import Clock, Instant, iso
from wakeful.core.ids import SessionId
from wakeful.judging.findings import State
from wakeful.sessions.registry import SessionRegistry


class TimerStage(StrEnum):
    PROGRESS = "progress"
    WARNING = "inactivity_warning"
    TIMEOUT = "inactivity_timeout"


class TimerRules(Struct, frozen=True):
    """`[session.supervision]`, in seconds."""

    look_seconds: float = 30.0
    progress_seconds: float = 600.0
    warning_seconds: float = 900.0
    timeout_seconds: float = 1800.0


class Timer(Struct, frozen=True):
    """The timer of one prompt: its start, its last progress, and the last stage that was reported."""

    since: Instant
    progress_at: Instant
    announced_at: Instant
    reported_stage: TimerStage | None = None


class SupervisionEvent(Struct, frozen=True):
    """A message of the push feed about a running prompt."""

    session_id: SessionId
    event: TimerStage
    at: str
    last_progress_at: str
    words: str


def new_timer(since: Instant) -> Timer:
    return Timer(since, since, since)


def check_timer(
    timer: Timer, progress_at: Instant, rules: TimerRules, now: Instant
) -> tuple[Timer, TimerStage | None]:
    """The timer after a check, and the stage to report now: each stage once for each silence."""
    if progress_at > timer.progress_at:
        # After progress every stage can be reported again.
        timer = Timer(timer.since, progress_at, timer.announced_at)
    idle_seconds = now.seconds_since(timer.progress_at)
    if idle_seconds >= rules.timeout_seconds:
        stage = TimerStage.TIMEOUT
    elif idle_seconds >= rules.warning_seconds:
        stage = TimerStage.WARNING
    elif (
        now.seconds_since(timer.announced_at) >= rules.progress_seconds
        and timer.progress_at > timer.announced_at
    ):
        return Timer(timer.since, timer.progress_at, now, timer.reported_stage), TimerStage.PROGRESS
    else:
        return timer, None
    if timer.reported_stage is stage or timer.reported_stage is TimerStage.TIMEOUT:
        return timer, None
    return Timer(timer.since, timer.progress_at, timer.announced_at, stage), stage


def stage_summary(stage: TimerStage, idle_seconds: float) -> str:
    minutes, seconds = divmod(int(idle_seconds), 60)
    span = f"{minutes} min" if minutes else f"{seconds} s"
    return {
        TimerStage.PROGRESS: "its prompt makes progress",
        TimerStage.WARNING: f"its prompt made no progress for {span}",
        TimerStage.TIMEOUT: f"its prompt made no progress for {span} and has timed out",
    }[stage]


log = logging.getLogger("wakeful")


class TimerListener(Protocol):
    def publish_supervision(self, event: SupervisionEvent) -> None:
        """A timer reached its next stage."""

    def on_timeout(self, session_id: SessionId) -> None:
        """The prompt of this session timed out."""


class SupervisionTimers:
    """One timer for each running prompt."""

    def __init__(
        self, clock: Clock, registry: SessionRegistry, rules: TimerRules, listener: TimerListener
    ) -> None:
        self._clock = clock
        self._registry = registry
        self._rules = rules
        self._listener = listener
        self._timers: dict[SessionId, Timer] = {}

    def set_rules(self, rules: TimerRules) -> None:
        """The configuration has changed; running timers go on."""
        self._rules = rules

    async def run(self) -> None:
        while True:
            self.check()
            await self._clock.sleep(self._rules.look_seconds)

    def check(self) -> None:
        """Check every running prompt once; the timer of an ended prompt ends with it."""
        now = self._clock.now()
        before, self._timers = self._timers, {}
        for session in self._registry.sessions.values():
            record, progress_at = session.record, session.activity.progress_at
            if record is None or not record.active_prompt:
                continue
            timer = before.get(record.id) or new_timer(progress_at or now)
            if record.state is State.WAITING:
                # It waits for a person, possibly all night: that is no inactivity.
                self._timers[record.id] = new_timer(now)
                continue
            timer, stage = check_timer(timer, progress_at or timer.progress_at, self._rules, now)
            self._timers[record.id] = timer
            if stage is not None:
                self._publish_stage(record.id, timer, stage, now)
            if stage is TimerStage.TIMEOUT:
                self._listener.on_timeout(record.id)

    def warnings(self, session_id: SessionId) -> tuple[str, ...]:
        """The warning about a session's prompt; none while it makes progress."""
        timer = self._timers.get(session_id)
        if timer is None or timer.reported_stage is None:
            return ()
        since = iso(timer.progress_at.wall)
        return (f"{timer.reported_stage}: no progress since {since}",)

    def _publish_stage(self, session_id: SessionId, timer: Timer, stage: TimerStage, now: Instant) -> None:
        words = stage_summary(stage, now.seconds_since(timer.progress_at))
        if stage is not TimerStage.PROGRESS:
            log.info("%s: %s", session_id, words)
        self._listener.publish_supervision(
            SupervisionEvent(session_id, stage, iso(now.wall), iso(timer.progress_at.wall), words)
        )
