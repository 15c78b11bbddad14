"""Claims about the plan: the action for each problem, the order, and what is never done."""

from collections.abc import Iterator
from itertools import product

import pytest

from wakeful.core.process import ProcessState
from wakeful.effects.rules import Effect
from wakeful.healing.plan import (
    ACTING_STEPS,
    LIMIT_GRACE_SECONDS,
    PROGRESS_SECONDS,
    REVIVED_SECONDS,
    CaseHistory,
    HealingRules,
    HealingStep,
    Situation,
    plan,
)
from wakeful.judging.findings import FindingCode, State

SURE = 60.0
FRESH_START = CaseHistory()
MINE = HealingRules()


def situation(
    code: FindingCode | None = FindingCode.SESSION_DEAD,
    *,
    state: State = State.STOPPED,
    agent: ProcessState = ProcessState.DEAD,
    managed: bool = True,
    for_seconds: float = SURE,
    effect: Effect | None = None,
    **more: float | bool | None,
) -> Situation:
    return Situation(
        code=code,
        state=state,
        agent=agent,
        managed=managed,
        for_seconds=for_seconds,
        effect=effect,
        **more,  # type: ignore[arg-type]
    )


def alive(code: FindingCode, **more: float | bool | None) -> Situation:
    return situation(code, state=State.PROMPTING, agent=ProcessState.ALIVE, **more)  # type: ignore[arg-type]


def every_situation() -> Iterator[tuple[Situation, CaseHistory]]:
    flags = (False, True)
    situations = [
        situation(
            code,
            state=state,
            agent=agent,
            managed=managed,
            effect=effect,
            stopped=stopped,
            lost=lost,
            limit_in_seconds=-LIMIT_GRACE_SECONDS,
        )
        for code, state, agent, managed, effect, stopped, lost in product(
            (None, *FindingCode),
            (State.STOPPED, State.PROMPTING),
            ProcessState,
            flags,
            (None, Effect.LOCAL, Effect.REMOTE),
            flags,
            flags,
        )
    ]
    histories = [
        CaseHistory(revivals=revivals, approved=approved, given_up=given_up, steered_seconds_ago=steered)
        for revivals, approved, given_up, steered in product((0, 1), flags, flags, (None, 1.0, 999.0))
    ]
    yield from product(situations, histories)


def test_observing_never_acts() -> None:
    """In mode `observe` no problem leads to an action."""
    steps = {plan(now, past, HealingRules(mode="observe")).step for now, past in every_situation()}
    assert steps <= {HealingStep.WAIT, HealingStep.NOTIFY}


def test_a_found_session_is_never_touched_in_mode_mine() -> None:
    """A watched session only causes an alert."""
    steps = {plan(now, past, MINE).step for now, past in every_situation() if not now.managed}
    assert steps <= {HealingStep.WAIT, HealingStep.NOTIFY}


def test_a_persons_stop_is_final() -> None:
    """Nothing brings back what a person stopped."""
    assert {plan(now, past, MINE).step for now, past in every_situation() if now.stopped} == {
        HealingStep.WAIT
    }


def test_a_pause_stops_every_act() -> None:
    """While paused, no problem leads to an action, a checkpoint or giving up."""
    steps = {plan(now, past, HealingRules(paused_by="ada")).step for now, past in every_situation()}
    assert steps <= {HealingStep.WAIT, HealingStep.NOTIFY}


def test_nobody_knows_is_no_reason_to_act() -> None:
    """While it is unknown whether the agent lives, it is not touched."""
    steps = {
        plan(now, past, MINE).step for now, past in every_situation() if now.agent is ProcessState.UNKNOWN
    }
    assert steps <= {HealingStep.WAIT, HealingStep.NOTIFY}


def test_no_work_is_revived_twice() -> None:
    """With its one revival spent, no plan spends another."""
    assert not any(plan(now, past, MINE).spends for now, past in every_situation() if past.revivals >= 1)


def test_an_effect_elsewhere_is_never_repeated_unapproved() -> None:
    """A remote call that was cut off holds the session until a person says yes."""
    acts = {
        plan(now, past, MINE).step
        for now, past in every_situation()
        if now.effect is Effect.REMOTE and not past.approved
    }
    assert not acts & ACTING_STEPS


