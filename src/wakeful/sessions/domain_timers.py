"""The timers of a running prompt: when its progress is announced, warned of, and has timed out. Pure.

They stand beside health and never write it: what a silence means is judged elsewhere, and what is done about it is, too.
"""

from enum import StrEnum

from msgspec import Struct

from wakeful.core.ids import SessionId
from wakeful.core.moment import Instant


class Stage(StrEnum):
    """What a timer says."""

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
    """One prompt as its timers know it: since when it runs, and what was said about it so far."""

    since: Instant
    progress_at: Instant
    announced_at: Instant
    said: Stage | None = None


class SupervisionEvent(Struct, frozen=True):
    """What the push feed tells of a running prompt."""

    session_id: SessionId
    event: Stage
    at: str
    last_progress_at: str
    words: str


def begun(since: Instant) -> Timer:
    """The timer of a prompt that begins."""
    return Timer(since, since, since)


def look(timer: Timer, progress_at: Instant, rules: TimerRules, now: Instant) -> tuple[Timer, Stage | None]:
    """The timer after a look at its prompt, and what is to be said now: each stage once for each silence."""
    if progress_at > timer.progress_at:
        # It moves again: whatever was said of its silence is over.
        timer = Timer(timer.since, progress_at, timer.announced_at)
    idle_seconds = now.seconds_since(timer.progress_at)
    if idle_seconds >= rules.timeout_seconds:
        stage = Stage.TIMEOUT
    elif idle_seconds >= rules.warning_seconds:
        stage = Stage.WARNING
    elif (
        now.seconds_since(timer.announced_at) >= rules.progress_seconds
        and timer.progress_at > timer.announced_at
    ):
        return Timer(timer.since, timer.progress_at, now, timer.said), Stage.PROGRESS
    else:
        return timer, None
    if timer.said is stage or timer.said is Stage.TIMEOUT:
        return timer, None
    return Timer(timer.since, timer.progress_at, timer.announced_at, stage), stage


def words_of(stage: Stage, idle_seconds: float) -> str:
    """What a stage means, for people."""
    minutes, seconds = divmod(int(idle_seconds), 60)
    span = f"{minutes} min" if minutes else f"{seconds} s"
    return {
        Stage.PROGRESS: "its prompt makes progress",
        Stage.WARNING: f"its prompt made no progress for {span}",
        Stage.TIMEOUT: f"its prompt made no progress for {span} and has timed out",
    }[stage]
