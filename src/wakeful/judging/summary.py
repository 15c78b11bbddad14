"""Describes a verdict in one sentence for people. Pure.

It is about the first finding; without one, about the expected wait; without that, about the end of the last
turn. Text of an agent or client appears only in backquotes.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from wakeful.core.clock import Instant, latest
from wakeful.core.process import ProcessState
from wakeful.core.redaction import redact
from wakeful.judging.activity import Activity, OpenCall
from wakeful.judging.detectors import exit_text
from wakeful.judging.evidence import Orphan, RuntimeState, stop_reason
from wakeful.judging.findings import ExpectedWait, Finding, FindingCode, Health, State, Verdict, WaitKind
from wakeful.judging.turn_state import TurnPhase
from wakeful.judging.waits import PROBABLY_ASKS, call_text
from wakeful.judging.wording import format_length, format_time_of_day, quote

# From here on silence is mentioned: half of all waits for a model or a tool are over within 3 s.
QUIET_SECONDS_MIN: Final = 60.0


def summarize(
    activity: Activity, runtime: RuntimeState, verdict: Verdict, now: Instant, state: State = State.IDLE
) -> str:
    """One sentence about the session. `state`: the record's, which also considers whether a prompt can reach it."""
    if verdict.findings:
        finding = verdict.findings[0]
        return _FINDING_TEXTS.get(finding.code, _describe_finding)(finding, activity, runtime, now)
    if runtime.dialog is not None and verdict.state is State.WAITING:
        return f"waits for you at a dialog ({runtime.dialog.kind}): {quote(runtime.dialog.words)}"
    if verdict.waits and (verdict.active_prompt or verdict.state is State.WAITING):
        return _describe_waits(verdict.waits, activity, now)
    if verdict.health is Health.UNKNOWN:
        return f"unknown: {_describe_unclear_end(activity, runtime, verdict)}"
    if verdict.state is State.STOPPED:
        ended = f"{_describe_turn_end(activity, runtime, now)}, and its process ended"
        if runtime.heir is not None or (runtime.stopped and runtime.by_gateway):
            return f"stopped: {stop_reason(runtime.heir, by_gateway=runtime.by_gateway)}"
        return "stopped by a person, which is final" if runtime.stopped else f"stopped: {ended}"
    return _describe_living(activity, runtime, verdict, now, state)


def _describe_living(
    activity: Activity, runtime: RuntimeState, verdict: Verdict, now: Instant, state: State
) -> str:
    """For a session without findings and questions."""
    ending = _describe_turn_end(activity, runtime, now)
    if verdict.health is Health.STALE:
        seen = latest((runtime.grown_at, activity.last_at)) or now
        return f"idle, and not seen for {format_length(now.seconds_since(seen))}"
    if verdict.waits:
        last = max(verdict.waits, key=lambda wait: wait.until or now)
        return f"{ending}; {_wait_text(last)} until {format_time_of_day(last.until or now, now)}"
    if verdict.active_prompt:
        return f"at work; its last progress was {format_length(quiet_seconds(activity, now))} ago"
    if activity.asks and verdict.state is State.IDLE:
        ending += f", asks: {quote(activity.asks)}"
    return f"{ending}{_READY.get(state, ', ready for a prompt')}"


_READY: Final = {State.DETACHED: "; it is alive, but Wakeful cannot send it a prompt"}


def quiet_seconds(activity: Activity, now: Instant) -> float:
    return now.seconds_since(activity.progress_at) if activity.progress_at is not None else 0.0


def _describe_finding(finding: Finding, _activity: Activity, _runtime: RuntimeState, now: Instant) -> str:
    text = next(filter(None, finding.untrusted), None)
    about = f": {quote(text)}" if text is not None else ""
    return f"{finding.summary}{about}, since {format_time_of_day(finding.since, now)}"


def _describe_exit(finding: Finding, activity: Activity, runtime: RuntimeState, _now: Instant) -> str:
    at_shell = finding.code is FindingCode.AGENT_EXITED
    during = _calls(list(activity.calls.values()))
    return f"{exit_text(runtime, during, at_shell=at_shell)}{_describe_orphans(runtime)}"


def _describe_orphans(runtime: RuntimeState) -> str:
    if not runtime.orphans:
        return ""
    still = "its tool still runs" if len(runtime.orphans) == 1 else "its tools still run"
    return f"; {still} as {orphan_text(runtime.orphans)}"


def _calls(calls: list[OpenCall]) -> str:
    if not calls:
        return "a turn"
    others = len(calls) - 1
    more = f" and {others} more call{'s' if others > 1 else ''}" if others > 0 else ""
    return quote(call_text(calls[0])) + more


def _describe_cascade(finding: Finding, activity: Activity, runtime: RuntimeState, now: Instant) -> str:
    if len(finding.untrusted) < 2:
        return _describe_finding(finding, activity, runtime, now)
    call, result = map(quote, finding.untrusted)
    return f"{finding.summary}, the last {call} with {result}, since {format_time_of_day(finding.since, now)}"


def _describe_silence(finding: Finding, _activity: Activity, _runtime: RuntimeState, now: Instant) -> str:
    waited = next(iter(finding.evidence), "nothing comes")
    about = f" ({quote(finding.untrusted[0])})" if finding.untrusted else ""
    return f"silent {format_length(now.seconds_since(finding.since))}, longer than expected: {waited}{about}"


def _describe_limit(finding: Finding, activity: Activity, runtime: RuntimeState, now: Instant) -> str:
    text, until = _describe_finding(finding, activity, runtime, now), activity.limit_until
    if until is None or until.wall <= now.wall:
        return text
    return f"{text}; it ends at {format_time_of_day(until, now)}"


