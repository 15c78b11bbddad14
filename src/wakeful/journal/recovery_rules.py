"""Decision table for steps that a crash interrupted. Pure.

The first rule of RULES that matches decides, and the last one matches all facts. Steps without effects or with
only local effects are run again. Steps with remote effects are run again only with an idempotency key, or if the
other side reports that they did not happen. Everything else needs a person's decision.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from msgspec import Struct

from wakeful.core.process import ProcessState
from wakeful.journal.model import OnAlive, StepEffects, StepEntry, StepStatus

# A step that was interrupted this often may be the cause itself: a person decides before it runs again.
ATTEMPTS_MAX: Final = 5


class RemoteAnswer(StrEnum):
    """The answer of the other side. `absent`: it did not happen and cannot happen any more."""

    DONE = "done"
    ABSENT = "absent"
    PARTIAL = "partial"
    UNKNOWN = "unknown"


class StepAction(StrEnum):
    NEXT = "next"
    COUNT_DONE = "count_done"
    RERUN = "rerun"
    LIVING = "living"
    LEAVE = "leave"
    WAIT = "wait"
    END_AND_RERUN = "end_and_rerun"
    CHECKPOINT = "checkpoint"
    ROLLBACK = "rollback"
    STOP = "stop"


class RecoveryStatus(StrEnum):
    """The result of a recovery."""

    OK = "ok"
    MANUAL_REVIEW = "manual-review"
    REQUIRED_ROLLBACK = "required-rollback"

    @property
    def text(self) -> str:
        return _STATUS_TEXTS[self]


_STATUS_TEXTS: Final = {
    RecoveryStatus.OK: "recovered",
    RecoveryStatus.MANUAL_REVIEW: "manual review required",
    RecoveryStatus.REQUIRED_ROLLBACK: "rollback required",
}


class StepFacts(Struct, frozen=True):
    """The facts that a decision depends on."""

    last: StepStatus
    sight: ProcessState
    effects: StepEffects
    keyed: bool
    answer: RemoteAnswer


class StepDecision(Struct, frozen=True):
    course: StepAction
    reason: str


class RecoveryRule(Struct, frozen=True):
    """An action, its reason, and the facts to which it applies; an empty set matches everything."""

    course: StepAction
    reason: str
    last: frozenset[StepStatus] = frozenset()
    sight: frozenset[ProcessState] = frozenset()
    effects: frozenset[StepEffects] = frozenset()
    keyed: frozenset[bool] = frozenset()
    answer: frozenset[RemoteAnswer] = frozenset()

    def matches(self, facts: StepFacts) -> bool:
        return (
            (not self.last or facts.last in self.last)
            and (not self.sight or facts.sight in self.sight)
            and (not self.effects or facts.effects in self.effects)
            and (not self.keyed or facts.keyed in self.keyed)
            and (not self.answer or facts.answer in self.answer)
        )


_ALIVE: Final = frozenset({ProcessState.ALIVE})
_LOCAL_EFFECTS: Final = frozenset({StepEffects.NONE, StepEffects.LOCAL})
_KEYED: Final = frozenset({True})
_NOT_CONFIRMED: Final = frozenset({RemoteAnswer.ABSENT, RemoteAnswer.UNKNOWN})

RULES: Final = (
    RecoveryRule(
        StepAction.NEXT, "it is settled", last=frozenset({StepStatus.COMPLETED, StepStatus.CLEARED})
    ),
    RecoveryRule(StepAction.STOP, "it was aborted", last=frozenset({StepStatus.ABORTED})),
    RecoveryRule(
        StepAction.CHECKPOINT, "its undo step was interrupted", last=frozenset({StepStatus.UNDOING})
    ),
    RecoveryRule(
        StepAction.WAIT,
        "it has happened, and its process is about to end",
        sight=_ALIVE,
        answer=frozenset({RemoteAnswer.DONE}),
    ),
    RecoveryRule(
        StepAction.COUNT_DONE,
        "the other side says that it has happened",
        answer=frozenset({RemoteAnswer.DONE}),
    ),
    RecoveryRule(
        StepAction.LIVING,
        "its process is alive and changes nothing elsewhere",
        sight=_ALIVE,
        effects=_LOCAL_EFFECTS,
    ),
    RecoveryRule(
        StepAction.LIVING,
        "its process is alive, and with its key a repetition has no second effect",
        sight=_ALIVE,
        keyed=_KEYED,
        answer=_NOT_CONFIRMED,
    ),
    RecoveryRule(
        StepAction.CHECKPOINT, "its process is alive and may be changing something elsewhere", sight=_ALIVE
    ),
    RecoveryRule(StepAction.RERUN, "it changes nothing", effects=frozenset({StepEffects.NONE})),
    RecoveryRule(
        StepAction.CHECKPOINT,
        "it is unknown whether its process still runs",
        sight=frozenset({ProcessState.UNKNOWN}),
    ),
    RecoveryRule(
        StepAction.RERUN,
        "it changed this machine only, and its unfinished output is removed first",
        effects=frozenset({StepEffects.LOCAL}),
    ),
    RecoveryRule(
        StepAction.ROLLBACK,
        "the other side says that it has partly happened",
        answer=frozenset({RemoteAnswer.PARTIAL}),
    ),
    RecoveryRule(
        StepAction.RERUN,
        "the other side says that it did not happen",
        answer=frozenset({RemoteAnswer.ABSENT}),
    ),
    RecoveryRule(StepAction.RERUN, "with its key a repetition has no second effect", keyed=_KEYED),
    RecoveryRule(
        StepAction.CHECKPOINT, "it may have changed something elsewhere, and that cannot be checked"
    ),
)

STATUS_OF: Final[Mapping[StepAction, RecoveryStatus]] = {
    StepAction.NEXT: RecoveryStatus.OK,
    StepAction.COUNT_DONE: RecoveryStatus.OK,
    StepAction.RERUN: RecoveryStatus.OK,
    StepAction.LEAVE: RecoveryStatus.OK,
    StepAction.END_AND_RERUN: RecoveryStatus.OK,
    StepAction.LIVING: RecoveryStatus.MANUAL_REVIEW,
    StepAction.WAIT: RecoveryStatus.MANUAL_REVIEW,
    StepAction.CHECKPOINT: RecoveryStatus.MANUAL_REVIEW,
    StepAction.STOP: RecoveryStatus.MANUAL_REVIEW,
    StepAction.ROLLBACK: RecoveryStatus.REQUIRED_ROLLBACK,
}
_WORST_LAST: Final = (RecoveryStatus.OK, RecoveryStatus.MANUAL_REVIEW, RecoveryStatus.REQUIRED_ROLLBACK)


def decide(facts: StepFacts) -> StepDecision:
    """The decision of the first matching rule; one matches any facts."""
    rule = next(each for each in RULES if each.matches(facts))
    return StepDecision(rule.course, rule.reason)


def action_for_running(*, detachable: bool, orphanable: bool, on_alive: OnAlive) -> StepAction:
    """The action for a running process: leave it, wait for it or end it."""
    if detachable:
        return StepAction.LEAVE if orphanable else StepAction.END_AND_RERUN
    return StepAction.WAIT if on_alive is OnAlive.WAIT else StepAction.END_AND_RERUN


def decide_step(entry: StepEntry, state: ProcessState, answer: RemoteAnswer) -> StepDecision:
    """Decide about one step by the rules, its traits for running processes and the limit of attempts."""
    decision = decide(StepFacts(entry.last, state, entry.effects, entry.key is not None, answer))
    action = decision.course
    if action is StepAction.LIVING:
        action = action_for_running(
            detachable=entry.detachable, orphanable=entry.orphanable, on_alive=OnAlive(entry.on_alive)
        )
    if action in {StepAction.RERUN, StepAction.END_AND_RERUN} and entry.attempt >= ATTEMPTS_MAX:
        return StepDecision(StepAction.CHECKPOINT, f"it was interrupted {entry.attempt} times")
    return StepDecision(action, decision.reason)


def worst_status(statuses: tuple[RecoveryStatus, ...]) -> RecoveryStatus:
    return max(statuses, key=_WORST_LAST.index, default=RecoveryStatus.OK)


class StepOutcome(Struct, frozen=True):
    """The facts and the decision about one step."""

    step: str
    attempt: int
    sight: ProcessState
    answer: RemoteAnswer
    course: StepAction
    reason: str


class Suspect(Struct, frozen=True):
    """A journaled file that changed; `moved_to` is None if it is missing."""

    path: str
    step: str
    reason: str
    moved_to: str | None


class RecoveryResult(Struct, frozen=True):
    """The result of a recovery. `checkpoints` are all that need a decision, `checkpoint` is the first of them."""

    status: RecoveryStatus
    approval: str | None
    trace_id: str
    next_immediate_step: str | None
    steps_completed: tuple[str, ...]
    steps: tuple[StepOutcome, ...]
    suspects: tuple[Suspect, ...]
    checkpoint: int | None
    checkpoint_path: str | None
    timeline_path: str
    notes: tuple[str, ...]
    checkpoints: tuple[int, ...] = ()
