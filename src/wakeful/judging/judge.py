"""Judges a session: a pure function from activity, presence, policy and time to a verdict.

The order matters: first the expected waits, then the waits that have run out, then which processes are alive,
then the conclusion.
"""

from typing import Final

from wakeful.core.clock import Instant, latest
from wakeful.core.process import Sight
from wakeful.judging.activity import GAP_SECONDS_MAX, Activity
from wakeful.judging.detectors import (
    TWIN_SECONDS,
    Case,
    detectors,
    drift,
    polled_cycle_since,
    twins_since,
    was_seen,
)
from wakeful.judging.evidence import (
    COMING_UP_SECONDS,
    DialogKind,
    Holder,
    Presence,
    Rung,
    Status,
    is_coming_up,
)
from wakeful.judging.findings import (
    MEANINGS,
    PRECEDENCE,
    Attention,
    Code,
    Finding,
    Health,
    State,
    Verdict,
    worst,
)
from wakeful.judging.permission import asking, asks_at
from wakeful.judging.thresholds import Policy
from wakeful.judging.turn_state import OPEN, Phase
from wakeful.judging.waits import Scene, current, expected_waits, limit_waits, on_clock

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
    if not was_seen(presence) and not presence.stopped and drift(activity, policy) is None:
        return NOBODY_SEEN
    case = case_of(activity, presence, policy, now)
    found = [finding for detect in detectors(presence) if (finding := detect(case)) is not None]
    findings = tuple(sorted(found, key=lambda finding: PRECEDENCE[finding.code]))
    state = _state(case)
    return Verdict(
        state=state,
        health=_health(case, state, findings),
        agent=case.agent,
        active_prompt=case.agent is Sight.ALIVE and case.phase in OPEN,
        attention=_attention(case, state, findings),
        findings=findings,
        waits=current(case.waits, now),
        alive_to=_alive_to(case),
        broken_at=_broken_at(case, findings),
        next_check_at=_next_check_at(case),
    )


def case_of(activity: Activity, presence: Presence, policy: Policy, now: Instant) -> Case:
    """Who lives, where the turn stands and what it waits for: all that the detectors look at."""
    agent = _agent(activity, presence, policy, now)
    phase = _phase(activity, presence, policy, now)
    if agent is Sight.ALIVE and phase is Phase.TOOL and asking(activity, presence, policy, now) is not None:
        phase = Phase.PERSON
    scene = Scene(activity, presence, policy, now, phase)
    waits = expected_waits(scene) if agent is Sight.ALIVE else limit_waits(scene)
    return Case(activity, presence, policy, now, phase, agent, waits)


def _agent(activity: Activity, presence: Presence, policy: Policy, now: Instant) -> Sight:
    """Whether the agent lives. A log that grows under our eyes has a living writer, known by name or not, and one
    that grew after every known process had ended has another one."""
    is_unknown = presence.agent is Sight.UNKNOWN or presence.written_after_at is not None
    if not is_unknown:
        return presence.agent
    if presence.vouched:
        return Sight.DEAD if activity.closed else Sight.ALIVE
    if presence.grown_at is not None and now.seconds_since(presence.grown_at) <= policy.silence_seconds:
        return Sight.ALIVE
    return Sight.UNKNOWN


def _phase(activity: Activity, presence: Presence, policy: Policy, now: Instant) -> Phase:
    """The turn's phase, corrected by the client's own word where that is newer than the log."""
    if presence.dialog is not None:
        # It takes no prompt before that is answered, whatever an earlier process wrote.
        return Phase.UNSEEN
    if activity.phase in OPEN and is_coming_up(presence, activity.last_at, now):
        # The turn that the process before left open is not its own.
        return Phase.UNSEEN
    phase = activity.phase
    if activity.is_out_of_budget or (phase is Phase.SETTLING and _settled(activity, policy, now)):
        phase = Phase.ENDED
    holder = presence.newest
    if phase not in OPEN and _is_compacting(activity, holder, policy, now):
        phase = Phase.MODEL
    if holder is None or holder.sight is not Sight.ALIVE or holder.status is None:
        return phase
    return _by_status(phase, holder, activity)


