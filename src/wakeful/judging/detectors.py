"""Detectors: each checks one case and returns a finding or nothing. Pure.

A detector is one function in DETECTORS. Thresholds come from the policy, waits from `waits`; the meaning of a
finding is in `findings`.
"""

from collections.abc import Callable, Iterator
from typing import Final

from wakeful.core.clock import Instant, iso
from wakeful.core.process import ProcessState
from wakeful.judging.activity import Activity, OpenCall
from wakeful.judging.events import Failure
from wakeful.judging.evidence import AgentProcess, ClientStatus, DialogKind, RuntimeState
from wakeful.judging.findings import ExpectedWait, Finding, FindingCode
from wakeful.judging.folding import GAP_SECONDS_MAX
from wakeful.judging.loops import LoopTracker, detect_loop
from wakeful.judging.outage import is_outage
from wakeful.judging.permission import NEVER_ASKING_MODES
from wakeful.judging.spawns import detect_storm
from wakeful.judging.thresholds import Policy
from wakeful.judging.turn_state import OPEN, TurnPhase
from wakeful.judging.waits import WaitInput, call_end, call_text
from wakeful.judging.wording import format_length, result_text

# `claude -p` and `codex exec` end within seconds of the error that ends their turn.
CLOSED_SECONDS_MIN: Final = 60.0
# A failing `claude --resume` has the conversation open for 0.03 to 1 s before it ends.
TWIN_SECONDS: Final = 3.0


class DetectorInput(WaitInput, frozen=True, gc=False):
    agent: ProcessState
    waits: tuple[ExpectedWait, ...]


def _detect_exit(facts: DetectorInput) -> Finding | None:
    """The process ended inside a turn. After a finished turn it simply stopped."""
    if facts.agent is not ProcessState.DEAD or facts.activity.phase not in OPEN:
        return None
    # After a text that may be the last one, or a command that a person typed into the client, no answer is due.
    if facts.activity.phase in {TurnPhase.SETTLING, TurnPhase.OPENED}:
        return None
    if facts.activity.is_out_of_budget or facts.activity.may_be_out_of_budget:
        return None
    process = facts.presence.newest_process
    ended_at = (process.ended_at if process is not None else None) or facts.activity.last_at or facts.now
    pane = facts.presence.pane
    at_shell = pane is not None and pane.sight is ProcessState.ALIVE
    return Finding(
        FindingCode.AGENT_EXITED if at_shell else FindingCode.SESSION_DEAD,
        ended_at,
        exit_text(facts.presence, "a turn", at_shell=at_shell),
        evidence=tuple(_death_evidence(facts, process)),
        untrusted=tuple(
            [call_text(call) for call in facts.activity.calls.values()]
            + [orphan.command for orphan in facts.presence.orphans]
        ),
    )


def exit_text(runtime: RuntimeState, during: str, *, at_shell: bool) -> str:
    """How its process ended in the middle of this."""
    if runtime.ended_by_wakeful:
        return f"ended by Wakeful in the middle of {during}, to free memory or processor time"
    return f"{'exited to a shell' if at_shell else 'died'} in the middle of {during}"


def _death_evidence(facts: DetectorInput, process: AgentProcess | None) -> list[str]:
    lines = []
    if process is not None:
        # A recording may not name the process.
        which = f"process {process.process.pid}" if process.process.pid else "its process"
        lines.append(f"{which} is gone ({process.source})")
    if facts.activity.calls:
        lines.append(f"calls left open: {len(facts.activity.calls)}")
    lines += [f"its tool still runs as process {orphan.process.pid}" for orphan in facts.presence.orphans]
    return lines


def twins_since(runtime: RuntimeState) -> Instant | None:
    """Since when more than one live process has the conversation; None with one or none."""
    living = runtime.living_processes
    return max(process.seen_at for process in living) if len(living) > 1 else None


