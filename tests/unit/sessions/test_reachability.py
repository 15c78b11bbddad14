"""Claims about reachability checks: answers show the state of that moment, and unmanaged sessions cost nothing."""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from support.supervisor_fixture import SupervisorFixture, subject
from wakeful.sessions.reachability import CHECKED_AT_ONCE_MAX
from wakeful.sessions.registry import Query

Row = dict[str, Any]


def house_of(*managed: str, found: tuple[str, ...] = ()) -> SupervisorFixture:
    house = SupervisorFixture()
    for name in (*managed, *found):
        house.start(name)
        house.finish(name)
    asyncio.run(_adopt(house, managed))
    return house


async def _adopt(house: SupervisorFixture, names: tuple[str, ...]) -> None:
    for name in names:
        await house.hands.adopt(name)
    house.settle()


def rows(house: SupervisorFixture, query: Query) -> list[Row]:
    listed: list[Row] = msgspec.json.decode(house.desk.sessions(query).body)["sessions"]
    return listed


def lose_the_way(house: SupervisorFixture) -> None:
    """Nothing tells of it."""
    house.driver.lost, house.path_open = True, False


READINGS: dict[str, Callable[[SupervisorFixture], Row]] = {
    "the whole list": lambda house: rows(house, Query())[0],
    "a page": lambda house: rows(house, Query(limit=1))[0],
    "what comes after": lambda house: rows(house, Query(limit=1, cursor="claude-0"))[0],
    "a filter it did not fit": lambda house: rows(house, Query(state=_state("detached")))[0],
    "everything": lambda house: rows(house, Query(all=True))[0],
    "a project's": lambda house: rows(house, Query(project="shop"))[0],
    "itself": lambda house: msgspec.json.decode(house.desk.record("a").body),
    "its own question": lambda house: msgspec.json.decode(house.desk.of_caller((), (_pid(house),)).body),
}


def _state(name: str) -> Any:
    return msgspec.convert({"state": name}, Query, strict=False).state


def _pid(house: SupervisorFixture) -> int:
    return house.registry.sessions[subject("a").id].presence.living_processes[0].process.pid


@pytest.mark.parametrize("reading", READINGS)
def test_what_is_shown_is_proven(reading: str) -> None:
    """A way that was lost without a word is gone in the first answer, and back in the first after it is found again."""
    house = house_of("a", found=("b",))
    lose_the_way(house)
    shown = READINGS[reading](house)
    assert (shown["id"], shown["state"], shown["attachable"]) == ("claude-a", "detached", False)
    assert (shown["eligible_for_wake"], shown["ineligibility_reason"]) == (False, "session_not_attachable")
    assert msgspec.json.decode(house.desk.record("a").body) == shown


def test_a_list_does_not_show_who_no_longer_fits() -> None:
    """Filters ask what is so, not what was."""
    house = house_of("a")
    lose_the_way(house)
    assert rows(house, Query(state=_state("idle"))) == []
    house.driver.lost, house.path_open = False, True
    assert [each["id"] for each in rows(house, Query(state=_state("idle")))] == ["claude-a"]


def test_an_overview_counts_what_is_so() -> None:
    """Lists and the counts above them say the same."""
    house = house_of("a", "b")
    lose_the_way(house)
    assert msgspec.json.decode(house.desk.overview().body)["sessions"]["state"] == {"detached": 2}


def test_only_managed_sessions_of_the_page_are_looked_at() -> None:
    """Watched ones have no path to check, and unlisted ones are not checked."""
    house = house_of("a", "c", found=("b", "d"))
    looked: list[str] = []
    house.proofs.check = lambda session: looked.append(session.subject.id)  # type: ignore[method-assign]
    rows(house, Query())
    assert sorted(looked) == ["claude-a", "claude-c"]
    looked.clear()
    rows(house, Query(limit=2))
    assert looked == ["claude-a", "claude-c"], "the second is looked at to know whether there is more"
    asyncio.run(house.hands.release("c"))
    looked.clear()
    rows(house, Query())
    assert looked == ["claude-a"]


def test_whoever_listens_is_told_in_turns() -> None:
    """However many there are, a limited number is checked at once, and each gets its turn."""
    house = house_of(*(f"{number:03d}" for number in range(CHECKED_AT_ONCE_MAX + 1)))
    lose_the_way(house)
    assert _detached(house) == 0
    house.proofs.check_some()
    assert _detached(house) == CHECKED_AT_ONCE_MAX
    house.proofs.check_some()
    assert _detached(house) == CHECKED_AT_ONCE_MAX + 1
    house.driver.lost, house.path_open = False, True
    asyncio.run(house.proofs.check_all())
    assert _detached(house) == 0


def _detached(house: SupervisorFixture) -> int:
    return sum(each.record is not None and each.record.state == "detached" for each in house.registry.managed)
