"""Decides whether a session may be woken: one function, thirteen closed reasons in one order. Pure.

The order: whether Wakeful may act on the session, conditions that last until someone changes them, the health
of the session, conditions that pass by themselves, and last those that only an attempt shows.
`eligible_for_wake` of the record is the same function over session and configuration: no file of an agent
changes it. `docs/reference/wake.md` is generated from RULES.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import Final, NamedTuple

from msgspec import Struct

from wakeful.judging.findings import Health, State


class IneligibilityReason(StrEnum):
    """Closed: docs/specs/session-health.md lists them."""

    SESSION_NOT_FOUND = "session_not_found"
    SESSION_UNHEALTHY = "session_unhealthy"
    SESSION_NOT_ATTACHABLE = "session_not_attachable"
    SESSION_PROMPT_ACTIVE = "session_prompt_active"
    SESSION_PROMPT_ACTIVE_RACE = "session_prompt_active_race"
    COOLDOWN_ACTIVE = "cooldown_active"
    QUIET_WINDOW = "quiet_window"
    HEARTBEAT_DISABLED = "heartbeat_disabled"
    HEARTBEAT_INVALID = "heartbeat_invalid"
    HEARTBEAT_NO_POLICY = "heartbeat_no_policy"
    HEARTBEAT_RATE_LIMITED = "heartbeat_rate_limited"
    WAKE_COALESCED = "wake_coalesced"
    SYNTHETIC_PROMPT_FAILED = "synthetic_prompt_failed"


class PolicyState(StrEnum):
    VALID = "valid"
    DISABLED = "disabled"
    INVALID = "invalid"
    MISSING = "missing"


class Reachability(Struct, frozen=True, gc=False):
    """Whether Wakeful may act on a session, and whether a prompt would arrive.

    `enabled` is the configuration's switch for waking.
    """

    ours: bool = False
    path_open: bool = False
    enabled: bool = True
    # Its agent is alive and the path to it is lost, not just closed for a moment.
    path_lost: bool = False
    # A start or stop in progress: `starting` or `stopping`.
    underway: State | None = None
    # The mode is observe: no action is allowed.
    observing: bool = False


UNREACHABLE: Final = Reachability()


class WakeFacts(Struct, frozen=True, kw_only=True):
    """Everything that decides about a wake. The defaults are neutral."""

    found: bool = True
    reach: Reachability = UNREACHABLE
    policy: PolicyState = PolicyState.VALID
    health: Health = Health.UNKNOWN
    active_prompt: bool = False
    # Another wake of this session is under way.
    waking: bool = False
    quiet: bool = False
    cooling: bool = False
    cycle_spent: bool = False
    # A prompt began inside the action gate, after the session had been found ready.
    raced: bool = False
    # The prompt was sent and its acceptance was not confirmed.
    failed: bool = False


class WakeRule(NamedTuple):
    reason: IneligibilityReason
    applies: Callable[[WakeFacts], bool]
    text: str


RULES: Final = (
    WakeRule(IneligibilityReason.SESSION_NOT_FOUND, lambda f: not f.found,
        "no session has that name"),
    WakeRule(IneligibilityReason.SESSION_NOT_ATTACHABLE, lambda f: not f.reach.ours,
        "the session is not managed, or the mode is observe"),
    WakeRule(IneligibilityReason.HEARTBEAT_DISABLED, lambda f: not f.reach.enabled or f.policy is PolicyState.DISABLED,
        "`[agents.heartbeat] enabled = false`, or HEARTBEAT.md says `enabled: false`"),
    WakeRule(IneligibilityReason.HEARTBEAT_INVALID, lambda f: f.policy is PolicyState.INVALID,
        "HEARTBEAT.md is invalid, or lies in the agent's folder and is not trusted; `heartbeat status` says which line or what to run"),
    WakeRule(IneligibilityReason.HEARTBEAT_NO_POLICY, lambda f: f.policy is PolicyState.MISSING,
        "the agent has no HEARTBEAT.md, neither in `$WAKEFUL_HOME/agents/NAME` nor in its folder's `.wakeful/agents/NAME`"),
    WakeRule(IneligibilityReason.SESSION_UNHEALTHY, lambda f: f.health is not Health.HEALTHY,
        "health is degraded, stale, dead or unknown"),
    WakeRule(IneligibilityReason.SESSION_PROMPT_ACTIVE, lambda f: f.active_prompt,
        "a turn is running, or waits for a person"),
    WakeRule(IneligibilityReason.SESSION_NOT_ATTACHABLE, lambda f: not f.reach.path_open,
        "it is not proven that a prompt can be delivered"),
    WakeRule(IneligibilityReason.WAKE_COALESCED, lambda f: f.waking, "another wake of it is in progress"),
    WakeRule(IneligibilityReason.QUIET_WINDOW, lambda f: f.quiet,
        "inside a quiet window, or outside all active hours"),
    WakeRule(IneligibilityReason.COOLDOWN_ACTIVE, lambda f: f.cooling,
        "the last wake is less than `wake_cooldown`, or the file's `min_interval`, ago"),
    WakeRule(IneligibilityReason.HEARTBEAT_RATE_LIMITED, lambda f: f.cycle_spent,
        "`max_wakes_per_cycle` wakes were sent in this cycle"),
    WakeRule(IneligibilityReason.SESSION_PROMPT_ACTIVE_RACE, lambda f: f.raced,
        "a prompt began between the decision and the delivery; nothing was sent"),
    WakeRule(IneligibilityReason.SYNTHETIC_PROMPT_FAILED, lambda f: f.failed,
        "the prompt was not accepted, or it is unknown whether it was"),
)  # fmt: skip
"""In order of precedence: the first that applies is the answer."""


def refusing_rule(facts: WakeFacts) -> WakeRule | None:
    """The rule that forbids to wake a session; None if none does."""
    return next((rule for rule in RULES if rule.applies(facts)), None)


def ineligibility(facts: WakeFacts) -> IneligibilityReason | None:
    """The reason why a session may not be woken; None if it may."""
    rule = refusing_rule(facts)
    return rule.reason if rule is not None else None
