"""The healing plan: a pure function from a problem to the next step, gentlest first, giving up last.

The rules are in RULES, in order; the first rule with an answer decides. `docs/reference/healing.md` is
generated from them. The healer, the hub's auto-restart, the task queue, the watchdog and the gateway's
self-heal act on a problem only if the plan answers with a step of ACTING_STEPS; a test holds this.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import Final

from msgspec import Struct

from wakeful.core.errors import WorldError
from wakeful.core.process import ProcessState
from wakeful.effects.rules import Effect
from wakeful.judging.findings import MEANINGS, FindingCode, HealingAction, State
from wakeful.judging.wording import format_length

# One revival per message, remembered for this long.
REVIVALS_MAX: Final = 1
BUDGET_SECONDS: Final = 7 * 86_400.0
# A client that continues by itself does so within this time after its limit is lifted.
LIMIT_GRACE_SECONDS: Final = 60.0
# A revived session is seen within this time; sixteen clients that started at once took 45 s.
REVIVED_SECONDS: Final = 120.0
# The outcome of a resume is known by then: silence is a finding after ten minutes. One message reports both.
OUTCOME_SECONDS_MAX: Final = 900.0
# The check interval for an agent of the hub that is unknown or starting.
AGENT_SECONDS: Final = 2.0
# A runaway that made progress within this time is left alone: it costs, but it works.
PROGRESS_SECONDS: Final = 600.0
FAILURE_TOLD: Final = "its chat was told that this turn failed: the next message decides how it goes on"
# The turn is over and waits for a prompt to go on.
ENDED_TURN_CODES: Final = frozenset({FindingCode.TURN_FAILED, FindingCode.USAGE_LIMITED})
BREAKER_OPEN: Final = "too many resumes failed lately: Wakeful tries none for a while"


class HealerObserves(WorldError, code="healer-observes", http_status=409, exit_code=1):
    """The mode is observe, so Wakeful takes no action. Your decision is saved. Wakeful applies it after a restart with daemon.mode mine."""


class HealingStep(StrEnum):
    """From doing nothing to giving up."""

    WAIT = "wait"
    NOTIFY = "notify"
    STEER = "steer"
    INTERRUPT = "interrupt"
    RESUME = "resume"
    FRESH = "fresh"
    HOLD = "hold"
    GIVE_UP = "give_up"


ACTING_STEPS: Final = frozenset(
    {HealingStep.STEER, HealingStep.INTERRUPT, HealingStep.RESUME, HealingStep.FRESH}
)
"""Steps that touch a session."""


class AgentRecovery(StrEnum):
    """How a session comes back that ended with its agent of the hub, by the agent's declaration and state."""

    NOTIFY = "tell"
    # It may be resumed, but not now: its state is unknown, or it is starting.
    WAIT = "wait"
    REVIVE = "revive"


class Situation(Struct, frozen=True, kw_only=True):
    """The facts about a session now. Seconds count up to now."""

    code: FindingCode | None
    state: State
    agent: ProcessState
    managed: bool
    for_seconds: float = 0.0
    # How long the finding lasts, by the session's own evidence.
    found_seconds: float | None = None
    since_progress_seconds: float = 0.0
    # The worst effect of the interrupted calls.
    effect: Effect | None = None
    # Its conversation exists, so it can go on.
    resumable: bool = True
    # A new conversation can be started for it: its program is a client, not a command that would run twice.
    renewable: bool = True
    place_gone: bool = False
    # A person's stop is final.
    stopped: bool = False
    # The chat gateway told its user that this turn failed.
    failure_told: bool = False
    # It was idle, and a reboot or the death of its tmux server ended it.
    lost: bool = False
    limit_in_seconds: float | None = None
    # The agent of the hub that hosts it.
    agent_name: str | None = None
    agent_way: AgentRecovery = AgentRecovery.NOTIFY
    # For how long the limiter allows no resume, because too many failed lately.
    breaker_seconds: float = 0.0


