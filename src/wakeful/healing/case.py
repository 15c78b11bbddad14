"""The problem of a session, the actions about it, and the texts about it for agents and people. Pure.

A problem begins with a finding. It ends with the task: when a turn of it ends well, or when the person asks
for something else or interrupts it. Budgets and steps belong to the task, so its second failure is recognised
across restarts, attempts and processes. The layout of alerts is in `alerts/model.py`.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from msgspec import Struct

from wakeful.alerts import model as alerts
from wakeful.core.clock import iso
from wakeful.core.ids import SessionId
from wakeful.core.process import ProcessState
from wakeful.effects.rules import Effect
from wakeful.healing.plan import ACTING_STEPS, OUTCOME_SECONDS_MAX, CaseHistory, HealingDecision, HealingStep
from wakeful.incidents.model import NO_ACTION, MemberStatus
from wakeful.judging.activity import Activity
from wakeful.judging.events import CallEnded, CallStarted, Event
from wakeful.judging.findings import MEANINGS, FindingCode, State, Verdict
from wakeful.judging.interrupted_calls import classify
from wakeful.judging.session_record import FindingRecord, SessionRecord
from wakeful.judging.turn_state import ANSWERED, TurnPhase
from wakeful.judging.wording import format_length, quote

# An agent's brief needs the remote calls among many more events than an issue lists.
EVENTS_RECALLED_MAX: Final = 400
# A person looks at the last few calls in an issue; the log has the rest.
CALLS_FILED_MAX: Final = 20
# An agent reads them all, so only the newest remote calls of a turn are listed.
REMOTE_CALLS_NAMED_MAX: Final = 12

# Notes of resumes, each until its case is closed.
REVIVAL_KIND: Final = "revival"
CALLS_HAPPENED: Final = "A person checked: every call named above has happened. Do not repeat any of them."


class RevivalStage(StrEnum):
    """The progress of a resume. `begun`: its budget is spent; whether anything was done is unknown."""

    BEGUN = "begun"
    DONE = "done"


class HealingCase(Struct, frozen=True, kw_only=True):
    """The problem of one session, and the actions about it so far."""

    session_id: SessionId
    # The name of its budget: the session and when the task began.
    work: str
    project: str
    code: FindingCode | None
    opened_at: float
    # When this code was first seen: Wakeful acts only after it has lasted.
    code_since: float
    incident: str = ""
    # The summary of its finding.
    summary: str = ""
    # The reason in the log of critical events, from before any action.
    reason: str = ""
    steered_at: float | None = None
    # Cleared once it was seen healthy: a later failure is a new one.
    revived_at: float | None = None
    revival_began_at: float | None = None
    revival_seen: bool = False
    # The last resume that was begun for it.
    revival_id: str | None = None
    # When Wakeful last acted on it. Only a turn that was interrupted later was interrupted by a person.
    acted_at: float | None = None
    # The conversation that replaced it.
    heir: SessionId | None = None
    revivals: int = 0
    approved: bool = False
    # A person checked: the interrupted calls have happened.
    happened: bool = False
    held: bool = False
    # The number of its checkpoint.
    checkpoint: int | None = None
    given_up: bool = False
    # The last attempt was declined; it is retried, and was reported.
    declined: bool = False
    continued_after_limit: bool = False
    issue_url: str | None = None
    filed_at: float | None = None
    did: str = ""
    # The finding is gone, and no evidence shows yet that the task goes on.
    unclear_since: float | None = None
    # The finding is gone; the task may still run.
    calm_since: float | None = None
    # Its line in the log of critical events is written.
    logged: bool = False
    told: bool = False
    # The alert about its resume waits until then, so that it can report the outcome as well.
    outcome_due_at: float | None = None

    @property
    def is_budget_spent(self) -> bool:
        """Whether its task has had its resume; only another task has a new one."""
        return self.revivals > 0 or self.given_up

    def history(self, now: float) -> CaseHistory:
        return CaseHistory(
            steered_seconds_ago=None if self.steered_at is None else now - self.steered_at,
            revived_seconds_ago=None if self.revived_at is None else now - self.revived_at,
            revival_began_seconds_ago=None if self.revival_began_at is None else now - self.revival_began_at,
            revival_seen=self.revival_seen,
            revivals=self.revivals,
            approved=self.approved,
            given_up=self.given_up,
            continued_after_limit=self.continued_after_limit,
        )

    def outcome_in_seconds(self, now: float) -> float:
        """Seconds until the alert about its resume is due. A clock that was set back makes no wait longer."""
        seconds = 0.0 if self.outcome_due_at is None else self.outcome_due_at - now
        return seconds if 0.0 < seconds <= OUTCOME_SECONDS_MAX else 0.0


class Revival(Struct, frozen=True):
    """One resume, stored in the same transaction that spends its budget."""

    id: str
    session_id: SessionId
    work: str
    step: HealingStep
    began_at: float
    epoch: int
    stage: RevivalStage = RevivalStage.BEGUN
    # The conversation that replaced it.
    heir: SessionId | None = None
    outcome: str = "unverified"
    words: str = ""


class WorkStatus(StrEnum):
    """The status of a task without a finding."""

    ENDED = "ended"
    CUT_SHORT = "cut short by a person"
    REPLACED = "a person asked for something else"
    RUNNING = "running"
    LOST = "its agent ended before it did"
    UNCLEAR = "unclear"


def work_status(case: HealingCase, activity: Activity, verdict: Verdict) -> WorkStatus:
    """The status of the task. An agent that is not in a turn may have ended in the middle of it."""
    if is_asked_anew(case, activity):
        return WorkStatus.REPLACED
    is_settled = activity.phase is TurnPhase.SETTLING and verdict.state is not State.PROMPTING
    if activity.phase is TurnPhase.ENDED or is_settled:
        return WorkStatus.ENDED
    since, acted_at = activity.phase_since, case.acted_at
    is_later = since is not None and acted_at is not None and since.wall > acted_at
    if activity.phase is TurnPhase.INTERRUPTED and is_later:
        return WorkStatus.CUT_SHORT
    if not case.is_budget_spent and not case.declined:
        return WorkStatus.RUNNING if activity.in_turn else WorkStatus.ENDED
    if verdict.agent is ProcessState.DEAD:
        return WorkStatus.LOST
    return WorkStatus.RUNNING if is_answered(activity) else WorkStatus.UNCLEAR


def is_asked_anew(case: HealingCase, activity: Activity) -> bool:
    """Whether a person sent a prompt since: that is another task, with a budget of its own."""
    return activity.person_at is not None and activity.person_at.wall > case.opened_at


def is_answered(activity: Activity) -> bool:
    """Whether the model has replied in this turn, or ended it."""
    return activity.phase in ANSWERED or (activity.in_turn and activity.turn_calls > 0)


def is_lost(case: HealingCase, activity: Activity, verdict: Verdict | None) -> bool:
    """Whether its agent ended in the middle of its task without a finding."""
    return verdict is not None and work_status(case, activity, verdict) is WorkStatus.LOST


def reason_text(case: HealingCase, verdict: Verdict | None) -> str:
    """The finding's summary, else its code."""
    findings = verdict.findings if verdict is not None else ()
    found = next((each for each in findings if each.code is case.code), None)
    return found.summary if found is not None else str(case.code)