@pytest.mark.parametrize(
    ("now", "past", "expected"),
    [
        (situation(None), FRESH_START, (HealingStep.WAIT, False)),
        (situation(for_seconds=1.0), FRESH_START, (HealingStep.WAIT, False)),
        (situation(), FRESH_START, (HealingStep.RESUME, True)),
        (situation(effect=Effect.LOCAL), FRESH_START, (HealingStep.RESUME, True)),
        (situation(effect=Effect.UNKNOWN), FRESH_START, (HealingStep.HOLD, False)),
        (situation(effect=Effect.REMOTE), CaseHistory(approved=True), (HealingStep.RESUME, True)),
        (situation(), CaseHistory(revivals=1), (HealingStep.GIVE_UP, False)),
        (
            situation(),
            CaseHistory(revivals=1, revived_seconds_ago=REVIVED_SECONDS - 1),
            (HealingStep.WAIT, False),
        ),
        (situation(), CaseHistory(given_up=True), (HealingStep.NOTIFY, False)),
        (situation(resumable=False), FRESH_START, (HealingStep.FRESH, True)),
        (situation(resumable=False, renewable=False), FRESH_START, (HealingStep.NOTIFY, False)),
        (situation(place_gone=True), FRESH_START, (HealingStep.NOTIFY, False)),
        (situation(None, lost=True), FRESH_START, (HealingStep.RESUME, False)),
        (situation(None, lost=True, resumable=False), FRESH_START, (HealingStep.FRESH, False)),
        (alive(FindingCode.SILENT), FRESH_START, (HealingStep.RESUME, True)),
        (alive(FindingCode.TURN_FAILED), FRESH_START, (HealingStep.STEER, True)),
        (alive(FindingCode.LOOP), FRESH_START, (HealingStep.STEER, False)),
        (alive(FindingCode.LOOP), CaseHistory(steered_seconds_ago=10.0), (HealingStep.WAIT, False)),
        (alive(FindingCode.LOOP), CaseHistory(steered_seconds_ago=999.0), (HealingStep.INTERRUPT, True)),
        (alive(FindingCode.TOOL_WEDGED), FRESH_START, (HealingStep.INTERRUPT, True)),
        (alive(FindingCode.POISONED_CONVERSATION), FRESH_START, (HealingStep.FRESH, True)),
        (alive(FindingCode.AUTH_REQUIRED), FRESH_START, (HealingStep.NOTIFY, False)),
        (alive(FindingCode.TWIN_PROCESSES), FRESH_START, (HealingStep.NOTIFY, False)),
        (alive(FindingCode.READER_DRIFT), FRESH_START, (HealingStep.NOTIFY, False)),
        (alive(FindingCode.RUNAWAY), FRESH_START, (HealingStep.NOTIFY, False)),
        (
            alive(FindingCode.RUNAWAY, since_progress_seconds=PROGRESS_SECONDS + 1),
            FRESH_START,
            (HealingStep.INTERRUPT, True),
        ),
        (alive(FindingCode.USAGE_LIMITED), FRESH_START, (HealingStep.NOTIFY, False)),
        (alive(FindingCode.USAGE_LIMITED, limit_in_seconds=100.0), FRESH_START, (HealingStep.WAIT, False)),
        (
            alive(FindingCode.USAGE_LIMITED, limit_in_seconds=-LIMIT_GRACE_SECONDS),
            FRESH_START,
            (HealingStep.STEER, False),
        ),
        (
            alive(FindingCode.USAGE_LIMITED, limit_in_seconds=-LIMIT_GRACE_SECONDS),
            CaseHistory(continued_after_limit=True),
            (HealingStep.NOTIFY, False),
        ),
        (
            situation(FindingCode.USAGE_LIMITED, limit_in_seconds=-LIMIT_GRACE_SECONDS),
            FRESH_START,
            (HealingStep.RESUME, False),
        ),
    ],
)
def test_what_is_done(now: Situation, past: CaseHistory, expected: tuple[HealingStep, bool]) -> None:
    """The gentlest act that can help, and whether it uses up the work's one revival."""
    decision = plan(now, past, MINE)
    assert (decision.step, decision.spends) == expected


def test_a_runaway_is_revived_where_that_was_asked_for() -> None:
    """`heal.runaway = "revive"` cuts a runaway short although it makes progress."""
    assert (
        plan(alive(FindingCode.RUNAWAY), FRESH_START, HealingRules(revive_runaways=True)).step
        is HealingStep.INTERRUPT
    )


def test_mode_all_also_heals_what_was_found() -> None:
    """In mode `all` a found session is treated like a managed one."""
    assert plan(situation(managed=False), FRESH_START, HealingRules(mode="all")).step is HealingStep.RESUME
