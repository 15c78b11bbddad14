"""The session record: documented fields in a fixed order, which are added and never renamed.

The same struct is used from judging to the interfaces. Text of an agent, client or provider is only under
keys named `untrusted`, redacted and plain.
"""

from functools import lru_cache
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from wakeful.core.clock import Instant, iso, latest
from wakeful.core.ids import ConversationId, SessionId
from wakeful.core.labels import label, path_label
from wakeful.core.process import ProcessState
from wakeful.core.redaction import redact
from wakeful.core.text import plain
from wakeful.judging.activity import Activity
from wakeful.judging.available_actions import AvailableAction, possible_actions, restrict_actions
from wakeful.judging.evidence import AgentProcess, LivenessLevel, RuntimeState, SessionIdentity
from wakeful.judging.findings import (
    EXIT_CODES,
    MEANINGS,
    Attention,
    ExpectedWait,
    Finding,
    FindingCode,
    Health,
    Severity,
    State,
    Verdict,
    WaitKind,
)
from wakeful.judging.folding import RULE_VERSION
from wakeful.judging.wake_eligibility import (
    UNREACHABLE,
    IneligibilityReason,
    Reachability,
    WakeFacts,
    ineligibility,
)

SCHEMA: Final = 1
# Bump when judging changes. Folding has its own version: state of another one is folded again from the log.
JUDGE_VERSION: Final = 6
RULES: Final = f"{RULE_VERSION}.{JUDGE_VERSION}"
"""The version of the rules behind a verdict: the same evidence may lead to another verdict in another version."""
UNTRUSTED_CHARS_MAX: Final = 300
# Redacting a hostile text takes two microseconds for each character. The rest is colours, blanks and long secrets.
_REDACTED_CHARS_MAX: Final = 10 * UNTRUSTED_CHARS_MAX
# Used for every record; before Python 3.12 each use of an enum's member is a new lookup.
_ALIVE, _DEAD = ProcessState.ALIVE, ProcessState.DEAD
_IDLE, _STARTING, _STOPPED = State.IDLE, State.STARTING, State.STOPPED
_BETWEEN_TURNS: Final = frozenset({State.IDLE, State.DETACHED})
_NOT_MANAGED: Final = ineligibility(WakeFacts())


class FindingRecord(Struct, frozen=True, gc=False):
    code: FindingCode
    severity: Severity
    since: str
    summary: str
    evidence: tuple[str, ...]
    untrusted: tuple[str, ...]


class WaitRecord(Struct, frozen=True, gc=False):
    kind: WaitKind
    since: str
    until: str | None
    evidence: str
    untrusted: str
    # A guess: no source says that it waits for this.
    probable: bool = False


class ErrorRecord(Struct, frozen=True, gc=False):
    code: FindingCode
    at: str
    untrusted: str


class AskRecord(Struct, frozen=True, gc=False):
    """The question at the end of the last turn; the session is still idle."""

    at: str
    untrusted: str


class UntrustedNames(Struct, frozen=True, gc=False):
    """Names that an agent or a person chose, redacted and plain."""

    project: str
    cwd: str | None
    name: str | None


class SessionRecord(Struct, frozen=True, gc=False):
    """The public record of a session, the same through every interface."""

    schema: int
    id: SessionId
    project: str
    agent: str | None
    provider: str
    host: str
    source: str
    conversation_id: ConversationId | None
    attempt: int
    managed: bool
    state: State
    health: Health
    active_prompt: bool
    attachable: bool
    eligible_for_wake: bool
    ineligibility_reason: IneligibilityReason | None
    session_alive: bool
    attention: Attention
    findings: tuple[FindingRecord, ...]
    expected_waits: tuple[WaitRecord, ...]
    alive_to: LivenessLevel
    broken_at: LivenessLevel | None
    actions: tuple[AvailableAction, ...]
    last_activity_at: str | None
    last_presence_at: str | None
    last_error: ErrorRecord | None
    started_at: str | None
    judged_at: str
    valid_until: str | None
    updated_at: str
    cwd: str | None
    pid: int | None
    rules: str
    name: str | None = None
    asks: AskRecord | None = None
    # Set if `project`, `cwd` or `name` are labels that differ from the chosen names.
    untrusted: UntrustedNames | None = None
    # What people call it, the same everywhere; `sessions.short_names` sets it.
    short_name: str = ""

    @property
    def exit_code(self) -> int:
        return EXIT_CODES[self.health]


