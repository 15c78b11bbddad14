"""Judges a session: a pure function from activity, presence, policy and time to a verdict.

The order matters: first the expected waits, then the waits that have run out, then which processes are alive,
then the conclusion.
"""

from typing import Final

from msgspec.structs import replace

from wakeful.core.clock import Instant, latest
from wakeful.core.labels import label
from wakeful.core.process import ProcessState
from wakeful.judging.activity import Activity
from wakeful.judging.detectors import (
    TWIN_SECONDS,
    DetectorInput,
    detectors,
    format_drift,
    polled_cycle_since,
    twins_since,
    was_seen,
)
from wakeful.judging.evidence import (
    STARTING_SECONDS,
    AgentProcess,
    ClientStatus,
    DialogKind,
    Elsewhere,
    LivenessLevel,
    RuntimeState,
    is_starting,
)
from wakeful.judging.findings import (
    MEANINGS,
    PRECEDENCE,
    Attention,
    Finding,
    FindingCode,
    Health,
    State,
    Verdict,
    worst,
)
from wakeful.judging.folding import GAP_SECONDS_MAX
from wakeful.judging.permission import call_awaiting_permission, permission_expected_at
from wakeful.judging.thresholds import Policy
from wakeful.judging.turn_state import OPEN, TurnPhase
from wakeful.judging.waits import (
    WaitInput,
    current_waits,
    expected_waits,
    limit_waits,
    with_current_wall_time,
)

# The verdict on old logs, which are most logs of most machines: neither time nor a rule changes it.
NO_EVIDENCE_VERDICT: Final = Verdict(
    state=State.STOPPED,
    health=Health.UNKNOWN,
    agent=ProcessState.UNKNOWN,
    active_prompt=False,
    attention=Attention.NONE,
    findings=(),
    waits=(),
    alive_to=LivenessLevel.HOST,
    broken_at=None,
    next_check_at=None,
)


def judge(activity: Activity, runtime: RuntimeState, policy: Policy, now: Instant) -> Verdict:
    """The verdict on a session at `now`, from the arguments alone."""
    if (other := runtime.other_machine) is not None:
        return _verdict_elsewhere(other)
    if not was_seen(runtime) and not runtime.stopped and format_drift(activity, policy) is None:
        return NO_EVIDENCE_VERDICT
    facts = detector_input(activity, runtime, policy, now)
    found = [finding for detect in detectors(runtime) if (finding := detect(facts)) is not None]
    findings = tuple(sorted(found, key=lambda finding: PRECEDENCE[finding.code]))
    state = _state(facts)
    return Verdict(
        state=state,
        health=_health(facts, state, findings),
        agent=facts.agent,
        active_prompt=facts.agent is ProcessState.ALIVE and facts.phase in OPEN,
        attention=_attention(facts, state, findings),
        findings=findings,
        waits=current_waits(facts.waits, now),
        alive_to=_alive_to(facts),
        broken_at=_broken_at(facts, findings),
        next_check_at=_next_check_at(facts),
    )


def _verdict_elsewhere(other: Elsewhere) -> Verdict:
    """The verdict on a session of another machine: its processes cannot be seen, so nothing here says how it is."""
    finding = Finding(
        FindingCode.RUNS_ELSEWHERE, other.since, f"runs on another machine: {label(other.host)}"
    )
    return replace(NO_EVIDENCE_VERDICT, findings=(finding,))


def detector_input(activity: Activity, runtime: RuntimeState, policy: Policy, now: Instant) -> DetectorInput:
    """The input of the detectors: process state, phase of the turn, and expected waits."""
    agent = _agent(activity, runtime, policy, now)
    phase = _phase(activity, runtime, policy, now)
    if (
        agent is ProcessState.ALIVE
        and phase is TurnPhase.TOOL
        and call_awaiting_permission(activity, runtime, policy, now) is not None
    ):
        phase = TurnPhase.PERSON
    facts = WaitInput(activity, runtime, policy, now, phase)
    waits = expected_waits(facts) if agent is ProcessState.ALIVE else limit_waits(facts)
    return DetectorInput(activity, runtime, policy, now, phase, agent, waits)


def _agent(activity: Activity, runtime: RuntimeState, policy: Policy, now: Instant) -> ProcessState:
    """Whether the agent is alive.

    A log that grows while watched has a live process, known or not. A log that grew after the end of all known
    processes has another one.
    """
    is_unknown = runtime.agent_state is ProcessState.UNKNOWN or runtime.written_after_at is not None
    if not is_unknown:
        return runtime.agent_state
    if runtime.vouched:
        return ProcessState.DEAD if activity.closed else ProcessState.ALIVE
    if runtime.grown_at is not None and now.seconds_since(runtime.grown_at) <= policy.silence_seconds:
        return ProcessState.ALIVE
    return ProcessState.UNKNOWN


