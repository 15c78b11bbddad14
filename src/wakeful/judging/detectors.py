"""Detectors: each checks one case and returns a finding or nothing. Pure.

A detector is one function in DETECTORS. Thresholds come from the policy, waits from `waits`; the meaning of a
finding is in `findings`.
"""

from collections.abc import Callable, Iterator
from typing import Final

from wakeful.core.clock import Instant, iso
from wakeful.core.process import Sight
from wakeful.judging.activity import GAP_SECONDS_MAX, Activity, OpenCall
from wakeful.judging.events import Failure
from wakeful.judging.evidence import DialogKind, Holder, Presence, Status
from wakeful.judging.findings import Code, ExpectedWait, Finding
from wakeful.judging.loops import Circles, circle
from wakeful.judging.outage import is_outage
from wakeful.judging.permission import ASKS_NOBODY
from wakeful.judging.spawns import storm
from wakeful.judging.thresholds import Policy
from wakeful.judging.turn_state import OPEN, Phase
from wakeful.judging.waits import Scene, call_end, call_text
from wakeful.judging.wording import length, result_text

# `claude -p` and `codex exec` end within seconds of the error that ends their turn.
CLOSED_SECONDS_MIN: Final = 60.0
# A `claude --resume` that fails holds the conversation for 0.03 to 1 s before it ends.
TWIN_SECONDS: Final = 3.0


class Case(Scene, frozen=True, gc=False):
    """All that a detector may look at."""

    agent: Sight
    waits: tuple[ExpectedWait, ...]


def _died(case: Case) -> Finding | None:
    """The process ended inside a turn. After a finished turn it simply stopped."""
    if case.agent is not Sight.DEAD or case.activity.phase not in OPEN:
        return None
    # What a person typed into the client was nothing the agent owed an answer to.
    if case.activity.phase in {Phase.SETTLING, Phase.OPENED}:
        return None
    if case.activity.is_out_of_budget or case.activity.may_be_out_of_budget:
        return None
    holder = case.presence.newest
    ended_at = (holder.ended_at if holder is not None else None) or case.activity.last_at or case.now
    pane = case.presence.pane
    at_shell = pane is not None and pane.sight is Sight.ALIVE
    return Finding(
        Code.AGENT_EXITED if at_shell else Code.SESSION_DEAD,
        ended_at,
        "exited to a shell in the middle of a turn" if at_shell else "died in the middle of a turn",
        evidence=tuple(_death_evidence(case, holder)),
        untrusted=tuple(
            [call_text(call) for call in case.activity.calls.values()]
            + [orphan.command for orphan in case.presence.orphans]
        ),
    )


def _death_evidence(case: Case, holder: Holder | None) -> list[str]:
    lines = []
    if holder is not None:
        # A recording may not say which process it was.
        which = f"process {holder.process.pid}" if holder.process.pid else "its process"
        lines.append(f"{which} is gone ({holder.source})")
    if case.activity.calls:
        lines.append(f"calls left open: {len(case.activity.calls)}")
    lines += [f"its tool still runs as process {orphan.process.pid}" for orphan in case.presence.orphans]
    return lines


def twins_since(presence: Presence) -> Instant | None:
    """Since when more than one living process holds the conversation; None if one does, or none."""
    living = presence.living
    return max(holder.seen_at for holder in living) if len(living) > 1 else None


def _twins(case: Case) -> Finding | None:
    living, since = case.presence.living, twins_since(case.presence)
    if since is None or case.now.seconds_since(since) < TWIN_SECONDS:
        return None
    pids = ", ".join(str(holder.process.pid) for holder in living)
    return Finding(
        Code.TWIN_PROCESSES, since, f"{len(living)} processes hold one conversation", (f"pids {pids}",)
    )


_FAILURE_CODES: Final = {Failure.AUTH: Code.AUTH_REQUIRED, Failure.LIMIT: Code.USAGE_LIMITED}
_FAILURE_SUMMARIES: Final = {
    Code.AUTH_REQUIRED: "the provider refused the login",
    Code.USAGE_LIMITED: "the usage limit is reached",
    Code.TURN_FAILED: "the last turn ended with an error",
}


def _failed(case: Case) -> Finding | None:
    activity = case.activity
    if case.phase is not Phase.FAILED or activity.failure is None or activity.phase_since is None:
        return None
    code = _FAILURE_CODES.get(activity.failure, Code.TURN_FAILED)
    summary, ends = _FAILURE_SUMMARIES[code], activity.limit_until
    if ends is None and _was_closed(case, activity.phase_since):
        return None
    if ends is not None and ends.wall <= case.now.wall:
        summary = "the usage limit is over, and nobody has prompted it since"
    evidence = (f"the limit ends at {iso(ends.wall)}",) if ends is not None else ()
    return Finding(code, activity.phase_since, summary, evidence, (activity.failure_message,))


