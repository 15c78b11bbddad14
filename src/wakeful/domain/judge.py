"""From evidence to verdict: a pure function of what was folded, what was seen, the policy and the time.

The order is the argument: first what the session waits for, then which waits have run out, then who is
alive, then what all that amounts to. A detector is one function in DETECTORS.
"""

from collections.abc import Callable
from typing import Final

from msgspec import Struct

from wakeful.domain.activity import GAP_SECONDS_MAX, Activity, OpenCall
from wakeful.domain.events import CallKind, Failure
from wakeful.domain.evidence import Holder, Presence, Rung, Status
from wakeful.domain.findings import MEANINGS, PRECEDENCE, Attention, Code, Health, State, worst
from wakeful.domain.loops import circle
from wakeful.domain.moment import Instant, latest
from wakeful.domain.policy import Policy
from wakeful.domain.process import Sight
from wakeful.domain.turn import OPEN, Phase
from wakeful.domain.verdict import ExpectedWait, Finding, Verdict, WaitKind


class Case(Struct, frozen=True, gc=False):
    """All that a detector may look at."""

    activity: Activity
    presence: Presence
    policy: Policy
    now: Instant
    phase: Phase
    agent: Sight
    waits: tuple[ExpectedWait, ...]


# Most logs of most machines: somebody wrote them once. No time and no rule can change that.
NOBODY_SEEN: Final = Verdict(
    state=State.STOPPED,
    health=Health.UNKNOWN,
    agent=Sight.UNKNOWN,
    active_prompt=False,
    attention=Attention.NONE,
    findings=(),
    waits=(),
    alive_to=Rung.HOST,
    broken_at=None,
    next_check_at=None,
)


def judge(activity: Activity, presence: Presence, policy: Policy, now: Instant) -> Verdict:
    """Say what is true of a session at `now`. Never looks at anything but its arguments."""
    if not _was_seen(presence) and _drift(activity, policy) is None:
        return NOBODY_SEEN
    agent = _agent(activity, presence, policy, now)
    phase = _phase(activity, presence, policy, now)
    waits = _waits(activity, presence, policy, phase) if agent is Sight.ALIVE else ()
    case = Case(activity, presence, policy, now, phase, agent, waits)
    found = [finding for detect in _detectors(presence) if (finding := detect(case)) is not None]
    findings = tuple(sorted(found, key=lambda finding: PRECEDENCE[finding.code]))
    state = _state(phase, agent)
    return Verdict(
        state=state,
        health=_health(case, state, findings),
        agent=agent,
        active_prompt=agent is Sight.ALIVE and phase in OPEN,
        attention=_attention(state, findings),
        findings=findings,
        waits=tuple(wait for wait in waits if wait.until is None or wait.until > now),
        alive_to=_alive_to(case),
        broken_at=_broken_at(case, findings),
        next_check_at=_next_check_at(case),
    )


def _agent(activity: Activity, presence: Presence, policy: Policy, now: Instant) -> Sight:
    """Whether the agent lives. A log that grows under our eyes has a living writer, known by name or not."""
    if presence.agent is not Sight.UNKNOWN:
        return presence.agent
    if presence.vouched:
        return Sight.DEAD if activity.closed else Sight.ALIVE
    if presence.grown_at is not None and now.seconds_since(presence.grown_at) <= policy.silence_seconds:
        return Sight.ALIVE
    return Sight.UNKNOWN


def _phase(activity: Activity, presence: Presence, policy: Policy, now: Instant) -> Phase:
    """The turn's phase, corrected by the client's own word where that is newer than the log."""
    phase = activity.phase
    if phase is Phase.SETTLING and _settled(activity, policy, now):
        phase = Phase.ENDED
    holder = presence.newest
    if holder is None or holder.sight is not Sight.ALIVE or holder.status is None:
        return phase
    return _by_status(phase, holder, activity)


def _settled(activity: Activity, policy: Policy, now: Instant) -> bool:
    since = activity.progress_at
    return since is None or now.seconds_since(since) >= policy.settle_seconds


def _by_status(phase: Phase, holder: Holder, activity: Activity) -> Phase:
    if holder.status is Status.WAITING:
        return Phase.PERSON
    last_at = activity.last_at
    if last_at is not None and (holder.status_at is None or holder.status_at < last_at):
        return phase
    if holder.status is Status.IDLE:
        return Phase.ENDED if phase in OPEN else phase
    if phase in OPEN and phase is not Phase.PERSON:
        return phase
    return Phase.TOOL if activity.calls else Phase.MODEL