def _phase(activity: Activity, runtime: RuntimeState, policy: Policy, now: Instant) -> TurnPhase:
    """The turn's phase, corrected by the client's status if that is newer than the log."""
    if runtime.dialog is not None:
        # The client accepts no prompt before the dialog is answered; the log is of an earlier process.
        return TurnPhase.UNSEEN
    if activity.phase in OPEN and is_starting(runtime, activity.last_at, now):
        # The open turn belongs to the previous process.
        return TurnPhase.UNSEEN
    phase, since = activity.phase, activity.progress_at
    has_settled = since is None or now.seconds_since(since) >= policy.settle_seconds
    if activity.is_out_of_budget or (phase is TurnPhase.SETTLING and has_settled):
        phase = TurnPhase.ENDED
    process = runtime.newest_process
    if phase not in OPEN and _is_compacting(activity, process, policy, now):
        phase = TurnPhase.MODEL
    if process is None or process.sight is not ProcessState.ALIVE or process.status is None:
        return phase
    if process.status is ClientStatus.WAITING:
        return TurnPhase.PERSON
    last_at = activity.last_at
    if last_at is not None and (process.status_at is None or process.status_at < last_at):
        return phase
    if process.status is ClientStatus.IDLE:
        return TurnPhase.ENDED if phase in OPEN else phase
    if phase in OPEN and phase is not TurnPhase.PERSON:
        return phase
    return TurnPhase.TOOL if activity.calls else TurnPhase.MODEL


def _is_compacting(activity: Activity, process: AgentProcess | None, policy: Policy, now: Instant) -> bool:
    """Whether the client summarises the conversation, which it also does between turns.

    The log does not show that a person interrupts it, so after its time only a client that reports itself busy counts.
    """
    since = activity.compacting_since
    if since is None:
        return False
    busy = process is not None and process.status is ClientStatus.BUSY
    return busy or now.seconds_since(since) < policy.compaction_seconds


def _state(facts: DetectorInput) -> State:
    if facts.agent is not ProcessState.ALIVE:
        return State.STOPPED
    if (dialog := facts.presence.dialog) is not None:
        return State.STARTING if dialog.kind is DialogKind.UNKNOWN else State.WAITING
    if facts.phase is TurnPhase.UNSEEN and is_starting(facts.presence, facts.activity.last_at, facts.now):
        return State.STARTING
    if facts.phase in {TurnPhase.PERSON, TurnPhase.PROPOSED}:
        return State.WAITING
    return State.PROMPTING if facts.phase in OPEN else State.IDLE


def _health(facts: DetectorInput, state: State, findings: tuple[Finding, ...]) -> Health:
    if findings:
        return worst([MEANINGS[finding.code, state].health for finding in findings])
    if facts.agent is ProcessState.UNKNOWN:
        # A process that a person ended while Wakeful did not run is no problem; one that cannot be probed may be.
        is_ended = facts.presence.stopped and not facts.presence.holders
        return Health.HEALTHY if is_ended else Health.UNKNOWN
    # The log does not say whether the budget or a person ended it.
    has_unclear_end = facts.agent is ProcessState.DEAD and facts.activity.may_be_out_of_budget
    if has_unclear_end or ended_without_log(facts.activity, facts.presence, facts.agent):
        return Health.UNKNOWN
    stale_at = _stale_at(facts) if state is State.IDLE else None
    return Health.STALE if stale_at is not None and stale_at <= facts.now else Health.HEALTHY


def ended_without_log(activity: Activity, runtime: RuntimeState, agent: ProcessState) -> bool:
    """Whether the process ended without a log, so that it is unknown whether it ended well.

    A process that had reported itself idle ended well.
    """
    process = runtime.newest_process
    if agent is not ProcessState.DEAD or activity.last_at is not None or process is None or runtime.stopped:
        return False
    return not process.ended_idle and process.status is not ClientStatus.IDLE


def _stale_at(facts: DetectorInput) -> Instant | None:
    """When an idle session without a visible process counts as stale; one with a live process never does."""
    if facts.presence.living_processes:
        return None
    seen = latest((facts.presence.grown_at, facts.activity.last_at))
    return seen.plus(facts.policy.stale_seconds) if seen is not None else None


def _attention(facts: DetectorInput, state: State, findings: tuple[Finding, ...]) -> Attention:
    if findings:
        return MEANINGS[findings[0].code, state].attention
    if (dialog := facts.presence.dialog) is not None and dialog.kind is DialogKind.LOGIN:
        return Attention.LOGIN if state is State.WAITING else Attention.NONE
    return Attention.PERSON if state is State.WAITING else Attention.NONE