def _was_closed(case: Case, failed_at: Instant) -> bool:
    """Whether somebody ended it, having seen how its turn failed: a program that gives up by itself does so at once."""
    holder = case.presence.newest
    if case.agent is not Sight.DEAD or holder is None or holder.ended_at is None:
        return False
    return holder.ended_at.seconds_since(failed_at) > CLOSED_SECONDS_MIN


def _poisoned(case: Case) -> Finding | None:
    """Every prompt fails the same way. A login, a limit and an outage are another matter: those have an end."""
    activity = case.activity
    if activity.failures_alike <= case.policy.failures_alike_max or case.phase is not Phase.FAILED:
        return None
    if activity.failure in _FAILURE_CODES or is_outage(activity) or activity.phase_since is None:
        return None
    summary = f"{activity.failures_alike} prompts in a row failed the same way"
    return Finding(
        Code.POISONED_CONVERSATION, activity.phase_since, summary, untrusted=(activity.failure_message,)
    )


def _cascading(case: Case) -> Finding | None:
    activity, most = case.activity, case.policy.errors_in_a_row_max
    if case.phase not in OPEN:  # its log did not say that the turn ended, and it did
        return None
    if activity.errors_in_a_row > most and activity.errors_since is not None:
        summary = f"{activity.errors_in_a_row} failed calls in a row"
        return Finding(Code.ERROR_CASCADE, activity.errors_since, summary, untrusted=_last_failure(activity))
    # A client retries for three minutes by itself; only an outage as long as a silence is trouble.
    if activity.retries_in_a_row > most and is_quiet(case) and activity.progress_at is not None:
        summary = f"the provider refused {activity.retries_in_a_row} requests in a row"
        return Finding(Code.ERROR_CASCADE, activity.progress_at, summary)
    return None


def _last_failure(activity: Activity) -> tuple[str, ...]:
    """The call that failed last, and what it said."""
    called = (activity.failed.text,) if activity.failed is not None else ()
    return (*called, result_text(activity.failed_with))


def _looping(case: Case) -> Finding | None:
    # After its death no time passes for a session: nothing it polled for stays unchanged any longer.
    until = case.now if case.agent is Sight.ALIVE else case.activity.last_at or case.now
    found = circle(case.activity.circles, case.policy, until, in_turn=case.phase in OPEN)
    if found is None:
        return None
    untrusted = (found.call.text,) if found.call is not None else ()
    return Finding(Code.LOOP, found.since, found.summary, untrusted=untrusted)


def polled_cycle_since(circles: Circles, policy: Policy) -> Instant | None:
    """Since when a cycle goes round often enough to be a loop, but for the poll in it."""
    for size, run in enumerate(circles.runs, start=1):
        most = policy.repeats_max if size == 1 else policy.cycles_max
        if run.polled and run.since is not None and run.length // size >= most:
            return run.since
    often = (made for made in circles.made if circles.polled_index >= made.counted_from)
    return next((made.since for made in often if made.count > policy.duplicates_max), None)


def _running_away(case: Case) -> Finding | None:
    activity, policy = case.activity, case.policy
    if case.phase not in OPEN or case.agent is not Sight.ALIVE or activity.progress_at is None:
        return None
    seconds = active_seconds(case)
    since = case.now.plus(-seconds)
    if seconds > policy.runaway_seconds:
        summary = f"at work for {seconds / 3600:.1f} h without an end"
    elif activity.turn_calls > policy.runaway_calls_max:
        summary = f"{activity.turn_calls} calls in one turn"
    elif activity.turn_tokens > policy.runaway_tokens_max:
        summary = f"{activity.turn_tokens} tokens in one turn"
    elif (cost := turn_cost(activity, policy)) > policy.runaway_cost_usd:
        summary = f"${cost:.2f} spent in one turn, by the prices configured"
    elif (too_many := storm(activity, policy)) is not None:
        since, summary = too_many.since, too_many.summary
    else:
        return None
    fresh = () if is_quiet(case) else ("its progress is fresh: somebody is told, and nothing is stopped",)
    return Finding(Code.RUNAWAY, since, summary, fresh)


def turn_cost(activity: Activity, policy: Policy) -> float:
    """What the turn has cost so far, in dollars; nothing where nobody said what a token costs."""
    heard_tokens = activity.turn_tokens - activity.turn_output_tokens
    return (
        heard_tokens * policy.input_usd_per_million
        + activity.turn_output_tokens * policy.output_usd_per_million
    ) / 1e6


def active_seconds(case: Case) -> float:
    """How long the turn has been at work, a person's waits and long gaps left out."""
    activity = case.activity
    if activity.progress_at is None or activity.phase is Phase.PERSON:
        return activity.active_seconds
    return activity.active_seconds + min(case.now.seconds_since(activity.progress_at), GAP_SECONDS_MAX)


