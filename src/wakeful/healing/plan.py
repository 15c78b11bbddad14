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
# A revived session shows itself within this time; sixteen clients starting at once took 45 s.
REVIVED_SECONDS: Final = 120.0
# The outcome of a resume is known by then: silence is a finding after ten minutes. One message reports both.
OUTCOME_SECONDS_MAX: Final = 900.0
# An agent of the hub that cannot be seen, or starts, is asked about again after this.
AGENT_SECONDS: Final = 2.0
# A runaway that made progress this lately is left alone: it costs, but it works.
PROGRESS_SECONDS: Final = 600.0
BREAKER_OPEN: Final = "too many revivals failed lately: none is tried for a while"


class HealerObserves(WorldError, code="healer-observes", http_status=409, exit_code=1):
    """The mode is observe: Wakeful acts on nothing. What you decided is kept and done once daemon.mode is mine, after a start."""


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
    """What its agent of the hub is declared, and able, to have done about a session that ended with it."""

    NOTIFY = "tell"
    # It may be resumed, but not now: its state is unknown, or it is starting.
    WAIT = "wait"
    REVIVE = "revive"


class Situation(Struct, frozen=True, kw_only=True):
    """What is true of the session now. Seconds are awake seconds up to now."""

    code: FindingCode | None
    state: State
    agent: ProcessState
    managed: bool
    for_seconds: float = 0.0
    # Since when what was found is so, by the session's own evidence.
    found_seconds: float | None = None
    since_progress_seconds: float = 0.0
    # Of the calls that had not come back, the worst.
    effect: Effect | None = None
    # Its conversation is there to go on in.
    resumable: bool = True
    # A new conversation can be started for it: a client that was asked, not a command that would simply run twice.
    renewable: bool = True
    place_gone: bool = False
    # A person's stop is final.
    stopped: bool = False
    # Reboot or server death took an idle session along.
    lost: bool = False
    limit_in_seconds: float | None = None
    # The agent of the hub that hosts it.
    agent_name: str | None = None
    agent_way: AgentRecovery = AgentRecovery.NOTIFY
    # For how long the limiter allows no resume, because too many failed lately.
    breaker_seconds: float = 0.0


class CaseHistory(Struct, frozen=True, kw_only=True):
    """What was done about this problem before, on the same task."""

    steered_seconds_ago: float | None = None
    # None also once it was seen well since.
    revived_seconds_ago: float | None = None
    # When its revival began: what is so since then is no remainder of what it was revived for.
    revival_began_seconds_ago: float | None = None
    # Its new process was seen: if that is gone now, it is a failure of its own.
    revival_seen: bool = False
    revivals: int = 0
    # A person has read what was interrupted and said yes.
    approved: bool = False
    given_up: bool = False
    continued_after_limit: bool = False


class HealingRules(Struct, frozen=True, kw_only=True):
    """What the operator allows."""

    mode: str = "mine"
    revive_runaways: bool = False
    confirm_seconds: float = 3.0
    steer_seconds: float = 120.0
    paused_by: str | None = None

    @property
    def may_act(self) -> bool:
        """Whether anything at all is done without a person."""
        return self.mode != "observe" and self.paused_by is None


class HealingDecision(Struct, frozen=True):
    """What to do, why, and when to ask again if nothing changes until then."""

    step: HealingStep
    reason: str
    again_seconds: float | None = None
    # Whether it uses up the work's one revival.
    spends: bool = False
    # Whether people hear of it although it is only waited.
    tells: bool = False


_Rule = Callable[[Situation, CaseHistory, HealingRules], HealingDecision | None]


def plan(situation: Situation, history: CaseHistory, rules: HealingRules) -> HealingDecision:
    """The first rule that has an answer decides."""
    for rule in RULES:
        decision = rule(situation, history, rules)
        if decision is not None:
            return decision
    return revive_rule(situation)


def _nothing_wrong(now: Situation, _history: CaseHistory, _rules: HealingRules) -> HealingDecision | None:
    """Nothing is wrong: wait."""
    return (
        HealingDecision(HealingStep.WAIT, "nothing is wrong") if now.code is None and not now.lost else None
    )


def _stopped_by_person(now: Situation, _history: CaseHistory, _rules: HealingRules) -> HealingDecision | None:
    """A person stopped it: that is final."""
    return HealingDecision(HealingStep.WAIT, "a person stopped it, which is final") if now.stopped else None


