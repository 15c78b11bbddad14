"""Expected waits: named reasons for a silence, each with its evidence and its end. Pure.

Silence is judged only against these. Only a person ends a wait without `until`; every other one runs out. The
detectors decide about waits that have run out.
"""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from wakeful.core.clock import JUMP_SECONDS_MIN, Instant, latest
from wakeful.judging.activity import Activity, BackgroundTask, OpenCall
from wakeful.judging.call_identity import is_spawn
from wakeful.judging.events import CallKind
from wakeful.judging.evidence import ClientStatus, DialogKind, RuntimeState
from wakeful.judging.findings import ExpectedWait, WaitKind
from wakeful.judging.permission import call_awaiting_permission
from wakeful.judging.thresholds import Policy
from wakeful.judging.turn_state import OPEN, TurnPhase
from wakeful.judging.wording import format_length

# The evidence of each wait, and when time alone ends it; `docs/reference/findings.md` shows it.
WAIT_TEXTS: Final[Mapping[WaitKind, tuple[str, str]]] = {
    WaitKind.MODEL: ("a prompt or a result, and no answer yet", "`silence_seconds` after the last progress"),
    WaitKind.TOOL: (
        "an open call, or a command that a person typed into the client",
        "its own timeout or `sleep`, else `tool_seconds`; later while it is seen alive; never if a person typed it",
    ),
    WaitKind.SUBAGENT: (
        "an open call of a subagent",
        "`silence_seconds` after its own log grew; `subagent_seconds` where that is not seen",
    ),
    WaitKind.PERSON: (
        (
            "a question, a permission, a dialog on the client's screen, the client's own report; `probable`: only a call"
            " open longer than its client lets it run"
        ),
        "never",
    ),
    WaitKind.RETRY: (
        "a refused request that the client repeats",
        "`silence_seconds` after the last progress",
    ),
    WaitKind.LIMIT: ("a turn that failed, and the end of the limit as the provider gave it", "that end"),
    WaitKind.COMPACTION: ("a hook report that the conversation is being summarised", "`compaction_seconds`"),
    WaitKind.BACKGROUND: (
        "a call that returned while its command or agent continues; only between turns",
        "`tool_seconds`; later while one of its processes is seen alive, or the log of an agent grows",
    ),
    WaitKind.SLEEP: (
        "the host's clocks: it slept since the last progress",
        "`wake_grace_seconds` after it woke, and never before `silence_seconds` awake",
    ),
}

PROBABLY_ASKS: Final = "probably asks for permission"


class WaitInput(Struct, frozen=True, gc=False):
    """The input for waits: the log, other evidence, and the phase of the turn from both."""

    activity: Activity
    presence: RuntimeState
    policy: Policy
    now: Instant
    phase: TurnPhase


def expected_waits(facts: WaitInput) -> tuple[ExpectedWait, ...]:
    """Every wait of a live session, including those that have run out."""
    if (dialog := facts.presence.dialog) is not None:
        # Only a person answers a dialog. It is unknown what an unknown screen waits for.
        if dialog.kind is DialogKind.UNKNOWN:
            return ()
        evidence = f"a dialog of its client is open ({dialog.kind}): it blocks every prompt"
        return (ExpectedWait(WaitKind.PERSON, dialog.since, None, evidence, dialog.words),)
    if facts.phase in OPEN:
        return _within_turn(facts)
    return (*_plan_waits(facts), *limit_waits(facts), *_background_waits(facts))


def _within_turn(facts: WaitInput) -> tuple[ExpectedWait, ...]:
    activity, runtime = facts.activity, facts.presence
    since = activity.progress_at or activity.last_at or _seen_at(runtime)
    if since is None:
        return ()
    if facts.phase is TurnPhase.PERSON:
        call = call_awaiting_permission(activity, runtime, facts.policy, facts.now)
        return (_person_wait(activity, runtime, since) if call is None else _permission_wait(call),)
    if facts.phase is TurnPhase.OPENED:
        return (ExpectedWait(WaitKind.TOOL, since, None, "a command typed into the client"),)
    if facts.phase is TurnPhase.TOOL and activity.calls:
        waits = tuple(_call_wait(call, facts, since) for call in activity.calls.values())
    else:
        waits = (_model_wait(facts, since),)
    return (*waits, *_sleep_waits(facts, since)) if runtime.slept is not None else waits