class CaseHistory(Struct, frozen=True, kw_only=True):
    """The earlier actions about this problem, on the same task."""

    steered_seconds_ago: float | None = None
    # None also once it was seen healthy since.
    revived_seconds_ago: float | None = None
    # A finding that began after its revival is a new failure.
    revival_began_seconds_ago: float | None = None
    # Its new process was seen: if that is gone now, it failed again.
    revival_seen: bool = False
    revivals: int = 0
    # A person has read what was interrupted and said yes.
    approved: bool = False
    given_up: bool = False
    continued_after_limit: bool = False


class HealingRules(Struct, frozen=True, kw_only=True):
    """The actions that the operator allows."""

    mode: str = "mine"
    revive_runaways: bool = False
    confirm_seconds: float = 3.0
    steer_seconds: float = 120.0
    paused_by: str | None = None

    @property
    def may_act(self) -> bool:
        """Whether Wakeful may act without a person."""
        return self.mode != "observe" and self.paused_by is None


class HealingDecision(Struct, frozen=True):
    """The step, its reason, and when to ask again if nothing changes until then."""

    step: HealingStep
    reason: str
    again_seconds: float | None = None
    # Whether it spends the one revival of the task.
    spends: bool = False
    # Whether a WAIT is reported to people, too.
    tells: bool = False


_Rule = Callable[[Situation, CaseHistory, HealingRules], HealingDecision | None]


def plan(situation: Situation, history: CaseHistory, rules: HealingRules) -> HealingDecision:
    """The decision of the first rule that has one."""
    for rule in RULES:
        decision = rule(situation, history, rules)
        if decision is not None:
            return decision
    return revive_rule(situation)


def _nothing_wrong(now: Situation, _history: CaseHistory, _rules: HealingRules) -> HealingDecision | None:
    """Nothing is wrong: wait."""
    if now.code is not None or now.lost:
        return None
    return HealingDecision(HealingStep.WAIT, "nothing is wrong")


def _stopped_by_person(now: Situation, _history: CaseHistory, _rules: HealingRules) -> HealingDecision | None:
    """A person stopped it: that is final."""
    return HealingDecision(HealingStep.WAIT, "a person stopped it, which is final") if now.stopped else None


def _not_allowed(now: Situation, _history: CaseHistory, rules: HealingRules) -> HealingDecision | None:
    """The mode forbids it, or the session is not managed: alert."""
    if rules.mode == "observe":
        return HealingDecision(HealingStep.NOTIFY, "the mode is observe: Wakeful acts on nothing")
    # `_hosted_by_agent` decides about a session that an agent of the hub hosts.
    if not now.managed and now.agent_name is None and rules.mode != "all":
        return HealingDecision(HealingStep.NOTIFY, "not managed by Wakeful")
    return None


def _hosted_by_agent(now: Situation, _history: CaseHistory, _rules: HealingRules) -> HealingDecision | None:
    """An agent hosts it: alert, unless it is gone and its declaration lets Wakeful resume it."""
    if now.agent_name is None or now.managed:
        return None
    if now.agent is ProcessState.DEAD and now.agent_way is AgentRecovery.WAIT:
        return HealingDecision(
            HealingStep.WAIT, f"agent {now.agent_name} cannot be resumed yet", AGENT_SECONDS
        )
    if now.agent is ProcessState.DEAD and now.agent_way is AgentRecovery.REVIVE:
        return None
    return HealingDecision(
        HealingStep.NOTIFY, f"agent {now.agent_name} hosts it: `wakeful attach {now.agent_name}`"
    )


def _given_up(_now: Situation, history: CaseHistory, _rules: HealingRules) -> HealingDecision | None:
    """Given up before: no action until a person acts or a turn ends well."""
    return HealingDecision(HealingStep.NOTIFY, "Wakeful gave up on it") if history.given_up else None


def _failure_told(now: Situation, _history: CaseHistory, _rules: HealingRules) -> HealingDecision | None:
    """The chat gateway told its user that this turn failed: alert. Continued as well, its work could be done twice."""
    if not now.failure_told or now.code in (None, FindingCode.POISONED_CONVERSATION):
        return None
    if now.agent is ProcessState.ALIVE and now.code not in ENDED_TURN_CODES:
        return None
    return HealingDecision(HealingStep.NOTIFY, FAILURE_TOLD)