class HealthView(Struct, frozen=True, gc=False):
    """The health fields and nothing else."""

    schema: int
    id: SessionId
    state: State
    health: Health
    active_prompt: bool
    attachable: bool
    eligible_for_wake: bool
    ineligibility_reason: IneligibilityReason | None
    last_activity_at: str | None
    last_presence_at: str | None
    last_error: ErrorRecord | None
    updated_at: str


def health_view(record: SessionRecord) -> HealthView:
    return HealthView(*(getattr(record, name) for name in HealthView.__struct_fields__))


def build_record(
    identity: SessionIdentity,
    activity: Activity,
    runtime: RuntimeState,
    verdict: Verdict,
    now: Instant,
    reachability: Reachability = UNREACHABLE,
    *,
    held: bool = False,
) -> SessionRecord:
    """The record of a verdict.

    `held`: an interrupted call may have had remote effects, and no person has checked.
    """
    process = runtime.newest_process
    reason = _ineligibility(verdict, reachability)
    state = _state(verdict, reachability)
    cwd = activity.cwd or runtime.cwd
    chosen = activity.project or project_of(identity, cwd)
    stamp = _stamp(now.wall)
    attachable = reachability.ours and reachability.path_open
    other = runtime.other_machine
    possible = possible_actions(identity, activity, runtime, verdict, state, path_open=attachable)
    return SessionRecord(
        schema=SCHEMA,
        id=identity.id,
        project=label(chosen),
        agent=identity.agent,
        provider=identity.provider,
        host=other.host if other is not None else identity.host,
        source=identity.source,
        conversation_id=activity.conversation_id or identity.conversation_id,
        attempt=identity.attempt,
        managed=identity.is_managed,
        state=state,
        health=verdict.health,
        active_prompt=verdict.active_prompt,
        attachable=attachable,
        eligible_for_wake=reason is None,
        ineligibility_reason=reason,
        session_alive=verdict.agent is _ALIVE,
        attention=verdict.attention,
        findings=tuple(_finding(each, verdict.state) for each in verdict.findings),
        expected_waits=tuple(map(_wait, verdict.waits)),
        alive_to=verdict.alive_to,
        broken_at=verdict.broken_at,
        actions=restrict_actions(possible, observing=reachability.observing, held=held),
        last_activity_at=_iso(latest((activity.last_at, runtime.grown_at))),
        last_presence_at=_iso(_last_presence(runtime, process, verdict, now)),
        last_error=_last_error(verdict),
        started_at=_iso(activity.first_at or (process.seen_at if process is not None else None)),
        judged_at=stamp,
        valid_until=_iso(verdict.next_check_at),
        updated_at=stamp,
        cwd=path_label(cwd) if cwd else None,
        pid=process.process.pid if process is not None and process.sight is _ALIVE else None,
        rules=RULES,
        name=label(identity.name) if identity.name else identity.name,
        asks=_ask_record(activity, state),
        untrusted=_untrusted_names(chosen, cwd, identity.name),
    )


def _state(verdict: Verdict, reachability: Reachability) -> State:
    """The verdict's state, unless a start, a stop or a lost connection says more than evidence of the agent.

    A start is over once its agent is seen, and a stop once it is not. Only an idle session is detached: a working or
    asking one does not wait for a prompt.
    """
    state = verdict.state
    if reachability.underway is not None and (reachability.underway is _STARTING) == (state is _STOPPED):
        return reachability.underway
    return State.DETACHED if state is _IDLE and reachability.ours and reachability.path_lost else state