def _model_wait(facts: WaitInput, since: Instant) -> ExpectedWait:
    activity, policy = facts.activity, facts.policy
    compacting_since = activity.compacting_since
    if compacting_since is not None:
        until = compacting_since.plus(policy.compaction_seconds)
        evidence = "its hook said that it summarises the conversation"
        return ExpectedWait(WaitKind.COMPACTION, compacting_since, until, evidence)
    started = latest((since, _status_at(facts.presence))) or since
    is_settling = facts.phase is TurnPhase.SETTLING
    until = started.plus(policy.settle_seconds if is_settling else policy.silence_seconds)
    if activity.retries_in_a_row:
        evidence = f"the client retries a refused request ({activity.retries_in_a_row} so far)"
        return ExpectedWait(WaitKind.RETRY, started, until, evidence)
    return ExpectedWait(WaitKind.MODEL, started, until, "the model's answer is pending")


def _person_wait(activity: Activity, runtime: RuntimeState, since: Instant) -> ExpectedWait:
    process = runtime.newest_process
    about = activity.asked_about or (process.waiting_for if process is not None else None) or "an answer"
    names_its_call = activity.asked_tool != activity.asked_about
    if activity.calls and not names_its_call:
        calls = " ".join(map(call_text, activity.calls.values()))
        about = calls if any(call.tool == about for call in activity.calls.values()) else f"{about}: {calls}"
    return ExpectedWait(WaitKind.PERSON, since, None, "a question is open", about)


def _plan_waits(facts: WaitInput) -> tuple[ExpectedWait, ...]:
    since = facts.activity.phase_since
    if facts.phase is not TurnPhase.PROPOSED or since is None:
        return ()
    return (ExpectedWait(WaitKind.PERSON, since, None, "a question is open", "approval of its plan"),)


def _permission_wait(call: OpenCall) -> ExpectedWait:
    reason = "the call asks to run outside its sandbox"
    if not call.escalated and call.limit_seconds is not None:
        reason = f"such a call returns within {call.limit_seconds:.0f} s, and none of its processes is seen"
    evidence = f"{PROBABLY_ASKS}: {reason}"
    return ExpectedWait(WaitKind.PERSON, call.since, None, evidence, call_text(call), probable=True)


def _call_wait(call: OpenCall, facts: WaitInput, progress_at: Instant) -> ExpectedWait:
    """A call may take its declared time, and at least the silence threshold."""
    if call.kind is CallKind.PERSON:
        return ExpectedWait(WaitKind.PERSON, call.since, None, "a question is open", call.tool)
    policy, runtime = facts.policy, facts.presence
    until, evidence = call_end(call, policy), "call open"
    if call.timeout_seconds is not None:
        evidence = f"call open, may run {call.timeout_seconds:.0f} s"
    if call.kind is CallKind.SUBAGENT and runtime.grown_at is not None:
        # Its log is visible: while the log does not grow, the subagent makes no progress.
        until = runtime.grown_at.plus(policy.silence_seconds)
    until = max(until, progress_at.plus(policy.silence_seconds))
    if runtime.tool_seen_at is not None:
        seen_until = runtime.tool_seen_at.plus(policy.silence_seconds)
        if seen_until > until:
            until, evidence = seen_until, "a call is open, and its process was seen alive"
    kind = WaitKind.SUBAGENT if call.kind is CallKind.SUBAGENT else WaitKind.TOOL
    return ExpectedWait(kind, call.since, until, evidence, call_text(call))


