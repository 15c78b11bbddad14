"""The decision matrix: an answer to every question, and never a second effect elsewhere that nobody can exclude."""

from itertools import product

import pytest

from wakeful.core.process import Sight
from wakeful.journal.model import Last, OnAlive, StepEffects, StepEntry
from wakeful.journal.recovery_rules import (
    ATTEMPTS_MAX,
    RULES,
    STATUS_OF,
    Answer,
    Course,
    Question,
    Status,
    decide,
    decide_step,
    living,
    worst,
)

EVERY = [Question(*each) for each in product(Last, Sight, StepEffects, (False, True), Answer)]
ELSEWHERE = {StepEffects.REMOTE, StepEffects.UNKNOWN}
CUT_OFF = {Last.STARTED, Last.FAILED}


def test_there_is_one_answer_to_every_question() -> None:
    """The function is total, and every course has a status."""
    courses = {decide(question).course for question in EVERY}
    assert len(EVERY) == 6 * 3 * 4 * 2 * 4
    assert courses | {Course.LEAVE, Course.END_AND_RERUN} == set(STATUS_OF)


def test_every_rule_decides_something() -> None:
    """No rule of the table stands behind others that leave it nothing."""
    deciding = {next(rule.reason for rule in RULES if rule.fits(question)) for question in EVERY}
    assert deciding == {rule.reason for rule in RULES}


def test_nothing_elsewhere_is_repeated_on_a_guess() -> None:
    """A rerun of remote or unknown effects needs a key, or the other side's word, and a dead process."""
    for question in EVERY:
        if question.effects in ELSEWHERE and decide(question).course is Course.RERUN:
            assert question.sight is Sight.DEAD, question
            assert question.keyed or question.answer is Answer.ABSENT, question


def test_unknown_effects_are_treated_as_remote() -> None:
    """Whoever says nothing about effects is asked as often as who says remote."""
    for question in EVERY:
        if question.effects is StepEffects.UNKNOWN:
            remote = Question(
                question.last, question.sight, StepEffects.REMOTE, question.keyed, question.answer
            )
            assert decide(question) == decide(remote)


def test_an_unseen_process_authorises_nothing_but_what_changes_nothing() -> None:
    """Where nobody can tell whether it runs, only a step without effects is run again."""
    for question in EVERY:
        if question.sight is Sight.UNKNOWN and question.last in CUT_OFF:
            course = decide(question).course
            if course is Course.RERUN:
                assert question.effects is StepEffects.NONE
            else:
                assert course in {Course.CHECKPOINT, Course.COUNT_DONE}


@pytest.mark.parametrize(
    ("last", "sight", "effects", "keyed", "answer", "course"),
    [
        (Last.COMPLETED, Sight.ALIVE, StepEffects.REMOTE, False, Answer.UNKNOWN, Course.NEXT),
        (Last.STARTED, Sight.DEAD, StepEffects.LOCAL, False, Answer.UNKNOWN, Course.RERUN),
        (Last.STARTED, Sight.DEAD, StepEffects.REMOTE, False, Answer.UNKNOWN, Course.CHECKPOINT),
        (Last.STARTED, Sight.DEAD, StepEffects.REMOTE, True, Answer.UNKNOWN, Course.RERUN),
        (Last.STARTED, Sight.DEAD, StepEffects.REMOTE, False, Answer.DONE, Course.COUNT_DONE),
        (Last.STARTED, Sight.DEAD, StepEffects.REMOTE, False, Answer.ABSENT, Course.RERUN),
        (Last.FAILED, Sight.DEAD, StepEffects.REMOTE, True, Answer.PARTIAL, Course.ROLLBACK),
        (Last.STARTED, Sight.ALIVE, StepEffects.REMOTE, False, Answer.UNKNOWN, Course.CHECKPOINT),
        (Last.STARTED, Sight.ALIVE, StepEffects.LOCAL, False, Answer.UNKNOWN, Course.LIVING),
        (Last.STARTED, Sight.ALIVE, StepEffects.REMOTE, True, Answer.UNKNOWN, Course.LIVING),
        (Last.UNDOING, Sight.DEAD, StepEffects.LOCAL, True, Answer.DONE, Course.CHECKPOINT),
        (Last.ABORTED, Sight.DEAD, StepEffects.NONE, True, Answer.DONE, Course.STOP),
    ],
)
def test_the_rows_of_the_decision_matrix(
    last: Last, sight: Sight, effects: StepEffects, keyed: bool, answer: Answer, course: Course
) -> None:
    """The documented rows, and those that follow from them."""
    assert decide(Question(last, sight, effects, keyed, answer)).course is course


@pytest.mark.parametrize(
    ("detachable", "orphanable", "on_alive", "course"),
    [
        (True, True, OnAlive.WAIT, Course.LEAVE),
        (True, False, OnAlive.WAIT, Course.END_AND_RERUN),
        (False, True, OnAlive.WAIT, Course.WAIT),
        (False, False, OnAlive.RERUN, Course.END_AND_RERUN),
    ],
)
def test_a_living_process_is_left_ended_or_waited_for_as_declared(
    detachable: bool, orphanable: bool, on_alive: OnAlive, course: Course
) -> None:
    """Detachable ones are left, unless they may not be orphans; the others are waited for or begun anew."""
    assert living(detachable=detachable, orphanable=orphanable, on_alive=on_alive) is course


def test_a_step_that_ends_its_program_again_and_again_is_shown_to_somebody() -> None:
    """What would be run again for ever becomes a question."""
    entry = StepEntry(effects=StepEffects.NONE, attempt=ATTEMPTS_MAX - 1)
    assert decide_step(entry, Sight.DEAD, Answer.UNKNOWN).course is Course.RERUN
    poisoned = StepEntry(effects=StepEffects.NONE, attempt=ATTEMPTS_MAX)
    assert decide_step(poisoned, Sight.DEAD, Answer.UNKNOWN).course is Course.CHECKPOINT


def test_the_worst_status_wins() -> None:
    """One step that needs a person makes the whole recovery need one."""
    assert worst((Status.OK, Status.REQUIRED_ROLLBACK, Status.MANUAL_REVIEW)) is Status.REQUIRED_ROLLBACK
    assert worst(()) is Status.OK