def mark_stopped(stored: SessionRecord, at: str) -> SessionRecord:
    """The record of a session of which nothing is left: it has ended, and how is unknown."""
    return replace(
        stored,
        state=State.STOPPED,
        health=Health.UNKNOWN,
        active_prompt=False,
        attachable=False,
        eligible_for_wake=False,
        ineligibility_reason=_NOT_MANAGED,
        session_alive=False,
        attention=Attention.NONE,
        findings=(),
        expected_waits=(),
        alive_to=LivenessLevel.HOST,
        broken_at=None,
        actions=(),
        valid_until=None,
        judged_at=at,
        updated_at=at,
        pid=None,
        asks=None,
    )


@lru_cache(maxsize=4096)
def _untrusted_names(project: str, cwd: str | None, name: str | None) -> UntrustedNames | None:
    """None, as for nearly every session, if all of them are labels already."""
    labels = label(project), path_label(cwd) if cwd else cwd, label(name) if name else name
    if labels == (project, cwd, name):
        return None
    return UntrustedNames(safe(project), safe(cwd) if cwd else None, safe(name) if name else None)


def _ask_record(activity: Activity, state: State) -> AskRecord | None:
    if not activity.asks or state not in _BETWEEN_TURNS or activity.phase_since is None:
        return None
    return AskRecord(iso(activity.phase_since.wall), safe(activity.asks))


def project_label(identity: SessionIdentity, activity: Activity, runtime: RuntimeState) -> str:
    return label(activity.project or project_of(identity, activity.cwd or runtime.cwd))


def project_of(identity: SessionIdentity, cwd: str | None) -> str:
    """The last part of the working directory, which people use as the project's name."""
    return (cwd or "").rstrip("/").rpartition("/")[2] or identity.project


def safe(text: str) -> str:
    """Text from outside, safe to show: redacted, plain, short. What ends with an ellipsis goes on."""
    shown = plain(redact(text, _REDACTED_CHARS_MAX), UNTRUSTED_CHARS_MAX)
    # A secret may be long and its mark is short.
    is_cut = len(text) > _REDACTED_CHARS_MAX and not shown.endswith("…")
    return f"{shown}…" if is_cut else shown


# Many sessions are judged at the same time.
_stamp = lru_cache(maxsize=1)(iso)


def _iso(instant: Instant | None) -> str | None:
    return iso(instant.wall) if instant is not None else None


def _finding(finding: Finding, state: State) -> FindingRecord:
    return FindingRecord(
        finding.code,
        MEANINGS[finding.code, state].severity,
        iso(finding.since.wall),
        finding.summary,
        tuple(safe(line) for line in finding.evidence),
        tuple(safe(line) for line in finding.untrusted),
    )


def _wait(wait: ExpectedWait) -> WaitRecord:
    since, until = iso(wait.since.wall), _iso(wait.until)
    return WaitRecord(wait.kind, since, until, wait.evidence, safe(wait.untrusted), wait.probable)


_ERRORS: Final = frozenset({FindingCode.AUTH_REQUIRED, FindingCode.USAGE_LIMITED, FindingCode.TURN_FAILED})


def _last_error(verdict: Verdict) -> ErrorRecord | None:
    for finding in verdict.findings:
        if finding.code in _ERRORS:
            return ErrorRecord(finding.code, iso(finding.since.wall), safe(" ".join(finding.untrusted)))
    return None


def _last_presence(
    runtime: RuntimeState, process: AgentProcess | None, verdict: Verdict, now: Instant
) -> Instant | None:
    # The exit of a live process would be reported: it is present until now.
    if runtime.agent_state is _ALIVE:
        return now
    grown_at = runtime.grown_at if verdict.agent is not _DEAD else None
    return grown_at if process is None else latest((process.ended_at, grown_at))


def _ineligibility(verdict: Verdict, reachability: Reachability) -> IneligibilityReason | None:
    """Why it may not be woken, by the session and the configuration; the wake checks hours, files and cooldowns."""
    if not reachability.ours:  # nearly every session
        return _NOT_MANAGED
    return ineligibility(
        WakeFacts(reach=reachability, health=verdict.health, active_prompt=verdict.active_prompt)
    )
