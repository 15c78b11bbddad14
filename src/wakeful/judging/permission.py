"""Guesses that an open call waits for a permission which the log does not mention. Pure.

A client writes a call to its log before it asks, and nothing more until the call returns. The result is shown
as a guess. There is no guess if the client reports its status, or if a process of the call was seen.
"""

from typing import Final

from wakeful.core.clock import Instant
from wakeful.judging.activity import Activity, OpenCall
from wakeful.judging.events import HEADLESS, CallKind
from wakeful.judging.evidence import RuntimeState
from wakeful.judging.thresholds import Policy
from wakeful.judging.turn_state import TurnPhase

# Calls open for 30 s more than their client lets them run, in 26 recorded sessions of Claude Code: default 13 of 318,
# acceptEdits 0 of 162, plan 0 of 2, not stated 24 of 700, bypassPermissions 0 of 83.
NEVER_ASKING_MODES: Final = frozenset({"auto", "bypassPermissions", "dontAsk", "never", HEADLESS})


def call_awaiting_permission(
    activity: Activity, runtime: RuntimeState, policy: Policy, now: Instant
) -> OpenCall | None:
    """The oldest open call that probably asks; None without one, or if the client reports its status."""
    process = runtime.newest_process
    if activity.phase is not TurnPhase.TOOL or (process is not None and process.status is not None):
        return None
    for call in activity.calls.values():
        at = permission_expected_at(call, activity, runtime, policy)
        if at is not None and at <= now:
            return call
    return None


def permission_expected_at(
    call: OpenCall, activity: Activity, runtime: RuntimeState, policy: Policy
) -> Instant | None:
    """When a question becomes the likeliest explanation of an open call; None if it never does."""
    if activity.permission_mode in NEVER_ASKING_MODES or call.kind is not CallKind.TOOL:
        return None
    # A process that started after the call: it was permitted, or had no need to ask.
    if runtime.tool_seen_at is not None and runtime.tool_seen_at >= call.since:
        return None
    if call.escalated:
        return call.since
    # Without a known client its tool processes are not searched.
    if call.limit_seconds is None or not (runtime.living_processes or runtime.vouched):
        return None
    at = call.since.plus(call.limit_seconds + policy.tool_grace_seconds)
    slept = runtime.slept
    return max(at, slept.woke.plus(policy.wake_grace_seconds)) if slept and slept.woke > call.since else at