def _not_allowed(now: Situation, _history: CaseHistory, rules: HealingRules) -> HealingDecision | None:
    """The mode forbids it, or the session was merely found: tell."""
    if rules.mode == "observe":
        return HealingDecision(HealingStep.NOTIFY, "the mode is observe: Wakeful acts on nothing")
    # A session that an agent of the hub hosts was not merely found: `_hosted_by_agent` decides about it.
    if not now.managed and now.agent_name is None and rules.mode != "all":
        return HealingDecision(HealingStep.NOTIFY, "it was found, not handed over")
    return None


def _hosted_by_agent(now: Situation, _history: CaseHistory, _rules: HealingRules) -> HealingDecision | None:
    """An agent of the hub hosts it: tell, unless it is gone and its declaration says that Wakeful brings it back."""
    if now.agent_name is None or now.managed:
        return None
    if now.agent is ProcessState.DEAD and now.agent_way is AgentRecovery.WAIT:
        return HealingDecision(
            HealingStep.WAIT, f"agent {now.agent_name} cannot be brought back yet", AGENT_SECONDS
        )
    if now.agent is ProcessState.DEAD and now.agent_way is AgentRecovery.REVIVE:
        return None
    return HealingDecision(
        HealingStep.NOTIFY, f"agent {now.agent_name} hosts it: `wakeful attach {now.agent_name}`"
    )


def _given_up(_now: Situation, history: CaseHistory, _rules: HealingRules) -> HealingDecision | None:
    """Given up before: that stays, until a person acts or a turn ends well."""
    return HealingDecision(HealingStep.NOTIFY, "it was given up") if history.given_up else None


def _usage_limited(now: Situation, history: CaseHistory, _rules: HealingRules) -> HealingDecision | None:
    """A usage limit: tell, and wait for its end; without a known end, only tell."""
    if now.code is not FindingCode.USAGE_LIMITED:
        return None
    if now.limit_in_seconds is None:
        return HealingDecision(HealingStep.NOTIFY, "nobody said when the limit is lifted")
    if now.limit_in_seconds + LIMIT_GRACE_SECONDS > 0:
        rest = now.limit_in_seconds + LIMIT_GRACE_SECONDS
        reason = f"the limit is lifted in {format_length(max(0.0, now.limit_in_seconds))}, then it is continued once"
        return HealingDecision(HealingStep.WAIT, reason, rest, tells=True)
    return (
        HealingDecision(HealingStep.NOTIFY, "it was continued once")
        if history.continued_after_limit
        else None
    )


def _notify_only(now: Situation, _history: CaseHistory, rules: HealingRules) -> HealingDecision | None:
    """Findings whose act is to tell, a login or twins: tell. So is a runaway that makes progress."""
    if now.code is None:
        return None
    if now.code is FindingCode.RUNAWAY:
        if rules.revive_runaways or now.since_progress_seconds > PROGRESS_SECONDS:
            return None
        return HealingDecision(HealingStep.NOTIFY, "it runs away but makes progress", PROGRESS_SECONDS)
    act = MEANINGS[now.code, now.state].act
    if act is HealingAction.REVIVE or now.code is FindingCode.USAGE_LIMITED:
        return None
    return HealingDecision(HealingStep.NOTIFY, f"{now.code} needs a person")


def _unconfirmed(now: Situation, _history: CaseHistory, rules: HealingRules) -> HealingDecision | None:
    """Not sure yet: wait until it has lasted."""
    if now.agent is ProcessState.UNKNOWN:
        return HealingDecision(HealingStep.NOTIFY, "nobody knows whether its process lives")
    missing = rules.confirm_seconds - now.for_seconds
    return HealingDecision(HealingStep.WAIT, "it may pass", missing) if missing > 0 else None


def _paused(_now: Situation, _history: CaseHistory, rules: HealingRules) -> HealingDecision | None:
    """Paused: tell, and wait."""
    if rules.paused_by is None:
        return None
    return HealingDecision(HealingStep.NOTIFY, f"PAUSED by {rules.paused_by}")


def _nothing_to_resume(now: Situation, _history: CaseHistory, _rules: HealingRules) -> HealingDecision | None:
    """Its folder is gone, or its program would only run twice: tell."""
    if now.place_gone:
        return HealingDecision(HealingStep.NOTIFY, "its working directory is gone")
    if not now.resumable and not now.renewable:
        return HealingDecision(
            HealingStep.NOTIFY, "its program keeps no conversation, and nobody asked to run it twice"
        )
    return None