def inherit_case(case: HealingCase, heir: SessionId) -> HealingCase:
    """The same task in the conversation that replaced it: its budget stays spent."""
    return HealingCase(
        session_id=heir,
        work=case.work,
        project=case.project,
        code=case.code,
        opened_at=case.opened_at,
        code_since=case.code_since,
        revivals=case.revivals,
        acted_at=case.acted_at,
        issue_url=case.issue_url,
        did=case.did,
        unclear_since=case.acted_at,
        logged=True,
        told=True,
    )


def completed_remote_calls(events: Iterable[Event]) -> list[str]:
    """The finished calls that changed something elsewhere, oldest first, as text for an agent."""
    started: dict[str, CallStarted] = {}
    done: list[str] = []
    for event in events:
        if isinstance(event, CallStarted):
            started[event.call] = event
        elif isinstance(event, CallEnded) and not event.refused:
            call = started.pop(event.call, None)
            if call is not None and classify(call.tool, call.input).effect is Effect.REMOTE:
                summary = quote(f"{call.tool} {call.input.decode(errors='replace')}")
                done.append(f"{call.tool} {summary}")
    return done[-REMOTE_CALLS_NAMED_MAX:]


def revival_context(reason: str, issue_url: str | None, remote: list[str], *, happened: bool = False) -> str:
    """The context of a resume for its agent, beside the interrupted calls. One line."""
    parts = [CALLS_HAPPENED] if happened else []
    parts.append(f"Why: {reason}.")
    if remote:
        parts.append(f"Already done elsewhere, do not repeat: {'; '.join(remote)}.")
    if issue_url is not None:
        parts.append(f"Filed as {issue_url}.")
    return " ".join(parts)


