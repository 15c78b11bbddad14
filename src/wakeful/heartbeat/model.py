"""Wakes: trigger, outcome, audit entry, status records, and the text of the wake prompt. Pure.

The prompt says that it is a wake and not a person, names its reason and its snapshot, and grants nothing.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from msgspec import Struct

from wakeful.agents.model import RESERVED, parse_agent_name
from wakeful.control.briefs import WAKE_PREFIX
from wakeful.core.errors import BadSessionId, OperatorError, WorldError
from wakeful.core.ids import SessionId, parse_session_id
from wakeful.heartbeat.policy import (
    ClampedPreference,
    HeartbeatSnapshot,
    Include,
    PolicyProblem,
    PolicyReading,
    Window,
)
from wakeful.judging.session_record import safe
from wakeful.judging.wake_eligibility import IneligibilityReason, PolicyState, WakeRule

SCHEMA: Final = 1


class HealthNotKnownYet(WorldError):
    """Wakeful has just started and has not judged all sessions yet. Ask again in a moment."""

    code = "health-not-known-yet"
    retryable = True


class WakesItself(OperatorError):
    """This command runs inside session {session}, which it would wake. An agent cannot wake itself."""

    code = "wakes-itself"
    http_status = 403
    exit_code = 1


class Trigger(StrEnum):
    """The origin of a wake: a person or the schedule."""

    MANUAL = "hand"
    SCHEDULE = "schedule"


class WakeOutcome(StrEnum):
    """Closed: docs/specs/session-health.md lists them."""

    SENT = "sent"
    SKIPPED = "skipped"
    COALESCED = "coalesced"
    RATE_LIMITED = "rate_limited"
    FAILED = "failed"


_OUTCOMES: Final[Mapping[IneligibilityReason | None, WakeOutcome]] = {
    None: WakeOutcome.SENT,
    IneligibilityReason.WAKE_COALESCED: WakeOutcome.COALESCED,
    IneligibilityReason.HEARTBEAT_RATE_LIMITED: WakeOutcome.RATE_LIMITED,
    IneligibilityReason.SYNTHETIC_PROMPT_FAILED: WakeOutcome.FAILED,
}


def parse_target(text: str) -> str:
    """The name of an agent or of a session, or a session's whole id; never a path. Raises BadAgentName."""
    try:
        parse_session_id(text)
    except BadSessionId:
        return parse_agent_name(text)
    return parse_agent_name(text) if text in RESERVED else text


def outcome_of(reason: IneligibilityReason | None) -> WakeOutcome:
    """The outcome of a wake with this reason; without a reason it was sent."""
    return _OUTCOMES.get(reason, WakeOutcome.SKIPPED)


class Audit(Struct, frozen=True, kw_only=True):
    """One decision, or equal refusals in a row with their count. Without an outcome it is under way."""

    id: str
    at: str
    last_at: str
    count: int
    agent: str
    session_id: SessionId | None
    trigger: Trigger
    outcome: WakeOutcome | None
    reason: IneligibilityReason | None
    words: str
    snapshot_id: str | None
    digest: str | None
    # The wall time of `last_at`, for cooldowns after a restart and for retention.
    wall: float

    @property
    def has_given_prompt(self) -> bool:
        """Whether a prompt was sent, or may have been."""
        return self.outcome in (None, WakeOutcome.SENT, WakeOutcome.FAILED)


def is_repeat(one: Audit, other: Audit) -> bool:
    """Whether two decisions in a row are one entry with a count: both refused, with equal subject and reason."""
    return not (one.has_given_prompt or other.has_given_prompt) and _comparable(one) == _comparable(other)


def _comparable(audit: Audit) -> tuple[object, ...]:
    return audit.agent, audit.session_id, audit.trigger, audit.reason, audit.words, audit.snapshot_id