def _just_revived(now: Situation, history: CaseHistory, _rules: HealingRules) -> HealingDecision | None:
    """Revived a moment ago, here or by somebody else: wait and see, unless it was seen alive and failed again."""
    ago = history.revived_seconds_ago
    if ago is None or ago >= REVIVED_SECONDS or (history.revival_seen and _has_failed_again(now, history)):
        return None
    return HealingDecision(HealingStep.WAIT, "it was revived just now", REVIVED_SECONDS - ago)


def _has_failed_again(now: Situation, history: CaseHistory) -> bool:
    if now.agent is ProcessState.DEAD:
        return True
    began, found = history.revival_began_seconds_ago, now.found_seconds
    return began is not None and found is not None and found < began


def _interrupted_effect(now: Situation, history: CaseHistory, _rules: HealingRules) -> HealingDecision | None:
    """It ended inside a call that may have changed something elsewhere: a person decides."""
    if now.effect in (None, Effect.LOCAL) or history.approved:
        return None
    return HealingDecision(HealingStep.HOLD, "a call was cut off that may have had effects elsewhere")


def _limit_lifted(now: Situation, _history: CaseHistory, _rules: HealingRules) -> HealingDecision | None:
    """A limit is lifted and the client does not go on by itself: continue it once; that is no revival."""
    if now.code is not FindingCode.USAGE_LIMITED:
        return None
    step = HealingStep.STEER if now.agent is ProcessState.ALIVE else HealingStep.RESUME
    return HealingDecision(step, "the limit is lifted and its client does not go on by itself")


def _lost_with_host(now: Situation, _history: CaseHistory, _rules: HealingRules) -> HealingDecision | None:
    """An idle session whose host or tmux server went: bring it back; no work was cut off, so nothing is spent."""
    if not now.lost or now.code is not None:
        return None
    if not now.resumable:
        return HealingDecision(HealingStep.FRESH, "what hosted it is gone, and nothing was ever asked of it")
    return HealingDecision(HealingStep.RESUME, "what hosted it is gone")


def _steer_first(now: Situation, history: CaseHistory, rules: HealingRules) -> HealingDecision | None:
    """A loop or a cascade of a living agent: a word first, and time to heed it."""
    if now.code not in (FindingCode.LOOP, FindingCode.ERROR_CASCADE) or now.agent is not ProcessState.ALIVE:
        return None
    if history.steered_seconds_ago is None:
        return HealingDecision(HealingStep.STEER, "a word may be enough", rules.steer_seconds)
    rest = rules.steer_seconds - history.steered_seconds_ago
    return (
        HealingDecision(HealingStep.WAIT, "it was told and has time to heed it", rest) if rest > 0 else None
    )


def _budget_spent(_now: Situation, history: CaseHistory, _rules: HealingRules) -> HealingDecision | None:
    """The one revival of this work is spent: give up, and say so."""
    if history.revivals < REVIVALS_MAX:
        return None
    return HealingDecision(HealingStep.GIVE_UP, "it failed again after it was revived")


def _breaker_open(now: Situation, _history: CaseHistory, _rules: HealingRules) -> HealingDecision | None:
    """Too many revivals failed lately: tell, and wait for a while."""
    if now.breaker_seconds <= 0:
        return None
    return HealingDecision(HealingStep.NOTIFY, BREAKER_OPEN, now.breaker_seconds)


RULES: Final[tuple[_Rule, ...]] = (
    _nothing_wrong,
    _stopped_by_person,
    _not_allowed,
    _hosted_by_agent,
    _given_up,
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
    """Nothing gentler is left: the one revival. In place where the agent can still listen, else by a new process."""
    if now.code is FindingCode.POISONED_CONVERSATION:
        return HealingDecision(HealingStep.FRESH, "this conversation fails whatever it is asked", spends=True)
    if now.agent is ProcessState.ALIVE and now.code is FindingCode.TURN_FAILED:
        return HealingDecision(HealingStep.STEER, "its turn failed and it waits", spends=True)
    if now.agent is ProcessState.ALIVE and now.code in _INTERRUPTIBLE:
        return HealingDecision(HealingStep.INTERRUPT, "its turn leads nowhere", spends=True)
    if now.resumable:
        return HealingDecision(HealingStep.RESUME, "its conversation can go on", spends=True)
    return HealingDecision(HealingStep.FRESH, "there is no conversation to return to", spends=True)


# The agent itself is well: only its turn has to end.
_INTERRUPTIBLE: Final = frozenset(
    {FindingCode.LOOP, FindingCode.ERROR_CASCADE, FindingCode.TOOL_WEDGED, FindingCode.RUNAWAY}
)
