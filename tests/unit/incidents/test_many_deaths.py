"""Whether many sessions ended at once: a crowd that dies together is told apart from one that dies one by one."""

from wakeful.core.ids import SessionId
from wakeful.incidents.many_deaths import AT_ONCE_SECONDS, KEPT_SECONDS, MANY, Deaths


def crowd(deaths: Deaths, every_seconds: float, count: int = MANY) -> list[SessionId]:
    ids = [SessionId(f"claude-{number}") for number in range(count)]
    for number, each in enumerate(ids):
        deaths.noticed(each, since=float(number), awake=100.0 + number * every_seconds)
    return ids


def test_a_crowd_that_dies_together_is_many() -> None:
    deaths = Deaths()
    assert all(deaths.are_many(each) for each in crowd(deaths, 0.1))


def test_one_fewer_or_one_after_the_other_is_not() -> None:
    deaths = Deaths()
    assert not any(deaths.are_many(each) for each in crowd(deaths, 0.1, MANY - 1))
    assert not any(deaths.are_many(each) for each in crowd(Deaths(), AT_ONCE_SECONDS))


def test_a_death_counts_once_however_often_it_is_judged() -> None:
    """Its next death counts again."""
    deaths, one = Deaths(), SessionId("claude-1")
    for _ in range(MANY):
        deaths.noticed(one, since=1.0, awake=100.0)
    assert not deaths.are_many(one)
    for number in range(MANY):
        deaths.noticed(one, since=2.0 + number, awake=101.0)
    assert deaths.are_many(one)


def test_old_deaths_are_forgotten() -> None:
    deaths = Deaths()
    ids = crowd(deaths, 0.1)
    deaths.noticed(SessionId("claude-late"), since=0.0, awake=200.0 + KEPT_SECONDS)
    assert not any(deaths.are_many(each) for each in ids)