def _usage_limited(now: Situation, history: CaseHistory, _rules: HealingRules) -> HealingDecision | None:
    """A usage limit: alert and wait for its end; without a known end, only alert."""
    if now.code is not FindingCode.USAGE_LIMITED:
        return None
    if now.limit_in_seconds is None:
        return HealingDecision(HealingStep.NOTIFY, "the end of the usage limit is unknown")
    wait_seconds = now.limit_in_seconds + LIMIT_GRACE_SECONDS
    if wait_seconds > 0:
        reason = f"the limit ends in {format_length(max(0.0, now.limit_in_seconds))}; then Wakeful continues it once"
        return HealingDecision(HealingStep.WAIT, reason, wait_seconds, tells=True)
    return (
        HealingDecision(HealingStep.NOTIFY, "Wakeful continued it once already")
        if history.continued_after_limit
        else None
    )


def _notify_only(now: Situation, _history: CaseHistory, rules: HealingRules) -> HealingDecision | None:
    """Findings that only a person can fix, such as a login or twins: alert. Also a runaway that makes progress."""
    if now.code is None:
        return None
    if now.code is FindingCode.RUNAWAY:
        if rules.revive_runaways or now.since_progress_seconds > PROGRESS_SECONDS:
            return None
        return HealingDecision(HealingStep.NOTIFY, "a runaway, but it makes progress", PROGRESS_SECONDS)
    act = MEANINGS[now.code, now.state].act
    if act is HealingAction.REVIVE or now.code is FindingCode.USAGE_LIMITED:
        return None
    return HealingDecision(HealingStep.NOTIFY, f"{now.code} needs a person")


def _unconfirmed(now: Situation, _history: CaseHistory, rules: HealingRules) -> HealingDecision | None:
    """Not confirmed yet: wait until it has lasted."""
    if now.agent is ProcessState.UNKNOWN:
        return HealingDecision(HealingStep.NOTIFY, "it is unknown whether its process is alive")
    missing = rules.confirm_seconds - now.for_seconds
    return HealingDecision(HealingStep.WAIT, "it may end by itself", missing) if missing > 0 else None


def _paused(_now: Situation, _history: CaseHistory, rules: HealingRules) -> HealingDecision | None:
    """Paused: alert and wait."""
    if rules.paused_by is None:
        return None
    return HealingDecision(HealingStep.NOTIFY, f"PAUSED by {rules.paused_by}")


def _nothing_to_resume(now: Situation, _history: CaseHistory, _rules: HealingRules) -> HealingDecision | None:
    """Its folder is gone, or its program would only run twice: alert."""
    if now.place_gone:
        return HealingDecision(HealingStep.NOTIFY, "its working directory is gone")
    if not now.resumable and not now.renewable:
        return HealingDecision(
            HealingStep.NOTIFY,
            "its program has no conversation to resume, and running it again was not requested",
        )
    return None


def _just_revived(now: Situation, history: CaseHistory, _rules: HealingRules) -> HealingDecision | None:
    """Resumed a moment ago, by Wakeful or another: wait, unless it was seen alive and failed again."""
    ago = history.revived_seconds_ago
    if ago is None or ago >= REVIVED_SECONDS or (history.revival_seen and _has_failed_again(now, history)):
        return None
    return HealingDecision(HealingStep.WAIT, "it was resumed just now", REVIVED_SECONDS - ago)


def _has_failed_again(now: Situation, history: CaseHistory) -> bool:
    if now.agent is ProcessState.DEAD:
        return True
    began, found = history.revival_began_seconds_ago, now.found_seconds
    return began is not None and found is not None and found < began


def _interrupted_effect(now: Situation, history: CaseHistory, _rules: HealingRules) -> HealingDecision | None:
    """It ended during a call that may have changed something elsewhere: a person decides."""
    if now.effect in (None, Effect.LOCAL) or history.approved:
        return None
    return HealingDecision(HealingStep.HOLD, "an interrupted call may have had effects elsewhere")