def _detect_twins(facts: DetectorInput) -> Finding | None:
    living, since = facts.presence.living_processes, twins_since(facts.presence)
    if since is None or facts.now.seconds_since(since) < TWIN_SECONDS:
        return None
    pids = ", ".join(str(process.process.pid) for process in living)
    return Finding(
        FindingCode.TWIN_PROCESSES, since, f"{len(living)} processes hold one conversation", (f"pids {pids}",)
    )


_FAILURE_CODES: Final = {Failure.AUTH: FindingCode.AUTH_REQUIRED, Failure.LIMIT: FindingCode.USAGE_LIMITED}
_FAILURE_SUMMARIES: Final = {
    FindingCode.AUTH_REQUIRED: "the provider refused the login",
    FindingCode.USAGE_LIMITED: "the usage limit is reached",
    FindingCode.TURN_FAILED: "the last turn ended with an error",
}


def _detect_failed_turn(facts: DetectorInput) -> Finding | None:
    activity = facts.activity
    if facts.phase is not TurnPhase.FAILED or activity.failure is None or activity.phase_since is None:
        return None
    code = _FAILURE_CODES.get(activity.failure, FindingCode.TURN_FAILED)
    summary, ends = _FAILURE_SUMMARIES[code], activity.limit_until
    if ends is None and _was_closed(facts, activity.phase_since):
        return None
    if ends is not None and ends.wall <= facts.now.wall:
        summary = "the usage limit has ended, and it has had no prompt since"
    evidence = (f"the limit ends at {iso(ends.wall)}",) if ends is not None else ()
    return Finding(code, activity.phase_since, summary, evidence, (activity.failure_message,))


def _was_closed(facts: DetectorInput, failed_at: Instant) -> bool:
    """Whether a person closed it after the failed turn: a program that gives up by itself does so at once."""
    process = facts.presence.newest_process
    if facts.agent is not ProcessState.DEAD or process is None or process.ended_at is None:
        return False
    return process.ended_at.seconds_since(failed_at) > CLOSED_SECONDS_MIN


def _detect_poisoned(facts: DetectorInput) -> Finding | None:
    """Every prompt fails the same way. Not for a login, a limit or an outage: those have an end."""
    activity = facts.activity
    if activity.failures_alike <= facts.policy.failures_alike_max or facts.phase is not TurnPhase.FAILED:
        return None
    if activity.failure in _FAILURE_CODES or is_outage(activity) or activity.phase_since is None:
        return None
    summary = f"{activity.failures_alike} prompts in a row failed the same way"
    return Finding(
        FindingCode.POISONED_CONVERSATION,
        activity.phase_since,
        summary,
        untrusted=(activity.failure_message,),
    )


def _detect_error_cascade(facts: DetectorInput) -> Finding | None:
    activity, most = facts.activity, facts.policy.errors_in_a_row_max
    if facts.phase not in OPEN:  # the turn ended, even if its log does not say so
        return None
    if activity.errors_in_a_row > most and activity.errors_since is not None:
        summary = f"{activity.errors_in_a_row} failed calls in a row"
        last_call = (activity.failed.text,) if activity.failed is not None else ()
        last_failure = (*last_call, result_text(activity.failed_with))
        return Finding(FindingCode.ERROR_CASCADE, activity.errors_since, summary, untrusted=last_failure)
    # A client retries for three minutes by itself; only an outage as long as a silence is a problem.
    if activity.retries_in_a_row > most and is_quiet(facts) and activity.progress_at is not None:
        summary = f"the provider refused {activity.retries_in_a_row} requests in a row"
        return Finding(FindingCode.ERROR_CASCADE, activity.progress_at, summary)
    return None


def _detect_loop(facts: DetectorInput) -> Finding | None:
    # After its death no time passes for a session: the time that a poll is unchanged does not grow.
    until = facts.now if facts.agent is ProcessState.ALIVE else facts.activity.last_at or facts.now
    found = detect_loop(facts.activity.circles, facts.policy, until, in_turn=facts.phase in OPEN)
    if found is None:
        return None
    untrusted = (found.call.text,) if found.call is not None else ()
    return Finding(FindingCode.LOOP, found.since, found.summary, untrusted=untrusted)