def _is_compacting(activity: Activity, holder: Holder | None, policy: Policy, now: Instant) -> bool:
    """Between turns too a conversation is summarised. A person who cuts that short leaves no word of it, so that
    beyond its time only a client that calls itself busy is believed."""
    since = activity.compacting_since
    if since is None:
        return False
    busy = holder is not None and holder.status is Status.BUSY
    return busy or now.seconds_since(since) < policy.compaction_seconds


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


def _state(case: Case) -> State:
    if case.agent is not Sight.ALIVE:
        return State.STOPPED
    if (dialog := case.presence.dialog) is not None:
        return State.STARTING if dialog.kind is DialogKind.UNKNOWN else State.WAITING
    if case.phase is Phase.UNSEEN and is_coming_up(case.presence, case.activity.last_at, case.now):
        return State.STARTING
    if case.phase in {Phase.PERSON, Phase.PROPOSED}:
        return State.WAITING
    return State.PROMPTING if case.phase in OPEN else State.IDLE


def _health(case: Case, state: State, findings: tuple[Finding, ...]) -> Health:
    if findings:
        return worst([MEANINGS[finding.code, state].health for finding in findings])
    if case.agent is Sight.UNKNOWN:
        # A process that a person ended while nobody watched is not missed; one that cannot be looked at may be.
        is_ended = case.presence.stopped and not case.presence.holders
        return Health.HEALTHY if is_ended else Health.UNKNOWN
    if ended_unread(case.activity, case.presence, case.agent) or _ended_unclear(case):
        return Health.UNKNOWN
    stale_at = _stale_at(case) if state is State.IDLE else None
    return Health.STALE if stale_at is not None and stale_at <= case.now else Health.HEALTHY


def ended_unread(activity: Activity, presence: Presence, agent: Sight) -> bool:
    """A process that is gone, and nothing of its log is there to say how: whether it ended well is not known, unless
    it had called itself idle."""
    holder = presence.newest
    if agent is not Sight.DEAD or activity.last_at is not None or holder is None or presence.stopped:
        return False
    return not holder.ended_idle and holder.status is not Status.IDLE


def _ended_unclear(case: Case) -> bool:
    """Its log does not say whether its budget ended it or somebody did."""
    return case.agent is Sight.DEAD and case.activity.may_be_out_of_budget


def _stale_at(case: Case) -> Instant | None:
    """When an idle session that only its log vouches for counts as stale; one whose process is seen never does."""
    if case.presence.living:
        return None
    seen = latest((case.presence.grown_at, case.activity.last_at))
    return seen.plus(case.policy.stale_seconds) if seen is not None else None


def _attention(case: Case, state: State, findings: tuple[Finding, ...]) -> Attention:
    if findings:
        return MEANINGS[findings[0].code, state].attention
    if (dialog := case.presence.dialog) is not None and dialog.kind is DialogKind.LOGIN:
        return Attention.LOGIN if state is State.WAITING else Attention.NONE
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
    first = min([moment for moment in moments if moment > case.now], default=None)
    return on_clock(first, case.now) if first is not None else None


def _rule_deadlines(case: Case) -> list[Instant]:
    """When rules that count time alone would fire."""
    activity, policy = case.activity, case.policy
    if case.agent is not Sight.ALIVE:
        return []
    moments = []
    if (polled_since := polled_cycle_since(activity.circles, policy)) is not None:
        moments.append(polled_since.plus(policy.poll_seconds))
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
        asked = (asks_at(call, activity, case.presence, policy) for call in activity.calls.values())
        moments += [moment for moment in asked if moment is not None]
    if (twins := twins_since(case.presence)) is not None:
        moments.append(twins.plus(TWIN_SECONDS))
    holder = case.presence.newest
    if holder is not None and is_coming_up(case.presence, activity.last_at, case.now):
        moments.append(holder.seen_at.plus(COMING_UP_SECONDS))
    if activity.last_at is None and holder is not None and holder.status is Status.BUSY:
        moments.append(holder.seen_at.plus(policy.never_started_seconds + 1))
    return moments