def _limit_lifted(now: Situation, _history: CaseHistory, _rules: HealingRules) -> HealingDecision | None:
    """A limit has ended and the client does not continue by itself: continue it once. That spends no resume."""
    if now.code is not FindingCode.USAGE_LIMITED:
        return None
    step = HealingStep.STEER if now.agent is ProcessState.ALIVE else HealingStep.RESUME
    return HealingDecision(step, "the limit has ended, and the client does not continue by itself")


def _lost_with_host(now: Situation, _history: CaseHistory, _rules: HealingRules) -> HealingDecision | None:
    """An idle session whose host or tmux server is gone: resume it. No task was interrupted, so that spends no resume."""
    if not now.lost or now.code is not None:
        return None
    if not now.resumable:
        return HealingDecision(
            HealingStep.FRESH, "its host or tmux server is gone, and it never had a prompt"
        )
    return HealingDecision(HealingStep.RESUME, "its host or tmux server is gone")


def _steer_first(now: Situation, history: CaseHistory, rules: HealingRules) -> HealingDecision | None:
    """A loop or an error cascade of a live agent: a corrective prompt first, and time to react."""
    if now.code not in (FindingCode.LOOP, FindingCode.ERROR_CASCADE) or now.agent is not ProcessState.ALIVE:
        return None
    if history.steered_seconds_ago is None:
        return HealingDecision(HealingStep.STEER, "send a corrective prompt first", rules.steer_seconds)
    left = rules.steer_seconds - history.steered_seconds_ago
    return (
        HealingDecision(HealingStep.WAIT, "it got a corrective prompt and has time to react", left)
        if left > 0
        else None
    )


def _budget_spent(_now: Situation, history: CaseHistory, _rules: HealingRules) -> HealingDecision | None:
    """The one resume of this task is spent: give up and alert."""
    if history.revivals < REVIVALS_MAX:
        return None
    return HealingDecision(HealingStep.GIVE_UP, "it failed again after it was resumed")


def _breaker_open(now: Situation, _history: CaseHistory, _rules: HealingRules) -> HealingDecision | None:
    """Too many resumes failed lately: alert and wait for a while."""
    if now.breaker_seconds <= 0:
        return None
    return HealingDecision(HealingStep.NOTIFY, BREAKER_OPEN, now.breaker_seconds)


RULES: Final[tuple[_Rule, ...]] = (
    _nothing_wrong,
    _stopped_by_person,
    _not_allowed,
    _hosted_by_agent,
    _given_up,
    _failure_told,
    _usage_limited,
    _notify_only,
    _nothing_to_resume,
    _unconfirmed,
    _paused,
    _just_revived,
    _interrupted_effect,
    _limit_lifted,
    _lost_with_host,
    _steer_first,
    _budget_spent,
    _breaker_open,
)


def revive_rule(now: Situation) -> HealingDecision:
    """Nothing gentler is left: the one resume. In place if the agent can still take a prompt, else in a new process."""
    if now.code is FindingCode.POISONED_CONVERSATION:
        return HealingDecision(HealingStep.FRESH, "this conversation fails with every prompt", spends=True)
    if now.agent is ProcessState.ALIVE and now.code is FindingCode.TURN_FAILED:
        return HealingDecision(HealingStep.STEER, "its turn failed and it waits", spends=True)
    if now.agent is ProcessState.ALIVE and now.code in _INTERRUPTIBLE:
        return HealingDecision(HealingStep.INTERRUPT, "its turn makes no progress", spends=True)
    if now.resumable:
        return HealingDecision(HealingStep.RESUME, "its conversation can continue", spends=True)
    return HealingDecision(HealingStep.FRESH, "it has no conversation to resume", spends=True)


# The agent itself is healthy: only its turn has to end.
_INTERRUPTIBLE: Final = frozenset(
    {FindingCode.LOOP, FindingCode.ERROR_CASCADE, FindingCode.TOOL_WEDGED, FindingCode.RUNAWAY}
)