def polled_cycle_since(tracker: LoopTracker, policy: Policy) -> Instant | None:
    """Since when a cycle repeats often enough to be a loop, apart from the poll in it."""
    for size, run in enumerate(tracker.runs, start=1):
        most = policy.repeats_max if size == 1 else policy.cycles_max
        if run.polled and run.since is not None and run.length // size >= most:
            return run.since
    often = (made for made in tracker.made if tracker.polled_index >= made.counted_from)
    return next((made.since for made in often if made.count > policy.duplicates_max), None)


def _detect_runaway(facts: DetectorInput) -> Finding | None:
    activity, policy = facts.activity, facts.policy
    if facts.phase not in OPEN or facts.agent is not ProcessState.ALIVE or activity.progress_at is None:
        return None
    seconds = active_seconds(facts)
    since = facts.now.plus(-seconds)
    if seconds > policy.runaway_seconds:
        summary = f"at work for {seconds / 3600:.1f} h without an end"
    elif activity.turn_calls > policy.runaway_calls_max:
        summary = f"{activity.turn_calls} calls in one turn"
    elif activity.turn_tokens > policy.runaway_tokens_max:
        summary = f"{activity.turn_tokens} tokens in one turn"
    elif (cost := turn_cost(activity, policy)) > policy.runaway_cost_usd:
        summary = f"${cost:.2f} spent in one turn, at the configured prices"
    elif (too_many := detect_storm(activity, policy)) is not None:
        since, summary = too_many.since, too_many.summary
    else:
        return None
    evidence = (
        ()
        if is_quiet(facts)
        else ("it made progress a moment ago: an alert is sent, and nothing is stopped",)
    )
    return Finding(FindingCode.RUNAWAY, since, summary, evidence)


def turn_cost(activity: Activity, policy: Policy) -> float:
    """The cost of the turn so far, in dollars; 0 without configured prices."""
    input_tokens = activity.turn_tokens - activity.turn_output_tokens
    return (
        input_tokens * policy.input_usd_per_million
        + activity.turn_output_tokens * policy.output_usd_per_million
    ) / 1e6


def active_seconds(facts: DetectorInput) -> float:
    """How long the turn has been at work, without waits for a person and long gaps."""
    activity = facts.activity
    if activity.progress_at is None or activity.phase is TurnPhase.PERSON:
        return activity.active_seconds
    return activity.active_seconds + min(facts.now.seconds_since(activity.progress_at), GAP_SECONDS_MAX)


def _detect_never_started(facts: DetectorInput) -> Finding | None:
    """The client reports that it is busy, and its log is empty."""
    process = facts.presence.newest_process
    if facts.activity.last_at is not None or process is None or process.status is not ClientStatus.BUSY:
        return None
    if facts.now.seconds_since(process.seen_at) <= facts.policy.never_started_seconds:
        return None
    return Finding(
        FindingCode.NEVER_STARTED, process.seen_at, "busy since it was started, with nothing in its log"
    )


def _detect_wedged_tool(facts: DetectorInput) -> Finding | None:
    """Every wait has run out, and the session waits for a call that should have returned."""
    if (
        facts.agent is not ProcessState.ALIVE
        or facts.phase is not TurnPhase.TOOL
        or not waits_are_over(facts)
    ):
        return None
    for call in facts.activity.calls.values():
        if call.enforced or call.timeout_seconds is not None:
            until = min(call_end(call, facts.policy), facts.now)
            summary = f"a call has been open for {format_length(facts.now.seconds_since(call.since))}, longer than its limit"
            evidence = tuple(_wedge_evidence(facts, call))
            return Finding(FindingCode.TOOL_WEDGED, until, summary, evidence, (call_text(call),))
    return None