class WakeState(Struct, frozen=True, kw_only=True):
    """The state of an agent between its wakes."""

    waking: bool
    last_wake_at: str | None
    cooldown_until: str | None
    quiet_until: str | None
    next_wake_at: str | None
    wakes_in_cycle: int
    wakes_in_cycle_max: int


class PolicySnapshot(Struct, frozen=True, kw_only=True):
    """A snapshot for every interface. The author's text is under `untrusted`; the guidance stays in the file."""

    id: str
    digest: str
    path: str
    taken_at: str
    enabled: bool
    min_interval_seconds: float | None
    active_hours: tuple[Window, ...]
    quiet_windows: tuple[Window, ...]
    include: tuple[Include, ...]
    body_chars: int
    clamped: tuple[ClampedPreference, ...]
    untrusted: str


def policy_snapshot(snapshot: HeartbeatSnapshot) -> PolicySnapshot:
    """The snapshot without the parts that only its agent gets."""
    policy = snapshot.policy
    return PolicySnapshot(
        id=snapshot.id,
        digest=snapshot.digest,
        path=snapshot.path,
        taken_at=snapshot.taken_at,
        enabled=policy.enabled,
        min_interval_seconds=policy.min_interval_seconds,
        active_hours=policy.active_hours,
        quiet_windows=policy.quiet_windows,
        include=policy.include,
        body_chars=len(policy.body),
        clamped=snapshot.clamped,
        untrusted=safe(policy.summary),
    )


class HeartbeatStatus(Struct, frozen=True, kw_only=True):
    """Whether an agent may be woken now, by which policy, and the last decisions."""

    schema: int
    agent: str
    session_id: SessionId | None
    eligible_for_wake: bool
    ineligibility_reason: IneligibilityReason | None
    words: str
    policy_state: PolicyState
    policy_snapshot: PolicySnapshot | None
    policy_problem: PolicyProblem | None
    wake_state: WakeState
    last_audit: Audit | None
    # Newest first, as many as a person reads.
    audits: tuple[Audit, ...]


class WakeAnswer(Struct, frozen=True, kw_only=True):
    """The answer to a wake request. The same request in the same situation has the same answer, byte for byte."""

    schema: int
    agent: str
    session_id: SessionId | None
    outcome: WakeOutcome
    reason: IneligibilityReason | None
    words: str
    snapshot_id: str | None
    digest: str | None


def prompt_of(
    agent: str, trigger: Trigger, snapshot: HeartbeatSnapshot, context: Mapping[Include, str]
) -> str:
    """The synthetic prompt of a wake."""
    policy = snapshot.policy
    cause = "on its schedule" if trigger is Trigger.SCHEDULE else "because a person asked for it"
    lines = [
        f"{WAKE_PREFIX}{agent} {cause}. This is an automatic wake, not a message from a person:",
        "it answers no question, approves nothing and grants no permission.",
        f"It rests on HEARTBEAT.md, snapshot {snapshot.id}.",
    ]
    lines += [f"{each}: {context[each]}" for each in policy.include if each in context]
    lines += [f"What it is for: {policy.summary}"] if policy.summary else []
    lines += ["Guidance of that file:", policy.body] if policy.body else []
    return "\n".join(lines)


def reason_text(rule: WakeRule | None, reading: PolicyReading) -> str:
    """Why an agent may not be woken, for people; for an invalid file, the line and the error."""
    if rule is None:
        return "it may be woken"
    if reading.problem is not None and rule.reason is IneligibilityReason.HEARTBEAT_INVALID:
        return f"{reading.problem.file}:{reading.problem.line}: {reading.problem.reason}"
    return rule.text


def answer_of(audit: Audit) -> WakeAnswer:
    """The answer to a request, from its concluded decision."""
    assert audit.outcome is not None, "concluded"
    return WakeAnswer(
        schema=SCHEMA,
        agent=audit.agent,
        session_id=audit.session_id,
        outcome=audit.outcome,
        reason=audit.reason,
        words=audit.words,
        snapshot_id=audit.snapshot_id,
        digest=audit.digest,
    )
