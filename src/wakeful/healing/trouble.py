"""Problem of a session: what was done about it, and the texts about it for agents and people. Pure.

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
from wakeful.core.process import Sight
from wakeful.effects.rules import Effect
from wakeful.healing.plan import ACTS, OUTCOME_SECONDS_MAX, Decision, History, Step
from wakeful.incidents.model import Fate
from wakeful.judging.activity import Activity
from wakeful.judging.events import CallEnded, CallStarted, Event
from wakeful.judging.findings import MEANINGS, Code, State, Verdict
from wakeful.judging.interrupted_calls import classify
from wakeful.judging.session_record import FindingRecord, SessionRecord
from wakeful.judging.turn_state import ANSWERED, Phase
from wakeful.judging.wording import length, quoted

# An agent reads them all; more than a handful of remote effects in one turn is listed by its newest.
REMOTE_CALLS_NAMED_MAX: Final = 12

HAPPENED: Final = "A person looked: every call named above has happened. Do not repeat any of them."


class Stage(StrEnum):
    """How far a revival has come. `begun`: its budget is spent; whether anything was done is not known."""

    BEGUN = "begun"
    DONE = "done"


class Trouble(Struct, frozen=True, kw_only=True):
    """What one session is in, since when, and what was done about it so far."""

    session_id: SessionId
    # Its budget's name: the session and when the work in trouble began.
    work: str
    project: str
    code: Code | None
    opened_at: float
    # When this code was first seen: nothing is done before it has lasted.
    code_since: float
    incident: str = ""
    # Its finding's own words.
    summary: str = ""
    # In the words of the log of critical events, as it was before anything was done about it.
    reason: str = ""
    steered_at: float | None = None
    # Forgotten once it was seen well: from then on a failure is a new one.
    revived_at: float | None = None
    revival_began_at: float | None = None
    revival_seen: bool = False
    # The last one that was begun for it.
    revival_id: str | None = None
    # When Wakeful last did something to it: a turn cut short before that was cut short by Wakeful.
    acted_at: float | None = None
    # The conversation that was begun in its place.
    heir: SessionId | None = None
    revivals: int = 0
    approved: bool = False
    # A person looked: what was cut off has happened.
    happened: bool = False
    held: bool = False
    # What a person was asked about it, by its number.
    checkpoint: int | None = None
    given_up: bool = False
    # What was tried last could not be done; it is tried again, and people know.
    declined: bool = False
    continued_after_limit: bool = False
    issue_url: str | None = None
    filed_at: float | None = None
    did: str = ""
    # The finding is gone, and nothing shows yet that the work goes on.
    unclear_since: float | None = None
    # The finding is gone; the work may still run.
    calm_since: float | None = None
    # Its line in the log of critical events is written.
    logged: bool = False
    told: bool = False
    # Until then people are not told of its revival: they hear of it together with what came of it.
    outcome_due_at: float | None = None

    @property
    def is_spent(self) -> bool:
        """Its work has had its revival: only the end of that work gives it another one."""
        return self.revivals > 0 or self.given_up

    def history(self, now: float) -> History:
        return History(
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
        """How long people wait for what comes of its revival. A clock that was set back makes nobody wait longer."""
        seconds = 0.0 if self.outcome_due_at is None else self.outcome_due_at - now
        return seconds if 0.0 < seconds <= OUTCOME_SECONDS_MAX else 0.0


class Revival(Struct, frozen=True):
    """One revival, written down in the same breath as its budget is spent."""

    id: str
    session_id: SessionId
    work: str
    step: Step
    began_at: float
    epoch: int
    stage: Stage = Stage.BEGUN
    # The conversation that was begun in its place.
    heir: SessionId | None = None
    outcome: str = "unverified"
    words: str = ""


class WorkStatus(StrEnum):
    """Where the work in trouble stands while no finding speaks of it."""

    ENDED = "ended"
    CUT_SHORT = "cut short by a person"
    REPLACED = "a person asked for something else"
    RUNNING = "running"
    LOST = "its agent ended before it did"
    UNCLEAR = "unclear"


def work_status(trouble: Trouble, activity: Activity, verdict: Verdict) -> WorkStatus:
    """What became of the work. An agent that is merely not in a turn may have been ended in the middle of it."""
    if is_asked_anew(trouble, activity):
        return WorkStatus.REPLACED
    is_settled = activity.phase is Phase.SETTLING and verdict.state is not State.PROMPTING
    if activity.phase is Phase.ENDED or is_settled:
        return WorkStatus.ENDED
    if activity.phase is Phase.INTERRUPTED and _is_cut_by_person(trouble, activity):
        return WorkStatus.CUT_SHORT
    if not trouble.is_spent and not trouble.declined:
        return WorkStatus.RUNNING if activity.in_turn else WorkStatus.ENDED
    if verdict.agent is Sight.DEAD:
        return WorkStatus.LOST
    return WorkStatus.RUNNING if is_answered(activity) else WorkStatus.UNCLEAR


def is_asked_anew(trouble: Trouble, activity: Activity) -> bool:
    """Whether a person has asked for something since: that is other work, with a budget of its own."""
    return activity.person_at is not None and activity.person_at.wall > trouble.opened_at


def is_answered(activity: Activity) -> bool:
    """The model has said something in this turn, or ended it."""
    return activity.phase in ANSWERED or (activity.in_turn and activity.turn_calls > 0)


def _is_cut_by_person(trouble: Trouble, activity: Activity) -> bool:
    since, acted_at = activity.phase_since, trouble.acted_at
    return since is not None and acted_at is not None and since.wall > acted_at


def inherited(trouble: Trouble, heir: SessionId) -> Trouble:
    """The same work in the conversation that took its place: what was spent on it stays spent."""
    return Trouble(
        session_id=heir,
        work=trouble.work,
        project=trouble.project,
        code=trouble.code,
        opened_at=trouble.opened_at,
        code_since=trouble.code_since,
        revivals=trouble.revivals,
        acted_at=trouble.acted_at,
        issue_url=trouble.issue_url,
        did=trouble.did,
        unclear_since=trouble.acted_at,
        logged=True,
        told=True,
    )


def completed_remote(events: Iterable[Event]) -> list[str]:
    """The calls that came back and changed something elsewhere, oldest first, in words an agent may read."""
    started: dict[str, CallStarted] = {}
    done: list[str] = []
    for event in events:
        if isinstance(event, CallStarted):
            started[event.call] = event
        elif isinstance(event, CallEnded) and not event.refused:
            call = started.pop(event.call, None)
            if call is not None and classify(call.tool, call.input).effect is Effect.REMOTE:
                said = f"{call.tool} {call.input.decode(errors='replace')}"
                done.append(f"{call.tool} {quoted(said)}")
    return done[-REMOTE_CALLS_NAMED_MAX:]


def context(reason: str, issue_url: str | None, remote: list[str], *, happened: bool = False) -> str:
    """What a revived agent must know beside what was interrupted. One line."""
    parts = [HAPPENED] if happened else []
    parts.append(f"Why: {reason}.")
    if remote:
        parts.append(f"Already done elsewhere, do not repeat: {'; '.join(remote)}.")
    if issue_url is not None:
        parts.append(f"Filed as {issue_url}.")
    return " ".join(parts)


def steering(code: Code | None) -> str:
    """A word to an agent that goes in circles or whose turn failed. It answers no question on a screen."""
    return _GO_ON if code is None else _STEERING.get(code, _GO_ON)


_GO_ON: Final = (
    "Wakeful: your last turn ended before its work was done. Look at what is done already, then go on."
)
_STEERING: Final = {
    Code.LOOP: (
        "Wakeful: you repeat the same calls with the same results. Stop, say what you try to find out, and try "
        "another way; if there is none, say so and end your turn."
    ),
    Code.ERROR_CASCADE: (
        "Wakeful: your last calls all failed. Stop, read the errors, find their common cause, and try another way; "
        "if there is none, say so and end your turn."
    ),
    Code.TOOL_WEDGED: (
        "Wakeful: the call you waited for did not come back and was cut off. It may have run in part. Check what it "
        "did, then go on without repeating it blindly."
    ),
    Code.USAGE_LIMITED: "Wakeful: the usage limit is lifted. Look at what is done already, then go on.",
}

# What came of a revival that was seen at work.
WORKS_AGAIN: Final = "it works again"


def trouble_text(
    trouble: Trouble, record: SessionRecord, decision: Decision, *, mode: str, paused_by: str | None = None
) -> str:
    """The alert about a trouble that is about one session."""
    return alerts.trouble(
        record,
        _finding(trouble, record),
        did=done_words(trouble, decision),
        otherwise=_otherwise(trouble, record, decision),
        mode=mode,
        paused_by=paused_by,
        command=_command(trouble, record, decision.step),
    )


def fate_of(trouble: Trouble, step: Step) -> Fate:
    """What a step about it amounts to, for its incident."""
    if step is Step.HOLD:
        return Fate.HELD
    if trouble.given_up:
        return Fate.GIVEN_UP
    return Fate.REVIVED if step in ACTS and not trouble.declined else Fate.LEFT_ALONE


def done_words(trouble: Trouble, decision: Decision) -> str:
    """What was done about it and what came of it, or why nothing was."""
    return trouble.did or f"nothing ({decision.reason})"


def _finding(trouble: Trouble, record: SessionRecord) -> FindingRecord | None:
    """What was found; its record may have forgotten it since, because it was healed."""
    found = next((each for each in record.findings if each.code is trouble.code), None)
    if found is not None or trouble.code is None:
        return found
    severity = MEANINGS[trouble.code, record.state].severity
    return FindingRecord(trouble.code, severity, iso(trouble.code_since), trouble.summary, (), ())


def _command(trouble: Trouble, record: SessionRecord, step: Step) -> str | None:
    """The one that helps; None: the one that explains, hands it over, or goes to the agent that hosts it."""
    if step is Step.HOLD and trouble.checkpoint is not None:
        return f"wakeful checkpoint show {trouble.checkpoint}"
    is_hosted = record.agent is not None
    return f"wakeful session revive {trouble.session_id}" if trouble.given_up and not is_hosted else None


def _otherwise(trouble: Trouble, record: SessionRecord, decision: Decision) -> str:
    """What becomes of it if nobody does anything."""
    step = decision.step
    if step is Step.HOLD:
        return "it waits until somebody decides"
    if trouble.declined:
        return "Wakeful tries again by itself"
    if step in ACTS:
        goes_on = "it goes on" if trouble.revival_seen else "Wakeful looks again whether that helped"
        return f"{goes_on}; if it fails again, Wakeful gives up"
    if decision.again_seconds is not None and not trouble.given_up:
        return f"Wakeful looks at it again in {length(decision.again_seconds)}"
    if record.session_alive:
        return "it stays as it is, alive but stuck" if trouble.given_up else "it stays as it is"
    return "it stays stopped" if record.state is State.STOPPED else "it stays as it is"
