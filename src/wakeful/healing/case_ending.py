"""Decides whether a session without a finding recovered, or only ended. Pure.

A finding also disappears when its session is stopped, vanishes, is interrupted, is no longer seen, or shows a dialog
of its client. None of these is a recovery.
"""

from typing import Final

from msgspec import Struct

from wakeful.core.clock import Instant
from wakeful.core.labels import label
from wakeful.core.process import ProcessState
from wakeful.healing.case import HealingCase
from wakeful.healing.plan import REVIVED_SECONDS
from wakeful.judging.activity import Activity
from wakeful.judging.evidence import RuntimeState, has_written_nothing_yet, stop_reason
from wakeful.judging.findings import FindingCode, Health, State, Verdict
from wakeful.judging.turn_state import TurnPhase

GONE: Final = "its process is gone"
UNSEEN: Final = "it is unknown whether it still runs"
STALE: Final = "it stopped showing activity"
OPENED_AGAIN: Final = "it was opened again, and nothing has run in it since"
INTERRUPTED: Final = "its turn was interrupted"
END_UNSEEN: Final = "its client is idle, and its log does not say how the turn ended"
# Claude Code's log lines are visible up to 0.35 s after their time. The rest is a margin for a busy machine, not
# measured.
END_LOGGED_SECONDS: Final = 10.0
# These codes are not about a turn, so a turn that ended well does not end them.
_CODES_OUTSIDE_TURNS: Final = frozenset(
    {None, FindingCode.RUNTIME_LOST, FindingCode.READER_DRIFT, FindingCode.TWIN_PROCESSES}
)
_DEATHS: Final = frozenset({FindingCode.SESSION_DEAD, FindingCode.AGENT_EXITED})


class CaseEnding(Struct, frozen=True):
    """How a problem ended. `words` are empty after a recovery; `in_seconds`: it is not sure before then."""

    words: str = ""
    in_seconds: float = 0.0


RECOVERED: Final = CaseEnding()


def ending_of(
    case: HealingCase, verdict: Verdict, activity: Activity, runtime: RuntimeState, now: Instant
) -> CaseEnding | None:
    """How the problem of a session without a finding ended; None while a dialog only hides it."""
    if runtime.stopped:
        return CaseEnding(stop_reason(runtime.heir, by_gateway=runtime.by_gateway))
    if (other := runtime.other_machine) is not None:
        return CaseEnding(f"it runs on another machine: {label(other.host)}")
    if verdict.agent is ProcessState.ALIVE:
        return _ending_of_living(case, verdict, activity, runtime, now)
    if activity.ended_well and case.code not in _CODES_OUTSIDE_TURNS:
        return RECOVERED
    return CaseEnding(GONE if verdict.agent is ProcessState.DEAD else UNSEEN)


def _ending_of_living(
    case: HealingCase, verdict: Verdict, activity: Activity, runtime: RuntimeState, now: Instant
) -> CaseEnding | None:
    """A process that only started proves nothing by itself: a `--resume` that fails lives for a moment, too."""
    if verdict.health is Health.STALE:
        return CaseEnding(STALE)
    has_worked = activity.progress_at is not None and activity.progress_at.wall > case.code_since
    only_started = activity.in_turn and has_written_nothing_yet(runtime, activity.last_at)
    if only_started or (case.code in _DEATHS and not has_worked and not activity.ended_well):
        process = runtime.newest_process
        lived_seconds = now.seconds_since(process.seen_at) if process is not None else 0.0
        return CaseEnding(OPENED_AGAIN, max(0.0, REVIVED_SECONDS - lived_seconds))
    if case.code in _CODES_OUTSIDE_TURNS:
        return RECOVERED
    if activity.phase is TurnPhase.INTERRUPTED:
        return CaseEnding(INTERRUPTED)
    if activity.in_turn and verdict.state is State.IDLE:
        return CaseEnding(END_UNSEEN, _seconds_until_logged(runtime, now))
    return None if _is_hidden(verdict, activity, runtime) else RECOVERED


def _is_hidden(verdict: Verdict, activity: Activity, runtime: RuntimeState) -> bool:
    """Whether a dialog covers the turn: the screen shows one, or the client waits after a failed turn."""
    waits_after_failure = verdict.state is State.WAITING and activity.phase is TurnPhase.FAILED
    return runtime.dialog is not None or waits_after_failure


def _seconds_until_logged(runtime: RuntimeState, now: Instant) -> float:
    """How long the end of the turn may still be missing in the log, after the client reported itself idle."""
    process = runtime.newest_process
    idle_at = process.status_at if process is not None else None
    return max(0.0, END_LOGGED_SECONDS - now.seconds_since(idle_at)) if idle_at is not None else 0.0
