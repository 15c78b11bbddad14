"""Findings, states, health and verdicts: closed values, and what each finding means in each state.

The reference page is generated from the table. A new detector adds its code to FindingCode and its function to
DETECTORS. A Verdict says what a session does, its health, the reasons, and when that can change by time alone.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from msgspec import Struct

from wakeful.core.clock import Instant
from wakeful.core.process import ProcessState
from wakeful.judging.evidence import LivenessLevel


class State(StrEnum):
    IDLE = "idle"
    PROMPTING = "prompting"
    WAITING = "waiting"
    STARTING = "starting"
    STOPPING = "stopping"
    STOPPED = "stopped"
    DETACHED = "detached"


class Health(StrEnum):
    """Worst last, as `worst` orders them."""

    HEALTHY = "healthy"
    STALE = "stale"
    UNKNOWN = "unknown"
    DEGRADED = "degraded"
    DEAD = "dead"


class Severity(StrEnum):
    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"


class Notice(StrEnum):
    NONE = "none"
    NEEDS_YOU = "needs_you"
    TROUBLE = "trouble"


class HealingAction(StrEnum):
    """The most that healing may do about a finding of a managed session."""

    NONE = "none"
    NOTIFY = "notify"
    STEER = "steer"
    REVIVE = "revive"


class Attention(StrEnum):
    """The one that has to act next."""

    NONE = "none"
    PERSON = "person"
    TIME = "time"
    LOGIN = "login"
    OPERATOR = "operator"


NEEDS_YOU: Final = (Attention.PERSON, Attention.LOGIN, Attention.OPERATOR)
"""The values that wait for a person, most urgent first: lists and reports count these as open problems."""


class FindingCode(StrEnum):
    """In order of precedence: the first finding names the session's problem."""

    SESSION_DEAD = "session_dead"
    AGENT_EXITED = "agent_exited"
    TWIN_PROCESSES = "twin_processes"
    AUTH_REQUIRED = "auth_required"
    USAGE_LIMITED = "usage_limited"
    POISONED_CONVERSATION = "poisoned_conversation"
    TURN_FAILED = "turn_failed"
    LOOP = "loop"
    ERROR_CASCADE = "error_cascade"
    SILENT = "silent"
    TOOL_WEDGED = "tool_wedged"
    NEVER_STARTED = "never_started"
    RUNAWAY = "runaway"
    RUNTIME_LOST = "runtime_lost"
    READER_DRIFT = "reader_drift"
    RUNS_ELSEWHERE = "runs_elsewhere"


class FindingMeaning(Struct, frozen=True):
    health: Health
    severity: Severity
    notice: Notice
    act: HealingAction
    attention: Attention

    @property
    def exit_code(self) -> int:
        return EXIT_CODES[self.health]


EXIT_CODES: Final[Mapping[Health, int]] = {
    Health.HEALTHY: 0,
    Health.STALE: 1,
    Health.DEGRADED: 1,
    Health.DEAD: 1,
    Health.UNKNOWN: 5,
}

_DEAD: Final = FindingMeaning(
    Health.DEAD, Severity.CRITICAL, Notice.TROUBLE, HealingAction.REVIVE, Attention.OPERATOR
)
_STUCK: Final = FindingMeaning(
    Health.DEGRADED, Severity.WARNING, Notice.TROUBLE, HealingAction.REVIVE, Attention.OPERATOR
)
_NOTIFY_ONLY: Final = FindingMeaning(
    Health.DEGRADED, Severity.WARNING, Notice.TROUBLE, HealingAction.NOTIFY, Attention.OPERATOR
)
_UNREADABLE: Final = FindingMeaning(
    Health.UNKNOWN, Severity.WARNING, Notice.TROUBLE, HealingAction.NONE, Attention.OPERATOR
)