def _wedge_evidence(facts: DetectorInput, call: OpenCall) -> Iterator[str]:
    """The evidence against an unlogged permission question, if there is any."""
    mode, process = facts.activity.permission_mode, facts.presence.newest_process
    if call.limit_seconds is not None:
        yield f"such a call returns within {call.limit_seconds:.0f} s"
    if mode in NEVER_ASKING_MODES:
        yield f"its permission mode is {mode}: it never asks"
    elif process is not None and process.status is not None:
        yield f"its client says {process.status}, so it asks nothing now"
    elif call.limit_seconds is None:
        yield "it may be asking for permission"


def waits_are_over(facts: DetectorInput) -> bool:
    """A wait for a person is never over, and a log without a known process just ends."""
    known = bool(facts.presence.living_processes) or facts.presence.vouched
    return (
        known
        and bool(facts.waits)
        and all(wait.until is not None and wait.until <= facts.now for wait in facts.waits)
    )


def is_quiet(facts: DetectorInput) -> bool:
    progress_at = facts.activity.progress_at
    return progress_at is not None and facts.now.seconds_since(progress_at) >= facts.policy.silence_seconds


def _detect_silence(facts: DetectorInput) -> Finding | None:
    """Every wait has run out and there is no other cause: no call that the client ends, no refusals of the provider."""
    if facts.agent is not ProcessState.ALIVE or facts.phase not in OPEN or not waits_are_over(facts):
        return None
    if facts.activity.retries_in_a_row > facts.policy.errors_in_a_row_max:
        return None
    if facts.phase is TurnPhase.TOOL and any(call.enforced for call in facts.activity.calls.values()):
        return None
    since = facts.activity.progress_at or facts.waits[0].since
    quiet_seconds = int(facts.now.seconds_since(since))
    length = f"{quiet_seconds // 60} min" if quiet_seconds >= 120 else f"{quiet_seconds} s"
    waited = facts.waits[0]
    return Finding(
        FindingCode.SILENT,
        since,
        f"silent for more than {length}",
        (waited.evidence,),
        (waited.untrusted,) if waited.untrusted else (),
    )


def _detect_drift(facts: DetectorInput) -> Finding | None:
    dialog = facts.presence.dialog
    if dialog is not None and dialog.kind is DialogKind.UNKNOWN and facts.agent is ProcessState.ALIVE:
        summary = "its client shows neither an input line nor a dialog that Wakeful knows"
        return Finding(FindingCode.READER_DRIFT, dialog.since, summary, untrusted=(dialog.words,))
    drift = format_drift(facts.activity, facts.policy)
    since = facts.activity.first_at or facts.now
    return Finding(FindingCode.READER_DRIFT, since, drift) if drift else None


def format_drift(activity: Activity, policy: Policy) -> str | None:
    if activity.drifted is not None:
        return f"the log's format changed: no {activity.drifted}"
    # A log with marks of activity and many unknown records need not have turns.
    is_strange = activity.skipped > activity.known and activity.skipped >= policy.drift_records_min
    if is_strange and activity.known == activity.marks:
        what = "record of a turn" if activity.marks else "record"
        return f"no known {what} among {activity.skipped + activity.marks}"
    return None


DETECTORS: Final[tuple[Callable[[DetectorInput], Finding | None], ...]] = (
    _detect_exit,
    _detect_twins,
    _detect_failed_turn,
    _detect_poisoned,
    _detect_loop,
    _detect_error_cascade,
    _detect_silence,
    _detect_wedged_tool,
    _detect_never_started,
    _detect_runaway,
    _detect_drift,
)


def detectors(runtime: RuntimeState) -> tuple[Callable[[DetectorInput], Finding | None], ...]:
    """All detectors; only drift for a session that ended on purpose, or whose process was never seen."""
    if runtime.stopped and runtime.agent_state is ProcessState.DEAD:
        return (_detect_drift,)
    return DETECTORS if was_seen(runtime) else (_detect_drift,)


def was_seen(runtime: RuntimeState) -> bool:
    return bool(runtime.holders) or runtime.vouched or runtime.grown_at is not None
