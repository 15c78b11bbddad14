"""Guesses that an open call waits for a permission which the log does not mention. Pure.

A client writes a call to its log before it asks, and nothing more until the call returns. The result is shown
as a guess. There is no guess where the client reports what it does, or where a process of the call was seen.
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
    """The oldest open call that probably asks; None if none does, or the client itself says what it is doing."""
    if activity.phase is not TurnPhase.TOOL or _has_client_status(runtime):
        return None
    for call in activity.calls.values():
        at = permission_expected_at(call, activity, runtime, policy)
        if at is not None and at <= now:
            return call
    return None


def permission_expected_at(
    call: OpenCall, activity: Activity, runtime: RuntimeState, policy: Policy
) -> Instant | None:
    """When a question is the likeliest story of a call that is still open; None if it never is."""
    if (
        activity.permission_mode in NEVER_ASKING_MODES
        or call.kind is not CallKind.TOOL
        or _has_run(call, runtime)
    ):
        return None
    if call.escalated:
        return call.since
    # Nobody looks for the processes of a client that was never seen.
    if call.limit_seconds is None or not (runtime.living_processes or runtime.vouched):
        return None
    at = call.since.plus(call.limit_seconds + policy.tool_grace_seconds)
    slept = runtime.slept
    return max(at, slept.woke.plus(policy.wake_grace_seconds)) if slept and slept.woke > call.since else at


def _has_client_status(runtime: RuntimeState) -> bool:
    process = runtime.newest_process
    return process is not None and process.status is not None


def _has_run(call: OpenCall, runtime: RuntimeState) -> bool:
    """A process that was started since the call began: it was permitted, or had no need to ask."""
    return runtime.tool_seen_at is not None and runtime.tool_seen_at >= call.since
