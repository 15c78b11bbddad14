"""What becomes of a step that a crash cut off: 004's decision matrix, as one table that is the whole truth.

The first rule of RULES that fits decides; there is one for every question that can be asked. Its theory: waiting and
looking are always allowed; what changes nothing or only this place is run again; what may have happened elsewhere is
run again only where an idempotency key makes twice the same as once, or where the other side says that it did not
happen. Everything else is a person's to decide. Nothing here looks, runs or ends anything.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from msgspec import Struct

from wakeful.domain.journal import Last, OnAlive, StepEffects, StepEntry
from wakeful.domain.process import Sight

# A step that ended its program this often does so by itself: it is shown to somebody before it is run once more.
ATTEMPTS_MAX: Final = 5


class Answer(StrEnum):
    """What the other side says. `absent`: it did not happen and cannot happen any more."""

    DONE = "done"
    ABSENT = "absent"
    PARTIAL = "partial"
    UNKNOWN = "unknown"


class Course(StrEnum):
    """What follows for the step."""

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


class Status(StrEnum):
    """004's three endings of a recovery."""

    OK = "ok"
    MANUAL_REVIEW = "manual-review"
    REQUIRED_ROLLBACK = "required-rollback"


class Question(Struct, frozen=True):
    """All that a decision rests on."""

    last: Last
    sight: Sight
    effects: StepEffects
    keyed: bool
    answer: Answer


class Decision(Struct, frozen=True):
    course: Course
    reason: str


class Rule(Struct, frozen=True, kw_only=True):
    """What a question has to be for this rule; empty means anything."""

    last: frozenset[Last] = frozenset()
    sight: frozenset[Sight] = frozenset()
    effects: frozenset[StepEffects] = frozenset()
    keyed: frozenset[bool] = frozenset()
    answer: frozenset[Answer] = frozenset()
    course: Course
    reason: str

    def fits(self, question: Question) -> bool:
        return (
            (not self.last or question.last in self.last)
            and (not self.sight or question.sight in self.sight)
            and (not self.effects or question.effects in self.effects)
            and (not self.keyed or question.keyed in self.keyed)
            and (not self.answer or question.answer in self.answer)
        )


_HERE: Final = frozenset({StepEffects.NONE, StepEffects.LOCAL})

RULES: Final = (
    Rule(
        last=frozenset({Last.COMPLETED, Last.CLEARED}),
        course=Course.NEXT,
        reason="it is settled",
    ),
    Rule(
        last=frozenset({Last.ABORTED}),
        course=Course.STOP,
        reason="somebody aborted it",
    ),
    Rule(
        last=frozenset({Last.UNDOING}),
        course=Course.CHECKPOINT,
        reason="its undoing was cut off",
    ),
    Rule(
        sight=frozenset({Sight.ALIVE}),
        answer=frozenset({Answer.DONE}),
        course=Course.WAIT,
        reason="it has happened, and its process is about to end",
    ),
    Rule(
        answer=frozenset({Answer.DONE}),
        course=Course.COUNT_DONE,
        reason="the other side says that it has happened",
    ),
    Rule(
        sight=frozenset({Sight.ALIVE}),
        effects=_HERE,
        course=Course.LIVING,
        reason="its process lives and changes nothing elsewhere",
    ),
    Rule(
        sight=frozenset({Sight.ALIVE}),
        keyed=frozenset({True}),
        answer=frozenset({Answer.ABSENT, Answer.UNKNOWN}),
        course=Course.LIVING,
        reason="its process lives, and its key makes twice the same as once",
    ),
    Rule(
        sight=frozenset({Sight.ALIVE}),
        course=Course.CHECKPOINT,
        reason="its process lives and may be changing something elsewhere",
    ),
    Rule(
        effects=frozenset({StepEffects.NONE}),
        course=Course.RERUN,
        reason="it changes nothing",
    ),
    Rule(
        sight=frozenset({Sight.UNKNOWN}),
        course=Course.CHECKPOINT,
        reason="nobody can tell whether its process still runs",
    ),
    Rule(
        effects=frozenset({StepEffects.LOCAL}),
        course=Course.RERUN,
        reason="it changed this place only, and what it left unfinished is removed first",
    ),
    Rule(
        answer=frozenset({Answer.PARTIAL}),
        course=Course.ROLLBACK,
        reason="the other side says that half of it has happened",
    ),
    Rule(
        answer=frozenset({Answer.ABSENT}),
        course=Course.RERUN,
        reason="the other side says that it did not happen",
    ),
    Rule(
        keyed=frozenset({True}),
        course=Course.RERUN,
        reason="its key makes twice the same as once",
    ),
    Rule(
        course=Course.CHECKPOINT,
        reason="it may have changed something elsewhere, and nobody can tell",
    ),
)

STATUS_OF: Final[Mapping[Course, Status]] = {
    Course.NEXT: Status.OK,
    Course.COUNT_DONE: Status.OK,
    Course.RERUN: Status.OK,
    Course.LEAVE: Status.OK,
    Course.END_AND_RERUN: Status.OK,
    Course.LIVING: Status.MANUAL_REVIEW,
    Course.WAIT: Status.MANUAL_REVIEW,
    Course.CHECKPOINT: Status.MANUAL_REVIEW,
    Course.STOP: Status.MANUAL_REVIEW,
    Course.ROLLBACK: Status.REQUIRED_ROLLBACK,
}
_WORST_LAST: Final = (Status.OK, Status.MANUAL_REVIEW, Status.REQUIRED_ROLLBACK)


def decide(question: Question) -> Decision:
    """What the matrix says; there is an answer to every question."""
    rule = next(each for each in RULES if each.fits(question))
    return Decision(rule.course, rule.reason)


def living(*, detachable: bool, orphanable: bool, on_alive: OnAlive) -> Course:
    """What is done about a process that lives and may be left, waited for or ended."""
    if detachable:
        return Course.LEAVE if orphanable else Course.END_AND_RERUN
    return Course.WAIT if on_alive is OnAlive.WAIT else Course.END_AND_RERUN


def decide_step(entry: StepEntry, sight: Sight, answer: Answer) -> Decision:
    """The matrix for one step, with its declared way with living processes and its patience."""
    question = Question(entry.last, sight, entry.effects, entry.key is not None, answer)
    decision = decide(question)
    course, reason = decision.course, decision.reason
    if course is Course.LIVING:
        course = living(
            detachable=entry.detachable, orphanable=entry.orphanable, on_alive=OnAlive(entry.on_alive)
        )
    if course in {Course.RERUN, Course.END_AND_RERUN} and entry.attempt >= ATTEMPTS_MAX:
        return Decision(Course.CHECKPOINT, f"it was cut off {entry.attempt} times")
    return Decision(course, reason)


def worst(statuses: tuple[Status, ...]) -> Status:
    return max(statuses, key=_WORST_LAST.index, default=Status.OK)


class StepOutcome(Struct, frozen=True):
    """What was found and decided about one step."""

    step: str
    attempt: int
    sight: Sight
    answer: Answer
    course: Course
    reason: str


class Suspect(Struct, frozen=True):
    """A journaled file that is not what it was; `moved_to` is None where it is gone."""

    path: str
    step: str
    reason: str
    moved_to: str | None


class Recovered(Struct, frozen=True):
    """How a recovery ended. `checkpoint` is the number of the one that waits for a person."""

    status: Status
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
