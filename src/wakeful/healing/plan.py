"""The healing plan: a pure function from a problem to the next step, gentlest first, giving up last.

The rules are in RULES, in order; the first rule with an answer decides. `docs/reference/healing.md` is
generated from them. The healer and the watchdog act on a problem only as the plan answers; hub and task queue
obey its `Rules`.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import Final

from msgspec import Struct

from wakeful.core.process import Sight
from wakeful.effects.rules import Effect
from wakeful.judging.findings import MEANINGS, Act, Code, State
from wakeful.judging.wording import length

# One revival per message, remembered for this long.
REVIVALS_MAX: Final = 1
BUDGET_SECONDS: Final = 7 * 86_400.0
# A client that continues by itself does so within this time after its limit is lifted.
LIMIT_GRACE_SECONDS: Final = 60.0
# A revived session shows itself within this time; sixteen clients starting at once took 45 s.
REVIVED_SECONDS: Final = 120.0
# What came of a revival is known by then: silence is a finding after ten minutes. People hear of both in one message.
OUTCOME_SECONDS_MAX: Final = 900.0
# An agent of the hub that cannot be seen, or starts, is asked about again after this.
AGENT_SECONDS: Final = 2.0
# A runaway that made progress this lately is left alone (design, "Who may be touched").
PROGRESS_SECONDS: Final = 600.0


class Step(StrEnum):
    """From doing nothing to giving up."""

    WAIT = "wait"
    NOTIFY = "notify"
    STEER = "steer"
    INTERRUPT = "interrupt"
    RESUME = "resume"
    FRESH = "fresh"
    HOLD = "hold"
    GIVE_UP = "give_up"


ACTS: Final = frozenset({Step.STEER, Step.INTERRUPT, Step.RESUME, Step.FRESH})
"""Steps that touch a session."""


class AgentWay(StrEnum):
    """What its agent of the hub is declared, and able, to have done about a session that ended with it."""

    TELL = "tell"
    # It may be brought back, and cannot be now: nobody sees it, or it is being started.
    WAIT = "wait"
    REVIVE = "revive"


class Situation(Struct, frozen=True, kw_only=True):
    """What is true of the session now. Seconds are awake seconds up to now."""

    code: Code | None
    state: State
    agent: Sight
    managed: bool
    for_seconds: float = 0.0
    # Since when what was found is so, by the session's own evidence.
    found_seconds: float | None = None
    since_progress_seconds: float = 0.0
    # Of the calls that had not come back, the worst.
    effect: Effect | None = None
    # Its conversation is there to go on in.
    resumable: bool = True
    # Something can be started anew for it: a client that was asked, not a command that would simply run twice.
    renewable: bool = True
    place_gone: bool = False
    # A person's stop is final.
    stopped: bool = False
    # Reboot or server death took an idle session along.
    lost: bool = False
    limit_in_seconds: float | None = None
    # The agent of the hub that hosts it.
    agent_name: str | None = None
    agent_way: AgentWay = AgentWay.TELL


class History(Struct, frozen=True, kw_only=True):
    """What was done about this trouble before, on the same work."""

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


class Rules(Struct, frozen=True, kw_only=True):
    """What the operator allows."""

    mode: str = "mine"
    revive_runaways: bool = False
    confirm_seconds: float = 3.0
    steer_seconds: float = 120.0
    paused_by: str | None = None

    @property
    def acts(self) -> bool:
        """Whether anything at all is done without a person."""
        return self.mode != "observe" and self.paused_by is None


class Decision(Struct, frozen=True):
    """What to do, why, and when to ask again if nothing changes until then."""

    step: Step
    reason: str
    again_seconds: float | None = None
    # Whether it uses up the work's one revival.
    spends: bool = False
    # Whether people hear of it although it is only waited.
    tells: bool = False


_Rule = Callable[[Situation, History, Rules], Decision | None]


def plan(situation: Situation, history: History, rules: Rules) -> Decision:
    """The first rule that has an answer decides."""
    for rule in RULES:
        decision = rule(situation, history, rules)
        if decision is not None:
            return decision
    return revive_rule(situation)


def _nothing_wrong(now: Situation, _history: History, _rules: Rules) -> Decision | None:
    """Nothing is wrong: wait."""
    return Decision(Step.WAIT, "nothing is wrong") if now.code is None and not now.lost else None


def _stopped(now: Situation, _history: History, _rules: Rules) -> Decision | None:
    """A person stopped it: that is final."""
    return Decision(Step.WAIT, "a person stopped it, which is final") if now.stopped else None


def _not_allowed(now: Situation, _history: History, rules: Rules) -> Decision | None:
    """The mode forbids it, or the session was merely found: tell."""
    if rules.mode == "observe":
        return Decision(Step.NOTIFY, "the mode is observe: Wakeful acts on nothing")
    # Whoever an agent of the hub hosts was not merely found: `_hosted` says what becomes of it.
    if not now.managed and now.agent_name is None and rules.mode != "all":
        return Decision(Step.NOTIFY, "it was found, not handed over")
    return None


def _hosted(now: Situation, _history: History, _rules: Rules) -> Decision | None:
    """An agent of the hub hosts it: tell, unless it is gone and its declaration says that Wakeful brings it back."""
    if now.agent_name is None or now.managed:
        return None
    if now.agent is Sight.DEAD and now.agent_way is AgentWay.WAIT:
        return Decision(Step.WAIT, f"agent {now.agent_name} cannot be brought back yet", AGENT_SECONDS)
    if now.agent is Sight.DEAD and now.agent_way is AgentWay.REVIVE:
        return None
    return Decision(Step.NOTIFY, f"agent {now.agent_name} hosts it: `wakeful attach {now.agent_name}`")


def _given_up(_now: Situation, history: History, _rules: Rules) -> Decision | None:
    """Given up before: that stays, until a person acts or a turn ends well."""
    return Decision(Step.NOTIFY, "it was given up") if history.given_up else None


def _limited(now: Situation, history: History, _rules: Rules) -> Decision | None:
    """A usage limit: tell, and wait for its end; without a known end, only tell."""
    if now.code is not Code.USAGE_LIMITED:
        return None
    if now.limit_in_seconds is None:
        return Decision(Step.NOTIFY, "nobody said when the limit is lifted")
    if now.limit_in_seconds + LIMIT_GRACE_SECONDS > 0:
        rest = now.limit_in_seconds + LIMIT_GRACE_SECONDS
        reason = f"the limit is lifted in {length(max(0.0, now.limit_in_seconds))}, then it is continued once"
        return Decision(Step.WAIT, reason, rest, tells=True)
    return Decision(Step.NOTIFY, "it was continued once") if history.continued_after_limit else None


def _told_only(now: Situation, _history: History, rules: Rules) -> Decision | None:
    """Findings whose act is to tell, a login or twins: tell. So is a runaway that makes progress."""
    if now.code is None:
        return None
    if now.code is Code.RUNAWAY:
        if rules.revive_runaways or now.since_progress_seconds > PROGRESS_SECONDS:
            return None
        return Decision(Step.NOTIFY, "it runs away but makes progress", PROGRESS_SECONDS)
    act = MEANINGS[now.code, now.state].act
    if act is Act.REVIVE or now.code is Code.USAGE_LIMITED:
        return None
    return Decision(Step.NOTIFY, f"{now.code} needs a person")


def _unconfirmed(now: Situation, _history: History, rules: Rules) -> Decision | None:
    """Not sure yet: wait until it has lasted."""
    if now.agent is Sight.UNKNOWN:
        return Decision(Step.NOTIFY, "nobody knows whether its process lives")
    missing = rules.confirm_seconds - now.for_seconds
    return Decision(Step.WAIT, "it may pass", missing) if missing > 0 else None


def _paused(_now: Situation, _history: History, rules: Rules) -> Decision | None:
    """Paused: tell, and wait."""
    if rules.paused_by is None:
        return None
    return Decision(Step.NOTIFY, f"PAUSED by {rules.paused_by}")


def _nowhere(now: Situation, _history: History, _rules: Rules) -> Decision | None:
    """Its folder is gone, or its program would only run twice: tell."""
    if now.place_gone:
        return Decision(Step.NOTIFY, "its working directory is gone")
    if not now.resumable and not now.renewable:
        return Decision(Step.NOTIFY, "its program keeps no conversation, and nobody asked to run it twice")
    return None


def _just_revived(now: Situation, history: History, _rules: Rules) -> Decision | None:
    """Revived a moment ago, here or by somebody else: wait and see, unless it was seen alive and failed again."""
    ago = history.revived_seconds_ago
    if ago is None or ago >= REVIVED_SECONDS or (history.revival_seen and _failed_anew(now, history)):
        return None
    return Decision(Step.WAIT, "it was revived just now", REVIVED_SECONDS - ago)


def _failed_anew(now: Situation, history: History) -> bool:
    if now.agent is Sight.DEAD:
        return True
    began, found = history.revival_began_seconds_ago, now.found_seconds
    return began is not None and found is not None and found < began


def _interrupted_effect(now: Situation, history: History, _rules: Rules) -> Decision | None:
    """It ended inside a call that may have changed something elsewhere: a person decides."""
    if now.effect in (None, Effect.LOCAL) or history.approved:
        return None
    return Decision(Step.HOLD, "a call was cut off that may have had effects elsewhere")


def _limit_lifted(now: Situation, _history: History, _rules: Rules) -> Decision | None:
    """A limit is lifted and the client does not go on by itself: continue it once; that is no revival."""
    if now.code is not Code.USAGE_LIMITED:
        return None
    step = Step.STEER if now.agent is Sight.ALIVE else Step.RESUME
    return Decision(step, "the limit is lifted and its client does not go on by itself")


def _lost(now: Situation, _history: History, _rules: Rules) -> Decision | None:
    """An idle session whose host or tmux server went: bring it back; no work was cut off, so nothing is spent."""
    if not now.lost or now.code is not None:
        return None
    if not now.resumable:
        return Decision(Step.FRESH, "what hosted it is gone, and nothing was ever asked of it")
    return Decision(Step.RESUME, "what hosted it is gone")


def _steer_first(now: Situation, history: History, rules: Rules) -> Decision | None:
    """A loop or a cascade of a living agent: a word first, and time to heed it."""
    if now.code not in (Code.LOOP, Code.ERROR_CASCADE) or now.agent is not Sight.ALIVE:
        return None
    if history.steered_seconds_ago is None:
        return Decision(Step.STEER, "a word may be enough", rules.steer_seconds)
    rest = rules.steer_seconds - history.steered_seconds_ago
    return Decision(Step.WAIT, "it was told and has time to heed it", rest) if rest > 0 else None


def _spent(_now: Situation, history: History, _rules: Rules) -> Decision | None:
    """The one revival of this work is spent: give up, and say so."""
    if history.revivals < REVIVALS_MAX:
        return None
    return Decision(Step.GIVE_UP, "it failed again after it was revived")


RULES: Final[tuple[_Rule, ...]] = (
    _nothing_wrong,
    _stopped,
    _not_allowed,
    _hosted,
    _given_up,
    _limited,
    _told_only,
    _nowhere,
    _unconfirmed,
    _paused,
    _just_revived,
    _interrupted_effect,
    _limit_lifted,
    _lost,
    _steer_first,
    _spent,
)


def revive_rule(now: Situation) -> Decision:
    """Nothing gentler is left: the one revival. In place where the agent can still listen, else by a new process."""
    if now.code is Code.POISONED_CONVERSATION:
        return Decision(Step.FRESH, "this conversation fails whatever it is asked", spends=True)
    if now.agent is Sight.ALIVE and now.code is Code.TURN_FAILED:
        return Decision(Step.STEER, "its turn failed and it waits", spends=True)
    if now.agent is Sight.ALIVE and now.code in _CUT_SHORT:
        return Decision(Step.INTERRUPT, "its turn leads nowhere", spends=True)
    if now.resumable:
        return Decision(Step.RESUME, "its conversation can go on", spends=True)
    return Decision(Step.FRESH, "there is no conversation to return to", spends=True)


# The agent itself is well: only its turn has to end.
_CUT_SHORT: Final = frozenset({Code.LOOP, Code.ERROR_CASCADE, Code.TOOL_WEDGED, Code.RUNAWAY})