def _waits(activity: Activity, presence: Presence, policy: Policy, phase: Phase) -> tuple[ExpectedWait, ...]:
    """What the session may be silent for, each with its end."""
    since = activity.progress_at or activity.last_at or _seen_at(presence)
    if phase is Phase.FAILED and activity.limit_until is not None and activity.phase_since is not None:
        told = "the provider said when the limit ends"
        return (ExpectedWait(WaitKind.LIMIT, activity.phase_since, activity.limit_until, told),)
    if since is None or phase not in OPEN:
        return ()
    if phase is Phase.PERSON:
        return (_person_wait(activity, presence, since),)
    if phase is Phase.TOOL and activity.calls:
        return tuple(_call_wait(call, presence, policy, since) for call in activity.calls.values())
    started = latest((since, _status_at(presence))) or since
    until = started.plus(policy.settle_seconds if phase is Phase.SETTLING else policy.silence_seconds)
    if activity.retries_in_a_row:
        told = f"the client retries a refused request ({activity.retries_in_a_row} so far)"
        return (ExpectedWait(WaitKind.RETRY, started, until, told),)
    return (ExpectedWait(WaitKind.MODEL, started, until, "the model's answer is pending"),)


def _person_wait(activity: Activity, presence: Presence, since: Instant) -> ExpectedWait:
    holder = presence.newest
    about = activity.asked_about or (holder.waiting_for if holder is not None else None) or "an answer"
    calls = " ".join(_call_text(call) for call in activity.calls.values() if call.tool != about)
    about = f"{about}: {calls}" if calls else about
    return ExpectedWait(WaitKind.PERSON, since, None, "a question is open", about)


def _call_wait(call: OpenCall, presence: Presence, policy: Policy, progress_at: Instant) -> ExpectedWait:
    """A call may take its own time, and nobody is silent before the silence is long."""
    if call.kind is CallKind.PERSON:
        return ExpectedWait(WaitKind.PERSON, call.since, None, "a question is open", call.tool)
    until, evidence = _call_end(call, policy), "call open"
    if call.timeout_seconds is not None:
        evidence = f"call open, may run {call.timeout_seconds:.0f} s"
    until = max(until, progress_at.plus(policy.silence_seconds))
    if presence.tool_seen_at is not None:
        seen_until = presence.tool_seen_at.plus(policy.silence_seconds)
        if seen_until > until:
            until, evidence = seen_until, "call open and its process was seen alive"
    if call.kind is CallKind.SUBAGENT and presence.grown_at is not None:
        until = latest((until, presence.grown_at.plus(policy.silence_seconds))) or until
    kind = WaitKind.SUBAGENT if call.kind is CallKind.SUBAGENT else WaitKind.TOOL
    return ExpectedWait(kind, call.since, until, evidence, _call_text(call))


def _call_end(call: OpenCall, policy: Policy) -> Instant:
    """When a call should have come back by its own word, or by that of the policy."""
    if call.timeout_seconds is None:
        return call.since.plus(policy.tool_seconds)
    return call.since.plus(call.timeout_seconds + policy.tool_grace_seconds)


def _call_text(call: OpenCall) -> str:
    return f"{call.tool} {call.input.decode('utf-8', 'replace')}"


def _seen_at(presence: Presence) -> Instant | None:
    holder = presence.newest
    return holder.seen_at if holder is not None else None


def _status_at(presence: Presence) -> Instant | None:
    holder = presence.newest
    return holder.status_at if holder is not None and holder.status is Status.BUSY else None


def _died(case: Case) -> Finding | None:
    """The process ended inside a turn. After a finished turn it simply stopped."""
    if case.agent is not Sight.DEAD or case.activity.phase not in OPEN:
        return None
    if case.activity.phase is Phase.SETTLING:
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
            [_call_text(call) for call in case.activity.calls.values()]
            + [orphan.command for orphan in case.presence.orphans]
        ),
    )


def _death_evidence(case: Case, holder: Holder | None) -> list[str]:
    lines = []
    if holder is not None:
        lines.append(f"process {holder.process.pid} is gone ({holder.source})")
    lines += [f"call {call.tool!r} was open" for call in case.activity.calls.values()]
    lines += [f"its tool still runs as process {orphan.process.pid}" for orphan in case.presence.orphans]
    return lines


def _twins(case: Case) -> Finding | None:
    living = case.presence.living
    if len(living) < 2:
        return None
    pids = ", ".join(str(holder.process.pid) for holder in living)
    since = max(holder.seen_at for holder in living)
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
    return Finding(
        code, activity.phase_since, _FAILURE_SUMMARIES[code], untrusted=(activity.failure_message,)
    )