def _alive_to(facts: DetectorInput) -> LivenessLevel:
    if facts.agent is ProcessState.ALIVE:
        if facts.phase not in OPEN:
            return LivenessLevel.AGENT_PROCESS
        return LivenessLevel.TOOL if facts.phase is TurnPhase.TOOL else LivenessLevel.TURN
    pane = facts.presence.pane
    if pane is not None and pane.sight is ProcessState.ALIVE:
        return LivenessLevel.PANE_PROCESS
    if pane is not None and pane.runtime is ProcessState.ALIVE:
        return LivenessLevel.RUNTIME
    return LivenessLevel.HOST


# The liveness level that a finding breaks; a failed turn precedes missing progress.
_BROKEN_LEVELS: Final = {
    FindingCode.AUTH_REQUIRED: LivenessLevel.TURN,
    FindingCode.USAGE_LIMITED: LivenessLevel.TURN,
    FindingCode.TURN_FAILED: LivenessLevel.TURN,
    FindingCode.ERROR_CASCADE: LivenessLevel.PROGRESS,
    FindingCode.POISONED_CONVERSATION: LivenessLevel.TURN,
    FindingCode.LOOP: LivenessLevel.PROGRESS,
    FindingCode.TOOL_WEDGED: LivenessLevel.PROGRESS,
    FindingCode.NEVER_STARTED: LivenessLevel.TURN,
    FindingCode.RUNAWAY: LivenessLevel.PROGRESS,
    FindingCode.SILENT: LivenessLevel.PROGRESS,
}


def _broken_at(facts: DetectorInput, findings: tuple[Finding, ...]) -> LivenessLevel | None:
    if facts.agent is ProcessState.DEAD:
        return LivenessLevel.AGENT_PROCESS
    return next(
        (_BROKEN_LEVELS[finding.code] for finding in findings if finding.code in _BROKEN_LEVELS), None
    )


def _next_check_at(facts: DetectorInput) -> Instant | None:
    """The earliest moment at which this verdict can change by time alone."""
    moments = [wait.until for wait in facts.waits if wait.until is not None]
    if facts.phase is TurnPhase.SETTLING and facts.activity.progress_at is not None:
        moments.append(facts.activity.progress_at.plus(facts.policy.settle_seconds))
    if (
        facts.agent is ProcessState.ALIVE
        and not facts.presence.living_processes
        and facts.presence.grown_at is not None
    ):
        moments.append(facts.presence.grown_at.plus(facts.policy.silence_seconds + 1))
    moments += _rule_deadlines(facts)
    if (
        facts.agent is ProcessState.ALIVE
        and facts.phase not in OPEN
        and (stale_at := _stale_at(facts)) is not None
    ):
        moments.append(stale_at)
    first = min([moment for moment in moments if moment > facts.now], default=None)
    return with_current_wall_time(first, facts.now) if first is not None else None


def _rule_deadlines(facts: DetectorInput) -> list[Instant]:
    """When rules that depend on time alone would fire."""
    activity, policy = facts.activity, facts.policy
    if facts.agent is not ProcessState.ALIVE:
        return []
    moments = []
    if (polled_since := polled_cycle_since(activity.circles, policy)) is not None:
        moments.append(polled_since.plus(policy.poll_seconds))
    if facts.phase in OPEN and facts.phase is not TurnPhase.PERSON and activity.progress_at is not None:
        moments.append(activity.progress_at.plus(policy.silence_seconds))
        left_seconds = policy.runaway_seconds - activity.active_seconds
        # One gap counts GAP_SECONDS_MAX at most, so nothing is due after it.
        if left_seconds < GAP_SECONDS_MAX:
            moments.append(activity.progress_at.plus(max(left_seconds, 0.0) + 1))
    if facts.phase is TurnPhase.TOOL:
        grace_seconds = policy.tool_grace_seconds
        declared = [call for call in activity.calls.values() if call.timeout_seconds is not None]
        moments += [call.since.plus((call.timeout_seconds or 0.0) + grace_seconds) for call in declared]
        expected = (
            permission_expected_at(call, activity, facts.presence, policy) for call in activity.calls.values()
        )
        moments += [moment for moment in expected if moment is not None]
    if (twins := twins_since(facts.presence)) is not None:
        moments.append(twins.plus(TWIN_SECONDS))
    process = facts.presence.newest_process
    if process is not None and is_starting(facts.presence, activity.last_at, facts.now):
        moments.append(process.seen_at.plus(STARTING_SECONDS))
    if activity.last_at is None and process is not None and process.status is ClientStatus.BUSY:
        moments.append(process.seen_at.plus(policy.never_started_seconds + 1))
    return moments