_ALWAYS: Final[Mapping[FindingCode, FindingMeaning]] = {
    FindingCode.SESSION_DEAD: _DEAD,
    FindingCode.AGENT_EXITED: _DEAD,
    FindingCode.TWIN_PROCESSES: FindingMeaning(
        Health.DEGRADED, Severity.CRITICAL, Notice.NEEDS_YOU, HealingAction.NOTIFY, Attention.OPERATOR
    ),
    FindingCode.AUTH_REQUIRED: FindingMeaning(
        Health.DEGRADED, Severity.CRITICAL, Notice.NEEDS_YOU, HealingAction.NOTIFY, Attention.LOGIN
    ),
    FindingCode.USAGE_LIMITED: FindingMeaning(
        Health.DEGRADED, Severity.WARNING, Notice.TROUBLE, HealingAction.NONE, Attention.TIME
    ),
    FindingCode.POISONED_CONVERSATION: _STUCK,
    FindingCode.TURN_FAILED: _STUCK,
    FindingCode.LOOP: _STUCK,
    FindingCode.ERROR_CASCADE: _STUCK,
    FindingCode.SILENT: _STUCK,
    FindingCode.TOOL_WEDGED: _STUCK,
    FindingCode.NEVER_STARTED: _STUCK,
    # Age alone only notifies; nothing is resumed while progress is fresh.
    FindingCode.RUNAWAY: _NOTIFY_ONLY,
    FindingCode.RUNTIME_LOST: _UNREADABLE,
    FindingCode.READER_DRIFT: _UNREADABLE,
    # No problem: its own machine judges it.
    FindingCode.RUNS_ELSEWHERE: FindingMeaning(
        Health.UNKNOWN, Severity.INFO, Notice.NONE, HealingAction.NONE, Attention.NONE
    ),
}
# The program ended by itself after the problem: people get an alert, and nothing is resumed.
_EXCEPTIONS: Final[Mapping[tuple[FindingCode, State], FindingMeaning]] = {
    (FindingCode.TURN_FAILED, State.STOPPED): _NOTIFY_ONLY,
    (FindingCode.ERROR_CASCADE, State.STOPPED): _NOTIFY_ONLY,
    (FindingCode.LOOP, State.STOPPED): _NOTIFY_ONLY,
}

MEANINGS: Final[Mapping[tuple[FindingCode, State], FindingMeaning]] = {
    (code, state): _EXCEPTIONS.get((code, state), _ALWAYS[code]) for code in FindingCode for state in State
}

PRECEDENCE: Final[Mapping[FindingCode, int]] = {code: rank for rank, code in enumerate(FindingCode)}
_RANK: Final[Mapping[Health, int]] = {health: rank for rank, health in enumerate(Health)}


def worst(healths: list[Health]) -> Health:
    """The worst of them; healthy without any."""
    return max(healths, key=_RANK.__getitem__, default=Health.HEALTHY)


class WaitKind(StrEnum):
    MODEL = "model"
    TOOL = "tool"
    SUBAGENT = "subagent"
    PERSON = "person"
    RETRY = "retry"
    LIMIT = "limit"
    COMPACTION = "compaction"
    BACKGROUND = "background"
    SLEEP = "sleep"


class Finding(Struct, frozen=True, gc=False):
    """One closed code with its evidence. `untrusted` contains text of an agent."""

    code: FindingCode
    since: Instant
    summary: str
    evidence: tuple[str, ...] = ()
    untrusted: tuple[str, ...] = ()


class ExpectedWait(Struct, frozen=True, gc=False):
    """A named reason to be silent, with evidence and an end. Without `until` only a person ends it."""

    kind: WaitKind
    since: Instant
    until: Instant | None
    evidence: str
    untrusted: str = ""
    # A guess: no source says that it waits for this.
    probable: bool = False


class Verdict(Struct, frozen=True, gc=False):
    state: State
    health: Health
    agent: ProcessState
    active_prompt: bool
    attention: Attention
    findings: tuple[Finding, ...]
    waits: tuple[ExpectedWait, ...]
    alive_to: LivenessLevel
    broken_at: LivenessLevel | None
    next_check_at: Instant | None