def _poisoned(case: Case) -> Finding | None:
    """Every prompt fails the same way. A login or a limit is another matter: those have an end."""
    activity = case.activity
    if activity.failures_alike <= case.policy.failures_alike_max or case.phase is not Phase.FAILED:
        return None
    if activity.failure in _FAILURE_CODES or activity.phase_since is None:
        return None
    summary = f"{activity.failures_alike} prompts in a row failed the same way"
    return Finding(
        Code.POISONED_CONVERSATION, activity.phase_since, summary, untrusted=(activity.failure_message,)
    )


def _cascading(case: Case) -> Finding | None:
    activity, most = case.activity, case.policy.errors_in_a_row_max
    if activity.errors_in_a_row > most and activity.errors_since is not None:
        return Finding(
            Code.ERROR_CASCADE, activity.errors_since, f"{activity.errors_in_a_row} failed calls in a row"
        )
    # A client retries for three minutes by itself; only an outage as long as a silence is trouble.
    if activity.retries_in_a_row > most and _is_quiet(case) and activity.progress_at is not None:
        summary = f"the provider refused {activity.retries_in_a_row} requests in a row"
        return Finding(Code.ERROR_CASCADE, activity.progress_at, summary)
    return None


def _looping(case: Case) -> Finding | None:
    found = circle(case.activity.circles, case.policy, case.now)
    return Finding(Code.LOOP, found.since, found.summary) if found is not None else None


def _running_away(case: Case) -> Finding | None:
    activity, policy = case.activity, case.policy
    if case.phase not in OPEN or case.agent is not Sight.ALIVE or activity.progress_at is None:
        return None
    seconds = _active_seconds(case)
    since = case.now.plus(-seconds)
    if seconds > policy.runaway_seconds:
        return Finding(Code.RUNAWAY, since, f"at work for {seconds / 3600:.1f} h without an end")
    if activity.turn_calls > policy.runaway_calls_max:
        return Finding(Code.RUNAWAY, since, f"{activity.turn_calls} calls in one turn")
    if activity.turn_tokens > policy.runaway_tokens_max:
        return Finding(Code.RUNAWAY, since, f"{activity.turn_tokens} tokens in one turn")
    return None


def _active_seconds(case: Case) -> float:
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


# A file tool takes no time. One that stays open may be asking for a permission that the log does not mention.
_INSTANT_TOOLS: Final = frozenset({"Edit", "MultiEdit", "NotebookEdit", "Read", "Write"})


def _wedged(case: Case) -> Finding | None:
    """Every wait has run out, and what was waited for is a call that should have come back."""
    if case.agent is not Sight.ALIVE or case.phase is not Phase.TOOL or not _waits_are_over(case):
        return None
    for call in case.activity.calls.values():
        if call.enforced or call.timeout_seconds is not None:
            until = _call_end(call, case.policy)
            summary = f"a call is open {case.now.seconds_since(until):.0f} s longer than it may"
            told = ("a file tool takes no time: perhaps it asks for a permission",)
            evidence = told if call.tool in _INSTANT_TOOLS else ()
            return Finding(Code.TOOL_WEDGED, until, summary, evidence, (_call_text(call),))
    return None


def _waits_are_over(case: Case) -> bool:
    """A wait for a person is never over, and a log without a known writer just ends."""
    known = bool(case.presence.living) or case.presence.vouched
    return (
        known
        and bool(case.waits)
        and all(wait.until is not None and wait.until <= case.now for wait in case.waits)
    )


def _is_quiet(case: Case) -> bool:
    progress_at = case.activity.progress_at
    return progress_at is not None and case.now.seconds_since(progress_at) >= case.policy.silence_seconds


def _silent(case: Case) -> Finding | None:
    """Every wait has run out and nobody else can be blamed: not a client's own call, not a provider's refusals."""
    if case.agent is not Sight.ALIVE or case.activity.retries_in_a_row or not _waits_are_over(case):
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
    summary = _drift(case.activity, case.policy)
    return Finding(Code.READER_DRIFT, case.activity.first_at or case.now, summary) if summary else None


def _drift(activity: Activity, policy: Policy) -> str | None:
    """How the log's format changed, in words."""
    if activity.drifted is not None:
        return f"the log's format changed: no {activity.drifted}"
    if activity.known == 0 and activity.skipped >= policy.drift_records_min:
        return f"no known record among {activity.skipped}"
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


def _detectors(presence: Presence) -> tuple[Callable[[Case], Finding | None], ...]:
    """A transcript whose writer was never seen alive raises no alarm, but for being unreadable."""
    return DETECTORS if _was_seen(presence) else (_drifting,)


def _was_seen(presence: Presence) -> bool:
    return bool(presence.holders) or presence.vouched or presence.grown_at is not None


