"""Decision table for steps that a crash interrupted. Pure.

The first rule of RULES that fits decides, and one fits every question. Waiting and looking are always
allowed. Steps without effects or with only local effects are run again. Steps with remote effects are run
again only with an idempotency key, or if the other side says that they did not happen. Everything else needs
a person's decision.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from msgspec import Struct

from wakeful.core.process import Sight
from wakeful.journal.model import Last, OnAlive, StepEffects, StepEntry

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
    """How a recovery ends."""

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


class Rule(Struct, frozen=True):
    """What becomes of a step, why, and what a question has to be for that; empty means anything."""

    course: Course
    reason: str
    last: frozenset[Last] = frozenset()
    sight: frozenset[Sight] = frozenset()
    effects: frozenset[StepEffects] = frozenset()
    keyed: frozenset[bool] = frozenset()
    answer: frozenset[Answer] = frozenset()

    def fits(self, question: Question) -> bool:
        return (
            (not self.last or question.last in self.last)
            and (not self.sight or question.sight in self.sight)
            and (not self.effects or question.effects in self.effects)
            and (not self.keyed or question.keyed in self.keyed)
            and (not self.answer or question.answer in self.answer)
        )


_ALIVE: Final = frozenset({Sight.ALIVE})
_HERE: Final = frozenset({StepEffects.NONE, StepEffects.LOCAL})
_KEYED: Final = frozenset({True})
_NO_SIGN: Final = frozenset({Answer.ABSENT, Answer.UNKNOWN})

RULES: Final = (
    Rule(Course.NEXT, "it is settled", last=frozenset({Last.COMPLETED, Last.CLEARED})),
    Rule(Course.STOP, "somebody aborted it", last=frozenset({Last.ABORTED})),
    Rule(Course.CHECKPOINT, "its undoing was cut off", last=frozenset({Last.UNDOING})),
    Rule(
        Course.WAIT,
        "it has happened, and its process is about to end",
        sight=_ALIVE,
        answer=frozenset({Answer.DONE}),
    ),
    Rule(Course.COUNT_DONE, "the other side says that it has happened", answer=frozenset({Answer.DONE})),
    Rule(Course.LIVING, "its process lives and changes nothing elsewhere", sight=_ALIVE, effects=_HERE),
    Rule(
        Course.LIVING,
        "its process lives, and its key makes twice the same as once",
        sight=_ALIVE,
        keyed=_KEYED,
        answer=_NO_SIGN,
    ),
    Rule(Course.CHECKPOINT, "its process lives and may be changing something elsewhere", sight=_ALIVE),
    Rule(Course.RERUN, "it changes nothing", effects=frozenset({StepEffects.NONE})),
    Rule(
        Course.CHECKPOINT,
        "nobody can tell whether its process still runs",
        sight=frozenset({Sight.UNKNOWN}),
    ),
    Rule(
        Course.RERUN,
        "it changed this place only, and what it left unfinished is removed first",
        effects=frozenset({StepEffects.LOCAL}),
    ),
    Rule(
        Course.ROLLBACK,
        "the other side says that half of it has happened",
        answer=frozenset({Answer.PARTIAL}),
    ),
    Rule(Course.RERUN, "the other side says that it did not happen", answer=frozenset({Answer.ABSENT})),
    Rule(Course.RERUN, "its key makes twice the same as once", keyed=_KEYED),
    Rule(Course.CHECKPOINT, "it may have changed something elsewhere, and nobody can tell"),
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
    """How a recovery ended. `checkpoints` are all that wait for a person, `checkpoint` is the first of them."""

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
    checkpoints: tuple[int, ...] = ()