def _never_started(case: Case) -> Finding | None:
    """The client says it is busy, and nothing of it was ever written down."""
    holder = case.presence.newest
    if case.activity.last_at is not None or holder is None or holder.status is not Status.BUSY:
        return None
    if case.now.seconds_since(holder.seen_at) <= case.policy.never_started_seconds:
        return None
    return Finding(Code.NEVER_STARTED, holder.seen_at, "busy since it was started, and nothing came of it")


def _wedged(case: Case) -> Finding | None:
    """Every wait has run out, and what was waited for is a call that should have come back."""
    if case.agent is not Sight.ALIVE or case.phase is not Phase.TOOL or not waits_are_over(case):
        return None
    for call in case.activity.calls.values():
        if call.enforced or call.timeout_seconds is not None:
            until = min(call_end(call, case.policy), case.now)
            summary = f"a call is open {length(case.now.seconds_since(call.since))}, longer than it may"
            evidence = tuple(_wedge_evidence(case, call))
            return Finding(Code.TOOL_WEDGED, until, summary, evidence, (call_text(call),))
    return None


def _wedge_evidence(case: Case, call: OpenCall) -> Iterator[str]:
    """Why this is no question that the log does not mention, where that is known."""
    mode, holder = case.activity.permission_mode, case.presence.newest
    if call.limit_seconds is not None:
        yield f"such a call comes back within {call.limit_seconds:.0f} s"
    if mode in ASKS_NOBODY:
        yield f"its permission mode is {mode}: it asks nobody"
    elif holder is not None and holder.status is not None:
        yield f"its client says {holder.status}: it asks nobody now"
    elif call.limit_seconds is None:
        yield "perhaps it asks for a permission"


def waits_are_over(case: Case) -> bool:
    """A wait for a person is never over, and a log without a known writer just ends."""
    known = bool(case.presence.living) or case.presence.vouched
    return (
        known
        and bool(case.waits)
        and all(wait.until is not None and wait.until <= case.now for wait in case.waits)
    )


def is_quiet(case: Case) -> bool:
    progress_at = case.activity.progress_at
    return progress_at is not None and case.now.seconds_since(progress_at) >= case.policy.silence_seconds


def _silent(case: Case) -> Finding | None:
    """Every wait has run out and nobody else can be blamed: not a client's own call, not a provider's refusals."""
    if case.agent is not Sight.ALIVE or case.phase not in OPEN or not waits_are_over(case):
        return None
    if case.activity.retries_in_a_row > case.policy.errors_in_a_row_max:
        return None
    if case.phase is Phase.TOOL and any(call.enforced for call in case.activity.calls.values()):
        return None
    since = case.activity.progress_at or case.waits[0].since
    quiet_seconds = int(case.now.seconds_since(since))
    length = f"{quiet_seconds // 60} min" if quiet_seconds >= 120 else f"{quiet_seconds} s"
    waited = case.waits[0]
    return Finding(
        Code.SILENT,
        since,
        f"silent for more than {length}",
        (waited.evidence,),
        (waited.untrusted,) if waited.untrusted else (),
    )


def _drifting(case: Case) -> Finding | None:
    dialog = case.presence.dialog
    if dialog is not None and dialog.kind is DialogKind.UNKNOWN and case.agent is Sight.ALIVE:
        told = "its client shows neither an input line nor a dialog that Wakeful knows"
        return Finding(Code.READER_DRIFT, dialog.since, told, untrusted=(dialog.words,))
    summary = drift(case.activity, case.policy)
    return Finding(Code.READER_DRIFT, case.activity.first_at or case.now, summary) if summary else None


def drift(activity: Activity, policy: Policy) -> str | None:
    """How the log's format changed, in words."""
    if activity.drifted is not None:
        return f"the log's format changed: no {activity.drifted}"
    # Whoever only says that it is at work, and much else beside, need not have turns.
    is_strange = activity.skipped > activity.known and activity.skipped >= policy.drift_records_min
    if is_strange and activity.known == activity.marks:
        what = "record of a turn" if activity.marks else "record"
        return f"no known {what} among {activity.skipped + activity.marks}"
    return None


DETECTORS: Final[tuple[Callable[[Case], Finding | None], ...]] = (
    _died,
    _twins,
    _failed,
    _poisoned,
    _looping,
    _cascading,
    _silent,
    _wedged,
    _never_started,
    _running_away,
    _drifting,
)


def detectors(presence: Presence) -> tuple[Callable[[Case], Finding | None], ...]:
    """A transcript whose writer was never seen alive raises no alarm, but for being unreadable; so does what a person
    stopped."""
    if presence.stopped and presence.agent is Sight.DEAD:
        return (_drifting,)
    return DETECTORS if was_seen(presence) else (_drifting,)


def was_seen(presence: Presence) -> bool:
    return bool(presence.holders) or presence.vouched or presence.grown_at is not None