def _state(phase: Phase, agent: Sight) -> State:
    if agent is not Sight.ALIVE:
        return State.STOPPED
    if phase is Phase.PERSON:
        return State.WAITING
    return State.PROMPTING if phase in OPEN else State.IDLE


def _health(case: Case, state: State, findings: tuple[Finding, ...]) -> Health:
    if findings:
        return worst([MEANINGS[finding.code, state].health for finding in findings])
    if case.agent is Sight.UNKNOWN:
        return Health.UNKNOWN
    stale_at = _stale_at(case) if state is State.IDLE else None
    return Health.STALE if stale_at is not None and stale_at <= case.now else Health.HEALTHY


def _stale_at(case: Case) -> Instant | None:
    """When an idle session that only its log vouches for counts as stale; one whose process is seen never does."""
    if case.presence.living:
        return None
    seen = latest((case.presence.grown_at, case.activity.last_at))
    return seen.plus(case.policy.stale_seconds) if seen is not None else None


def _attention(state: State, findings: tuple[Finding, ...]) -> Attention:
    if findings:
        return MEANINGS[findings[0].code, state].attention
    return Attention.PERSON if state is State.WAITING else Attention.NONE


def _alive_to(case: Case) -> Rung:
    if case.agent is Sight.ALIVE:
        if case.phase not in OPEN:
            return Rung.AGENT_PROCESS
        return Rung.TOOL if case.phase is Phase.TOOL else Rung.TURN
    pane = case.presence.pane
    if pane is not None and pane.sight is Sight.ALIVE:
        return Rung.PANE_PROCESS
    if pane is not None and pane.runtime is Sight.ALIVE:
        return Rung.RUNTIME
    return Rung.HOST


# What a finding says about the ladder; a failed turn precedes whatever made no progress.
_BREAKS: Final = {
    Code.AUTH_REQUIRED: Rung.TURN,
    Code.USAGE_LIMITED: Rung.TURN,
    Code.TURN_FAILED: Rung.TURN,
    Code.ERROR_CASCADE: Rung.PROGRESS,
    Code.POISONED_CONVERSATION: Rung.TURN,
    Code.LOOP: Rung.PROGRESS,
    Code.TOOL_WEDGED: Rung.PROGRESS,
    Code.NEVER_STARTED: Rung.TURN,
    Code.RUNAWAY: Rung.PROGRESS,
    Code.SILENT: Rung.PROGRESS,
}


def _broken_at(case: Case, findings: tuple[Finding, ...]) -> Rung | None:
    if case.agent is Sight.DEAD:
        return Rung.AGENT_PROCESS
    return next((_BREAKS[finding.code] for finding in findings if finding.code in _BREAKS), None)


def _next_check_at(case: Case) -> Instant | None:
    """The earliest moment at which this verdict can change although nothing happens."""
    moments = [wait.until for wait in case.waits if wait.until is not None]
    if case.phase is Phase.SETTLING and case.activity.progress_at is not None:
        moments.append(case.activity.progress_at.plus(case.policy.settle_seconds))
    if case.agent is Sight.ALIVE and not case.presence.living and case.presence.grown_at is not None:
        moments.append(case.presence.grown_at.plus(case.policy.silence_seconds + 1))
    moments += _rule_deadlines(case)
    if case.agent is Sight.ALIVE and case.phase not in OPEN and (stale_at := _stale_at(case)) is not None:
        moments.append(stale_at)
    return min([moment for moment in moments if moment > case.now], default=None)


def _rule_deadlines(case: Case) -> list[Instant]:
    """When rules that count time alone would fire."""
    activity, policy = case.activity, case.policy
    if case.agent is not Sight.ALIVE:
        return []
    moments = []
    if case.phase in OPEN and case.phase is not Phase.PERSON and activity.progress_at is not None:
        moments.append(activity.progress_at.plus(policy.silence_seconds))
        left_seconds = policy.runaway_seconds - activity.active_seconds
        # Within one gap more than GAP_SECONDS_MAX never counts, so nothing is due beyond it.
        if left_seconds < GAP_SECONDS_MAX:
            moments.append(activity.progress_at.plus(max(left_seconds, 0.0) + 1))
    if case.phase is Phase.TOOL:
        grace_seconds = policy.tool_grace_seconds
        declared = [call for call in activity.calls.values() if call.timeout_seconds is not None]
        moments += [call.since.plus((call.timeout_seconds or 0.0) + grace_seconds) for call in declared]
    holder = case.presence.newest
    if activity.last_at is None and holder is not None and holder.status is Status.BUSY:
        moments.append(holder.seen_at.plus(policy.never_started_seconds + 1))
    return moments