def steering_prompt(code: FindingCode | None) -> str:
    """A prompt for an agent that loops or whose turn failed. It answers no question on a screen."""
    return _CONTINUE_PROMPT if code is None else _STEERING_PROMPTS.get(code, _CONTINUE_PROMPT)


_CONTINUE_PROMPT: Final = (
    "Wakeful: your last turn ended before its work was done. Look at what is done already, then go on."
)
_STEERING_PROMPTS: Final = {
    FindingCode.LOOP: (
        "Wakeful: you repeat the same calls with the same results. Stop, say what you try to find out, and try "
        "another way; if there is none, say so and end your turn."
    ),
    FindingCode.ERROR_CASCADE: (
        "Wakeful: your last calls all failed. Stop, read the errors, find their common cause, and try another way; "
        "if there is none, say so and end your turn."
    ),
    FindingCode.TOOL_WEDGED: (
        "Wakeful: the call you waited for did not return and was interrupted. It may have run in part. Check what it "
        "did, then go on without repeating it blindly."
    ),
    FindingCode.USAGE_LIMITED: "Wakeful: the usage limit is lifted. Look at what is done already, then go on.",
}

# The outcome of a resume that was seen at work.
WORKS_AGAIN: Final = "it works again"


def case_alert_text(
    case: HealingCase,
    record: SessionRecord,
    decision: HealingDecision,
    *,
    mode: str,
    paused_by: str | None = None,
    still_running: str = "",
) -> str:
    """The text of its alert. `still_running`: which of its commands outlived its agent, in words."""
    return alerts.problem_text(
        record,
        _finding(case, record),
        did=action_text(case, decision),
        otherwise=_outlook(case, record, decision, still_running),
        mode=mode,
        paused_by=paused_by,
        command=_command(case, record, decision.step),
    )


def member_status_of(case: HealingCase, step: HealingStep) -> MemberStatus:
    """Its status in the incident after a step."""
    if step is HealingStep.HOLD:
        return MemberStatus.HELD
    if case.given_up:
        return MemberStatus.GIVEN_UP
    return MemberStatus.REVIVED if step in ACTING_STEPS and not case.declined else MemberStatus.LEFT_ALONE


def action_text(case: HealingCase, decision: HealingDecision) -> str:
    """The action and its outcome, or why there was none."""
    return case.did or f"{NO_ACTION}{decision.reason}"


def _finding(case: HealingCase, record: SessionRecord) -> FindingRecord | None:
    """The finding; after a recovery the record no longer has it."""
    found = next((each for each in record.findings if each.code is case.code), None)
    if found is not None or case.code is None:
        return found
    severity = MEANINGS[case.code, record.state].severity
    return FindingRecord(case.code, severity, iso(case.code_since), case.summary, (), ())


def _command(case: HealingCase, record: SessionRecord, step: HealingStep) -> str | None:
    """The command that helps; None for the default one: explain, adopt, or attach to its agent."""
    if step is HealingStep.HOLD and case.checkpoint is not None:
        return f"wakeful checkpoint show {case.checkpoint}"
    is_hosted = record.agent is not None
    return f"wakeful resume {case.session_id}" if case.given_up and not is_hosted else None


def _outlook(case: HealingCase, record: SessionRecord, decision: HealingDecision, still_running: str) -> str:
    """The result if no person acts."""
    outlook = _next_outcome(case, record, decision)
    # The text of the action may name the running command already. It is not stored: the command ends, the text stays.
    is_named = not still_running or still_running in case.did or decision.step in ACTING_STEPS
    return outlook if is_named else f"{outlook}; {still_running}"


def _next_outcome(case: HealingCase, record: SessionRecord, decision: HealingDecision) -> str:
    step = decision.step
    if step is HealingStep.HOLD:
        return "the session waits for your decision"
    if case.declined:
        return "Wakeful retries by itself"
    if step in ACTING_STEPS:
        goes_on = "it continues" if case.revival_seen else "Wakeful checks whether that helped"
        return f"{goes_on}; if it fails again, Wakeful gives up"
    if decision.again_seconds is not None and not case.given_up:
        return f"Wakeful checks again in {format_length(decision.again_seconds)}"
    if record.session_alive:
        return "it stays alive but stuck" if case.given_up else "it stays as it is"
    return "it stays stopped" if record.state is State.STOPPED else "it stays as it is"