def _sleep_waits(facts: WaitInput, since: Instant) -> tuple[ExpectedWait, ...]:
    """A session that was at work when the host fell asleep gets time to continue after the wake-up."""
    slept, policy = facts.presence.slept, facts.policy
    if slept is None or since > slept.woke:
        return ()
    evidence = f"the host slept for {format_length(slept.seconds)}"
    until = max(slept.woke.plus(policy.wake_grace_seconds), since.plus(policy.silence_seconds))
    return (ExpectedWait(WaitKind.SLEEP, slept.began, until, evidence),)


def limit_waits(facts: WaitInput) -> tuple[ExpectedWait, ...]:
    """A usage limit applies whether or not its program still runs."""
    activity, now = facts.activity, facts.now
    if facts.phase is not TurnPhase.FAILED or activity.limit_until is None or activity.phase_since is None:
        return ()
    # The provider's clock goes on while this host sleeps.
    until = now.plus(activity.limit_until.wall - now.wall)
    evidence = "the provider said when the limit ends"
    return (ExpectedWait(WaitKind.LIMIT, activity.phase_since, until, evidence),)


def _background_waits(facts: WaitInput) -> tuple[ExpectedWait, ...]:
    """Between turns a background task may go on, and its end begins the next turn.

    Within a turn only the model counts: otherwise a server left running would explain any silence.
    """
    policy, seen_at, grown_at = facts.policy, facts.presence.tool_seen_at, facts.presence.grown_at
    waits = []
    for task in facts.activity.background.values():
        until, evidence = task.since.plus(policy.tool_seconds), "a call left it running after the turn"
        if grown_at is not None and is_spawn(task.tool):
            # A subagent has no process of its own, but a visible log.
            until = max(until, grown_at.plus(policy.silence_seconds))
        if seen_at is not None and seen_at.plus(policy.silence_seconds) > until:
            until = seen_at.plus(policy.silence_seconds)
            evidence = f"{evidence}; one of its processes was seen alive"
        waits.append(ExpectedWait(WaitKind.BACKGROUND, task.since, until, evidence, call_text(task)))
    return tuple(waits)


def call_end(call: OpenCall, policy: Policy) -> Instant:
    """When a call should have returned, by its declared timeout or by the policy."""
    if call.timeout_seconds is None:
        is_agent = call.kind is CallKind.SUBAGENT
        return call.since.plus(policy.subagent_seconds if is_agent else policy.tool_seconds)
    return call.since.plus(call.timeout_seconds + policy.tool_grace_seconds)


def call_text(call: OpenCall | BackgroundTask) -> str:
    return f"{call.tool} {call.input.decode('utf-8', 'replace')}"


def current_waits(waits: tuple[ExpectedWait, ...], now: Instant) -> tuple[ExpectedWait, ...]:
    """The waits that have not run out, each with the current wall time of its end."""
    return tuple(_with_current_end(wait, now) for wait in waits if wait.until is None or wait.until > now)


def _with_current_end(wait: ExpectedWait, now: Instant) -> ExpectedWait:
    until = with_current_wall_time(wait.until, now) if wait.until is not None else None
    return wait if until is wait.until else replace(wait, until=until)


def with_current_wall_time(moment: Instant, now: Instant) -> Instant:
    """The same awake moment with its current wall time: a sleep since then has moved it."""
    moved_seconds = (now.wall - now.awake) - (moment.wall - moment.awake)
    has_moved = abs(moved_seconds) >= JUMP_SECONDS_MIN
    return Instant(moment.awake, moment.wall + moved_seconds) if has_moved else moment


def _seen_at(runtime: RuntimeState) -> Instant | None:
    process = runtime.newest_process
    return process.seen_at if process is not None else None


def _status_at(runtime: RuntimeState) -> Instant | None:
    process = runtime.newest_process
    return process.status_at if process is not None and process.status is ClientStatus.BUSY else None
