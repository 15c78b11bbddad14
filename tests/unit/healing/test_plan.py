"""Claims about the plan: what is done about each trouble, in which order, and what is never done."""

from collections.abc import Iterator
from itertools import product

import pytest

from wakeful.core.process import Sight
from wakeful.effects.rules import Effect
from wakeful.healing.plan import (
    ACTS,
    LIMIT_GRACE_SECONDS,
    PROGRESS_SECONDS,
    REVIVED_SECONDS,
    History,
    Rules,
    Situation,
    Step,
    plan,
)
from wakeful.judging.findings import Code, State

SURE = 60.0
FRESH_START = History()
MINE = Rules()


def situation(
    code: Code | None = Code.SESSION_DEAD,
    *,
    state: State = State.STOPPED,
    agent: Sight = Sight.DEAD,
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


def alive(code: Code, **more: float | bool | None) -> Situation:
    return situation(code, state=State.PROMPTING, agent=Sight.ALIVE, **more)  # type: ignore[arg-type]


def every_situation() -> Iterator[tuple[Situation, History]]:
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
            (None, *Code),
            (State.STOPPED, State.PROMPTING),
            Sight,
            flags,
            (None, Effect.LOCAL, Effect.REMOTE),
            flags,
            flags,
        )
    ]
    histories = [
        History(revivals=revivals, approved=approved, given_up=given_up, steered_seconds_ago=steered)
        for revivals, approved, given_up, steered in product((0, 1), flags, flags, (None, 1.0, 999.0))
    ]
    yield from product(situations, histories)


def test_observing_never_acts() -> None:
    """In mode `observe` no trouble whatever leads to an act."""
    steps = {plan(now, past, Rules(mode="observe")).step for now, past in every_situation()}
    assert steps <= {Step.WAIT, Step.NOTIFY}


def test_a_found_session_is_never_touched_in_mode_mine() -> None:
    """What was merely found is told about, and nothing else."""
    steps = {plan(now, past, MINE).step for now, past in every_situation() if not now.managed}
    assert steps <= {Step.WAIT, Step.NOTIFY}


def test_a_persons_stop_is_final() -> None:
    """Nothing brings back what a person stopped."""
    assert {plan(now, past, MINE).step for now, past in every_situation() if now.stopped} == {Step.WAIT}


def test_a_pause_stops_every_act() -> None:
    """While paused, no trouble leads to an act, a hold or giving up."""
    steps = {plan(now, past, Rules(paused_by="ada")).step for now, past in every_situation()}
    assert steps <= {Step.WAIT, Step.NOTIFY}


def test_nobody_knows_is_no_reason_to_act() -> None:
    """While it is unknown whether the agent lives, it is not touched."""
    steps = {plan(now, past, MINE).step for now, past in every_situation() if now.agent is Sight.UNKNOWN}
    assert steps <= {Step.WAIT, Step.NOTIFY}


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
    assert not acts & ACTS


@pytest.mark.parametrize(
    ("now", "past", "expected"),
    [
        (situation(None), FRESH_START, (Step.WAIT, False)),
        (situation(for_seconds=1.0), FRESH_START, (Step.WAIT, False)),
        (situation(), FRESH_START, (Step.RESUME, True)),
        (situation(effect=Effect.LOCAL), FRESH_START, (Step.RESUME, True)),
        (situation(effect=Effect.UNKNOWN), FRESH_START, (Step.HOLD, False)),
        (situation(effect=Effect.REMOTE), History(approved=True), (Step.RESUME, True)),
        (situation(), History(revivals=1), (Step.GIVE_UP, False)),
        (situation(), History(revivals=1, revived_seconds_ago=REVIVED_SECONDS - 1), (Step.WAIT, False)),
        (situation(), History(given_up=True), (Step.NOTIFY, False)),
        (situation(resumable=False), FRESH_START, (Step.FRESH, True)),
        (situation(resumable=False, renewable=False), FRESH_START, (Step.NOTIFY, False)),
        (situation(place_gone=True), FRESH_START, (Step.NOTIFY, False)),
        (situation(None, lost=True), FRESH_START, (Step.RESUME, False)),
        (situation(None, lost=True, resumable=False), FRESH_START, (Step.FRESH, False)),
        (alive(Code.SILENT), FRESH_START, (Step.RESUME, True)),
        (alive(Code.TURN_FAILED), FRESH_START, (Step.STEER, True)),
        (alive(Code.LOOP), FRESH_START, (Step.STEER, False)),
        (alive(Code.LOOP), History(steered_seconds_ago=10.0), (Step.WAIT, False)),
        (alive(Code.LOOP), History(steered_seconds_ago=999.0), (Step.INTERRUPT, True)),
        (alive(Code.TOOL_WEDGED), FRESH_START, (Step.INTERRUPT, True)),
        (alive(Code.POISONED_CONVERSATION), FRESH_START, (Step.FRESH, True)),
        (alive(Code.AUTH_REQUIRED), FRESH_START, (Step.NOTIFY, False)),
        (alive(Code.TWIN_PROCESSES), FRESH_START, (Step.NOTIFY, False)),
        (alive(Code.READER_DRIFT), FRESH_START, (Step.NOTIFY, False)),
        (alive(Code.RUNAWAY), FRESH_START, (Step.NOTIFY, False)),
        (
            alive(Code.RUNAWAY, since_progress_seconds=PROGRESS_SECONDS + 1),
            FRESH_START,
            (Step.INTERRUPT, True),
        ),
        (alive(Code.USAGE_LIMITED), FRESH_START, (Step.NOTIFY, False)),
        (alive(Code.USAGE_LIMITED, limit_in_seconds=100.0), FRESH_START, (Step.WAIT, False)),
        (alive(Code.USAGE_LIMITED, limit_in_seconds=-LIMIT_GRACE_SECONDS), FRESH_START, (Step.STEER, False)),
        (
            alive(Code.USAGE_LIMITED, limit_in_seconds=-LIMIT_GRACE_SECONDS),
            History(continued_after_limit=True),
            (Step.NOTIFY, False),
        ),
        (
            situation(Code.USAGE_LIMITED, limit_in_seconds=-LIMIT_GRACE_SECONDS),
            FRESH_START,
            (Step.RESUME, False),
        ),
    ],
)
def test_what_is_done(now: Situation, past: History, expected: tuple[Step, bool]) -> None:
    """The gentlest act that can help, and whether it uses up the work's one revival."""
    decision = plan(now, past, MINE)
    assert (decision.step, decision.spends) == expected


def test_a_runaway_is_revived_where_that_was_asked_for() -> None:
    """`heal.runaway = "revive"` cuts a runaway short although it makes progress."""
    assert plan(alive(Code.RUNAWAY), FRESH_START, Rules(revive_runaways=True)).step is Step.INTERRUPT


def test_mode_all_also_heals_what_was_found() -> None:
    """In mode `all` a found session is treated like a managed one."""
    assert plan(situation(managed=False), FRESH_START, Rules(mode="all")).step is Step.RESUME
