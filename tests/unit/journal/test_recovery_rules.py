"""The decision table: an answer for all facts, and never a second remote effect that cannot be excluded."""

from itertools import product

import pytest

from wakeful.core.process import ProcessState
from wakeful.journal.model import OnAlive, StepEffects, StepEntry, StepStatus
from wakeful.journal.recovery_rules import (
    ATTEMPTS_MAX,
    RULES,
    STATUS_OF,
    RecoveryStatus,
    RemoteAnswer,
    StepAction,
    StepFacts,
    action_for_running,
    decide,
    decide_step,
    worst_status,
)

EVERY = [
    StepFacts(*each) for each in product(StepStatus, ProcessState, StepEffects, (False, True), RemoteAnswer)
]
ELSEWHERE = {StepEffects.REMOTE, StepEffects.UNKNOWN}
CUT_OFF = {StepStatus.STARTED, StepStatus.FAILED}
# The columns of the decision matrix, short enough for one line a row.
S, P, E, R, A = StepStatus, ProcessState, StepEffects, RemoteAnswer, StepAction


def test_there_is_one_answer_to_every_question() -> None:
    """The function is total, and every course has a status."""
    courses = {decide(question).course for question in EVERY}
    assert len(EVERY) == 6 * 3 * 4 * 2 * 4
    assert courses | {StepAction.LEAVE, StepAction.END_AND_RERUN} == set(STATUS_OF)


def test_every_rule_decides_something() -> None:
    """No rule of the table stands behind others that leave it nothing."""
    deciding = {next(rule.reason for rule in RULES if rule.matches(question)) for question in EVERY}
    assert deciding == {rule.reason for rule in RULES}


def test_nothing_elsewhere_is_repeated_on_a_guess() -> None:
    """A rerun of remote or unknown effects needs a key, or the other side's word, and a dead process."""
    for question in EVERY:
        if question.effects in ELSEWHERE and decide(question).course is StepAction.RERUN:
            assert question.sight is ProcessState.DEAD, question
            assert question.keyed or question.answer is RemoteAnswer.ABSENT, question


def test_unknown_effects_are_treated_as_remote() -> None:
    """A step without declared effects needs a person as often as a remote one."""
    for question in EVERY:
        if question.effects is StepEffects.UNKNOWN:
            remote = StepFacts(
                question.last, question.sight, StepEffects.REMOTE, question.keyed, question.answer
            )
            assert decide(question) == decide(remote)


def test_an_unseen_process_authorises_nothing_but_what_changes_nothing() -> None:
    """If it is unknown whether the process runs, only a step without effects is run again."""
    for question in EVERY:
        if question.sight is ProcessState.UNKNOWN and question.last in CUT_OFF:
            action = decide(question).course
            if action is StepAction.RERUN:
                assert question.effects is StepEffects.NONE
            else:
                assert action in {StepAction.CHECKPOINT, StepAction.COUNT_DONE}


@pytest.mark.parametrize(
    ("last", "sight", "effects", "keyed", "answer", "course"),
    [
        (S.COMPLETED, P.ALIVE, E.REMOTE, False, R.UNKNOWN, A.NEXT),
        (S.STARTED, P.DEAD, E.LOCAL, False, R.UNKNOWN, A.RERUN),
        (S.STARTED, P.DEAD, E.REMOTE, False, R.UNKNOWN, A.CHECKPOINT),
        (S.STARTED, P.DEAD, E.REMOTE, True, R.UNKNOWN, A.RERUN),
        (S.STARTED, P.DEAD, E.REMOTE, False, R.DONE, A.COUNT_DONE),
        (S.STARTED, P.DEAD, E.REMOTE, False, R.ABSENT, A.RERUN),
        (S.FAILED, P.DEAD, E.REMOTE, True, R.PARTIAL, A.ROLLBACK),
        (S.STARTED, P.ALIVE, E.REMOTE, False, R.UNKNOWN, A.CHECKPOINT),
        (S.STARTED, P.ALIVE, E.LOCAL, False, R.UNKNOWN, A.LIVING),
        (S.STARTED, P.ALIVE, E.REMOTE, True, R.UNKNOWN, A.LIVING),
        (S.UNDOING, P.DEAD, E.LOCAL, True, R.DONE, A.CHECKPOINT),
        (S.ABORTED, P.DEAD, E.NONE, True, R.DONE, A.STOP),
    ],
)
def test_the_rows_of_the_decision_matrix(
    last: StepStatus,
    sight: ProcessState,
    effects: StepEffects,
    keyed: bool,
    answer: RemoteAnswer,
    course: StepAction,
) -> None:
    """The documented rows, and those that follow from them."""
    assert decide(StepFacts(last, sight, effects, keyed, answer)).course is course


@pytest.mark.parametrize(
    ("detachable", "orphanable", "on_alive", "course"),
    [
        (True, True, OnAlive.WAIT, StepAction.LEAVE),
        (True, False, OnAlive.WAIT, StepAction.END_AND_RERUN),
        (False, True, OnAlive.WAIT, StepAction.WAIT),
        (False, False, OnAlive.RERUN, StepAction.END_AND_RERUN),
    ],
)
def test_a_living_process_is_left_ended_or_waited_for_as_declared(
    detachable: bool, orphanable: bool, on_alive: OnAlive, course: StepAction
) -> None:
    """Detachable ones are left, unless they may not be orphans; the others are waited for or run again."""
    assert action_for_running(detachable=detachable, orphanable=orphanable, on_alive=on_alive) is course


def test_a_step_that_ends_its_program_again_and_again_is_shown_to_somebody() -> None:
    """What would be run again for ever becomes a question."""
    entry = StepEntry(effects=StepEffects.NONE, attempt=ATTEMPTS_MAX - 1)
    assert decide_step(entry, ProcessState.DEAD, RemoteAnswer.UNKNOWN).course is StepAction.RERUN
    poisoned = StepEntry(effects=StepEffects.NONE, attempt=ATTEMPTS_MAX)
    assert decide_step(poisoned, ProcessState.DEAD, RemoteAnswer.UNKNOWN).course is StepAction.CHECKPOINT


def test_the_worst_status_wins() -> None:
    """One step that needs a person makes the whole recovery need one."""
    assert (
        worst_status((RecoveryStatus.OK, RecoveryStatus.REQUIRED_ROLLBACK, RecoveryStatus.MANUAL_REVIEW))
        is RecoveryStatus.REQUIRED_ROLLBACK
    )
    assert worst_status(()) is RecoveryStatus.OK