def _describe_drift(finding: Finding, _activity: Activity, _runtime: RuntimeState, _now: Instant) -> str:
    return f"unknown: {finding.summary}"


_FINDING_TEXTS: Final[Mapping[FindingCode, Callable[[Finding, Activity, RuntimeState, Instant], str]]] = {
    FindingCode.SESSION_DEAD: _describe_exit,
    FindingCode.AGENT_EXITED: _describe_exit,
    FindingCode.ERROR_CASCADE: _describe_cascade,
    FindingCode.SILENT: _describe_silence,
    FindingCode.USAGE_LIMITED: _describe_limit,
    FindingCode.READER_DRIFT: _describe_drift,
}


def _describe_waits(waits: tuple[ExpectedWait, ...], activity: Activity, now: Instant) -> str:
    person = next((wait for wait in waits if wait.kind is WaitKind.PERSON), None)
    if person is not None:
        # Marked as a guess: no source shows the question.
        how = PROBABLY_ASKS if person.probable else "waits for you"
        return f"{how}: {_question_text(person.untrusted)}"
    # The session may be silent until its last wait is over.
    last = max(waits, key=lambda wait: wait.until or now)
    quiet = quiet_seconds(activity, now)
    silent = f"silent {format_length(quiet)}, expected" if quiet >= QUIET_SECONDS_MIN else "at work"
    until = f" until {format_time_of_day(last.until, now)}" if last.until is not None else ""
    return f"{silent}: {_wait_text(last)}{until}"


def _question_text(text: str) -> str:
    """The question, and its call if the client named both."""
    # Redacted before the split: one half may show that the other is secret.
    what, _, call = redact(text).partition(": ")
    if " {" in call:
        return f"{quote(what)}, {quote(call)}"
    return quote(text) if text else "a question is open"


def _wait_text(wait: ExpectedWait) -> str:
    match wait.kind:
        case WaitKind.MODEL:
            return "the model may take"
        case WaitKind.SUBAGENT:
            return f"its subagent {quote(wait.untrusted)} may run"
        case WaitKind.RETRY:
            return f"{wait.evidence}, which may continue"
        case WaitKind.COMPACTION:
            return "summarising the conversation may take"
        case WaitKind.BACKGROUND:
            return f"in the background {quote(wait.untrusted)} may run"
        case WaitKind.SLEEP:
            return f"{wait.evidence}, and it may continue its work"
        case _:
            return f"{quote(wait.untrusted) if wait.untrusted else wait.evidence} may run"


_ENDINGS: Final[Mapping[TurnPhase, str]] = {
    TurnPhase.ENDED: "finished",
    TurnPhase.PROPOSED: "proposed a plan",
    TurnPhase.FAILED: "its turn failed",
    TurnPhase.INTERRUPTED: "was interrupted",
    # Text, and nothing after it.
    TurnPhase.SETTLING: "finished",
}


def _describe_unclear_end(activity: Activity, runtime: RuntimeState, verdict: Verdict) -> str:
    if runtime.written_after_at is not None:
        return "its log grew after its process had ended; the writer is unknown"
    if verdict.agent is not ProcessState.DEAD:
        return "its process was never seen"
    if activity.may_be_out_of_budget:
        return "its process ended during a turn: its budget was used up, or a person ended it"
    return "its process ended, and no log says how"


def _describe_turn_end(activity: Activity, runtime: RuntimeState, now: Instant) -> str:
    since = activity.phase_since or activity.last_at
    how = "used up its budget" if activity.is_out_of_budget else _ENDINGS.get(activity.phase)
    if (unfinished := describe_unfinished_turn(activity, runtime)) is not None:
        if unfinished != TURN_CUT_OFF:
            return unfinished
        how, since = unfinished, activity.progress_at
    if how is None or since is None:
        return "no turn was seen"
    return f"{how} {format_length(now.seconds_since(since))} ago"


TURN_CUT_OFF: Final = "its last turn stopped midway"
TURN_END_UNKNOWN: Final = "its log does not say how its last turn ended"


def describe_unfinished_turn(activity: Activity, runtime: RuntimeState) -> str | None:
    """Describes a turn that ended without a log entry; None if the log has its end."""
    if not activity.in_turn or activity.phase is TurnPhase.SETTLING or activity.is_out_of_budget:
        return None
    ends = [
        each.ended_at or each.seen_at for each in runtime.holders.values() if each.sight is ProcessState.DEAD
    ]
    progress_at = activity.progress_at
    is_cut_off = progress_at is not None and any(progress_at <= end for end in ends)
    return TURN_CUT_OFF if is_cut_off else TURN_END_UNKNOWN


def orphan_text(orphans: Sequence[Orphan]) -> str:
    """The tools that outlived their agent, by pid."""
    pids = ", ".join(str(orphan.process.pid) for orphan in orphans)
    return f"{'process' if len(orphans) == 1 else 'processes'} {pids}"


def still_running_text(orphans: Sequence[Orphan]) -> str:
    """States that tools still run, so that a reader does not count them as interrupted. Empty without any."""
    if not orphans:
        return ""
    return f"its command still runs as {orphan_text(orphans)} and may still take effect"


def process_state_text(agent: ProcessState) -> str:
    return {
        ProcessState.ALIVE: "is alive",
        ProcessState.DEAD: "is gone",
        ProcessState.UNKNOWN: "could not be seen",
    }[agent]
