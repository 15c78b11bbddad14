"""Whether many sessions ended at once: sessions that die together are distinguished from those that die one by one."""

from wakeful.core.ids import SessionId
from wakeful.incidents.many_deaths import AT_ONCE_SECONDS, MANY_MIN, RETENTION_SECONDS, DeathCounter


def crowd(deaths: DeathCounter, every_seconds: float, count: int = MANY_MIN) -> list[SessionId]:
    ids = [SessionId(f"claude-{number}") for number in range(count)]
    for number, each in enumerate(ids):
        deaths.on_death(each, since=float(number), awake=100.0 + number * every_seconds)
    return ids


def test_a_crowd_that_dies_together_is_many() -> None:
    deaths = DeathCounter()
    assert all(deaths.died_with_many(each) for each in crowd(deaths, 0.1))


def test_one_fewer_or_one_after_the_other_is_not() -> None:
    deaths = DeathCounter()
    assert not any(deaths.died_with_many(each) for each in crowd(deaths, 0.1, MANY_MIN - 1))
    assert not any(deaths.died_with_many(each) for each in crowd(DeathCounter(), AT_ONCE_SECONDS))


def test_a_death_counts_once_however_often_it_is_judged() -> None:
    """Its next death counts again."""
    deaths, one = DeathCounter(), SessionId("claude-1")
    for _ in range(MANY_MIN):
        deaths.on_death(one, since=1.0, awake=100.0)
    assert not deaths.died_with_many(one)
    for number in range(MANY_MIN):
        deaths.on_death(one, since=2.0 + number, awake=101.0)
    assert deaths.died_with_many(one)


def test_old_deaths_are_forgotten() -> None:
    deaths = DeathCounter()
    ids = crowd(deaths, 0.1)
    deaths.on_death(SessionId("claude-late"), since=0.0, awake=200.0 + RETENTION_SECONDS)
    assert not any(deaths.died_with_many(each) for each in ids)
